"""Rules of the SDK (berm/rule.h) in the sandbox, against a reference over `zoneinfo` (calendars.py)."""

import functools
import json
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import berm
from calendars import Gap, Overlap, Rule, instants, ms_of, occurrences
from crabtalk.capabilities.clock import clock, find_zone
from guest_images import image

# Jumps of an hour, half an hour, two hours, quarters, 44.5 minutes, and of a whole day (Apia, Kwajalein).
ZONES = (
    "Europe/Berlin",
    "Europe/Dublin",
    "Europe/Lisbon",
    "America/New_York",
    "America/Havana",
    "America/Nuuk",
    "America/Caracas",
    "America/Sao_Paulo",
    "Antarctica/Troll",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Africa/Cairo",
    "Africa/Monrovia",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Pyongyang",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Kwajalein",
    "UTC",
)
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def guest(engine):
    return berm.Harness.load(engine, image("recurring"), clock(ZONES))


def done(guest, tool, **args):
    outcome = guest.call(tool, json.dumps(args))
    assert isinstance(outcome, berm.Done), outcome
    return outcome.text


def listed(guest, rule, zone="UTC", *, after, until=2**62, most=100_000, gap=0, overlap=0, anchor=0):
    args = {"rule": rule, "zone": zone, "gap": int(gap), "overlap": int(overlap)}
    text = done(guest, "next", **args, after=after, until=until, most=most, anchor=anchor)
    return [int(line) for line in text.splitlines()]


def iso(moments):
    return [moment.strftime("%Y-%m-%d %H:%M") for moment in moments]


def local(guest, rule, zone, first, count, **options):
    """List occurrences as local times, from a local time on."""
    info = find_zone(zone).info
    after = ms_of(datetime.fromisoformat(first).replace(tzinfo=info).astimezone(UTC)) - 1
    found = listed(guest, rule, zone, after=after, most=count, **options)
    return iso(datetime.fromtimestamp(at / 1000, info) for at in found)


# ---- rules as text, with the set that each field means ----


@st.composite
def fields(draw, low, high, names=(), first_name=0):
    """Draw one field and return its text and what it means."""

    def shown(value):
        name = names[value - first_name] if names and value - first_name < len(names) else str(value)
        return draw(st.sampled_from([str(value), name, name.upper()]))

    def item():
        kind = draw(st.sampled_from(["all", "one", "range", "range"]))
        if kind == "one":
            value = draw(st.integers(low, high))
            return shown(value), {value}
        first, last = (low, high) if kind == "all" else sorted(draw(st.tuples(*[st.integers(low, high)] * 2)))
        step = draw(st.one_of(st.just(1), st.integers(1, high)))
        text = "*" if kind == "all" else f"{shown(first)}-{shown(last)}"
        if step > 1 or draw(st.booleans()):
            text += f"/{step}"
        return text, set(range(first, last + 1, step))

    items = [item() for _ in range(draw(st.integers(1, 3)))]
    return ",".join(text for text, _ in items), frozenset().union(*(values for _, values in items))


def hours():
    """Draw hours at which clocks change, often, and every hour, often."""
    night = st.sampled_from([0, 1, 2, 3, 4, 23]).map(lambda hour: (str(hour), frozenset({hour})))
    return st.one_of(fields(0, 23), night, st.just(("*", frozenset(range(24)))))


@st.composite
def rules(draw):
    minute = draw(st.one_of(fields(0, 59), st.sampled_from([("0", frozenset({0})), ("30", frozenset({30}))])))
    hour = draw(hours())
    every_day = st.just(("*", frozenset(range(1, 32))))
    every_month = st.just(("*", frozenset(range(1, 13))))
    every_weekday = st.just(("*", frozenset(range(7))))
    day = draw(st.one_of(every_day, fields(1, 31)))
    month = draw(st.one_of(every_month, fields(1, 12, MONTHS, 1)))
    weekday = draw(st.one_of(every_weekday, fields(0, 6, WEEKDAYS, 0)))
    longest = max(29 if one == 2 else 30 if one in {4, 6, 9, 11} else 31 for one in month[1])
    either = day[0][0] != "*" and weekday[0][0] != "*"
    assume(min(day[1]) <= longest or either)
    blanks = draw(st.sampled_from([" ", "  ", "\t"]))
    text = blanks.join(part[0] for part in (minute, hour, day, month, weekday))
    sets = (part[1] for part in (minute, hour, day, month, weekday))
    return text, Rule(*sets, open_day=day[0][0] == "*", open_weekday=weekday[0][0] == "*")


@functools.cache
def change_after(zone, second):
    return find_zone(zone).next_change_s(second) or second


