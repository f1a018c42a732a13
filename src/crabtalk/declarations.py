"""What an agent's configuration says: every key checked, frozen values out, and the schema that is published.

The tables below are the one place where a key exists: a key that is not in them is an error, one that is has
a reader, a schema and an effect. Nothing here looks anything up, so a name is not yet an agent and a digest
not yet an image; `agents` does that.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from crabtalk import declared_servers as servers
from crabtalk import declared_values as values
from crabtalk.asked_values import INNER_KEYS as ARGUMENTS
from crabtalk.asked_values import askable, unasked
from crabtalk.declared_values import Flaw, Key, RootArgument, Schema, Table
from crabtalk.errors import BadRequest
from crabtalk.rates import Rate

__all__ = [
    "AgentConfig",
    "Bounds",
    "HarnessDeclaration",
    "Rate",
    "RootArgument",
    "check_agent_name",
    "check_harness_name",
    "from_json",
    "parse_config",
    "schema",
]

MAX_FUEL: Final = 10**15
MAX_DEADLINE_S: Final = 3600.0
MAX_HARNESSES: Final = 64

AGENT_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
HARNESS_NAME: Final = r"[a-z0-9][a-z0-9_-]{0,62}"
SKILL_NAME: Final = r"(?!.{65})[a-z0-9]+(?:-[a-z0-9]+)*"
_SHA256: Final = r"[0-9a-fA-F]{64}"
_PREFIX: Final = r"[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+){0,15}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessDeclaration:
    """One harness of an agent: which bytes, what they may reach, within what."""

    name: str
    sha256: str = ""  # of the ELF, lower case; "" before it was pinned, and of what is built in
    builtin: str = ""  # instead of an image: which of those that come with the program
    source: str = ""
    files: str | None = None
    root: RootArgument | None = None
    hosts: tuple[str, ...] = ()
    zone: tuple[str, ...] = ()
    storage: int | None = None  # bytes
    calls: tuple[str, ...] = ()  # names of siblings
    schedule: int | None = None  # pending wakes at most
    topics: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()  # `*`, or agents; ids once declared
    send: tuple[str, ...] = ()  # agents; ids once declared
    sessions: str = ""  # whose: `own`
    skills: tuple[str, ...] = ()  # `*`, or names
    deadline: float = 60.0  # seconds
    fuel: int = 20_000_000_000  # instructions
    memory: int = 64 << 20  # bytes
    rate: Rate | None = None
    concurrency: int = 8  # runnable guests at once
    prefix: str = ""
    ask: tuple[str, ...] = ()  # the arguments that a person has to approve, sorted

    def wire_name(self, tool: str) -> str:
        """Return a tool's name as a model calls it."""
        return f"{self.prefix}__{tool}" if self.prefix else tool


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """An agent, without its name and id."""

    description: str = ""
    model: str = ""
    max_iterations: int = 16
    tool_choice: str = ""
    thinking: bool = False
    max_tokens: int | None = None
    thinking_budget: int | None = None
    skills: tuple[str, ...] = ()  # empty: all
    mcps: tuple[Mapping[str, Any], ...] = ()
    harnesses: tuple[HarnessDeclaration, ...] = ()
    compact_tool_max_len: int = 1024

    def harness(self, name: str) -> HarnessDeclaration | None:
        """Return the declaration of that name."""
        return next((one for one in self.harnesses if one.name == name), None)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the executor enforces for one harness of an agent."""

    deadline_s: float = 60.0
    fuel: int = 20_000_000_000
    rate: Rate | None = None
    concurrency: int = 8
    digest: str = ""  # of the image, for the audit


_ANY_TEXT: Final[Schema] = {"type": "string"}
_SIZE: Final[Schema] = {"type": ["integer", "string"]}


def _form(pattern: str, expected: str, says: str) -> Key:
    key = values.matching(pattern, expected)
    return Key(key.read, key.schema, says)


def _names(key: Key, most: int, says: str) -> Key:
    return Key(values.listing(key.read, most), _list_of(key.schema, most), says)


def _list_of(entry: Schema, most: int) -> Schema:
    return {"type": "array", "items": entry, "minItems": 1, "maxItems": most, "uniqueItems": True}


def _count(low: int, high: int, says: str) -> Key:
    return Key(values.count(low, high), {"type": "integer", "minimum": low, "maximum": high}, says)


_HARNESS: Final = values.matching(HARNESS_NAME, "a harness's name such as `reminders`")
_TOPIC: Final = Key(values.topic, {"type": "string", "maxLength": 128}, "")
_PEER: Final = values.matching(rf"\*|{AGENT_NAME}", "an agent's name or id, or `*`")
_SKILL: Final = values.matching(rf"\*|{SKILL_NAME}", "a skill's name such as `code-review`, or `*`")
_AGENT: Final = values.matching(AGENT_NAME, "an agent's name or id")
_ROOT: Final[Schema] = {
    "oneOf": [
        _ANY_TEXT,
        *(
            {
                "type": "object",
                "additionalProperties": False,
                "properties": {key: _ANY_TEXT},
                "required": [key],
            }
            for key in ("path", "session")
        ),
    ]
}

HARNESS_KEYS: Final[Mapping[str, Key]] = {
    "name": Key(_HARNESS.read, _HARNESS.schema, "What this agent calls it; its storage is kept by it."),
    "sha256": _form(_SHA256, "64 hexadecimal digits", "The ELF's bytes; written at declaration when absent."),
    "builtin": Key(
        _HARNESS.read, _HARNESS.schema, "Which harness that comes with the program; there is no image then."
    ),
    "source": Key(values.text(1024), _ANY_TEXT, "Where it came from, for people; nothing is downloaded."),
    "files": Key(values.path, _ANY_TEXT, "Registers berm.fs.* beneath this directory."),
    "root": Key(values.root, _ROOT, "Registers berm.fs.* and berm.exec.run: a shell in this directory."),
    "hosts": Key(values.listing(values.host, 256), _list_of(_ANY_TEXT, 256), "Registers berm.http.*."),
    "zone": Key(
        values.zones,
        {"oneOf": [_ANY_TEXT, _list_of(_ANY_TEXT, 64)]},
        "Registers berm.clock.*: IANA names or `local`; the first is that of now.",
    ),
    "storage": Key(values.size(1, 1 << 40), _SIZE, "Registers berm.get, berm.set and berm.kv.*: the quota."),
    "calls": _names(_HARNESS, MAX_HARNESSES, "Registers berm.call: harnesses of this agent."),
    "schedule": _count(1, 100_000, "Registers crabtalk.wake.*: pending wakes at most."),
    "topics": _names(_TOPIC, 256, "Registers crabtalk.event.*: sources, or prefixes ending in `:*`."),
    "peers": _names(_PEER, 256, "Registers crabtalk.peers.list: agents that are shown, or `*`."),
    "send": _names(_AGENT, 256, "Registers crabtalk.agent.send: turns of these agents."),
    "sessions": _form("own", "`own`", "Registers crabtalk.sessions.search: in this agent's sessions."),
    "skills": _names(_SKILL, 256, "Registers crabtalk.skills.*: skills that are shown, or `*`."),
    "deadline": Key(
        values.number(0, MAX_DEADLINE_S, "seconds, above 0 and up to 3600"),
        {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_DEADLINE_S},
        "Seconds that an invocation may take.",
    ),
    "fuel": _count(1, MAX_FUEL, "Instructions that an invocation may use."),
    "memory": Key(values.memory, _SIZE, "Bytes of guest memory, a power of two from 128KiB to 4GiB."),
    "rate": Key(
        values.rate,
        {"type": "string", "pattern": "^[1-9][0-9]{0,8} */ *[A-Za-z]+$"},
        "Invocations that may start, such as `60/min`; holds across chains.",
    ),
    "concurrency": _count(1, 1024, "Invocations that may run at once."),
    "prefix": _form(_PREFIX, "letters and digits", "Makes a tool `read` the tool `prefix__read` for models."),
}


# What the executor enforces and models see; all else is about an image, or what is bound to one.
_OF_BUILTIN: Final = frozenset({"name", "builtin", "source", "prefix", "deadline", "rate", "concurrency"})
_SYSTEM: Final = (
    '`system` lists names, and here the argument is the grant: write `root = "/path"` for files and '
    'commands, `files = "/path"`, `hosts = ["api.x.org"]`, `zone = "local"`, `storage = "16MiB"`'
)


def _refused_harness_key(key: str) -> str | None:
    if key == "ask":
        return 'an argument has it, in a table: `root = {path = "/p", ask = true}`'
    return _SYSTEM if key == "system" else None


_HARNESS_TABLE: Final = Table(
    {name: askable(name, key) if name in ARGUMENTS else key for name, key in HARNESS_KEYS.items()},
    frozenset({"name"}),
    _refused_harness_key,
)


def _harnesses(value: object) -> tuple[HarnessDeclaration, ...]:
    found: tuple[HarnessDeclaration, ...] = tuple(values.tables(_declaration, value, MAX_HARNESSES))
    names = [one.name for one in found]
    for index, one in enumerate(found):
        if one.name in names[:index]:
            raise Flaw(f"harness `{one.name}` stands twice", f"[{index}].name")
        for place, sibling in enumerate(one.calls):
            if sibling not in names:
                raise Flaw(f"no harness `{sibling}` in this agent", f"[{index}].calls[{place}]")
        if one.files is not None and one.root is not None:
            raise Flaw("`root` grants the files beneath it already: keep one of them", f"[{index}].files")
    return found


def _declaration(value: object) -> HarnessDeclaration:
    checked = _HARNESS_TABLE.read(value)
    if "builtin" in checked:
        for key in checked:
            if key not in _OF_BUILTIN:
                raise Flaw("is for images, and `builtin` means that there is none", f".{key}")
    if "sha256" in checked:
        checked["sha256"] = checked["sha256"].lower()
    plain, asked = unasked(checked)
    return HarnessDeclaration(**plain, ask=asked)


def _skills(value: object) -> tuple[str, ...]:
    named = values.listing(values.text(128), 256)
    return tuple(named(value)) if value != [] else ()


_TEXTS: Final[Schema] = {"type": "array", "items": _ANY_TEXT, "maxItems": 256, "uniqueItems": True}

AGENT_KEYS: Final[Mapping[str, Key]] = {
    "description": Key(values.text(256 << 10, control=True), _ANY_TEXT, "The system message."),
    "model": Key(values.text(256), _ANY_TEXT, "Which model its turns use."),
    "max_iterations": _count(1, 1000, "Rounds of tool calls that a turn may take."),
    "tool_choice": Key(values.text(64), _ANY_TEXT, "auto, none, required, or the name of a tool."),
    "thinking": Key(values.boolean, {"type": "boolean"}, "Whether the model is asked to think first."),
    "max_tokens": _count(1, 10_000_000, "Tokens that an answer may have."),
    "thinking_budget": _count(0, 10_000_000, "Tokens that thinking may take."),
    "skills": Key(_skills, _TEXTS, "The skills that it sees; empty: all."),
    "mcps": Key(servers.read, servers.SCHEMA, "MCP servers."),
    "harnesses": Key(
        _harnesses,
        {"type": "array", "items": _HARNESS_TABLE.schema(), "maxItems": MAX_HARNESSES},
        "The harnesses whose tools it has, in the order of its system message.",
    ),
    "compact_tool_max_len": _count(0, 10_000_000, "Characters of a tool's result that a summary keeps."),
}

_AGENT_TABLE: Final = Table(AGENT_KEYS, refused=lambda key: _SYSTEM if key == "system" else None)


def parse_config(config: object) -> AgentConfig:
    """Check an agent's configuration, without its name and id.

    Raises:
        BadRequest: with what is wrong, and where.
    """
    try:
        checked = AgentConfig(**_AGENT_TABLE.read(config))
        _check_together(checked)
    except Flaw as flaw:
        place = flaw.inside.removeprefix(".")
        raise BadRequest(f"{flaw.reason} - at `{place}`" if place else flaw.reason) from None
    return checked


def _check_together(config: AgentConfig) -> None:
    for index, server in enumerate(config.mcps):
        if config.harness(server["name"]) is not None:
            raise Flaw(f"a harness is called `{server['name']}` too", f".mcps[{index}].name")


def from_json(text: str) -> dict[str, Any]:
    """Read a configuration, or a patch of one, from JSON: no key twice, no NaN, nothing nested too deep.

    Raises:
        BadRequest: if it is no JSON object.
    """
    from berm.errors import ManifestError  # noqa: PLC0415 - not needed to check what TOML gave
    from berm.strict_json import parse  # noqa: PLC0415 - as above

    try:
        value = parse(text.encode(errors="surrogatepass"))
    except ManifestError as error:
        at = f" - at `{error.place}`" if error.place else ""
        raise BadRequest(f"configuration: {error.reason}{at}") from None
    if not isinstance(value, dict):
        raise BadRequest(f"configuration: expected an object, got {values.kind(value)}")
    return value


def check_agent_name(name: str) -> str:
    """Return a name that an agent may have.

    Raises:
        BadRequest: for any other.
    """
    from crabtalk.ids import is_id  # noqa: PLC0415 - as from_json

    try:
        checked: str = values.matching(AGENT_NAME, f"a name matching {AGENT_NAME}").read(name)
    except Flaw as flaw:
        raise BadRequest(f"agent: {flaw.reason}") from None
    if is_id(checked):
        raise BadRequest(f"agent: `{checked}` has the form of an id, which are given by the daemon")
    return checked


def check_harness_name(name: str) -> str:
    """Return a name that a harness may have.

    Raises:
        BadRequest: for any other.
    """
    try:
        return str(values.matching(HARNESS_NAME, f"a name matching {HARNESS_NAME}").read(name))
    except Flaw as flaw:
        raise BadRequest(f"harness: {flaw.reason}") from None


def schema() -> str:
    """Return the JSON Schema of an agent's file: its name, and the keys of its configuration."""
    name: Schema = {"type": "string", "pattern": f"^{AGENT_NAME}$", "description": "A label."}
    described = _AGENT_TABLE.schema()
    described["properties"] = {"name": name, **described["properties"]}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "An agent of crabtalk"}
    return json.dumps(head | described, indent=2, ensure_ascii=False) + "\n"
