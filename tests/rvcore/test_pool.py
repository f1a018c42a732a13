"""What a guest or its host wrote is gone when the next gets the arena; free arenas stay within their caps.

Two checks at once: `careful_arenas` compares every arena that comes back with the image, and the tests read
all of the memory that the next guest gets.
"""

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import rvcore

from .guests import BASE, KIB, MIB, SMALL, Guest, link

pytestmark = pytest.mark.core

PAGE = 4096
# write: a1 bytes of a2 from a0 on; touch: one byte to each of a1 pages from a0 on.
TEXT = """
write:  add a1, a1, a0
_more:  sb a2, 0(a0)
        addi a0, a0, 1
        bltu a0, a1, _more
        ret
touch:  lui a2, 1
_next:  sb a1, 1(a0)
        add a0, a0, a2
        addi a1, a1, -1
        bnez a1, _next
        ret
boom:   sd a0, -8(sp)
        ebreak
loop:   sd a0, -8(sp)
        j loop
ask:    sd a0, -8(sp)
        li a7, 5
        ecall
        ret
amo:    amoadd.d a1, a1, (a0)
        lr.w a2, (a0)
        sc.w a2, a1, (a0)
        ret
far:    sd a0, 4(a0)
        ret
reserve: lr.d a1, (a0)
        ret
claim:  li a1, 1
        sc.d a0, a1, (a0)
        ret
"""
DATA = 0x30000
IMAGE = {
    "data": b"\xd5" * (3 * PAGE + 100),
    "data_addr": DATA,
    "bss": PAGE,
    "rodata": b"ro" * 50,
    "rodata_addr": 0x20000,
}
GUARD = SMALL.memory_size - SMALL.stack_size - SMALL.memory_size // 16
HEAP = DATA + 5 * PAGE


def image_of(g):
    """All that a guest can read, piece by piece."""
    return [
        g.read(start, stop - start)
        for start, stop in (
            (BASE, BASE + PAGE),
            (0x20000, 0x21000),
            (DATA, GUARD),
            (MIB - SMALL.stack_size, MIB),
        )
    ]


def used_arena_is_clean(g):
    """Give the arena back and look at what the next guest gets; it must be the same arena."""
    created = g.engine.statistics().arenas_created
    g.renew()
    assert g.engine.statistics().arenas_created == created, "a fresh arena proves nothing"
    assert g.store.dirty_ranges() == []
    expected = [
        g.module.image.code[0].data.ljust(PAGE, b"\0"),
        (b"ro" * 50).ljust(PAGE, b"\0"),
        (b"\xd5" * (3 * PAGE + 100)).ljust(GUARD - DATA, b"\0"),
        bytes(SMALL.stack_size),
    ]
    assert image_of(g) == expected


@pytest.fixture
def g(guest):
    return guest(TEXT, deferred=(5,), **IMAGE)


def dirty_data(g):
    g.call("write", DATA + 10, 3 * PAGE, 7)


def dirty_bss_and_heap(g):
    g.call("write", HEAP - PAGE - 10, 2 * PAGE, 0xFF)


def dirty_stack(g):
    g.call("write", MIB - 3 * PAGE, 3 * PAGE, 1)


def dirty_edges(g):
    for address in (DATA, HEAP - 1, HEAP, GUARD - 1, MIB - SMALL.stack_size, MIB - 1):
        g.call("write", address, 1, 0xEE)


def dirty_across_pages(g):
    for address in range(DATA + PAGE - 8, DATA + PAGE):
        g.call("far", address - 4)
    g.call("far", HEAP + PAGE - 8)


def dirty_by_atomics(g):
    g.call("amo", HEAP + 8, 5)
    g.call("amo", DATA + 8, 5)


def dirty_by_the_host(g):
    g.write(DATA + 5, b"host" * 2000)
    g.write(HEAP + 3 * PAGE - 2, b"wide")
    g.write(MIB - 1, b"!")


def dirty_by_the_host_before_anything_ran(g):
    g.renew()
    g.write(HEAP, b"first")


def dirty_then_refused(g):
    g.write(HEAP, b"good")
    with pytest.raises(ValueError, match="not writable"):
        g.write(GUARD - 4, b"half good")


def dirty_then_trap(g):
    assert g.trap("boom").code is rvcore.TrapCode.BREAKPOINT


