"""A run is a value: why it stopped is a result, and all but an end can be resumed exactly."""

import gc
import threading
import weakref

import pytest

import rvcore
from rvcore import ExitReason, TrapCode

from .guests import BASE

pytestmark = pytest.mark.core

# sum: a0 + (a0 - 1) + … + 1, three instructions a round.
SUM = """
sum:    mv a1, a0
        li a0, 0
_more:  add a0, a0, a1
        addi a1, a1, -1
        bnez a1, _more
        ret
"""
HOST = """
ask:    addi sp, sp, -16
        sd ra, 8(sp)
        li a7, 5
        ecall
        addi a0, a0, 1
        ld ra, 8(sp)
        addi sp, sp, 16
        ret
"""


def test_a_returned_run_has_both_results_and_its_exact_count(guest):
    call = guest("two: addi a0, a0, 1; addi a1, a1, 2; ret").start("two", 10, 20)
    done = call.run()
    assert done.reason is ExitReason.RETURNED
    assert done.values == (11, 22)
    assert call.instructions == 3


def test_eight_arguments_arrive_in_a0_to_a7(guest):
    text = "all: " + "; ".join(f"slli a0, a0, 4; or a0, a0, a{i}" for i in range(1, 8)) + "; ret"
    assert guest(text).call("all", 1, 2, 3, 4, 5, 6, 7, 8) == 0x12345678


def test_everything_but_arguments_and_abi_registers_starts_at_zero(guest):
    others = [3, 4, 5, 6, 7, 8, 9, *range(11, 32)]
    text = "ors: " + "; ".join(f"or a0, a0, x{i}" for i in others) + "; ret"
    g = guest("dirty: " + "; ".join(f"li x{i}, -1" for i in others) + "; ret;" + text)
    g.call("dirty")
    assert g.call("ors", 0) == 0


def test_entry_registers_are_those_of_the_abi(guest):
    g = guest("sp: mv a0, sp; ret; ra: mv a0, ra; ret")
    assert g.call("sp") == g.program.memory_size
    assert g.call("sp") % 16 == 0
    returned_to = g.call("ra")
    assert returned_to >= g.program.memory_size


def test_nine_arguments_are_a_type_error(guest):
    with pytest.raises(TypeError, match="expected at most 8 arguments, got 9"):
        guest(SUM).start("sum", *range(9))


@pytest.mark.parametrize(("value", "arrives"), [(-1, 2**64 - 1), (2**64 - 1, 2**64 - 1), (-(2**63), 2**63)])
def test_an_argument_is_its_64_bits(guest, value, arrives):
    assert guest("id: ret").call("id", value) == arrives


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1])
def test_an_argument_past_64_bits_is_a_value_error(guest, value):
    with pytest.raises(ValueError, match="expected a 64-bit integer"):
        guest("id: ret").start("id", value)


@pytest.mark.parametrize("value", [1.0, "1", None])
def test_an_argument_that_is_no_integer_is_a_type_error(guest, value):
    with pytest.raises(TypeError, match="expected an integer"):
        guest("id: ret").start("id", value)


def test_results_are_as_many_as_asked_for(guest):
    g = guest("two: li a1, 9; ret")
    func = g.instance.exports(g.store)["two"]
    assert func(g.store, 4) == 4
    assert func.with_results(2)(g.store, 4) == (4, 9)
    assert func.with_results(0)(g.store, 4) is None
    with pytest.raises(ValueError, match="expected 0, 1 or 2"):
        func.with_results(3)


@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_a_run_cut_into_pieces_ends_as_one_that_is_not(guest, step):
    g = guest(SUM)
    whole = g.start("sum", 50)
    whole.run()
    count = whole.instructions
    call = g.start("sum", 50)
    pieces = 0
    while (done := call.run(step)).reason is ExitReason.OUT_OF_FUEL:
        pieces += 1
        assert call.instructions == pieces * step
    assert done.values[0] == 1275
    assert call.instructions == count
    assert pieces == (count - 1) // step


def test_a_return_that_takes_the_last_fuel_is_a_return(guest):
    g = guest(SUM)
    exact = 2 + 3 * 10 + 1
    assert g.start("sum", 10).run(exact).reason is ExitReason.RETURNED
    assert g.start("sum", 10).run(exact - 1).reason is ExitReason.OUT_OF_FUEL


