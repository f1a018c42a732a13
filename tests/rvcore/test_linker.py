"""What the linker did not bind is absent; what it binds is fixed when an instance is made."""

import ctypes
import threading

import pytest

import rvcore
from rvcore import LinkError, TrapCode
from rvcore._recorder import Recorder

from .guests import SMALL, Guest

pytestmark = pytest.mark.core

ASK = "ask: mv a7, a0; ecall; ret"


@pytest.fixture
def g(guest):
    return guest(ASK)


def again(g):
    """Instantiate with what the linker holds now."""
    g.renew()
    return g


def test_an_unbound_number_traps_whatever_it_is(g):
    for number in (0, 1, 2**32, 2**63, 2**64 - 1):
        trap = g.trap("ask", number)
        assert (trap.code, trap.number) == (TrapCode.UNKNOWN_HOST_CALL, number)


@pytest.mark.parametrize("number", [0, 1, 16, 2**32, 2**32 + 1, 2**63, 2**64 - 1])
def test_any_64_bit_number_can_be_bound(g, number):
    g.linker.define_func(number, lambda *_: 42)
    assert again(g).call("ask", number) == 42
    for other in {0, 1, 16, 2**32, 2**32 + 1, 2**63, 2**64 - 1} - {number}:
        assert g.trap("ask", other).code is TrapCode.UNKNOWN_HOST_CALL


@pytest.mark.parametrize("number", [-1, 2**64])
def test_a_number_past_64_bits_is_a_link_error(g, number):
    with pytest.raises(LinkError, match="64-bit number"):
        g.linker.define_func(number, lambda *_: 0)


def test_many_calls_each_reach_their_own_function(g):
    """Numbers that fall into few slots of a small table, and a table that has to grow."""
    numbers = [i << shift for shift in (0, 4, 32, 60) for i in range(1, 12)]
    numbers = list(dict.fromkeys(number % 2**64 for number in numbers))
    for number in numbers:
        g.linker.define_func(number, lambda *_, number=number: number ^ 1)
    again(g)
    for number in numbers:
        assert g.call("ask", number) == number ^ 1
    assert g.trap("ask", 12).code is TrapCode.UNKNOWN_HOST_CALL


@pytest.mark.parametrize("second", ["define_func", "define_deferred"])
def test_a_number_is_bound_once(g, second):
    g.linker.define_func(7, lambda *_: 1, name="first")
    with pytest.raises(LinkError) as raised:
        g.linker.define_func(
            7, lambda *_: 2, name="x"
        ) if second == "define_func" else g.linker.define_deferred(7, name="x")
    assert (raised.value.name, raised.value.number) == ("x", 7)
    assert str(raised.value) == "a host call is defined twice - at `x`, number 0x7"
    assert again(g).call("ask", 7) == 1


def test_what_cannot_be_called_is_a_type_error(g):
    with pytest.raises(TypeError, match="expected a callable, got `int`"):
        g.linker.define_func(7, 5)


def test_an_instance_keeps_the_calls_that_it_was_made_with(g):
    g.linker.define_func(7, lambda *_: 1)
    assert g.trap("ask", 7).code is TrapCode.UNKNOWN_HOST_CALL
    assert again(g).call("ask", 7) == 1


def test_a_known_name_is_told_but_not_bound(g):
    g.linker.know([(7, "berm.seven")])
    trap = again(g).trap("ask", 7)
    assert trap.code is TrapCode.UNKNOWN_HOST_CALL
    assert "berm.seven" in str(trap)


def test_knowing_more_does_not_change_an_instance(g):
    g.linker.know([(7, "early")])
    again(g)
    g.linker.know([(7, "late"), (8, "late")])
    assert "early" in str(g.trap("ask", 7))
    assert "late" not in str(g.trap("ask", 7)) + str(g.trap("ask", 8))


def test_parts_of_different_engines_do_not_mix(g):
    other = rvcore.Engine(SMALL)
    with pytest.raises(ValueError, match="different engines"):
        rvcore.Linker(other).instantiate(rvcore.Store(other), g.module)
    with pytest.raises(ValueError, match="different engines"):
        rvcore.Linker(g.engine).instantiate(rvcore.Store(other), g.module)


def capsule(name, pointer=1):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(pointer, name, None)


# A capsule does not own its name.
WRONG, RIGHT = b"something.Else", b"rvcore.HostFn"
NATIVE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_uint64), ctypes.c_void_p)


@pytest.mark.parametrize("made", [lambda: None, lambda: 5, lambda: capsule(WRONG)])
def test_a_native_call_wants_a_capsule_of_its_name(g, made):
    with pytest.raises(ValueError, match="expected a capsule named"):
        g.linker.define_native(7, made())
    assert again(g).trap("ask", 7).code is TrapCode.UNKNOWN_HOST_CALL


def natively(g, function):
    pointer = NATIVE(function)
    g.kept = pointer
    g.linker.define_native(7, capsule(RIGHT, ctypes.cast(pointer, ctypes.c_void_p).value), name="native")
    return again(g)


