"""The SDK's numbers and formats against Python's."""

import datetime as dt
import math
import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sdk_probe import Probe

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the guest's calendar knows no zones


@pytest.fixture(scope="module")
def probe():
    running = Probe()
    yield running
    running.close()


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite)
@example(5e-324)
@example(2.0**-44)
@example(9007199254740993.0)
@example(1.7976931348623157e308)
@example(-0.0)
@settings(max_examples=150, deadline=None)
def test_doubles_are_shown_short_and_read_back_exactly(probe, value):
    text = probe.ask("d", struct.pack("<d", value)).decode()
    assert struct.pack("<d", float(text)) == struct.pack("<d", value)
    shown = text.replace("-", "").replace(".", "").partition("e")[0].strip("0")
    best = repr(value).replace("-", "").replace(".", "").partition("e")[0].strip("0")
    assert len(shown) <= len(best)


@given(st.from_regex(r"[+-]?[0-9]{1,25}(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True))
@settings(max_examples=100, deadline=None)
def test_decimal_text_is_rounded_as_python_rounds_it(probe, text):
    answer = probe.ask("p", text.encode())
    digits = text.lstrip("+-")
    leading = digits[:1] == "0" and digits[1:2].isdigit()
    wanted = float(text)
    if leading or math.isinf(wanted):
        assert answer == b""
    else:
        assert answer == struct.pack("<d", wanted)


@given(st.one_of(st.integers(-(2**70), 2**70).map(str), st.text("0123456789+-. ", max_size=22)))
@settings(max_examples=100, deadline=None)
def test_integers_are_read_when_they_fit(probe, text):
    import re

    answer = probe.ask("i", text.encode())
    fits = re.fullmatch(r"[+-]?[0-9]+", text) and -(2**63) <= int(text) < 2**63
    assert answer == (struct.pack("<q", int(text)) if fits else b"")


flags = st.lists(st.sampled_from("-+ #0"), unique=True).map("".join)
widths = st.one_of(st.just(""), st.integers(1, 40).map(str))


@given(
    flags,
    widths,
    st.one_of(st.just(""), st.integers(0, 30).map(".{}".format)),
    st.sampled_from("feEgGF"),
    finite,
)
@settings(max_examples=150, deadline=None)
def test_floating_point_formats_agree_with_python(probe, flag, width, precision, conversion, value):
    spec = f"%{flag}{width}{precision}{conversion}"
    answer = probe.ask("f", struct.pack("<d", value) + spec.encode()).decode()
    assert answer == spec % value


@pytest.mark.parametrize("spec", ["%f", "%10F", "%-10e|", "%+G", "%08f"])
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_no_number_is_named(probe, spec, value):
    answer = probe.ask("f", struct.pack("<d", value) + spec.encode()).decode()
    wanted = (spec.replace("0", "", 1) if spec == "%08f" else spec) % value
    if math.isnan(value):
        assert answer.replace("-", "").split() == wanted.replace("-", "").split()
    else:
        assert answer == wanted


@given(
    flags,
    widths,
    st.one_of(st.just(""), st.integers(0, 30).map(".{}".format)),
    st.integers(-(2**63), 2**63 - 1),
)
@settings(max_examples=100, deadline=None)
def test_signed_formats_agree_with_python(probe, flag, width, precision, value):
    flag = flag.replace("#", "")
    if precision:
        flag = flag.replace("0", "")  # C ignores it beside a precision, Python does not
    answer = probe.ask("n", struct.pack("<q", value) + f"%{flag}{width}{precision}lld".encode()).decode()
    wanted = f"%{flag}{width}{precision}d" % value
    if precision == ".0" and value == 0:
        wanted = wanted.replace("0", " " if width else "")
        assert answer.strip() == wanted.strip()
    else:
        assert answer == wanted


@given(st.sampled_from("xXo"), widths, st.integers(0, 2**64 - 1))
@settings(max_examples=60, deadline=None)
def test_unsigned_formats_agree_with_python(probe, conversion, width, value):
    answer = probe.ask("n", struct.pack("<Q", value) + f"%{width}ll{conversion}".encode()).decode()
    assert answer == f"%{width}{conversion}" % value


@given(
    st.datetimes(EPOCH.replace(1, 1, 2), EPOCH.replace(9999, 12, 30)),
    st.integers(-14 * 3600, 14 * 3600),
)
@settings(max_examples=75, deadline=None)
def test_dates_agree_with_python(probe, moment, offset):
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    ms = (moment - EPOCH) // dt.timedelta(milliseconds=1)
    answer = probe.ask("t", struct.pack("<qq", ms - offset * 1000, offset)).decode()
    weekday = (moment.weekday() + 1) % 7
    day = f"{moment.year} {moment.month} {moment.day}"
    time = f"{moment.hour} {moment.minute} {moment.second} {moment.microsecond // 1000}"
    assert answer == f"{day} {time} {weekday} {ms - offset * 1000}"
