"""What a script of a model says: a file of turns in TOML or JSON, checked as a whole.

A turn says when it is meant and what is answered then. Which one answers is decided by the conversation
alone, from the first turn to the last, so that any number of sessions can use one script and a restart
changes nothing; only `times` counts.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

from crabtalk.conversation.messages import Message, Usage
from crabtalk.conversation.model import ErrorKind, FinishReason, ModelRequest
from crabtalk.errors import ConfigError
from crabtalk.units import duration_s, nearest, shown

MAX_SCRIPT_BYTES: Final = 4 << 20
_MAX_TURNS: Final = 10_000
_REASONS: Final[tuple[FinishReason, ...]] = get_args(FinishReason)
_PLACE: Final = re.compile(r"\{(user|result|model|system|[1-9])\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """When a turn is meant; what is left out is not asked."""

    user: str | None = None  # is in what the user said last
    matches: re.Pattern[str] | None = None  # is found in it; its groups are `{1}` to `{9}`
    step: int | None = None  # answers since then
    turn: int | None = None  # messages of the user before that one
    after: str | None = None  # the tool whose result came last
    result: str | None = None  # is in a result that came after the last answer
    system: str | None = None  # is in the system message
    model: str | None = None
    tool: str | None = None  # is offered
    tools: bool | None = None  # whether any is


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call that is answered."""

    name: str
    arguments: Any = field(default_factory=dict)  # text is sent as it is, and may be broken
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """How a turn fails, after what else it says."""

    kind: ErrorKind
    message: str = "the script says so"
    retry_after_s: float | None = None
    status: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One answer, and when it is given."""

    expect: Expectation = Expectation()
    times: int | None = None  # how often at most, since the script was read
    thinking: str = ""
    text: str | list[str] = ""  # a list is said in just those pieces
    calls: tuple[Call, ...] = ()
    usage: Usage | None = None
    finish: FinishReason | None = None
    cut: bool = False  # end without an end
    error: Failure | None = None
    delay_s: float = 0.0  # before each piece


@dataclass(frozen=True, slots=True)
class Script:
    """All of it."""

    turns: tuple[Turn, ...]


def load_script(path: Path) -> Script:
    """Read a script.

    Raises:
        ConfigError: if it cannot be read, or what is wrong with it.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SCRIPT_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {(error.strerror or 'cannot read').lower()}") from error
    if len(data) > MAX_SCRIPT_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_SCRIPT_BYTES} bytes")
    try:
        text = data.decode()
        table = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be parsed: {error}") from error
    return parse_script(table, source=str(path))


def parse_script(table: object, *, source: str = "script") -> Script:
    """Check what a script says.

    Raises:
        ConfigError: for the first thing that is wrong, with its place.
    """
    try:
        turns = _read(_SCRIPT, table, "")["turns"]
    except _Wrong as error:
        raise ConfigError(f"{source}: {error}") from error
    return Script(tuple(turns))


def find_turn(
    script: Script, request: ModelRequest, used: Mapping[int, int]
) -> tuple[int, dict[str, str]] | None:
    """Return which turn is meant, and what its places stand for; None if none is."""
    for number, turn in enumerate(script.turns):
        if turn.times is not None and used.get(number, 0) >= turn.times:
            continue
        places = _met(turn.expect, request)
        if places is not None:
            return number, places
    return None


def filled(value: Any, places: Mapping[str, str]) -> Any:  # noqa: ANN401 - it is JSON
    """Return `value` with every `{user}`, `{result}`, … replaced in its texts."""
    if isinstance(value, str):
        return _PLACE.sub(lambda match: places.get(match[1], ""), value)
    if isinstance(value, list):
        return [filled(item, places) for item in value]
    if isinstance(value, dict):
        return {key: filled(item, places) for key, item in value.items()}
    return value


def _met(expect: Expectation, request: ModelRequest) -> dict[str, str] | None:
    said = [number for number, message in enumerate(request.messages) if message.role == "user"]
    last = said[-1] if said else -1
    since = request.messages[last + 1 :]
    user = request.messages[last].content if said else ""
    results = _results(since)
    matched = expect.matches.search(user) if expect.matches is not None else None
    checks = (
        expect.user is None or expect.user in user,
        expect.matches is None or matched is not None,
        expect.step is None or expect.step == sum(message.role == "assistant" for message in since),
        expect.turn is None or expect.turn == len(said) - 1,
        expect.after is None or expect.after == _last_tool(since, results),
        expect.result is None or any(expect.result in one.content for one in results),
        expect.system is None or expect.system in request.system,
        expect.model is None or expect.model == request.model,
        expect.tool is None or expect.tool in {tool.wire_name for tool in request.tools},
        expect.tools is None or expect.tools == bool(request.tools),
    )
    if not all(checks):
        return None
    groups = {str(n): group or "" for n, group in enumerate(matched.groups(), 1)} if matched else {}
    result = results[-1].content if results else ""
    return {"user": user, "result": result, "model": request.model, "system": request.system, **groups}


