"""Lists that fit a reply: a frame holds 16 MiB, however much there is to tell.

A list that does not fit loses what can be asked for entry by entry, or is refused with what to ask for
instead, before all of it was made. Lists that have a bound anyway just end sooner.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

from crabtalk.errors import TooLarge
from crabtalk.wire.framing import MAX_FRAME_BYTES


class Entry(Protocol):
    """A message of the protocol, as one of a list."""

    def ByteSize(self) -> int:  # noqa: N802 - protobuf's name
        """Return how many bytes it is when it is sent."""


M = TypeVar("M", bound=Entry)

MAX_LIST_BYTES: Final = MAX_FRAME_BYTES - (1 << 16)  # what is left is for the rest of the reply
_ENTRY_BYTES: Final = 6  # before an entry, at most: its tag and its length


def fitting(infos: Iterable[M], instead: str, lighten: Callable[[M], None] | None = None) -> list[M]:
    """Return a list that fits a reply; `lighten` takes from an entry what can be left out of all of them.

    Raises:
        TooLarge: if it does not fit; the message says what to do `instead`.
    """
    kept: list[M] = []
    size_bytes = 0
    light = False
    for info in infos:
        if light and lighten is not None:
            lighten(info)
        kept.append(info)
        size_bytes += _cost(info)
        if size_bytes > MAX_LIST_BYTES and lighten is not None and not light:
            light = True
            for one in kept:
                lighten(one)
            size_bytes = sum(map(_cost, kept))
        if size_bytes > MAX_LIST_BYTES:
            raise TooLarge(f"the list is larger than a reply may be, after {len(kept)} entries; {instead}")
    return kept


def first_fitting(infos: Iterable[M]) -> list[M]:
    """Return the first ones, as many as fit a reply."""
    kept: list[M] = []
    size_bytes = 0
    for info in infos:
        size_bytes += _cost(info)
        if size_bytes > MAX_LIST_BYTES:
            break
        kept.append(info)
    return kept


def _cost(info: Entry) -> int:
    return info.ByteSize() + _ENTRY_BYTES
