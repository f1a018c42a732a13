"""The capability over time: what time it is, and how far a zone is from UTC.

The host holds instants, never calendars: a guest gets Unix milliseconds, an offset, and when that offset next
changes, and does its own calendar with them. Zones are those of the `tzdata` package, so that every machine
gives the same answers; `local` is the machine's own zone, under its IANA name where that can be found.
"""

import bisect
import functools
import importlib.resources
import io
import os
import re
import struct
import time
import zoneinfo
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from berm import Capability, Refused, capability
from crabtalk.capabilities._call import Call
from crabtalk.capabilities._failure import Failure

LOCAL: Final = "local"

_DAY_S: Final = 86_400
# Years 2 to 9998: what `datetime` can show in every zone.
_FIRST_S: Final = -62_104_060_800
_LAST_S: Final = 253_370_764_800
_RULE_DAYS: Final = 400  # a rule comes round within a year

_TZIF_HEADER: Final = struct.Struct(">4s1s15x6l")
_TZIF_NAME_IN_PATH: Final = re.compile(r"/zoneinfo(?:\.default)?/(?:posix/|right/)?(.+)\Z")


@dataclass(frozen=True)
class Zone:
    """A time zone: offsets by instant, and the instants at which they may change."""

    name: str
    info: zoneinfo.ZoneInfo
    changes: Sequence[int]  # Unix seconds, ascending, as far as the data lists them

    @classmethod
    def from_tzif(cls, name: str, data: bytes) -> "Zone":
        """Read a TZif file.

        Raises:
            ValueError: if it is none.
        """
        return cls(name, zoneinfo.ZoneInfo.from_file(io.BytesIO(data), key=name), _tzif_changes(data))

    def offset_s(self, at_s: int) -> int:
        """Return the seconds to add to UTC at an instant."""
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=at_s)
        offset = moment.astimezone(self.info).utcoffset()
        return 0 if offset is None else int(offset.total_seconds())

    def next_change_s(self, after_s: int) -> int | None:
        """Return the first instant after `after_s` from which on another offset holds, or None."""
        for index in range(bisect.bisect_right(self.changes, after_s), len(self.changes)):
            change = self.changes[index]
            if _FIRST_S < change <= _LAST_S and self.offset_s(change - 1) != self.offset_s(change):
                return change
        return self._next_by_rule(max(after_s, self.changes[-1] if self.changes else after_s))

    def _next_by_rule(self, start: int) -> int | None:
        """Search beyond the listed changes, where a yearly rule holds: changes lie days apart there."""
        offset = self.offset_s(start)
        for low in range(start, min(start + _RULE_DAYS * _DAY_S, _LAST_S - _DAY_S), _DAY_S):
            high = low + _DAY_S
            if self.offset_s(high) != offset:
                return _bisect_change(self, low, high)
        return None


@dataclass(frozen=True)
class Clock:
    """The bound: the zones that are answered for, the first of which is the one of `now`."""

    zones: tuple[Zone, ...]
    now_ms: Callable[[], int]

    def now(self) -> tuple[int, int, str]:
        """Return Unix milliseconds, the offset in seconds, and the zone's name."""
        now_ms = self.now_ms()
        return now_ms, self.zones[0].offset_s(now_ms // 1000), self.zones[0].name

    def offset(self, name: str, at_ms: int) -> tuple[int, str]:
        """Return the offset in seconds, and the next change in milliseconds or nothing.

        Raises:
            Refused: for a zone that is not bound.
            Failure: for an instant beyond the calendar.
        """
        at_s = at_ms // 1000
        if not _FIRST_S <= at_s < _LAST_S:
            raise Failure(f"instant is outside of the years 2 to 9998: {at_ms}")
        zone = self._bound(name)
        change = zone.next_change_s(at_s)
        return zone.offset_s(at_s), "" if change is None else str(change * 1000)

    def _bound(self, name: str) -> Zone:
        for zone in self.zones:
            if zone.name == name:
                return zone
        raise Refused(
            f"zone is not bound: `{name[:64]}`, bound is {', '.join(zone.name for zone in self.zones)}"
        )


def machine_ms() -> int:
    """Return the machine's wall clock."""
    return time.time_ns() // 1_000_000


def clock(zones: str | Iterable[str], now_ms: Callable[[], int] = machine_ms) -> tuple[Capability, ...]:
    """Grant the time, as `now_ms` has it, in one zone or several; `local` is the machine's.

    Raises:
        ValueError: if there is no such zone, or none at all.
    """
    names = dict.fromkeys([zones] if isinstance(zones, str) else zones)
    bound = Clock(tuple(map(find_zone, names)), now_ms)
    if not bound.zones:
        raise ValueError("expected at least one time zone")

    @capability("berm.clock.now")
    def now(_call: Call) -> tuple[int, int, str]:
        return bound.now()

    @capability("berm.clock.offset")
    def offset(_call: Call, zone: str, at_ms: int) -> tuple[int, str]:
        return bound.offset(zone, at_ms)

    return (now, offset)


@functools.lru_cache(maxsize=64)
def find_zone(name: str) -> Zone:
    """Look a zone up by its IANA name, or `local`.

    Raises:
        ValueError: if there is no such zone.
    """
    if name == LOCAL:
        return _local_zone()
    if name not in _names():
        raise ValueError(f"no such time zone: `{name}`")
    # Only listed names come here, so a name is never a path of somebody's making.
    resource = importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
    return Zone.from_tzif(name, resource.read_bytes())


@functools.cache
def _names() -> frozenset[str]:
    return frozenset(importlib.resources.files("tzdata").joinpath("zones").read_text("ascii").split())


def _local_zone() -> Zone:
    for name in (os.environ.get("TZ", "").removeprefix(":"), _name_of_link(Path("/etc/localtime"))):
        if name in _names():
            return find_zone(name)
    try:
        return Zone.from_tzif(LOCAL, Path("/etc/localtime").read_bytes())
    except FileNotFoundError:
        return find_zone("UTC")  # as the C library has it


def _name_of_link(path: Path) -> str:
    match = _TZIF_NAME_IN_PATH.search(os.path.realpath(path))
    return match.group(1) if match else ""


def _tzif_changes(data: bytes) -> tuple[int, ...]:
    """Return the instants that a TZif file lists (RFC 8536, section 3); `ZoneInfo` checked the form."""
    start = 0
    _, version, isut, isstd, leap, times, types, chars = _TZIF_HEADER.unpack_from(data)
    code = "l"
    if version >= b"2":
        # The first block is for readers of 32 bits; the same again follows, in 64.
        start = _TZIF_HEADER.size + times * 5 + types * 6 + chars + leap * 8 + isstd + isut
        times = _TZIF_HEADER.unpack_from(data, start)[5]
        code = "q"
    return struct.unpack_from(f">{times}{code}", data, start + _TZIF_HEADER.size)


def _bisect_change(zone: Zone, low: int, high: int) -> int:
    """Return the instant between `low` and `high` at which the offset changes, given that it does once."""
    offset = zone.offset_s(low)
    while high - low > 1:
        middle = (low + high) // 2
        if zone.offset_s(middle) == offset:
            low = middle
        else:
            high = middle
    return high