def test_no_fuel_runs_nothing(guest):
    call = guest(SUM).start("sum", 10)
    assert call.run(0).reason is ExitReason.OUT_OF_FUEL
    assert call.instructions == 0
    assert call.run().values[0] == 55


def test_negative_fuel_is_a_value_error_and_runs_nothing(guest):
    call = guest(SUM).start("sum", 10)
    with pytest.raises(ValueError, match="got -1 - at `fuel`"):
        call.run(-1)
    assert call.run().values[0] == 55


def test_a_python_host_function_gets_six_registers_and_gives_a0(guest):
    seen = []

    def host(caller, *args):
        seen.append((args, caller.args))
        return sum(args)

    g = guest(HOST, hosts={5: host})
    assert g.call("ask", 1, 2, 3, 4, 5, 6, 7) == 22
    assert seen == [((1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 5, 6))]


def test_only_a0_changes_over_a_host_call(guest):
    others = [5, 6, 7, 8, 9, *range(11, 17), *range(18, 32)]
    setting = "; ".join(f"li x{i}, {i}" for i in others)
    summing = "; ".join(f"add a0, a0, x{i}" for i in others)
    g = guest(f"f: {setting}; li a7, 5; ecall; {summing}; ret", hosts={5: lambda *_: 0})
    assert g.call("f") == sum(others)


@pytest.mark.parametrize(("result", "arrives"), [(None, 1), (-1, 0), (2**64 - 1, 0), (True, 2)])
def test_a_host_result_becomes_64_bits(guest, result, arrives):
    assert guest(HOST, hosts={5: lambda *_: result}).call("ask") == arrives


@pytest.mark.parametrize(("result", "error"), [("x", TypeError), (2**64, ValueError)])
def test_a_host_result_that_is_no_64_bit_integer_ends_the_call(guest, result, error):
    call = guest(HOST, hosts={5: lambda *_: result}).start("ask")
    with pytest.raises(error):
        call.run()
    with pytest.raises(ValueError, match="the call has ended"):
        call.run()


def test_an_exception_of_a_host_function_travels_on_its_call_alone(guest):
    class Odd(BaseException):
        pass

    def host(_caller, a0, *_):
        if a0:
            raise Odd(a0)
        return 6

    g = guest(HOST, hosts={5: host})
    call = g.start("ask", 41)
    with pytest.raises(Odd) as raised:
        call.run()
    assert raised.value.args == (41,)
    with pytest.raises(ValueError, match="the call has ended: a host function raised Odd"):
        call.run()
    assert g.call("ask", 0) == 7


def test_an_exception_leaves_nothing_behind_that_keeps_the_store_alive(guest):
    class Witness:
        pass

    def host(*_):
        raise RuntimeError

    g = guest(HOST, hosts={5: host}, store_data=Witness())
    alive = weakref.ref(g.store.data)
    with pytest.raises(RuntimeError):
        g.call("ask")
    g.store.data = None
    gc.collect()
    assert alive() is None


def test_a_deferred_call_suspends_the_run_and_goes_on_with_its_result(guest):
    g = guest(HOST, deferred=(5,))
    call = g.start("ask", 1, 2, 3, 4, 5, 6)
    done = call.run()
    assert done.reason is ExitReason.HOST_CALL
    assert (done.number, done.name, done.args) == (5, "deferred.5", (1, 2, 3, 4, 5, 6))
    call.resume(99)
    assert call.run().values[0] == 100


def test_a_deferred_call_wants_exactly_one_result(guest):
    call = guest(HOST, deferred=(5,)).start("ask")
    with pytest.raises(ValueError, match="no host call waits"):
        call.resume(1)
    call.run()
    with pytest.raises(ValueError, match="a host call waits for its result"):
        call.run()
    with pytest.raises(ValueError, match="64-bit"):
        call.resume(2**64)
    call.resume(1)
    with pytest.raises(ValueError, match="no host call waits"):
        call.resume(1)
    assert call.run().values[0] == 2


