"""The session that a chat is in: whose it is, what it is called, and which others there are."""

import contextlib
import getpass
import secrets
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from berm.cli.exits import USAGE, CommandError
from crabtalk.errors import NotFound

if TYPE_CHECKING:
    from crabtalk.client.asynchronous import Client
    from crabtalk.wire.pb import crabtalk_pb2 as pb

START: Final = "chat:"  # of the handles of chats


class Session:
    """Where what is said goes."""

    def __init__(self, client: "Client", agent: "pb.AgentInfo", agents: Sequence["pb.AgentInfo"]) -> None:
        """Begin one that is stored when something is said in it."""
        self.client = client
        self.agent = agent
        self.agents = {one.id: one for one in agents}
        self.sender = sender()
        self.root: str | None = None
        self.handle = new_handle(START)
        self.title = ""
        self.opened = False  # the daemon has it
        self.messages: Sequence[pb.ConversationMessage] = ()  # of one that was resumed

    @classmethod
    async def chosen(
        cls, client: "Client", agent: str | None, *, last: bool, handle: str | None, root: str | None
    ) -> Self:
        """Return the session that a command line asks for.

        Raises:
            CommandError, NotFound: there is none.
        """
        agents = (await client.list_agents()).agents
        if not agents:
            raise CommandError("there is no agent; `crabtalk agent add FILE` makes one")
        found = named(agents, agent) if agent else None
        recent = await _recent(client, found.id if found else "", handle)
        if handle or last:
            if recent is None:
                raise NotFound("there is no session to go on with")
            session = cls(client, found or agents[0], agents)
            await session.resume(handle or recent)
            if found is not None and session.agent.id != found.id:
                raise CommandError(f"session {handle} is not one of {found.name}", status=USAGE)
            return session
        if found is None:
            found = await _default(client, agents)
        session = cls(client, found, agents)
        session.root = root
        return session

    def name_of(self, agent_id: str) -> str:
        """Return the name of an agent, its id where it has none."""
        info = self.agents.get(agent_id)
        return info.name if info is not None else agent_id

    async def find_agent(self, text: str) -> "pb.AgentInfo":
        """Return an agent by name or id.

        Raises:
            NotFound: there is none.
        """
        agents = (await self.client.list_agents()).agents
        self.agents = {one.id: one for one in agents}
        return named(agents, text)

    def begin(self, agent: "pb.AgentInfo | None" = None) -> None:
        """Begin another session, with another agent or the same."""
        self.agent = agent or self.agent
        self.handle, self.title, self.opened, self.messages = new_handle(START), "", False, ()

    async def resume(self, handle: str) -> None:
        """Go on with a session that there is.

        Raises:
            NotFound: there is none, or its agent is gone.
        """
        history = await self.client.get_conversation_history(file_path=handle)
        self.agent = await self.find_agent(history.agent_id)
        self.handle, self.title, self.opened = handle, history.title, True
        self.messages = history.messages

    async def all(self) -> "Sequence[pb.ConversationInfo]":
        """Return the sessions with this agent, the newest first."""
        return (await self.client.list_conversations(agent=self.agent.id)).conversations

    async def skills(self) -> "Sequence[pb.SkillInfo]":
        """Return the skills that this agent may have."""
        allowed = set(self.agent.skills)
        found = (await self.client.list_skills()).skills
        return [one for one in found if not allowed or "*" in allowed or one.name in allowed]

    async def open(self) -> None:
        """Make the session, where it has a root; otherwise the first turn does."""
        if not self.opened and self.root is not None:
            await self.client.create_session(
                session_handle=self.handle, agent=self.agent.id, sender=self.sender, root=self.root
            )
            self.opened = True

    def request(self, content: str) -> dict[str, Any]:
        """Return the fields of a turn's request."""
        return {"agent": self.agent.id, "content": content, "sender": self.sender}

    def spoken(self) -> None:
        """Take note that there was a turn."""
        self.opened = True

    def greeting(self) -> str:
        """Return what stands at the beginning."""
        which = f"session {self.title or self.handle}" if self.opened else "a new session"
        return f"{self.agent.name}, {which}; /help says what there is, Ctrl-D leaves"

    def farewell(self) -> str:
        """Return what stands at the end; nothing where nothing was said."""
        return f"crabtalk chat --resume {self.handle}   goes on with it" if self.opened else ""


def named(agents: Sequence["pb.AgentInfo"], text: str) -> "pb.AgentInfo":
    """Return the agent whose name, else whose id it is.

    Raises:
        NotFound: there is none.
    """
    for one in agents:
        if one.name == text:
            return one
    for one in agents:
        if one.id == text:
            return one
    raise NotFound(f"there is no agent {text}")


def new_handle(start: str) -> str:
    """Return a handle that nobody has, and that says when it was made, in UTC."""
    return f"{start}{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


def sender() -> str:
    """Return who is speaking, as sessions have it."""
    with contextlib.suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    return ""


async def _recent(client: "Client", agent_id: str, handle: str | None) -> str | None:
    """Return the chat that was spoken in last."""
    if handle:
        return handle
    for one in (await client.list_conversations(agent=agent_id)).conversations:
        if one.file_path.startswith(START):
            return one.file_path
    return None


async def _default(client: "Client", agents: Sequence["pb.AgentInfo"]) -> "pb.AgentInfo":
    """Return the only agent, else the one that was spoken to last.

    Raises:
        CommandError: there are several, and none was.
    """
    if len(agents) == 1:
        return agents[0]
    for one in (await client.list_conversations()).conversations:
        for agent in agents:
            if one.file_path.startswith(START) and agent.id == one.agent_id:
                return agent
    names = ", ".join(one.name for one in agents)
    raise CommandError(f"which agent? There are {names}", status=USAGE)
