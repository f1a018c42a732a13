"""Instants and durations as people write and read them: the daemon itself knows Unix milliseconds only."""

import argparse
import re
from datetime import UTC, datetime, time, timedelta, tzinfo

from berm.cli.exits import USAGE, CommandError

_STEP = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(ms|s|min|m|h|d|w)", re.ASCII)
_UNITS_MS = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_DAYS = {"today": 0, "tomorrow": 1}
_LATEST = datetime(9999, 1, 1, tzinfo=UTC)
_EXAMPLES = "2030-01-31T08:00, 'tomorrow 08:00', 08:00 or @1893456000000"


def duration_ms(text: str) -> int:
    """Read a duration such as `90s`, `5m`, `1d12h` or `0.5h`.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    steps = _STEP.findall(text)
    if not steps or _STEP.sub("", text).strip():
        raise argparse.ArgumentTypeError(f"expected a duration like 90s, 5m or 1d12h, got {text!r}")
    return round(sum(float(number) * _UNITS_MS[unit] for number, unit in steps))


def instant_ms(text: str, now_ms: int, zone: str | None = None) -> int:
    """Read an instant: a date and time, a time of today or `tomorrow`, or `@` and Unix milliseconds.

    A time without an offset is one of `zone`, by default of this machine's zone. A time alone is the next
    one: today's, or tomorrow's if that has passed.

    Raises:
        CommandError: it is none, or there is no such time on that day.
    """
    if re.fullmatch(r"@\d{1,15}", text, re.ASCII):
        return int(text[1:])
    here = _zone(zone)
    now = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(here)
    local = _written(text, now)
    if local is None:
        raise CommandError(f"expected an instant like {_EXAMPLES}, got {text!r}", status=USAGE)
    if local.tzinfo is not None:
        return _unix_ms(local)
    return _unix_ms(_placed(local, here, text))


def show_instant(at_ms: int) -> str:
    """Write an instant in this machine's zone, with its offset; nothing for 0."""
    if not at_ms:
        return ""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().isoformat(" ", "seconds")
    except (ValueError, OverflowError, OSError):  # beyond the calendar
        return f"@{at_ms}"


def show_duration(microseconds: int) -> str:
    """Write a duration in the unit that suits it."""
    if microseconds < 1000:  # noqa: PLR2004 - these and those below are the units
        return f"{microseconds} µs"
    if microseconds < 1_000_000:  # noqa: PLR2004
        return f"{microseconds / 1000:.1f} ms"
    return show_span(microseconds // 1000) if microseconds >= 60_000_000 else f"{microseconds / 1e6:.1f} s"  # noqa: PLR2004


def show_span(milliseconds: int) -> str:
    """Write a span of time with its two largest units, as `3d 4h`."""
    rest = max(0, milliseconds) // 1000
    parts: list[str] = []
    for unit, seconds in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        amount, rest = divmod(rest, seconds)
        if amount or (unit == "s" and not parts):
            parts.append(f"{amount}{unit}")
    return " ".join(parts[:2])


def _written(text: str, now: datetime) -> datetime | None:
    """Read what `text` says; without an offset it is a local time."""
    day, _, clock = text.strip().rpartition(" ")
    try:
        if day in _DAYS:
            return datetime.combine((now + timedelta(days=_DAYS[day])).date(), time.fromisoformat(clock))
        if re.fullmatch(r"\d\d:\d\d(:\d\d)?", text, re.ASCII):
            today = datetime.combine(now.date(), time.fromisoformat(text))
            return today if today > now.replace(tzinfo=None) else today + timedelta(days=1)
        return datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        return None


def _placed(local: datetime, zone: tzinfo | None, text: str) -> datetime:
    """Find the instant of a local time; of two, when clocks were put back, the first."""
    instant = local.astimezone() if zone is None else local.replace(tzinfo=zone)
    try:
        back = instant.astimezone(UTC).astimezone(zone)
    except OverflowError as error:
        raise CommandError(f"{text!r} is outside the calendar", status=USAGE) from error
    if back.replace(tzinfo=None) != local:
        raise CommandError(
            f"there is no {local.time()} on {local.date()}: clocks are put forward then", status=USAGE
        )
    return instant


def _unix_ms(instant: datetime) -> int:
    if not datetime.fromtimestamp(0, UTC) < instant < _LATEST:
        raise CommandError(f"{instant.isoformat()} is outside what can be scheduled", status=USAGE)
    return round((instant - datetime.fromtimestamp(0, UTC)) / timedelta(milliseconds=1))


def _zone(name: str | None) -> tzinfo | None:
    if name is None:
        return None
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError) as error:  # as it says it: missing, a directory, no such key
        raise CommandError(f"there is no time zone {name!r}", status=USAGE) from error
