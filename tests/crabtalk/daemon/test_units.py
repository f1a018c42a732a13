"""Values with units, as configuration and declarations write them."""

import pytest

from crabtalk.units import duration_s, nearest, rate_per_s, shown, size_bytes


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (65536, 65536),
        ("65536", 65536),
        ("16MiB", 16 << 20),
        ("1.5 GB", 1_500_000_000),
        ("2 kib", 2048),
    ],
)
def test_sizes(value, expected):
    assert size_bytes(value) == expected


@pytest.mark.parametrize(
    "value", ["", "MiB", "16 XiB", "-1", -1, True, None, [], "1.5", 1.5, "1e3", float("nan"), "٣"]
)
def test_what_is_no_size(value):
    with pytest.raises(ValueError, match="expected a size such as"):
        size_bytes(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(90, 90.0), (0.5, 0.5), ("250ms", 0.25), ("5min", 300.0), ("2h", 7200.0), ("30d", 2592000.0)],
)
def test_durations(value, expected):
    assert duration_s(value) == expected


@pytest.mark.parametrize("value", ["soon", "5 weeks", True, -1, float("inf"), None])
def test_what_is_no_duration(value):
    with pytest.raises(ValueError, match="expected seconds, or a duration"):
        duration_s(value)


@pytest.mark.parametrize(
    ("value", "expected"), [("60/min", (60, 60.0)), ("5/s", (5, 1.0)), ("1000 / h", (1000, 3600.0))]
)
def test_rates(value, expected):
    assert rate_per_s(value) == expected


@pytest.mark.parametrize("value", ["60", "0/min", "/min", "60/", "1.5/s", "60/year", 60, None])
def test_what_is_no_rate(value):
    with pytest.raises(ValueError, match="expected a rate such as"):
        rate_per_s(value)


def test_the_nearest_name():
    assert nearest("fiels", ["files", "hosts"]) == "; did you mean `files`?"
    assert nearest("xyz", ["files", "hosts"]) == ""


def test_what_is_shown_is_one_short_line():
    assert shown("a\nb\x1b[31m") == "`a\\nb\\x1b[31m`"
    assert len(shown("x" * 1000)) == 78
