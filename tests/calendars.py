"""Rules and calendars in plain Python over `zoneinfo`: the slow reference of berm/rule.h.

Nothing is searched: every local minute that fits is listed and turned into the instants it stands for.
"""

import enum
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Gap(enum.IntEnum):
    SHIFT = 0
    AFTER = 1
    BEFORE = 2
    SKIP = 3


class Overlap(enum.IntEnum):
    FIRST = 0
    SECOND = 1
    BOTH = 2


@dataclass(frozen=True)
class Rule:
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 for Sunday
    open_day: bool
    open_weekday: bool

    def fits_day(self, day: date) -> bool:
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        both = self.open_day or self.open_weekday
        return day.month in self.months and (by_day and by_weekday if both else by_day or by_weekday)

    def local_times(self, first: date, last: date):
        day = first
        while day <= last:
            if self.fits_day(day):
                for hour in sorted(self.hours):
                    for minute in sorted(self.minutes):
                        yield datetime.combine(day, time(hour, minute))
            day += timedelta(days=1)


def ms_of(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


def moment_of(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def instants(
    local: datetime, zone: ZoneInfo, gap: Gap, overlap: Overlap, *, straight: bool = False
) -> set[int]:
    """Return the instants, in ms, that a local time stands for."""
    readings = [local.replace(tzinfo=zone, fold=fold) for fold in (0, 1)]
    if readings[0].utcoffset() == readings[1].utcoffset():  # neither in a gap nor twice (PEP 495)
        return {ms_of(readings[0])}
    by_fold = [reading.astimezone(UTC) for reading in readings]
    real = sorted({ms_of(at) for at in by_fold if at.astimezone(zone).replace(tzinfo=None) == local})
    if len(real) == 2 and not straight and overlap is not Overlap.BOTH:
        return {real[overlap]}
    if real or straight or gap is Gap.SKIP:
        return set(real)
    # In a gap, fold 0 reads by the offset before it, which is later; fold 1 by the one after.
    later, earlier = by_fold
    if gap is Gap.SHIFT:
        return {ms_of(later)}
    if gap is Gap.BEFORE:
        return {ms_of(earlier)}
    return {change_between(zone, ms_of(earlier), ms_of(later))}


def change_between(zone: ZoneInfo, low: int, high: int) -> int:
    """Return the instant in (low, high] at which the offset changes."""
    offset = moment_of(low).astimezone(zone).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if moment_of(middle).astimezone(zone).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return high


def occurrences(rule: Rule, zone: ZoneInfo, gap: Gap, overlap: Overlap, after: int, until: int) -> list[int]:
    """Return every occurrence in (after, until]."""
    straight = len(rule.hours) == 24
    first = moment_of(after).date() - timedelta(days=3)
    last = moment_of(until).date() + timedelta(days=3)
    found: set[int] = set()
    for local in rule.local_times(first, last):
        found |= instants(local, zone, gap, overlap, straight=straight)
    return sorted(at for at in found if after < at <= until)
