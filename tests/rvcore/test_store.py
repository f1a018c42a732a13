"""A store owns one guest's memory and fuel, and gives the memory back however it ends."""

import gc
import subprocess
import sys
import textwrap

import pytest

import rvcore
from rvcore import ExitReason
from rvcore._machine import live_machines

from .guests import BASE, MIB, SMALL, Guest, link

pytestmark = pytest.mark.core

SPIN = """
spin:   addi a0, a0, 1
        j spin
set:    lui a1, 0x20
        sd a0, 0(a1)
        ret
get:    lui a1, 0x20
        ld a0, 0(a1)
        ret
"""


def test_memory_lives_from_call_to_call(guest):
    g = guest(SPIN)
    g.call("set", 77)
    assert g.call("get") == 77


def test_two_stores_of_one_module_share_nothing(guest):
    g = guest(SPIN)
    g.call("set", 77)
    with rvcore.Store(g.engine) as other:
        instance = g.linker.instantiate(other, g.module)
        assert instance.exports(other)["get"](other) == 0
        instance.exports(other)["set"](other, 5)
    assert g.call("get") == 77


def test_fuel_counts_down_by_exactly_what_ran(guest):
    g = guest(SPIN)
    assert g.store.get_fuel() is None
    g.store.set_fuel(1000)
    g.call("set", 1)
    assert g.store.get_fuel() == 997
    assert g.start("spin").run(100).reason is ExitReason.OUT_OF_FUEL
    assert g.store.get_fuel() == 897
    assert g.start("spin").run().reason is ExitReason.OUT_OF_FUEL
    assert g.store.get_fuel() == 0
    g.store.set_fuel(None)
    assert g.call("get") == 1
    assert g.store.get_fuel() is None


def test_a_new_store_has_the_fuel_of_its_config(guest):
    g = guest(SPIN, config=rvcore.Config(memory_size=MIB, stack_size=65536, fuel=50))
    call = g.start("spin")
    assert call.run().reason is ExitReason.OUT_OF_FUEL
    assert call.instructions == 50


def test_more_fuel_lets_a_run_go_on_where_it_stopped(guest):
    g = guest(SPIN)
    g.store.set_fuel(4)
    call = g.start("spin")
    call.run()
    g.store.set_fuel(6)
    call.run()
    assert call.instructions == 10


def test_fuel_past_what_can_be_counted_is_no_limit(guest):
    g = guest(SPIN)
    g.store.set_fuel(2**70)
    assert g.store.get_fuel() is None
    assert g.start("spin").run(2**70 if False else 10).reason is ExitReason.OUT_OF_FUEL


def test_negative_fuel_is_a_value_error(guest):
    with pytest.raises(ValueError, match="got -1 - at `fuel`"):
        guest(SPIN).store.set_fuel(-1)


def test_dirty_ranges_name_each_written_page_once(guest):
    g = guest(
        """
        f:  lui a1, 0x20
            sb a0, 0(a1)
            sb a0, 1(a1)
            lui a2, 0x21
            sd a0, -4(a2)
            lui a3, 0x30
            sb a0, 0(a3)
            ret
        """
    )
    assert g.store.dirty_ranges() == []
    g.call("f")
    g.write(0x40FFF, b"xy")
    assert g.store.dirty_ranges() == [(0x20000, 0x22000), (0x30000, 0x31000), (0x40000, 0x42000)]


def test_a_closed_store_says_so_to_every_use(guest):
    g = guest(SPIN)
    store, memory, func = g.store, g.memory, g.instance.exports(g.store)["get"]
    store.close()
    assert store.closed
    for use in (
        lambda: func(store),
        lambda: func.start(store),
        lambda: memory.size,
        lambda: memory.read(store, BASE, BASE + 1),
        lambda: memory.write(store, b"", 0x20000),
        lambda: store.memory,
        lambda: store.machine,
        lambda: g.linker.instantiate(store, g.module),
        store.dirty_ranges,
        store.start_profile,
        store.profile,
        store.__enter__,
    ):
        with pytest.raises(ValueError, match="store is closed"):
            use()


def test_closing_twice_and_interrupting_a_closed_store_are_harmless(guest):
    g = guest(SPIN)
    g.store.close()
    g.store.close()
    g.store.interrupt()


def test_a_store_without_an_instance_says_so(guest):
    with rvcore.Store(guest(SPIN).engine) as store:
        with pytest.raises(ValueError, match="no instance yet"):
            _ = store.memory
        store.interrupt()


def test_a_store_takes_one_instance(guest):
    g = guest(SPIN)
    with pytest.raises(ValueError, match="the store has an instance already"):
        g.linker.instantiate(g.store, g.module)


def test_memory_of_another_store_is_a_value_error(guest):
    one, two = guest(SPIN), guest(SPIN)
    with pytest.raises(ValueError, match="the memory belongs to another store"):
        one.memory.read(two.store, BASE, BASE + 1)
    with pytest.raises(ValueError, match="the memory belongs to another store"):
        one.memory.write(two.store, b"x", 0x20000)


def test_a_machine_that_has_not_run_can_be_looked_at(guest):
    """Tools get at the machine before the first call."""
    machine = guest(SPIN).store.machine
    trap = machine.stopped(rvcore.TrapCode.INTERRUPTED)
    assert trap.registers == (0,) * 32
    assert (machine.host_calls(), machine.profile(), machine.dirty_ranges()) == ((), [], [])


