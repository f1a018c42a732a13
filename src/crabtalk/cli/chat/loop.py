"""The chat: reads what a person says, and does what it means, until the person leaves."""

import argparse
import contextlib
import signal
import sys
from typing import Final

import anyio

from berm.cli.exits import DONE, CommandError
from crabtalk.cli.chat.attention import Attention
from crabtalk.cli.chat.commands import COMMANDS, Commands, Leaving
from crabtalk.cli.chat.input import EditorInput, Input, Interrupted, LineInput, Withdrawn, quiet
from crabtalk.cli.chat.questions import Questions
from crabtalk.cli.chat.session import Session
from crabtalk.cli.chat.turn import Left, Turns, alongside
from crabtalk.cli.chat.view import PlainView, TerminalView, View
from crabtalk.client.asynchronous import Client, connect
from crabtalk.client.finding import ConnectionLost, NotRunning
from crabtalk.errors import NotFound, RequestError

HISTORY: Final = "chat_history"  # in the home
BACK_S: Final = 60.0  # that a daemon is waited for which has gone
_LOOK_S: Final = 0.25


class Dropped(Exception):  # noqa: N818 - what happened
    """The connection was lost while `text` was to be done."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def chat(args: argparse.Namespace, *, plain: bool) -> int:
    """Talk to an agent of the daemon of `args.home`; return the exit code."""
    return anyio.run(_connected, args, plain)


async def _connected(args: argparse.Namespace, plain: bool) -> int:  # noqa: FBT001 - called by anyio.run
    before: Session | None = None
    unsaid = ""
    while True:
        try:
            async with connect(args.home) as client:
                session = await _session(client, args, before)
                await _chat(client, session, args, plain=plain, again=before is not None, unsaid=unsaid)
                return DONE
        except (NotRunning, ConnectionLost) as error:
            if before is None and isinstance(error, NotRunning):
                raise CommandError(f"{error}; start it with `crabtalk up`") from error
            if before is None:
                raise
            # What answered was the old daemon, with its last breath.
            await anyio.sleep(_LOOK_S)
            await _until_there(args)
        except Dropped as dropped:
            before, unsaid = session, dropped.text
            await _until_there(args)


async def _session(client: Client, args: argparse.Namespace, before: Session | None) -> Session:
    """Return the session of the command line, or the one that the chat was in before it was cut off."""
    if before is None:
        return await Session.chosen(client, args.agent, last=args.last, handle=args.resume, root=args.root)
    session = await Session.chosen(client, before.agent.id, last=False, handle=None, root=before.root)
    session.handle = before.handle
    with contextlib.suppress(NotFound):  # nothing was said in it, or not even stored
        await session.resume(before.handle)
    return session


async def _until_there(args: argparse.Namespace) -> None:
    """Wait for a daemon that comes back, for a while.

    Raises:
        NotRunning: if none does.
    """
    print("waiting for the daemon to come back; Ctrl-C leaves", file=sys.stderr)
    with anyio.move_on_after(BACK_S):
        while True:
            try:
                async with connect(args.home):
                    return
            except (NotRunning, ConnectionLost):
                await anyio.sleep(_LOOK_S)
    raise NotRunning(f"the daemon has gone, and did not come back within {BACK_S:g} seconds")


async def _chat(
    client: Client, session: Session, args: argparse.Namespace, *, plain: bool, again: bool, unsaid: str
) -> None:
    attention = Attention()
    view: View = PlainView() if plain else TerminalView()
    words = [(f"/{name}", command.summary) for name, command in COMMANDS.items()]
    words += [(f"/{skill.name}", skill.description) for skill in await session.skills()]
    entry: Input = LineInput() if plain else EditorInput(args.home / HISTORY, words)
    attention.entry = entry
    questions = Questions(client, attention, entry, view, session.name_of)
    turns = Turns(client, attention, questions, view)
    loop = Chat(session, attention, entry, view, questions, turns)
    if again:
        loop.come_back(unsaid)
    with contextlib.ExitStack() as stack:
        if not plain:
            stack.enter_context(quiet())  # the editor shows what is typed
        tasks = [lambda: heed_signals(attention)]
        if sys.stdin.isatty():  # else there is no person to ask
            tasks.append(lambda: attention.follow_prompts(client))
        async with alongside(*tasks):
            await loop.run()


async def heed_signals(attention: Attention) -> None:
    """Bring Ctrl-C to whoever it is meant for, and end in order when the terminal goes away."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async for number in signals:
            if number == signal.SIGINT:
                attention.interrupted()
            else:
                attention.gone()


class Chat:
    """One person, one terminal, one session at a time."""

    def __init__(
        self,
        session: Session,
        attention: Attention,
        entry: Input,
        view: View,
        questions: Questions,
        turns: Turns,
    ) -> None:
        self._session = session
        self._attention = attention
        self._entry = entry
        self._view = view
        self._questions = questions
        self._turns = turns
        self._commands = Commands(session, view, turns)
        self._came_back = False
        self._unsaid = ""  # what the person is to see on the line, to say it again

    def come_back(self, unsaid: str) -> None:
        """Begin after a connection that was lost; `unsaid` is what was to be done just then."""
        self._came_back = True
        said = [one.content for one in self._session.messages if one.role == "user"]
        self._unsaid = "" if unsaid in said[-1:] else unsaid

    async def run(self) -> None:
        """Talk until the person leaves.

        Raises:
            Dropped: the connection was lost.
        """
        if self._came_back:
            self._view.note("the daemon was away; this is the same session")
        else:
            self._view.note(self._session.greeting())
        try:
            if self._session.opened:
                await self._commands.show_last()
            while True:
                text = await self._read()
                if text.strip():
                    await self._do(text)
        except (Leaving, Left, EOFError):
            pass
        except OSError:
            if not self._attention.is_gone:  # nobody reads what is written any more
                raise
        with contextlib.suppress(OSError):  # the terminal may have gone away
            self._view.end()
            if farewell := self._session.farewell():
                self._view.note(farewell)

    async def _read(self) -> str:
        """Return what the person says; questions come first, and what was typed by then stays."""
        draft, warned, self._unsaid = self._unsaid, False, ""
        while True:
            for prompt in list(self._attention.questions.values())[:1]:
                await self._questions.ask(prompt)
            if self._attention.questions:
                continue
            try:
                return await self._read_once(draft)
            except Withdrawn as taken:
                draft = taken.text
            except Interrupted as pressed:
                if warned and not pressed.text:
                    raise Leaving from None
                warned, draft = not pressed.text, ""
                if warned:
                    self._view.note("Ctrl-C again, or Ctrl-D, leaves")

    async def _read_once(self, draft: str) -> str:
        if self._attention.is_gone:
            raise EOFError
        if self._attention.take_interrupt():
            raise Interrupted
        self._attention.reading = "line"
        try:
            return await self._entry.read(f"{self._session.agent.name}> ", draft)
        finally:
            self._attention.reading = ""

    async def _do(self, text: str) -> None:
        """Do what a text means; what is refused is said, and the chat goes on."""
        try:
            content = await self._commands.meaning(text)
            if content is not None:
                await self._speak(content)
        except ConnectionLost as error:
            self._view.end()
            self._view.complain(str(error))
            raise Dropped(text) from error
        except RequestError as error:
            self._view.end()
            self._view.complain(str(error))

    async def _speak(self, content: str) -> None:
        with quiet():
            await self._session.open()
            ended = await self._turns.run(self._session.handle, self._session.request(content))
        if ended.cancelled and ended.error:
            self._view.note("cancelled")
        elif ended.error:
            self._view.complain(ended.error)
        self._view.gap()
        self._session.spoken()
