"""What begins with a slash: commands of the chat, and skills."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from crabtalk.cli.chat.input import quiet
from crabtalk.cli.chat.session import Session
from crabtalk.cli.chat.turn import Turns
from crabtalk.cli.chat.view import View
from crabtalk.errors import BadRequest, NotFound

if TYPE_CHECKING:
    from crabtalk.wire.pb import crabtalk_pb2 as pb

MAX_LISTED: Final = 20
MAX_SHOWN: Final = 400  # characters of what was said last
# A summary takes the place of what was said, so it has to hold whatever is still needed.
COMPACT: Final = (
    "Sum up this conversation for yourself, so that you can go on without it: what was asked, what was done "
    "and found, names, paths and figures that matter, what was decided, and what is left to do."
)
KEYS: Final = """\
Enter sends; Alt-Enter, Ctrl-J, or a backslash at the end of a line begins another line.
Ctrl-C cancels the turn and keeps the session; a second one leaves, as does Ctrl-D.
//text says /text to the agent."""


class Leaving(Exception):  # noqa: N818 - what the person does
    """The person leaves."""


class Commands:
    """Does what a command says."""

    def __init__(self, session: Session, view: View, turns: Turns) -> None:
        self._session = session
        self._view = view
        self._turns = turns

    async def meaning(self, text: str) -> str | None:
        """Return what is to be said to the agent; None where a command did all there is to do.

        Raises:
            RequestError: there is no such command, or the daemon refused it.
            Leaving: the person does.
        """
        if not text.startswith("/"):
            return text
        if text.startswith("//"):
            return text[1:]
        name, _, rest = text[1:].partition(" ")
        name = name.strip()
        command = COMMANDS.get(name)
        if command is not None:
            await command.run(self, rest.strip())
            return None
        return await self._skill(name, rest.strip())

    async def show_last(self) -> None:
        """Show what was said last in a session that is gone on with."""
        said = [one for one in self._session.messages if one.role in {"user", "assistant"} and one.content]
        for message in said[-2:]:
            who = "you" if message.role == "user" else self._session.agent.name
            text = message.content
            short = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
            self._view.note(f"{who}: {short}")

    async def _skill(self, name: str, text: str) -> str:
        """Return what a skill says, and after it what the person says."""
        skills = {one.name for one in await self._session.skills()}
        if name not in skills:
            raise NotFound(f"there is no command or skill /{name}; /help says what there is")
        body = (await self._session.client.get_skill(name=name)).body.strip()
        return f"{body}\n\n{text}" if text else body

    # The commands

    async def help(self, _text: str) -> None:
        """Say what there is."""
        width = max(len(f"{name} {one.takes}") for name, one in COMMANDS.items()) + 3
        lines = [f"/{f'{name} {one.takes}':<{width}}{one.summary}" for name, one in COMMANDS.items()]
        lines += ["", "/SKILL TEXT gives the agent a skill, and TEXT with it; /skills lists them.", KEYS]
        self._view.note("\n".join(lines))

    async def new(self, _text: str) -> None:
        """Begin another session."""
        self._session.begin()
        self._view.note("a new session")

    async def sessions(self, _text: str) -> None:
        """List the sessions with this agent."""
        found = list(await self._session.all())
        if not found:
            self._view.note("there are none yet")
            return
        lines = [self._listed(number, one) for number, one in enumerate(found[:MAX_LISTED], 1)]
        if len(found) > MAX_LISTED:
            lines.append(f"… and {len(found) - MAX_LISTED} more: crabtalk sessions ls")
        self._view.note("\n".join(lines))

    def _listed(self, number: int, one: "pb.ConversationInfo") -> str:
        here = "*" if one.file_path == self._session.handle else " "
        return f"{here}{number:>3}  {one.date[:16]}  {one.title or one.file_path}  ({one.message_count})"

    async def resume(self, text: str) -> None:
        """Go on with another session: by its number in the list, or its handle; the last one by default."""
        handle = text
        if not text or text.isdecimal():
            found = [one.file_path for one in await self._session.all()]
            others = [one for one in found if one != self._session.handle]
            chosen = others[:1] if not text else found[int(text) - 1 : int(text)] if int(text) else []
            if not chosen:
                raise NotFound("there is no such session; /sessions lists them")
            handle = chosen[0]
        await self._session.resume(handle)
        self._view.note(self._session.greeting())
        await self.show_last()

    async def agent(self, text: str) -> None:
        """Show the agents, or begin a session with another one."""
        if text:
            self._session.begin(await self._session.find_agent(text))
            self._view.note(f"a new session with {self._session.agent.name}")
            return
        found = (await self._session.client.list_agents()).agents
        self._view.note("\n".join(self._marked(one.name, one.id == self._session.agent.id) for one in found))

    async def model(self, text: str) -> None:
        """Show the models, or choose one."""
        client, agent = self._session.client, self._session.agent
        if text and agent.model:
            import json

            self._session.agent = await client.update_agent(
                agent=agent.id, config=json.dumps({"model": text})
            )
            self._view.note(f"{agent.name} has the model {text} from now on")
            return
        if text:
            await client.set_active_model(model=text)
            self._view.note(f"agents that name no model, as {agent.name}, have {text} from now on")
            return
        models = (await client.list_models()).models
        self._view.note(
            "\n".join(
                self._marked(one.name, one.name == agent.model if agent.model else one.active)
                for one in models
            )
        )

    async def skills(self, _text: str) -> None:
        """List the skills."""
        found = await self._session.skills()
        lines = [f"/{one.name}  {one.description}" for one in found]
        self._view.note("\n".join(lines) or "there are none")

    async def compact(self, text: str) -> None:
        """Have the session summed up, by words of one's own or the usual ones."""
        if not self._session.opened:
            raise BadRequest("nothing was said in this session yet")
        with quiet():
            summary = await self._turns.compact(self._session.handle, text or COMPACT)
        self._view.note(summary)

    async def title(self, _text: str) -> None:
        """Show the title and the handle."""
        title = ""
        if self._session.opened:
            handle = self._session.handle
            title = (await self._session.client.get_conversation_history(file_path=handle)).title
        self._view.note(f"{title or 'no title yet'}\n{self._session.handle}")

    async def cancel(self, _text: str) -> None:
        """Stop a turn that another client runs in this session."""
        await self._session.client.cancel_stream(session_handle=self._session.handle)
        self._view.note("what ran in this session is cancelled")

    async def quit(self, _text: str) -> None:
        """Leave."""
        raise Leaving

    def _marked(self, text: str, is_it: bool) -> str:  # noqa: FBT001 - which of a list
        return f"{'*' if is_it else ' '} {text}"


class Command(NamedTuple):
    """One of them."""

    takes: str
    summary: str
    run: Callable[[Commands, str], Awaitable[None]]


COMMANDS: Final[dict[str, Command]] = {
    "help": Command("", "show this", Commands.help),
    "new": Command("", "begin another session", Commands.new),
    "sessions": Command("", "list the sessions with this agent", Commands.sessions),
    "resume": Command("[N | HANDLE]", "go on with a session, by default the last one", Commands.resume),
    "title": Command("", "show this session's title and handle", Commands.title),
    "compact": Command("[PROMPT]", "let a summary stand for what was said", Commands.compact),
    "cancel": Command("", "stop what another client runs in this session", Commands.cancel),
    "agent": Command("[NAME]", "list the agents, or talk to another", Commands.agent),
    "model": Command("[NAME]", "list the models, or choose another", Commands.model),
    "skills": Command("", "list the skills", Commands.skills),
    "quit": Command("", "leave", Commands.quit),
    "exit": Command("", "leave", Commands.quit),
}