@pytest.mark.parametrize("kind", [rvcore.Store, rvcore.Call, rvcore.Memory, rvcore.Caller])
def test_nothing_can_be_made_half(kind):
    with pytest.raises(TypeError):
        kind.__new__(kind)


@pytest.mark.parametrize("kind", ["Store", "Call", "Memory", "Caller"])
def test_nothing_that_holds_a_machine_can_be_pickled(guest, kind):
    import pickle

    g = guest(SPIN)
    thing = {
        "Store": g.store,
        "Call": g.start("get"),
        "Memory": g.memory,
        "Caller": rvcore.Caller(g.store),
    }[kind]
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(thing)


def make(engine, module):
    store = rvcore.Store(engine)
    instance = rvcore.Linker(engine).instantiate(store, module)
    return store, instance.exports(store)["spin"].start(store)


@pytest.mark.usefixtures("careful_arenas")
def test_a_forgotten_store_gives_its_memory_back():
    """A store and its call refer to each other, so only the cycle collector ends them."""
    engine = rvcore.Engine(SMALL)
    module = rvcore.Module(engine, link(SPIN)[0])
    gc.collect()  # what earlier tests left in cycles
    before = live_machines()
    kept = [make(engine, module) for _ in range(5)]
    for _, call in kept:
        call.run(100)
    assert engine.statistics().arenas_live == 5
    assert live_machines() == before + 5
    kept.clear()
    del call, _
    gc.collect()
    assert engine.statistics().arenas_live == 0
    assert live_machines() == before
    engine.close()


def test_everything_may_be_forgotten_at_once():
    """The collector clears engine, program and machine in an order of its own."""
    gc.collect()  # what earlier tests left in cycles
    before = live_machines()
    for round_ in range(40):
        engine = rvcore.Engine(SMALL)
        module = rvcore.Module(engine, link(SPIN)[0])
        store, call = make(engine, module)
        call.run(10)
        everything = [engine, module, store, call]
        # Different shapes of the cycle give the collector different orders.
        store.data = [*everything[round_ % 4 :], everything]
        engine.extra = everything if round_ % 3 else None
        module.extra = everything if round_ % 2 else None
        del engine, module, store, call, everything
        if round_ % 5 == 0:
            gc.collect()
    gc.collect()
    assert live_machines() == before


@pytest.mark.parametrize("order", ["esm", "ems", "mes", "mse", "sem", "sme"])
def test_engine_module_and_store_close_in_any_order(order):
    g = Guest(SPIN)
    g.start("spin").run(10)
    engine = g.engine
    for letter in order:
        if letter == "e":
            g.engine.close()
        elif letter == "s":
            g.store.close()
        else:
            g.module = g.instance = g.linker = None
            gc.collect()
    held = engine.statistics()
    assert (held.arenas_live, held.arenas_free, held.arena_bytes_free) == (0, 0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/statm")
def test_a_store_that_gets_no_memory_can_try_again():
    """The address space is limited, then not."""
    program = textwrap.dedent(
        """
        import resource, sys
        sys.path[:0] = {path!r}
        import rvcore
        from tests.rvcore.guests import Guest, link
        g = Guest({text!r}, config=rvcore.Config(memory_size=4 << 30, pool_arenas=0))
        g.store.close()
        used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), resource.RLIM_INFINITY))
        store = rvcore.Store(g.engine)
        try:
            g.linker.instantiate(store, g.module)
        except MemoryError as error:
            assert 'cannot reserve 4294967296 bytes' in str(error), error
        else:
            raise SystemExit('the limit did not hold')
        assert g.engine.statistics().arenas_live == 0
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
        exports = g.linker.instantiate(store, g.module).exports(store)
        exports['set'](store, 5)
        assert exports['get'](store) == 5
        store.close()
        g.close()
        """
    ).format(path=sys.path, text=SPIN)
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


ENDINGS = {
    "globals": "pass",
    "sys": "import sys; sys.kept = g",
    "builtins": "import builtins; builtins.kept = g",
    "cycle": "g.store.data = g; g.self = g; import gc; gc.disable()",
    "frozen": "g.store.data = g; import gc; gc.freeze()",
    "atexit": "import atexit; atexit.register(lambda: g.call('get'))",
    "thread-local": "import threading; kept = threading.local(); kept.g = g",
    "daemon": """
        import threading, time
        t = threading.Thread(target=g.start('spin').run, daemon=True)
        t.start()
        time.sleep(0.05)
    """,
    "os._exit": "import os; os._exit(0)",
    "module": "import types; m = types.ModuleType('aaa'); m.g = g; import sys; sys.modules['aaa'] = m",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_interpreter_that_ends_with_a_live_store_ends_in_silence(ending):
    program = textwrap.dedent(
        """
        import sys
        sys.path[:0] = {path!r}
        from tests.rvcore.guests import Guest
        g = Guest({text!r})
        g.call('set', 1)
        call = g.start('spin')
        call.run(100)
        """
    ).format(path=sys.path, text=SPIN)
    program += textwrap.dedent(ENDINGS[ending])
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