@st.composite
def windows(draw):
    """Draw a zone and a stretch of two to five days, mostly around a change of its clocks."""
    zone = draw(st.sampled_from(ZONES))
    second = draw(st.integers(0, 4_000_000_000))
    middle = draw(st.sampled_from([second, change_after(zone, second), change_after(zone, second)])) * 1000
    after = middle - draw(st.integers(-DAY_MS // 2, 2 * DAY_MS))
    return zone, after, max(after, middle) + draw(st.integers(0, 2 * DAY_MS))


@given(rules(), windows(), st.sampled_from(Gap), st.sampled_from(Overlap))
@settings(max_examples=250, deadline=None)
def test_occurrences_are_those_of_the_reference(guest, rule, window, gap, overlap):
    text, meaning = rule
    zone, after, until = window
    wanted = occurrences(meaning, find_zone(zone).info, gap, overlap, after, until)
    assert listed(guest, text, zone, after=after, until=until, gap=gap, overlap=overlap) == wanted


@pytest.mark.soak
@given(rules(), windows(), st.sampled_from(Gap), st.sampled_from(Overlap))
@settings(max_examples=10_000, deadline=None)
def test_many_occurrences_are_those_of_the_reference(guest, rule, window, gap, overlap):
    text, meaning = rule
    zone, after, until = window
    wanted = occurrences(meaning, find_zone(zone).info, gap, overlap, after, until)
    assert listed(guest, text, zone, after=after, until=until, gap=gap, overlap=overlap) == wanted


@given(windows(), st.integers(-3000, 3000), st.sampled_from(Gap), st.sampled_from(Overlap))
@settings(max_examples=200, deadline=None)
def test_a_local_time_is_the_instant_of_the_reference(guest, window, minutes, gap, overlap):
    zone, after, _ = window
    info = find_zone(zone).info
    moment = datetime.fromtimestamp(after / 1000, info).replace(tzinfo=None, second=0, microsecond=0, fold=0)
    moment += timedelta(minutes=minutes)
    args = {"year": moment.year, "month": moment.month, "day": moment.day}
    args |= {"hour": moment.hour, "minute": moment.minute, "zone": zone, "gap": gap, "overlap": overlap}
    wanted = sorted(instants(moment, info, gap, overlap))
    assert done(guest, "instant", **args) == (str(wanted[0]) if wanted else "none")


@pytest.mark.parametrize(
    ("month", "day", "hour", "minute"),
    [(2, 30, 0, 0), (13, 1, 0, 0), (1, 1, 24, 0), (1, 1, 0, 60), (0, 1, 0, 0)],
)
def test_a_date_that_does_not_exist_has_no_instant(guest, month, day, hour, minute):
    args = {"year": 2024, "month": month, "day": day, "hour": hour, "minute": minute}
    assert done(guest, "instant", zone="UTC", gap=0, overlap=0, **args) == "none"


# ---- the policies, in dates that a person can check ----


@pytest.mark.core  # the guest; that it computes as the reference does is the same on every build
@pytest.mark.parametrize(
    ("gap", "second_day"),
    [
        (Gap.SHIFT, ["2026-03-29 03:30"]),
        (Gap.AFTER, ["2026-03-29 03:00"]),
        (Gap.BEFORE, ["2026-03-29 01:30"]),
        (Gap.SKIP, []),
    ],
)
def test_a_time_in_the_gap_is_moved_or_dropped(guest, gap, second_day):
    found = local(guest, "30 2 * * *", "Europe/Berlin", "2026-03-28 00:00", 2 + len(second_day), gap=gap)
    assert found == ["2026-03-28 02:30", *second_day, "2026-03-30 02:30"]


@pytest.mark.core
@pytest.mark.parametrize(
    ("overlap", "hours"), [(Overlap.FIRST, [0]), (Overlap.SECOND, [1]), (Overlap.BOTH, [0, 1])]
)
def test_a_time_that_comes_twice_counts_as_told(guest, overlap, hours):
    first = ms_of(datetime(2026, 10, 25, 0, 30, tzinfo=UTC))  # 02:30 in summer time
    found = listed(
        guest,
        "30 2 25 10 *",
        "Europe/Berlin",
        after=first - DAY_MS,
        until=first + DAY_MS,
        overlap=overlap,
    )
    assert found == [first + hour * 3_600_000 for hour in hours]


@pytest.mark.parametrize("rule", ["*/20 * * * *", "0-59/20 0-23 * * *"])
@pytest.mark.parametrize("gap", Gap)
@pytest.mark.parametrize("overlap", Overlap)
@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25"])
def test_a_rule_of_every_hour_goes_straight_through(guest, rule, gap, overlap, day):
    start = ms_of(datetime.fromisoformat(day).replace(tzinfo=UTC))
    found = listed(guest, rule, "Europe/Berlin", after=start, until=start + DAY_MS, gap=gap, overlap=overlap)
    assert found == list(range(start + 1_200_000, start + DAY_MS + 1, 1_200_000))


def test_a_day_that_a_zone_leaves_out_is_a_gap(guest):
    for gap, day in ((Gap.SKIP, []), (Gap.SHIFT, ["2011-12-31 08:00"]), (Gap.AFTER, ["2011-12-31 00:00"])):
        count = 2 + (gap is not Gap.SKIP)
        found = local(guest, "0 8 30 12 *", "Pacific/Apia", "2010-12-01 00:00", count, gap=gap)
        assert found == ["2010-12-30 08:00", *day, "2012-12-30 08:00"]


# ---- rules that a person can check ----


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("0 8 * * mon-fri", ["2026-12-01 08:00", "2026-12-02 08:00", "2026-12-03 08:00", "2026-12-04 08:00"]),
        ("0 8 * * SAT-SUN", ["2026-12-05 08:00", "2026-12-06 08:00", "2026-12-12 08:00", "2026-12-13 08:00"]),
        ("0 0 * * 6-7", ["2026-12-05 00:00", "2026-12-06 00:00", "2026-12-12 00:00", "2026-12-13 00:00"]),
        ("0 0 * * 7", ["2026-12-06 00:00", "2026-12-13 00:00", "2026-12-20 00:00", "2026-12-27 00:00"]),
        ("0 0 * * */2", ["2026-12-01 00:00", "2026-12-03 00:00", "2026-12-05 00:00", "2026-12-06 00:00"]),
        ("0 0 13 * fri", ["2026-12-04 00:00", "2026-12-11 00:00", "2026-12-13 00:00", "2026-12-18 00:00"]),
        ("0 0 */31 * fri", ["2027-01-01 00:00", "2027-10-01 00:00", "2028-09-01 00:00", "2028-12-01 00:00"]),
        (
            "5,57-59/2 23 * feb,4 *",
            ["2027-02-01 23:05", "2027-02-01 23:57", "2027-02-01 23:59", "2027-02-02 23:05"],
        ),
        ("59 23 31 12 *", ["2026-12-31 23:59", "2027-12-31 23:59", "2028-12-31 23:59", "2029-12-31 23:59"]),
        ("0 0 29 2 *", ["2028-02-29 00:00", "2032-02-29 00:00", "2036-02-29 00:00", "2040-02-29 00:00"]),
        ("@hourly", ["2026-11-30 20:00", "2026-11-30 21:00", "2026-11-30 22:00", "2026-11-30 23:00"]),
        ("@daily", ["2026-12-01 00:00", "2026-12-02 00:00", "2026-12-03 00:00", "2026-12-04 00:00"]),
        (" @midnight ", ["2026-12-01 00:00", "2026-12-02 00:00", "2026-12-03 00:00", "2026-12-04 00:00"]),
        ("@weekly", ["2026-12-06 00:00", "2026-12-13 00:00", "2026-12-20 00:00", "2026-12-27 00:00"]),
        ("@monthly", ["2026-12-01 00:00", "2027-01-01 00:00", "2027-02-01 00:00", "2027-03-01 00:00"]),
        ("@yearly", ["2027-01-01 00:00", "2028-01-01 00:00", "2029-01-01 00:00", "2030-01-01 00:00"]),
        ("@annually", ["2027-01-01 00:00", "2028-01-01 00:00", "2029-01-01 00:00", "2030-01-01 00:00"]),
        ("@every 1d", ["2026-12-01 00:00", "2026-12-02 00:00", "2026-12-03 00:00", "2026-12-04 00:00"]),
    ],
)
def test_rules_mean_what_cron_means(guest, rule, found):
    after = ms_of(datetime(2026, 11, 30, 19, 30, tzinfo=UTC))
    got = listed(guest, rule, "", after=after, most=4)
    assert iso(datetime.fromtimestamp(at / 1000, UTC) for at in got) == found


