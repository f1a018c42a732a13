"""What the tests of rvcore share: guests from assembly that are closed and checked, and careful arenas."""

import contextlib
import time

import pytest

from rvcore._memory import check_arenas

from .guests import Guest


@pytest.fixture
def careful_arenas():
    """Compare every arena that comes back with a pristine one; a difference is an unraisable error."""
    before = check_arenas(True)
    yield
    check_arenas(before)


@pytest.fixture
def trusted_arenas():
    """Compare nothing, also on a debug build: gigabytes take seconds."""
    before = check_arenas(False)
    yield
    check_arenas(before)


@pytest.fixture
def guest(careful_arenas):  # noqa: ARG001 - a fixture cannot say usefixtures
    """Make guests, which are closed when the test ends."""
    with contextlib.ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(Guest(*args, **options))


@pytest.fixture
def core_clock():
    """Bound the seconds of a block, loosely: debug and sanitizer builds share the bound."""

    @contextlib.contextmanager
    def clock(seconds):
        start = time.perf_counter()
        yield
        took = time.perf_counter() - start
        assert took < seconds, f"took {took:.2f} s, expected less than {seconds}"

    return clock