def _results(since: Sequence[Message]) -> list[Message]:
    """Return the results that came after the last answer."""
    found: list[Message] = []
    for message in reversed(since):
        if message.role != "tool":
            break
        found.insert(0, message)
    return found


def _last_tool(since: Sequence[Message], results: Sequence[Message]) -> str | None:
    names = {call.id: call.name for message in since for call in message.tool_calls}
    return names.get(results[-1].tool_call_id) if results else None


class _Wrong(Exception):  # noqa: N818 - reads as what it says
    """A value that cannot be, and where."""


_Reader = Callable[[object, str], Any]


def _of(kind: type | tuple[type, ...], expected: str) -> _Reader:
    def read(value: object, place: str) -> Any:  # noqa: ANN401
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise _Wrong(f"{place}: expected {expected}, got {shown(value)}")
        return value

    return read


def _one_of(*known: str) -> _Reader:
    def read(value: object, place: str) -> Any:  # noqa: ANN401
        if value not in known:
            raise _Wrong(f"{place}: expected one of {', '.join(known)}, got {shown(value)}")
        return value

    return read


def _list_of(entry: _Reader, most: int) -> _Reader:
    def read(value: object, place: str) -> list[Any]:
        if not isinstance(value, list) or len(value) > most:
            raise _Wrong(f"{place}: expected a list of at most {most}, got {shown(value)}")
        return [entry(item, f"{place}[{number}]") for number, item in enumerate(value)]

    return read


def _object(make: Callable[..., Any], keys: Mapping[str, _Reader], *required: str) -> _Reader:
    def read(value: object, place: str) -> Any:  # noqa: ANN401
        values = _read(keys, value, place)
        missing = [key for key in required if key not in values]
        if missing:
            raise _Wrong(f"{place}: expected `{missing[0]}`")
        return make(**values)

    return read


def _read(keys: Mapping[str, _Reader], value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Wrong(f"{place or 'the file'}: expected a table, got {shown(value)}")
    dot = f"{place}." if place else ""
    for key in value:
        if key not in keys:
            raise _Wrong(f"unknown key `{dot}{key}`{nearest(str(key), keys)}")
    return {key: keys[key](item, f"{dot}{key}") for key, item in value.items()}


def _seconds(value: object, place: str) -> float:
    try:
        return duration_s(value)
    except ValueError as error:
        raise _Wrong(f"{place}: {error}") from error


def _pattern(value: object, place: str) -> re.Pattern[str]:
    try:
        return re.compile(_TEXT(value, place))
    except re.error as error:
        raise _Wrong(f"{place}: not a pattern: {error}") from error


def _said(value: object, place: str) -> Any:  # noqa: ANN401
    return _list_of(_TEXT, 100_000)(value, place) if isinstance(value, list) else _TEXT(value, place)


def _turn(**values: Any) -> Turn:  # noqa: ANN401
    delay_s, calls = values.pop("delay", 0.0), tuple(values.pop("calls", ()))
    return Turn(**values, delay_s=delay_s, calls=calls)


def _failure(**values: Any) -> Failure:  # noqa: ANN401
    kind, retry_after_s = ErrorKind(values.pop("kind")), values.pop("retry_after", None)
    return Failure(**values, kind=kind, retry_after_s=retry_after_s)


_TEXT: Final = _of(str, "text")
_COUNT: Final = _of(int, "a whole number")
_BOOLEAN: Final = _of(bool, "true or false")
_USAGE: Final = dict.fromkeys(
    ("prompt", "completion", "total", "cache_hit", "cache_miss", "reasoning"), _COUNT
)
_EXPECT: Final[Mapping[str, _Reader]] = {
    **dict.fromkeys(("user", "after", "result", "system", "model", "tool"), _TEXT),
    "matches": _pattern,
    "step": _COUNT,
    "turn": _COUNT,
    "tools": _BOOLEAN,
}
_CALL: Final[Mapping[str, _Reader]] = {
    "name": _TEXT,
    "arguments": _of((dict, str), "a table, or text"),
    "id": _TEXT,
}
_ERROR: Final[Mapping[str, _Reader]] = {
    "kind": _one_of(*ErrorKind),
    "message": _TEXT,
    "retry_after": _seconds,
    "status": _COUNT,
}
_TURN: Final[Mapping[str, _Reader]] = {
    "expect": _object(Expectation, _EXPECT),
    "times": _COUNT,
    "thinking": _TEXT,
    "text": _said,
    "calls": _list_of(_object(Call, _CALL, "name"), 1000),
    "usage": _object(Usage, _USAGE),
    "finish": _one_of(*_REASONS),
    "cut": _BOOLEAN,
    "error": _object(_failure, _ERROR, "kind"),
    "delay": _seconds,
}
_SCRIPT: Final[Mapping[str, _Reader]] = {"turns": _list_of(_object(_turn, _TURN), _MAX_TURNS)}
