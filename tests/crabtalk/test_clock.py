"""`berm.clock.*`: instants, offsets, and the exact moment at which an offset changes."""

import random
import time
from datetime import UTC, datetime

import pytest

from berm import Refused
from crabtalk.capabilities import clock as module
from crabtalk.capabilities._failure import Failure
from crabtalk.capabilities.clock import clock, find_zone


def ms(*date):
    return int(datetime(*date, tzinfo=UTC).timestamp()) * 1000


@pytest.fixture
def offset(bind, wire):
    def offset(zone, at_ms):
        reply = bind(clock(zone))("berm.clock.offset", zone, at_ms)
        offset_s, change = wire.unpack(reply)
        return int(offset_s), int(change) if change else None

    return offset


def test_now_is_now_in_the_first_zone(bind, wire):
    before = time.time_ns() // 1_000_000
    unix_ms, offset_s, zone = wire.unpack(bind(clock(["Asia/Kathmandu", "UTC"]))("berm.clock.now"))
    assert before <= int(unix_ms) <= time.time_ns() // 1_000_000
    assert (offset_s, zone) == (b"20700", b"Asia/Kathmandu")


@pytest.mark.parametrize(
    ("zone", "at", "expected"),
    [
        ("Europe/Berlin", ms(2024, 1, 1), (3600, ms(2024, 3, 31, 1))),
        ("Europe/Berlin", ms(2024, 3, 31, 1) - 1, (3600, ms(2024, 3, 31, 1))),
        ("Europe/Berlin", ms(2024, 3, 31, 1), (7200, ms(2024, 10, 27, 1))),
        ("Europe/Berlin", ms(2024, 10, 27, 1), (3600, ms(2025, 3, 30, 1))),
        ("Europe/Berlin", ms(2100, 6, 1), (7200, ms(2100, 10, 31, 1))),  # by rule, no table goes there
        ("America/St_Johns", ms(2024, 2, 1), (-12600, ms(2024, 3, 10, 5, 30))),
        ("Australia/Lord_Howe", ms(2024, 1, 1), (39600, ms(2024, 4, 6, 15))),  # half an hour of summer time
        ("Antarctica/Troll", ms(2024, 1, 1), (0, ms(2024, 3, 31, 1))),
        ("Europe/Dublin", ms(2024, 1, 1), (0, ms(2024, 3, 31, 1))),  # whose winter time is the exception
        ("Africa/Casablanca", ms(2024, 1, 1), (3600, ms(2024, 3, 10, 2))),  # Ramadan
        ("Pacific/Apia", ms(2011, 12, 1), (-36000, ms(2011, 12, 30, 10))),  # lost a day
        ("UTC", ms(2024, 1, 1), (0, None)),
        ("Asia/Kathmandu", ms(2024, 1, 1), (20700, None)),
        ("Asia/Kathmandu", ms(1980, 1, 1), (19800, ms(1985, 12, 31, 18, 30))),
    ],
)
def test_known_offsets_and_changes(offset, zone, at, expected):
    assert offset(zone, at) == expected


@pytest.mark.parametrize(
    "name",
    [
        "Europe/Berlin",
        "Africa/Casablanca",
        "Asia/Gaza",
        "America/Boa_Vista",
        "Antarctica/Casey",
        "Asia/Tehran",
    ],
)
def test_changes_agree_with_a_search_step_by_step(name):
    """The oracle is the offset asked every six hours, then by halves; it never sees the list of changes."""
    zone = find_zone(name)

    def offset_at(at):
        return int(datetime.fromtimestamp(at, zone.info).utcoffset().total_seconds())

    def search(at, until):
        offset = offset_at(at)
        for step in range(at, until, 21_600):
            if offset_at(step) != offset:
                low, high = step - 21_600, step
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (middle, high) if offset_at(middle) == offset else (low, middle)
                return high
        return None

    rng = random.Random(name)
    for _ in range(25):
        at = rng.randrange(0, 4_100_000_000)
        expected = search(at, at + 200 * 86_400)
        if expected is not None:
            assert zone.next_change_s(at) == expected, at


