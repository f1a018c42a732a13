"""Every host call with arguments that nobody would write: a plain answer, or a fault at that very address."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import berm
from berm import TrapCode
from berm.fnv import ALWAYS_PRESENT, call_number

pytestmark = pytest.mark.core

MEMORY = 4 << 20
STACK = 256 << 10
GUARD = MEMORY // 16
PAGE = 4096
REPLY = b"0123456789"
ARGS_SIZE = 24  # the three words


@pytest.fixture(scope="module")
def harness(attacks_image):
    with berm.Engine(berm.Config(memory_size=MEMORY, stack_size=STACK)) as engine:
        yield berm.Harness.load(
            engine,
            attacks_image,
            [berm.Capability("test.ask", lambda _call, _request: REPLY)],
            log=lambda *_: None,
        )


@pytest.fixture(scope="module")
def layout(harness):
    """Return [start, stop) of the heap and of the stack: all that is surely readable and writable."""
    with harness.start("host_call", b"") as invocation:
        program = invocation.machine.program
        return [
            (program.heap_start, program.heap_start + program.heap_size),
            (MEMORY - STACK, MEMORY - PAGE),  # the last page holds the tool's own frame
        ]


EDGES = st.sampled_from(
    [0, PAGE, 0x10000, MEMORY - STACK - GUARD, MEMORY - STACK, MEMORY, 1 << 32, 1 << 63, (1 << 64) - 1]
)
ADDRESSES = (
    st.integers(0, MEMORY)
    | st.integers(0, (1 << 64) - 1)
    | st.builds(lambda edge, step: (edge + step) % (1 << 64), EDGES, st.integers(-20, 20))
)
SIZES = st.integers(0, 64) | st.integers(0, 2 * MEMORY) | st.integers(0, (1 << 64) - 1)

READING = {"berm.log": None, "berm.fail": None, "test.ask": None}  # these read a0, a1
WRITING = {"berm.args.read": ARGS_SIZE, "berm.result.read": 0}  # these write at most so many bytes to a0


def attempt(harness, name, first, second):
    blob = struct.pack("<3Q", call_number(name), first, second)
    try:
        return harness.call("host_call", blob)
    except berm.Trap as trap:
        return trap


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(sorted(READING | WRITING)), first=ADDRESSES, second=SIZES)
def test_pointers_are_checked_as_the_guest_would_be(harness, layout, name, first, second):
    size = second if name in READING else min(second, WRITING[name])
    outcome = attempt(harness, name, first, second)
    if size == 0 or any(start <= first and first + size <= stop for start, stop in layout):
        assert isinstance(outcome, berm.Done | berm.Failed)
    elif first + size > MEMORY or first < PAGE or MEMORY - STACK - GUARD <= first < MEMORY - STACK:
        assert outcome.code in {TrapCode.LOAD_FAULT, TrapCode.STORE_FAULT, TrapCode.STACK_OVERFLOW}
    # What may be written and holds the tool's own frame sends its return anywhere.
    overwritten = name in WRITING and MEMORY - STACK <= first < first + size <= MEMORY < first + size + PAGE
    if isinstance(outcome, berm.Trap) and not overwritten:
        assert (outcome.address, outcome.size) == (first, size)
        assert outcome.access == ("load" if name in READING else "store")
        assert outcome.symbol == "berm_tool_host_call"
        assert outcome.disassembly == "ecall"


@settings(max_examples=50, deadline=None)
@given(first=ADDRESSES, second=SIZES)
def test_calls_without_pointers_ignore_their_arguments(harness, layout, first, second):
    (start, stop), _stack = layout
    for name, answer in (
        ("berm.args.len", ARGS_SIZE),
        ("berm.heap.start", start),
        ("berm.heap.size", stop - start),
    ):
        assert attempt(harness, name, first, second).text == str(answer)


@settings(max_examples=100, deadline=None)
@given(number=st.integers(0, (1 << 64) - 1), first=ADDRESSES, second=SIZES)
def test_any_other_number_is_an_unknown_call(harness, number, first, second):
    blob = struct.pack("<3Q", number, first, second)
    with pytest.raises(berm.Trap) as caught:
        harness.call("host_call", blob)
    assert (caught.value.code, caught.value.number) == (TrapCode.UNKNOWN_HOST_CALL, number)


def test_full_lengths_are_answered_whatever_the_capacity(harness, layout):
    address = layout[0][0]
    for capacity in (0, 1, 23, 24, 25, (1 << 64) - 1):
        assert attempt(harness, "berm.args.read", address, capacity).text == str(ARGS_SIZE)
        assert attempt(harness, "berm.result.read", address, capacity).text == "0"


def test_the_seven_calls_are_all_there(harness, layout):
    assert len(ALWAYS_PRESENT) == 7
    for name in ALWAYS_PRESENT:
        assert isinstance(attempt(harness, name, layout[0][0], 1), berm.Done | berm.Failed)