def dirty_then_out_of_fuel(g):
    g.start("loop").run(1001)


def dirty_then_interrupted(g):
    call = g.start("loop")
    g.store.interrupt()
    assert call.run().reason is rvcore.ExitReason.INTERRUPTED
    call.run(100)


def dirty_then_suspended(g):
    assert g.start("ask").run().reason is rvcore.ExitReason.HOST_CALL


def dirty_every_page(g):
    """Fewer than make the pool give the arena up."""
    g.call("touch", DATA, (GUARD - DATA) // PAGE)
    g.call("touch", MIB - SMALL.stack_size, SMALL.stack_size // PAGE)


WAYS = [value for name, value in list(globals().items()) if name.startswith("dirty_")]


@pytest.mark.parametrize("dirty", WAYS)
def test_nothing_of_one_guest_is_there_for_the_next(g, dirty):
    dirty(g)
    assert g.store.dirty_ranges()
    used_arena_is_clean(g)


def test_nothing_is_left_after_many_guests(g):
    for _ in range(3):
        for dirty in WAYS:
            dirty(g)
            used_arena_is_clean(g)


def test_pages_written_by_one_guest_and_not_the_next_are_clean_for_the_third(g):
    """The page keeps its memory; the log of the second guest does not name it."""
    dirty_data(g)
    g.renew()
    dirty_stack(g)
    used_arena_is_clean(g)
    dirty_data(g)
    used_arena_is_clean(g)


def test_a_reservation_does_not_outlive_its_guest(g):
    g.call("reserve", HEAP)
    assert g.call("claim", HEAP) == 1
    g.call("reserve", HEAP)
    g.renew()
    assert g.call("claim", HEAP) == 1


def test_an_interrupt_does_not_outlive_its_guest(g):
    g.store.interrupt()
    g.renew()
    assert g.start("loop").run(1000).reason is rvcore.ExitReason.OUT_OF_FUEL


def big(careful, **limits):
    config = rvcore.Config(memory_size=16 * MIB, stack_size=64 * KIB, **limits)
    return careful(TEXT, config=config, **IMAGE)


@pytest.mark.parametrize("pages", [63, 64, 65, 66, 511, 512, 513, 1500])
def test_a_guest_that_wrote_many_pages_leaves_a_clean_arena_or_none(guest, pages):
    """Around the sizes at which the log moves, the GIL is released, and the arena is given up."""
    g = big(guest)
    g.call("touch", HEAP, pages)
    assert g.store.machine.dirty_pages() == pages
    assert g.store.dirty_ranges() == [(HEAP, HEAP + pages * PAGE)]
    g.store.close()
    held = g.engine.statistics()
    assert held.arena_bytes_free <= 512 * PAGE
    assert held.arenas_free == (pages <= 512)
    g.renew()
    g.call("touch", HEAP + 1, pages)
    g.renew()
    assert not any(g.read(HEAP, (pages + 1) * PAGE))


def test_an_arena_that_grew_over_many_guests_is_given_up(guest):
    """Each guest touches other pages, so the arena would end up resident as a whole."""
    g = big(guest)
    for index in range(12):
        g.call("touch", HEAP + index * 100 * PAGE, 100)
        g.renew()
        assert g.engine.statistics().arena_bytes_free <= 512 * PAGE
    assert g.engine.statistics().arenas_created > 1


def stores(g, count):
    """Open more stores of the same module, each with its stack page written."""
    opened = []
    for _ in range(count):
        store = rvcore.Store(g.engine)
        instance = g.linker.instantiate(store, g.module)
        instance.exports(store)["write"](store, MIB - 16, 8, 1)
        opened.append(store)
    return opened


def test_free_arenas_stay_below_their_count(guest):
    g = guest(TEXT, config=rvcore.Config(memory_size=MIB, stack_size=64 * KIB, pool_arenas=3), **IMAGE)
    opened = stores(g, 6)
    assert g.engine.statistics().arenas_live == 7
    for store in opened:
        store.close()
    held = g.engine.statistics()
    assert (held.arenas_live, held.arenas_free) == (1, 3)


def test_free_arenas_stay_below_their_bytes(guest):
    config = rvcore.Config(memory_size=MIB, stack_size=64 * KIB, pool_bytes=2 * PAGE)
    g = guest(TEXT, config=config, **IMAGE)
    for store in stores(g, 6):
        store.close()
    held = g.engine.statistics()
    assert (held.arenas_free, held.arena_bytes_free) == (2, 2 * PAGE)


@pytest.mark.usefixtures("careful_arenas")
def test_the_caps_are_those_of_the_engine_not_of_each_program():
    engine = rvcore.Engine(rvcore.Config(memory_size=MIB, stack_size=64 * KIB, pool_arenas=4))
    linker = rvcore.Linker(engine)
    opened = []
    for number in range(3):
        module = rvcore.Module(engine, link(f"f: li a0, {number}; ret")[0])
        for _ in range(3):
            store = rvcore.Store(engine)
            linker.instantiate(store, module)
            opened.append(store)
    for store in opened:
        store.close()
    assert engine.statistics().arenas_free == 4
    engine.close()
    assert engine.statistics().arenas_free == 0


@pytest.mark.parametrize("limits", [{"pool_arenas": 0}, {"pool_bytes": 0}])
def test_an_engine_may_keep_nothing(guest, limits):
    g = guest(TEXT, config=rvcore.Config(memory_size=MIB, stack_size=64 * KIB, **limits), **IMAGE)
    dirty_stack(g)
    g.renew()
    assert g.engine.statistics().arenas_free == 0
    assert not any(g.read(MIB - SMALL.stack_size, SMALL.stack_size))


def test_an_arena_that_comes_back_to_a_closed_engine_is_unmapped(guest):
    g = guest(TEXT, **IMAGE)
    opened = stores(g, 2)
    g.engine.close()
    for store in opened:
        store.close()
    held = g.engine.statistics()
    assert (held.arenas_live, held.arenas_free, held.arena_bytes_free) == (1, 0, 0)


MAPS = Path("/proc/self/maps")


def mappings():
    gc.collect()
    return MAPS.read_text().count("rvcore-image")


@pytest.mark.skipif(not MAPS.exists(), reason="no /proc/self/maps to count")
def test_closing_unmaps_what_was_mapped():
    before = mappings()
    g = Guest(TEXT, **IMAGE)
    opened = stores(g, 4)
    assert mappings() >= before + 5
    for store in opened:
        store.close()
    g.close()
    # The pristine copy goes with the program.
    g.module = g.instance = g.store = g.linker = g.engine = None
    assert mappings() == before


@pytest.mark.skipif(not MAPS.exists(), reason="no /proc/self/maps to find the arena in")
def test_a_check_of_arenas_sees_a_byte_that_was_left_behind():
    """The check itself can fail: here a byte is written behind the machine's back."""
    program = f"""
import ctypes, sys
sys.path[:0] = {sys.path!r}
from tests.rvcore.guests import Guest, MIB
g = Guest("f: ret")
g.write(MIB - 1, b"x")
with open("/proc/self/maps") as file:
    rows = [line.split() for line in file]
# The arena's own image pages are private; guest memory lies around them.
private = [row for row in rows if "rvcore-image" in row[-2] + row[-1] and "w" in row[1]]
start = int(private[0][0].split("-")[0], 16)
ctypes.memset(start + 0x50000, 1, 1)
g.store.close()
"""
    environment = {**os.environ, "RVCORE_CHECK_ARENAS": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "an arena was not clean after its release" in ended.stderr


@pytest.mark.usefixtures("careful_arenas")
def test_threads_take_and_give_back_at_once():
    """The pool's lists and counts are right after any interleaving, and every guest finds clean memory."""
    engine = rvcore.Engine(rvcore.Config(memory_size=MIB, stack_size=64 * KIB, pool_arenas=2))
    module = rvcore.Module(engine, link(TEXT, **IMAGE)[0])
    linker = rvcore.Linker(engine)
    wrong = []

    def work(seed):
        for turn in range(30):
            with rvcore.Store(engine) as store:
                instance = linker.instantiate(store, module)
                start = HEAP + (seed * 7 + turn) % 20 * PAGE
                if any(instance.memory.read(store, HEAP, HEAP + 120 * PAGE)):
                    wrong.append((seed, turn))
                instance.exports(store)["touch"](store, start, 90 + turn % 3)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    held = engine.statistics()
    assert held.arenas_live == 0
    assert held.arenas_free <= 2
    engine.close()
    held = engine.statistics()
    assert (held.arenas_free, held.arena_bytes_free) == (0, 0)