def test_every_zone_of_the_data_answers():
    for name in module._names():
        zone = find_zone(name)
        change = zone.next_change_s(1_700_000_000)
        if change is not None:
            assert zone.offset_s(change - 1) != zone.offset_s(change)


@pytest.mark.parametrize("at", [10**19, -(10**19), ms(1, 6, 1), ms(9999, 6, 1), 2**63 - 1, -(2**63)])
def test_an_instant_beyond_the_calendar_is_an_error(offset, at):
    with pytest.raises(Failure, match="outside of the years"):
        offset("Europe/Berlin", at)


@pytest.mark.parametrize("at", [module._FIRST_S * 1000, module._LAST_S * 1000 - 1])
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12", "Europe/Berlin", "UTC"])
def test_the_edges_of_the_calendar_are_answered(offset, at, zone):
    assert isinstance(offset(zone, at)[0], int)


@pytest.mark.parametrize("zone", ["Europe/Paris", "local", "", "../../etc/passwd", "europe/berlin", "UTC\0"])
def test_only_bound_zones_are_answered(bind, zone):
    with pytest.raises(Refused, match="zone is not bound"):
        bind(clock(["Europe/Berlin", "UTC"]))("berm.clock.offset", zone, 0)


@pytest.mark.parametrize(
    "zone",
    [
        "Europe/Berlinn",
        "",
        "../zones",
        "/etc/localtime",
        "Europe",
        "europe/berlin",
        "Europe\\Berlin",
        "tzdata",
    ],
)
def test_a_name_that_is_no_zone_is_an_error_when_bound(zone):
    with pytest.raises(ValueError, match="no such time zone"):
        clock(zone)


def test_no_zone_at_all_is_an_error():
    with pytest.raises(ValueError, match="at least one"):
        clock([])


def test_the_local_zone_has_its_own_name(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    assert module._local_zone().name == "America/New_York"
    monkeypatch.setenv("TZ", ":Asia/Tokyo")
    assert module._local_zone().name == "Asia/Tokyo"


def test_a_local_zone_without_a_name_is_read_from_its_file(monkeypatch):
    data = (module.importlib.resources.files("tzdata") / "zoneinfo" / "Europe" / "Rome").read_bytes()
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(module, "_name_of_link", lambda _path: "")
    monkeypatch.setattr(module.Path, "read_bytes", lambda _path: data)
    zone = module._local_zone()
    assert (zone.name, zone.offset_s(1_720_000_000)) == ("local", 7200)
    assert zone.next_change_s(1_720_000_000) * 1000 == ms(2024, 10, 27, 1)


def test_the_name_is_taken_from_where_localtime_points(tmp_path):
    zones = tmp_path / "usr" / "share" / "zoneinfo" / "Europe"
    zones.mkdir(parents=True)
    (zones / "Oslo").touch()
    (tmp_path / "localtime").symlink_to(zones / "Oslo")
    assert module._name_of_link(tmp_path / "localtime") == "Europe/Oslo"
    assert module._name_of_link(tmp_path) == ""


def test_old_files_of_32_bits_are_read():
    """A version 1 file lists its changes once, in four bytes each."""
    header = module._TZIF_HEADER.pack(b"TZif", b"\0", 0, 0, 0, 1, 2, 8)
    body = (1_000_000).to_bytes(4, "big") + b"\1" + b"\0\0\0\0\0\0" + b"\0\0\x0e\x10\0\4" + b"AAA\0BBB\0"
    zone = module.Zone.from_tzif("old", header + body)
    assert zone.changes == (1_000_000,)
    assert zone.next_change_s(0) == 1_000_000
    assert (zone.offset_s(999_999), zone.offset_s(1_000_000)) == (0, 3600)


def test_both_calls_run_inline():
    assert [(one.name, one.blocking, one.is_async) for one in clock("UTC")] == [
        ("berm.clock.now", False, False),
        ("berm.clock.offset", False, False),
    ]