@given(st.integers(1, 366 * 86_400), st.integers(0, 2**42), st.integers(0, 2**42))
@settings(max_examples=100, deadline=None)
def test_a_distance_counts_from_its_anchor(guest, every_s, anchor, after):
    text = "@every " + "".join(
        f"{count}{unit}"
        for count, unit in (
            (every_s // 86_400, "d"),
            (every_s // 3600 % 24, "h"),
            (every_s // 60 % 60, "m"),
            (every_s % 60, "s"),
        )
        if count
    )
    first = after + 1 + (anchor - after - 1) % (every_s * 1000)
    found = listed(guest, text, after=after, most=3, anchor=anchor)
    assert found == [first, first + every_s * 1000, first + every_s * 2000]


def test_a_leap_day_on_a_weekday_is_found_decades_ahead(guest):
    """Feb 29 on a Sunday: `*/7` begins with `*`, so both fields must fit."""
    years = [year for year in range(2027, 2160) if year % 4 == 0 and year != 2100]
    wanted = [year for year in years if date(year, 2, 29).isoweekday() == 7]
    found = listed(
        guest, "0 0 29 2 */7", "Europe/Berlin", after=ms_of(datetime(2027, 1, 1, tzinfo=UTC)), most=3
    )
    info = find_zone("Europe/Berlin").info
    assert [datetime.fromtimestamp(at / 1000, info).year for at in found] == wanted[:3]


# ---- rules that are none ----


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("", "expected five fields, or @daily and its like - at byte 0"),
        ("   ", "expected five fields, or @daily and its like - at byte 0"),
        ("* * * *", "expected five fields, and there are fewer - at byte 7"),
        ("* * * * * *", "expected five fields, and there are more - at byte 10"),
        ("60 * * * *", "expected a minute from 0 to 59 - at byte 0"),
        ("* 24 * * *", "expected an hour from 0 to 23 - at byte 2"),
        ("* * 0 * *", "expected a day from 1 to 31 - at byte 4"),
        ("* * 32 * *", "expected a day from 1 to 31 - at byte 4"),
        ("* * * 13 *", "expected a month from 1 to 12, or jan to dec - at byte 6"),
        ("* * * foo *", "expected a month from 1 to 12, or jan to dec - at byte 6"),
        ("* * * * 8", "expected a weekday from 0 to 7, or sun to sat - at byte 8"),
        ("* mon * * *", "expected an hour from 0 to 23 - at byte 2"),
        ("  10-5 * * * *", "the range runs backwards - at byte 2"),
        ("* * * * fri-mon", "the range runs backwards - at byte 8"),
        ("5/10 * * * *", "a step needs a range or `*` before it - at byte 1"),
        ("*/0 * * * *", "expected a step of at least 1 - at byte 2"),
        ("*/x * * * *", "expected a step of at least 1 - at byte 2"),
        ("*/90 * * * *", "the step is longer than the field: write @every - at byte 2"),
        ("1, * * * *", "expected a minute from 0 to 59 - at byte 2"),
        ("1;2 * * * *", "expected a comma, a blank or the end - at byte 1"),
        ("-1 * * * *", "expected a minute from 0 to 59 - at byte 0"),
        ("99999999999 * * * *", "expected a minute from 0 to 59 - at byte 0"),
        ("0 0 30 2 *", "no month of the rule has such a day - at byte 4"),
        ("0 0 31 4,6,9,11 *", "no month of the rule has such a day - at byte 4"),
        ("@reboot", "expected @hourly, @daily, @weekly, @monthly, @yearly or @every - at byte 0"),
        ("@every", "expected a distance such as 1h30m, of d, h, m and s - at byte 6"),
        ("@every 5", "expected a distance such as 1h30m, of d, h, m and s - at byte 7"),
        ("@every 5m1h", "expected a distance such as 1h30m, of d, h, m and s - at byte 9"),
        ("@every 1h 5m", "expected a distance such as 1h30m, of d, h, m and s - at byte 9"),
        ("@every 0s", "expected a distance of 1 second to 366 days - at byte 7"),
        ("@every 367d", "expected a distance of 1 second to 366 days - at byte 7"),
    ],
)
def test_a_wrong_rule_says_what_is_wrong_and_where(guest, rule, reason):
    args = {"rule": rule, "zone": "", "gap": 0, "overlap": 0, "after": 0, "until": 0, "most": 1}
    assert guest.call("next", json.dumps(args)).message == f"the rule `{rule}` is wrong: {reason}"


@given(
    st.one_of(
        st.text(max_size=40),
        st.text("0123456789*/,- \t@mondecvryhsi", max_size=300),
        st.text("1*/-, ", max_size=20).map("{} * * * *".format),
    )
)
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_rule_or_refused_with_a_reason(guest, text):
    args = {"rule": text, "zone": "", "gap": 0, "overlap": 0, "after": 0, "until": 2**62, "most": 1}
    outcome = guest.call("next", json.dumps(args))
    if isinstance(outcome, berm.Failed):
        assert " is wrong: " in outcome.message
    else:
        assert outcome.text == "" or int(outcome.text) > 0