def test_calling_a_function_that_defers_is_a_link_error(guest):
    with pytest.raises(rvcore.LinkError, match="deferred") as raised:
        guest(HOST, deferred=(5,)).call("ask")
    assert (raised.value.name, raised.value.number) == ("deferred.5", 5)


def test_a_trap_ends_the_call_where_it_stands(guest):
    g = guest("f: addi a0, a0, 1; addi a0, a0, 1; ebreak; ret")
    call = g.start("f")
    done = call.run()
    assert done.reason is ExitReason.TRAP
    assert done.trap.code is TrapCode.BREAKPOINT
    assert done.trap.pc == BASE + 8
    assert done.trap.registers[10] == 2
    assert call.instructions == 2
    with pytest.raises(ValueError, match="the call has ended: it trapped"):
        call.run()


def test_calling_a_function_raises_its_trap(guest):
    with pytest.raises(rvcore.Trap) as raised:
        guest("f: ebreak").call("f")
    assert raised.value.code is TrapCode.BREAKPOINT


def test_calling_a_function_without_fuel_is_a_trap(guest):
    g = guest(SUM)
    g.store.set_fuel(10)
    with pytest.raises(rvcore.Trap) as raised:
        g.call("sum", 100)
    assert raised.value.code is TrapCode.OUT_OF_FUEL
    assert raised.value.symbol == "sum"
    assert g.store.get_fuel() == 0


def test_an_unknown_host_call_is_a_trap_that_names_number_and_name(guest):
    g = guest("f: li a7, 1; ecall; li a7, 77; ecall; ret", hosts={1: lambda *_: 0})
    trap = g.trap("f")
    assert trap.code is TrapCode.UNKNOWN_HOST_CALL
    assert trap.number == 77
    assert trap.pc == BASE + 12
    assert trap.host_calls == ("host.1",)


def test_a_trap_remembers_the_last_sixteen_host_calls(guest):
    text = "f: " + "".join(f"li a7, {i}; ecall; " for i in range(20)) + "ebreak"
    trap = guest(text, hosts={i: lambda *_: 0 for i in range(20)}).trap("f")
    assert trap.host_calls == tuple(f"host.{i}" for i in range(4, 20))


def test_a_new_call_forgets_the_host_calls_of_the_last(guest):
    g = guest(HOST + "boom: ebreak", hosts={5: lambda *_: 0})
    g.call("ask")
    assert g.trap("boom").host_calls == ()


def test_a_returned_call_cannot_run_again(guest):
    call = guest(SUM).start("sum", 1)
    call.run()
    with pytest.raises(ValueError, match="the call has ended: it returned"):
        call.run()


def test_a_call_ends_when_its_store_goes_on_to_another(guest):
    g = guest(SUM)
    first = g.start("sum", 10)
    first.run(3)
    assert g.call("sum", 3) == 6
    for use in (first.run, first.resume, lambda: first.instructions):
        with pytest.raises(ValueError, match="gone on to another call"):
            use()


def test_a_call_of_a_closed_store_is_a_value_error(guest):
    g = guest(SUM)
    call = g.start("sum", 10)
    call.run(3)
    g.store.close()
    with pytest.raises(ValueError, match="store is closed"):
        call.run()


def test_a_caller_is_dead_after_its_callback(guest):
    kept = []

    def host(caller, *_):
        kept.append(caller)
        caller.write(BASE + 0x10000, b"x")
        return caller.read(BASE + 0x10000, 1)[0]

    g = guest(HOST, hosts={5: host})
    assert g.call("ask") == ord("x") + 1
    for use in (
        lambda c: c.read(BASE, 1),
        lambda c: c.write(BASE + 0x10000, b""),
        lambda c: c.args,
        lambda c: c.data,
    ):
        with pytest.raises(ValueError, match="the caller is gone"):
            use(kept[0])


def test_a_caller_is_dead_after_its_callback_raised(guest):
    kept = []

    def host(caller, *_):
        kept.append(caller)
        raise KeyError

    with pytest.raises(KeyError):
        guest(HOST, hosts={5: host}).call("ask")
    with pytest.raises(ValueError, match="the caller is gone"):
        kept[0].read(BASE, 1)


