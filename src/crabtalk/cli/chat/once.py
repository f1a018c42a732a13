"""The turn of `crabtalk ask`: a terminal sees the answer as it comes, a pipe gets the answer alone."""

import argparse
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import anyio

from berm.cli.exits import DONE, FAILED, INTERRUPTED, CommandError
from berm.cli.output import is_terminal, print_json
from crabtalk.cli.answers import facts
from crabtalk.cli.asking import can_ask
from crabtalk.cli.chat.attention import Attention
from crabtalk.cli.chat.input import LineInput
from crabtalk.cli.chat.loop import heed_signals
from crabtalk.cli.chat.questions import Questions
from crabtalk.cli.chat.session import named, new_handle, sender
from crabtalk.cli.chat.turn import Ended, Left, Turns, alongside
from crabtalk.cli.chat.view import Call, PlainView
from crabtalk.cli.complaining import complain
from crabtalk.client.asynchronous import Client, connect
from crabtalk.client.finding import NotRunning

if TYPE_CHECKING:
    from crabtalk.wire.pb import crabtalk_pb2 as pb


def ask(args: argparse.Namespace, content: str) -> int:
    """Ask an agent of the daemon of `args.home`, and return the exit code."""
    return anyio.run(_connected, args, content)


async def _connected(args: argparse.Namespace, content: str) -> int:
    try:
        async with connect(args.home) as client:
            return await _ask(client, args, content)
    except NotRunning as error:
        raise CommandError(f"{error}; start it with `crabtalk up`") from error


async def _ask(client: Client, args: argparse.Namespace, content: str) -> int:
    agents = (await client.list_agents()).agents
    fields = _fields(args, agents, content)
    handle = args.session or ("" if args.ephemeral else new_handle("ask:"))
    view = AnswerView(live=is_terminal(sys.stdout) and not args.json, verbose=args.verbose or can_ask())
    attention = Attention()
    attention.entry = entry = LineInput(prompts=sys.stderr)
    names = {one.id: one.name for one in agents}
    questions = Questions(client, attention, entry, view, lambda agent: names.get(agent, agent))
    tasks: list[Callable[[], Coroutine[Any, Any, None]]] = [lambda: heed_signals(attention)]
    if can_ask():
        tasks.append(lambda: attention.follow_prompts(client))
    async with alongside(*tasks):
        try:
            ended = await Turns(client, attention, questions, view).run(handle, fields)
        except (Left, EOFError):
            return INTERRUPTED
    return _report(args, view, ended, handle)


def _fields(args: argparse.Namespace, agents: "Sequence[pb.AgentInfo]", content: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"agent": named(agents, args.agent).id, "content": content, "sender": sender()}
    if args.ephemeral:
        fields["ephemeral"] = True
    if args.guest:
        fields["guest"] = named(agents, args.guest).id
    if args.tool_choice:
        fields["tool_choice"] = args.tool_choice
    return fields


def _report(args: argparse.Namespace, view: "AnswerView", ended: Ended, handle: str) -> int:
    """Print what is to be printed at the end, and return the exit code."""
    if args.json:
        print_json(
            {
                "answer": view.answer,
                "error": ended.error,
                "session": handle,
                "model": ended.model,
                "usage": facts(ended.usage) if ended.usage is not None else None,
                "tool_calls": view.calls,
            }
        )
    elif not ended.error:
        view.print_answer()
    if ended.error and not args.json:
        complain(ended.error)
    if not ended.error:
        return DONE
    return INTERRUPTED if ended.cancelled else FAILED


class AnswerView(PlainView):
    """Keeps the last text that is said, which is the answer; a terminal sees all of them as they come."""

    def __init__(self, *, live: bool, verbose: bool) -> None:
        """Show texts as they come if `live`, calls on stderr if `verbose`."""
        super().__init__(sys.stdout, sys.stderr)
        self.calls: list[dict[str, Any]] = []
        self._ids: list[str] = []
        self._texts: list[str] = []
        self._live = live
        self._verbose = verbose

    @property
    def answer(self) -> str:
        """What was said since the last call."""
        return "".join(self._texts)

    def print_answer(self) -> None:
        """Write the answer where it was not seen yet, as it is."""
        if self._live:
            return
        answer = self.answer
        sys.stdout.write(answer if answer.endswith("\n") or not answer else f"{answer}\n")

    def text(self, text: str) -> None:
        """Keep it, and show it."""
        self._texts.append(text)
        if self._live:
            super().text(text)

    def tools(self, calls: Sequence[Call]) -> None:
        """Keep what is called."""
        self._texts.clear()
        self._ids += [call.id for call in calls]
        self.calls += [{"name": call.name, "arguments": call.arguments} for call in calls]
        super().tools(calls)

    def tool_ended(self, call_id: str, output: str, duration_ms: int, *, is_error: bool) -> None:
        """Keep how it ended."""
        if call_id in self._ids:
            ended = {"duration_ms": duration_ms, "is_error": is_error}
            self.calls[len(self._ids) - 1 - self._ids[::-1].index(call_id)] |= ended
        super().tool_ended(call_id, output, duration_ms, is_error=is_error)

    def note(self, text: str) -> None:
        """Say it to a person."""
        if self._verbose:
            super().note(text)