def test_a_native_call_sees_the_registers_and_sets_a0(g):
    seen = []

    def function(x, _data):
        seen.append([x[i] for i in range(10, 18)])
        x[10] = 99
        return 0

    assert natively(g, function).call("ask", 7, 2, 3, 4, 5, 6, 7, 8) == 99
    assert seen == [[7, 2, 3, 4, 5, 6, 7, 7]]


def test_a_native_call_may_defer(g):
    natively(g, lambda _x, _data: 1)
    call = g.start("ask", 7)
    done = call.run()
    assert (done.reason, done.name) == (rvcore.ExitReason.HOST_CALL, "native")
    call.resume(5)
    assert call.run().values[0] == 5


@pytest.mark.parametrize("status", [2, 4, -1, 1000])
def test_a_native_call_that_fails_is_a_host_error(g, status):
    trap = natively(g, lambda _x, _data: status).trap("ask", 7)
    assert (trap.code, trap.host_calls) == (TrapCode.HOST_ERROR, ("native",))


def in_parts(parts, interrupting=None):
    """Return a native function that does its work in that many parts, and the a0 that each of them saw."""
    seen = []

    def function(x, _data):
        seen.append(x[10])
        if len(seen) % parts:
            if interrupting:
                interrupting.store.interrupt()
            return 3
        x[10] = 99
        return 0

    return function, seen


def test_a_native_call_may_go_on_in_parts(g):
    function, seen = in_parts(5)
    call = natively(g, function).start("ask", 7)
    assert call.run(3).values == (99, 0)
    assert (seen, call.instructions) == ([7] * 5, 3)


def test_a_native_call_in_parts_is_charged_once_and_when_it_is_over(g):
    function, seen = in_parts(5)
    call = natively(g, function).start("ask", 7)
    assert call.run(1).reason is rvcore.ExitReason.OUT_OF_FUEL
    assert (seen, call.instructions) == ([], 1)
    assert call.run(1).reason is rvcore.ExitReason.OUT_OF_FUEL
    assert (seen, call.instructions) == ([7] * 5, 2)
    assert call.run(1).values == (99, 0)


@pytest.mark.parametrize("watched", [False, True])
def test_a_native_call_can_be_interrupted_after_each_part_and_goes_on(g, watched):
    function, seen = in_parts(4, g)
    natively(g, function)
    recorder = Recorder(g.store.machine.program) if watched else None
    g.store.machine.hook = recorder
    call = g.start("ask", 7)
    for part in (1, 2, 3):
        done = call.run()
        assert (done.reason, call.instructions) == (rvcore.ExitReason.INTERRUPTED, 1)
        assert (len(seen), g.store.machine.host_calls()) == (part, ("native",))
    assert call.run().values == (99, 0)
    assert (seen, call.instructions) == ([7] * 4, 3)
    assert g.store.machine.host_calls() == ("native",)
    if recorder is not None:
        assert recorder.instructions == 3
        assert [name for _pc, name in recorder.events() if name == "native"] == ["native"]


def test_a_native_call_that_was_given_up_is_forgotten(g):
    natively(g, in_parts(2, g)[0])
    assert g.start("ask", 7).run().reason is rvcore.ExitReason.INTERRUPTED
    call = g.start("ask", 7)  # this is the second part's turn
    assert call.run().values == (99, 0)
    assert g.store.machine.host_calls() == ("native",)


def test_a_native_call_may_fail_in_a_later_part(g):
    answers = [3, 3, 2]
    trap = natively(g, lambda _x, _data: answers.pop(0)).trap("ask", 7)
    assert (trap.code, trap.host_calls) == (TrapCode.HOST_ERROR, ("native",))
    assert answers == []


def test_a_native_call_that_never_ends_can_be_stopped(g):
    natively(g, lambda _x, _data: 3)
    call = g.start("ask", 7)
    threading.Timer(0.02, g.store.interrupt).start()
    assert call.run().reason is rvcore.ExitReason.INTERRUPTED
    assert call.instructions == 1


def test_the_linker_outlives_nothing_that_runs():
    """An instance needs neither its linker nor its module any more."""
    g = Guest(ASK, hosts={7: lambda *_: 3})
    g.linker = g.module = None
    import gc

    gc.collect()
    assert g.call("ask", 7) == 3
    g.close()


def test_hundreds_of_calls_are_bound_in_a_moment(guest, core_clock):
    g = guest(ASK)
    with core_clock(5):
        for number in range(400):
            g.linker.define_func(number, lambda *_, number=number: number)
    assert again(g).call("ask", 399) == 399


def test_threads_may_bind_calls_at_once(g):
    def bind(first):
        start.wait()
        for number in range(first, 120, 4):
            g.linker.define_func(number, lambda *_, number=number: number)

    start = threading.Barrier(4)
    threads = [threading.Thread(target=bind, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again(g)
    assert [g.call("ask", number) for number in range(120)] == list(range(120))
