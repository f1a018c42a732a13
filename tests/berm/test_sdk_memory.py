"""The guest's allocator and its mem* functions, on this machine under sanitizers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdk_probe import Probe


@pytest.fixture(scope="module")
def probe():
    running = Probe()
    yield running
    running.close()


@given(st.binary(min_size=1, max_size=1), st.lists(st.binary(min_size=4, max_size=4), max_size=200))
@settings(max_examples=75, deadline=None)
def test_blocks_stay_apart_and_the_heap_comes_back_whole(probe, start, steps):
    assert probe.ask("a", start + b"".join(steps)).startswith(b"ok ")


def test_freed_memory_is_used_again(probe):
    # Allocate and free the same slot ten thousand times: the heap must not creep.
    answer = probe.ask("a", b"\0" + bytes([0, 1, 200, 0]) * 10_000)
    assert int(answer.split()[1]) < 70_000


@given(st.binary(min_size=4, max_size=300))
@settings(max_examples=150, deadline=None)
def test_memory_functions_agree_with_this_machine_s(probe, data):
    assert probe.ask("m", data) == b"ok"
