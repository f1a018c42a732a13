"""Tool calls as they come in pieces, and what of a stored one an endpoint takes.

Endpoints differ in how a piece names its call: by an index, by an id, by nothing at all, and some give
every call the index 0. So a piece belongs to the call with its index, else with its id, else to the last
one that was at its position; and where a piece brings a name that cannot be a continuation, it begins a new
call.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from crabtalk.conversation.messages import ToolCall
from crabtalk.conversation.model import ModelEvent, ToolCallDelta, ToolCallStarted
from crabtalk.ids import new_id
from crabtalk.providers.json_values import Joiner, clean, loads, number, table, text

MAX_CALLS: Final = 256  # of one answer
_FEW: Final = 8
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")


class TooManyCalls(Exception):  # noqa: N818 - reads as what it says
    """An answer with more calls than anybody could mean."""


@dataclass(slots=True)
class _Call:
    index: int
    given_id: str
    name: str
    id: str = ""  # as events have it; empty until the call was announced
    pieces: list[str] = field(default_factory=list)  # of the arguments
    joiner: Joiner = field(default_factory=Joiner)


class ToolCalls:
    """The calls of one answer."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_key: dict[tuple[str, object], _Call] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def begin(self, given_id: str, name: str) -> Iterator[ModelEvent]:
        """Begin a call whose beginning the dialect marks; its index is the number of those before.

        Raises:
            TooManyCalls: if it is one too many.
        """
        yield from self._announce(self._new(given_id, name))

    def more(self, index: int, arguments: str) -> Iterator[ModelEvent]:
        """Take more of the arguments of a call."""
        yield from self._add(self._calls[index], arguments)

    def has_arguments(self, index: int) -> bool:
        """Say whether anything of a call's arguments has come."""
        return bool(self._calls[index].pieces)

    def find(self, piece: object, position: int) -> int:
        """Return the index of the call to which a piece of the OpenAI dialect belongs; it may be a new one.

        Raises:
            TooManyCalls: if it is one too many.
        """
        fields = table(piece)
        index, given_id = number(fields.get("index")), clean(fields.get("id"))
        name = clean(table(fields.get("function")).get("name"))
        keys = _keys(index, given_id, position)
        call = next((self._by_key[key] for key in keys if key in self._by_key), None)
        if call is None or _begins_another(call, index, given_id, name):
            call = self._new(given_id, name)
        self._by_key |= dict.fromkeys(keys, call)
        call.given_id = call.given_id or given_id
        call.name = call.name or name
        return call.index

    def take(self, index: int, piece: object) -> Iterator[ModelEvent]:
        """Take a piece of a call that was found."""
        call = self._calls[index]
        if call.name and not call.id:
            yield from self._announce(call)
        arguments = table(table(piece).get("function")).get("arguments")
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments, ensure_ascii=False)
        yield from self._add(call, text(arguments))

    def id_of(self, index: int) -> str:
        """Return the id that events have for a call."""
        return self._calls[index].id

    def end(self) -> Iterator[ModelEvent]:
        """Announce calls that never got a name, and give what was held back."""
        for call in self._calls:
            if not call.id:
                yield from self._announce(call)
            if rest := call.joiner.end():
                yield ToolCallDelta(call.index, rest)

    def _new(self, given_id: str, name: str) -> _Call:
        if len(self._calls) >= MAX_CALLS:
            raise TooManyCalls(f"more than {MAX_CALLS} tool calls in one answer")
        call = _Call(len(self._calls), given_id, name)
        self._calls.append(call)
        return call

    def _announce(self, call: _Call) -> Iterator[ModelEvent]:
        taken = {other.id for other in self._calls}
        call.id = call.given_id if call.given_id and call.given_id not in taken else f"call_{new_id()}"
        yield ToolCallStarted(call.index, call.id, call.name)
        if call.pieces:
            yield ToolCallDelta(call.index, "".join(call.pieces))

    def _add(self, call: _Call, piece: str) -> Iterator[ModelEvent]:
        arguments = call.joiner.feed(piece)
        if not arguments:
            return
        call.pieces.append(arguments)
        if call.id:
            yield ToolCallDelta(call.index, arguments)


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a stored call; none if they were broken, since endpoints refuse those."""
    try:
        return table(loads(call.arguments))
    except ValueError:
        return {}


def sendable_name(name: str) -> str:
    """Return a stored call's name as every endpoint takes it; a model may have made it up."""
    return name if _NAME.fullmatch(name) else re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unnamed"


def sendable_id(given: str) -> str:
    """Return an id as every endpoint takes it; another one may have made it."""
    if _ID.fullmatch(given):
        return given
    return f"call_{hashlib.sha256(given.encode(errors='replace')).hexdigest()[:32]}"


def _keys(index: int | None, given_id: str, position: int) -> list[tuple[str, object]]:
    if index is not None:
        return [("index", index)]
    return [("id", given_id), ("position", position)] if given_id else [("position", position)]


def _begins_another(call: _Call, index: int | None, given_id: str, name: str) -> bool:
    """Say whether a piece that seems to continue `call` cannot."""
    if not name:
        return False
    if given_id and call.given_id:
        # Some endpoints make a new id for every piece, but only the beginning of a call has a name.
        return given_id != call.given_id
    if index is not None or not call.name:
        return False
    return name != call.name or _is_whole(call.pieces)


def _is_whole(pieces: list[str]) -> bool:
    """Say whether these are all arguments of a call; who sends calls whole sends few pieces."""
    if not 0 < len(pieces) <= _FEW:
        return False
    try:
        return isinstance(loads("".join(pieces)), dict)
    except ValueError:
        return False