def test_a_caller_gives_the_data_of_its_store(guest):
    data = object()
    seen = []
    guest(HOST, hosts={5: lambda caller, *_: seen.append(caller.data)}, store_data=data).call("ask")
    assert seen == [data]


@pytest.mark.parametrize(
    ("address", "size"),
    [
        (0, 1),
        (0xFFF, 1),
        (BASE - 1, 2),
        (2**64 - 1, 1),
        (2**64 - 1, 2),
        (BASE, 2**64 - 1),
        (BASE, -1),
        (-1, 1),
    ],
)
def test_a_caller_reads_only_what_the_guest_may_read(guest, address, size):
    def host(caller, *_):
        with pytest.raises(ValueError, match="is not readable"):
            caller.read(address, size)

    guest(HOST, hosts={5: host}).call("ask")


@pytest.mark.parametrize("address", [0, BASE, BASE - 1, 2**20 - 1, 2**20, 2**64 - 1, 2**64, -1])
def test_a_caller_writes_only_what_the_guest_may_write(guest, address):
    def host(caller, *_):
        with pytest.raises(ValueError, match="is not writable"):
            caller.write(address, b"xy")

    guest(HOST, hosts={5: host}).call("ask")


@pytest.mark.parametrize("use", ["call", "start", "run", "close"])
def test_a_host_function_cannot_use_its_own_store_for_another_run(guest, use):
    def host(_caller, *_):
        uses = {
            "call": lambda: g.call("ask"),
            "start": lambda: g.start("ask"),
            "run": calls[0].run,
            "close": g.store.close,
        }
        with pytest.raises(ValueError, match="store is in use"):
            uses[use]()
        return 1

    g = guest(HOST, hosts={5: host})
    calls = [g.start("ask")]
    assert calls[0].run().values[0] == 2


def test_a_host_function_may_use_its_own_memory_and_another_store(guest):
    other = guest(SUM)

    def host(_caller, *_):
        g.write(0x20000, b"abc")
        assert g.read(0x20000, 3) == b"abc"
        return other.call("sum", 4)

    g = guest(HOST, hosts={5: host})
    assert g.call("ask") == 11


def test_a_store_that_runs_in_one_thread_is_an_error_in_another(guest):
    inside, leave = threading.Event(), threading.Event()

    def host(*_):
        inside.set()
        assert leave.wait(10)
        return 0

    g = guest(HOST, hosts={5: host})
    call = g.start("ask")
    runner = threading.Thread(target=call.run)
    runner.start()
    assert inside.wait(10)
    try:
        for use in (
            lambda: g.start("ask"),
            call.run,
            call.resume,
            g.store.close,
            g.store.start_profile,
            g.store.dirty_ranges,
            lambda: call.instructions,
            lambda: g.read(BASE, 1),
            lambda: g.write(0x20000, b"x"),
        ):
            with pytest.raises(ValueError, match="store is in use"):
                use()
    finally:
        leave.set()
        runner.join()
    assert g.call("ask") == 1


def test_a_store_is_usable_from_another_thread_when_nothing_runs(guest):
    g = guest(SUM)
    call = g.start("sum", 10)
    call.run(4)
    results = []
    thread = threading.Thread(target=lambda: results.append(call.run().values[0]))
    thread.start()
    thread.join()
    assert results == [55]


def test_fuel_set_by_a_host_function_holds_for_the_run_that_called_it(guest):
    def host(*_):
        g.store.set_fuel(2)
        return 0

    g = guest(HOST, hosts={5: host})
    g.store.set_fuel(1000)
    call = g.start("ask")
    assert call.run().reason is ExitReason.OUT_OF_FUEL
    assert call.instructions == 6
    assert g.store.get_fuel() == 0


def test_an_entry_that_is_no_instruction_is_a_value_error(guest):
    g = guest("f: ret")
    func = rvcore.Func(g.store, "odd", BASE + 2)
    with pytest.raises(ValueError, match="no instruction starts at 0x10002"):
        func(g.store)


def test_a_function_of_another_store_is_a_value_error(guest):
    one, two = guest("f: ret"), guest("f: ret")
    func = one.instance.exports(one.store)["f"]
    with pytest.raises(ValueError, match="another store"):
        func(two.store)
