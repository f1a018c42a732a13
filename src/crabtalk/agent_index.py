"""The agents in memory, by id and by name, and the images that they are pinned to. Nothing is stored here."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from crabtalk.declarations import AgentConfig, Bounds, HarnessDeclaration, parse_config
from crabtalk.errors import Conflict, NotFound, RequestError
from crabtalk.store.interfaces.agents import AgentRecord

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Entry:
    """One agent as it is used."""

    record: AgentRecord
    config: AgentConfig
    harnesses: Mapping[str, HarnessDeclaration]
    problem: str = ""  # why its stored configuration cannot be used
    bounds: dict[str, Bounds] = field(default_factory=dict)


class AgentIndex:
    """Finds agents; for the event loop, but `entries` for any thread."""

    def __init__(self) -> None:
        self._by_id: dict[str, Entry] = {}
        self._by_name: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def entries(self) -> list[Entry]:
        """Return every agent, in no order."""
        return list(self._by_id.values())

    def records(self) -> list[AgentRecord]:
        """Return the record of every agent, by name."""
        return [self._by_id[self._by_name[name]].record for name in sorted(self._by_name)]

    def find(self, agent_id: str) -> Entry | None:
        """Return the agent with this id, None if there is none."""
        return self._by_id.get(agent_id)

    def entry(self, agent_id: str) -> Entry:
        """Return the agent with this id.

        Raises:
            NotFound: if there is none.
        """
        entry = self._by_id.get(agent_id)
        if entry is None:
            raise NotFound(f"no agent `{agent_id[:80]}`")
        return entry

    def by_name(self, name: str) -> Entry:
        """Return the agent with this name.

        Raises:
            NotFound: if there is none.
        """
        if name not in self._by_name:
            raise NotFound(f"no agent named `{name[:80]}`")
        return self._by_id[self._by_name[name]]

    def id_of(self, text: str) -> str | None:
        """Return the id of the agent with this id or name, None if there is none."""
        return text if text in self._by_id else self._by_name.get(text)

    def require_free(self, name: str) -> None:
        """Return if no agent has this name.

        Raises:
            Conflict: if one has.
        """
        if name in self._by_name:
            raise Conflict(f"there is an agent named `{name}` already")

    def put(self, record: AgentRecord, config: AgentConfig, problem: str = "") -> None:
        """Take an agent in, new or changed."""
        old = self._by_id.get(record.id)
        if old is not None:
            del self._by_name[old.record.name]
        harnesses = {one.name: one for one in config.harnesses}
        self._by_id[record.id] = Entry(record, config, harnesses, problem)
        self._by_name[record.name] = record.id

    def remove(self, agent_id: str) -> None:
        """Forget an agent."""
        del self._by_name[self._by_id.pop(agent_id).record.name]

    def pinned(self, sha256: str) -> list[str]:
        """Return who is pinned to some bytes, as `agent/harness`."""
        return self._declaring(lambda _name, pin: pin == sha256)

    def declarers(self, name: str) -> list[str]:
        """Return who declares a harness of this name, as `agent/harness`."""
        return self._declaring(lambda declared, _pin: declared == name)

    def only_pinned_by(self, entry: Entry) -> list[str]:
        """Return the digests to which nobody else is pinned."""
        others = {
            sha256
            for other in self._by_id.values()
            if other is not entry
            for _, sha256 in _pins(other.record)
        }
        return sorted({sha256 for _, sha256 in _pins(entry.record)} - others)

    def _declaring(self, test: Callable[[str, str], bool]) -> list[str]:
        return [
            f"{entry.record.name}/{name}"
            for entry in self._by_id.values()
            for name, sha256 in _pins(entry.record)
            if test(name, sha256)
        ]


def read_stored(record: AgentRecord) -> tuple[AgentConfig, str]:
    """Return a stored configuration, or an empty one with why it cannot be used: others go on."""
    try:
        return parse_config(record.config), ""
    except RequestError as error:
        logger.error(  # noqa: TRY400 - the sentence says it all
            "agent has a configuration that this version does not take: %s", error, extra={"agent": record.id}
        )
        return AgentConfig(), f"agent `{record.name}` has a configuration that cannot be used: {error}"


def _pins(record: AgentRecord) -> list[tuple[str, str]]:
    """Return the name and sha256 of each declared image, also of a configuration that cannot be used."""
    listed = record.config.get("harnesses")
    entries = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    images = [one for one in entries if "builtin" not in one]
    return [(str(one.get("name", "")), str(one.get("sha256", ""))) for one in images]
