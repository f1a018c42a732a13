"""Instants and durations as people write them."""

import argparse
import time
from datetime import UTC, datetime

import pytest

from berm.cli.exits import USAGE, CommandError
from crabtalk.cli.instants import duration_ms, instant_ms, show_duration, show_instant, show_span

BERLIN = "Europe/Berlin"


def ms(text):
    return round(datetime.fromisoformat(text).timestamp() * 1000)


NOW = ms("2026-11-30T20:00:00+00:00")  # 21:00 in Berlin


@pytest.fixture
def in_new_york(monkeypatch):
    """Move this machine."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90_000),
        ("250ms", 250),
        ("5m", 300_000),
        ("5min", 300_000),
        ("0.5h", 1_800_000),
        ("1d12h", 129_600_000),
        ("1d 12h", 129_600_000),
        ("2w", 1_209_600_000),
    ],
)
def test_a_duration_is_read(text, expected):
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "5", "5x", "-5m", "5m later", "1e3s", "٣s"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="expected a duration like 90s, 5m or 1d12h, got"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@1893456000000", "2030-01-01T00:00:00+00:00"),
        ("2030-01-31T08:00", "2030-01-31T08:00:00+01:00"),
        ("2030-01-31 08:00:30", "2030-01-31T08:00:30+01:00"),
        ("2030-07-31T08:00", "2030-07-31T08:00:00+02:00"),
        ("2030-01-31T08:00Z", "2030-01-31T08:00:00+00:00"),
        ("2030-01-31T08:00-05:00", "2030-01-31T08:00:00-05:00"),
        ("tomorrow 08:00", "2026-12-01T08:00:00+01:00"),
        ("today 23:30", "2026-11-30T23:30:00+01:00"),
        ("23:30", "2026-11-30T23:30:00+01:00"),
        ("08:00", "2026-12-01T08:00:00+01:00"),
        ("21:00", "2026-12-01T21:00:00+01:00"),
    ],
)
def test_an_instant_is_read_in_the_zone_that_is_given(text, expected):
    assert instant_ms(text, NOW, BERLIN) == ms(expected)


@pytest.mark.usefixtures("in_new_york")
def test_without_a_zone_it_is_this_machine_s():
    assert instant_ms("tomorrow 08:00", NOW) == ms("2026-12-01T08:00:00-05:00")
    assert show_instant(NOW) == "2026-11-30 15:00:00-05:00"


def test_tomorrow_is_that_of_the_zone():
    """At 23:30 UTC it is tomorrow already in Berlin."""
    assert instant_ms("tomorrow 08:00", ms("2026-11-30T23:30:00Z"), BERLIN) == ms("2026-12-02T08:00:00+01:00")


@pytest.mark.parametrize("zone", [BERLIN, None])
def test_a_time_that_clocks_skip_is_refused(zone, monkeypatch):
    if zone is None:
        monkeypatch.setenv("TZ", BERLIN)
        time.tzset()
    try:
        with pytest.raises(CommandError) as caught:
            instant_ms("2027-03-28T02:30", NOW, zone)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert str(caught.value) == "there is no 02:30:00 on 2027-03-28: clocks are put forward then"
    assert caught.value.status == USAGE


def test_of_a_time_that_comes_twice_the_first_is_taken():
    assert instant_ms("2027-10-31T02:30", NOW, BERLIN) == ms("2027-10-31T02:30:00+02:00")


@pytest.mark.parametrize(
    "text",
    ["", "soon", "2030-13-01", "25:00", "tomorrow", "tomorrow at 8", "yesterday 08:00", "@", "@-5", "@1e3"],
)
def test_what_is_no_instant_is_refused(text):
    with pytest.raises(CommandError, match="expected an instant like ") as caught:
        instant_ms(text, NOW, BERLIN)
    assert caught.value.status == USAGE


@pytest.mark.parametrize("text", ["0001-01-01T00:00", "9999-12-31T23:59", "1969-12-31T00:00Z"])
def test_instants_outside_of_what_can_be_scheduled_are_refused(text):
    with pytest.raises(CommandError, match="outside"):
        instant_ms(text, NOW, BERLIN)


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "../etc/passwd", "", "/etc/localtime"])
def test_a_zone_that_is_not_there_is_named(zone):
    with pytest.raises(CommandError, match="there is no time zone"):
        instant_ms("08:00", NOW, zone)


def test_an_instant_is_shown_with_its_offset():
    shown = show_instant(NOW)
    assert datetime.fromisoformat(shown).astimezone(UTC) == datetime(2026, 11, 30, 20, tzinfo=UTC)


def test_no_instant_is_shown_as_nothing_and_an_absurd_one_as_it_is():
    assert (show_instant(0), show_instant(2**62)) == ("", f"@{2**62}")


@pytest.mark.parametrize(
    ("microseconds", "expected"),
    [(0, "0 µs"), (999, "999 µs"), (1500, "1.5 ms"), (2_500_000, "2.5 s"), (3_723_000_000, "1h 2m")],
)
def test_a_duration_is_shown_in_the_unit_that_suits(microseconds, expected):
    assert show_duration(microseconds) == expected


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [(0, "0s"), (-5, "0s"), (59_999, "59s"), (60_000, "1m"), (90_061_000, "1d 1h"), (3_600_000, "1h")],
)
def test_a_span_is_shown_with_two_units(milliseconds, expected):
    assert show_span(milliseconds) == expected
