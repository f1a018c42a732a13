"""Different stores run in parallel and see nothing of each other; a module is shared by all."""

import random
import threading

import pytest

import rvcore

from .guests import MIB, SMALL, Guest, link

pytestmark = pytest.mark.core

THREADS = 4
# A pseudo-random walk over 16 pages of heap that reads, mixes and writes; the result depends on every step.
WALK = """
walk:   lui a2, 0x40
        lui a4, 0x10
        addi a4, a4, -8
_more:  slli a5, a0, 13
        xor a0, a0, a5
        srli a5, a0, 7
        xor a0, a0, a5
        slli a5, a0, 17
        xor a0, a0, a5
        and a5, a0, a4
        add a5, a5, a2
        ld a6, 0(a5)
        add a6, a6, a0
        sd a6, 0(a5)
        xor a0, a0, a6
        addi a1, a1, -1
        bnez a1, _more
        ret
ask:    li a7, 5
_again: ecall
        addi a1, a1, -1
        bnez a1, _again
        ret
"""


def walk(seed, count):
    """The same in Python."""
    mask = 2**64 - 1
    memory = {}
    for _ in range(count):
        seed ^= seed << 13 & mask
        seed ^= seed >> 7
        seed ^= seed << 17 & mask
        at = seed & 0xFFF8
        memory[at] = (memory.get(at, 0) + seed) & mask
        seed ^= memory[at]
    return seed


def in_threads(work):
    """Run work(0), work(1), … at once and return what they return, or raise what one raised."""
    results, errors = {}, []
    start = threading.Barrier(THREADS)

    def run(index):
        try:
            start.wait()
            results[index] = work(index)
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[index] for index in range(THREADS)]


@pytest.mark.usefixtures("careful_arenas")
def test_stores_of_one_module_compute_in_parallel_what_they_compute_alone():
    engine = rvcore.Engine(SMALL)
    module = rvcore.Module(engine, link(WALK)[0])
    linker = rvcore.Linker(engine)
    expected = [walk(index + 1, 2000) for index in range(THREADS)]

    def work(index):
        values = set()
        for _ in range(10):
            with rvcore.Store(engine) as store:
                exports = linker.instantiate(store, module).exports(store)
                values.add(exports["walk"](store, index + 1, 2000))
        return values

    assert in_threads(work) == [{value} for value in expected]
    held = engine.statistics()
    assert held.arenas_live == 0
    engine.close()


@pytest.mark.usefixtures("careful_arenas")
def test_long_runs_in_parallel_count_exactly():
    """Long enough to run without the GIL, cut at odd places."""
    engine = rvcore.Engine(SMALL)
    module = rvcore.Module(engine, link(WALK)[0])
    linker = rvcore.Linker(engine)
    rounds = 30_000
    whole = 3 + 14 * rounds + 1

    def work(index):
        draw = random.Random(index)
        with rvcore.Store(engine) as store:
            call = linker.instantiate(store, module).exports(store)["walk"].start(store, 7, rounds)
            while (done := call.run(draw.randrange(1, 100_000))).reason is rvcore.ExitReason.OUT_OF_FUEL:
                pass
            return done.values[0], call.instructions

    results = in_threads(work)
    assert len(set(results)) == 1
    assert results[0][1] == whole
    engine.close()


def test_host_functions_of_parallel_runs_meet_their_own_guest():
    engine = rvcore.Engine(SMALL)
    module = rvcore.Module(engine, link(WALK)[0])
    linker = rvcore.Linker(engine)

    def host(caller, *_):
        caller.data.append(threading.get_ident())
        caller.write(0x40000, len(caller.data).to_bytes(4, "little"))
        return int.from_bytes(caller.read(0x40000, 4), "little")

    linker.define_func(5, host)

    def work(_index):
        with rvcore.Store(engine, []) as store:
            last = linker.instantiate(store, module).exports(store)["ask"](store, 0, 300)
            return last, len(store.data), set(store.data) == {threading.get_ident()}

    assert in_threads(work) == [(300, 300, True)] * THREADS
    engine.close()


def test_one_store_in_many_threads_is_an_error_and_never_a_crash():
    """Whoever is second is told so; what ran is what one thread alone would have run."""
    with Guest(WALK, config=rvcore.Config(memory_size=MIB, stack_size=65536)) as g:
        expected = g.call("walk", 3, 20_000)
        g.renew()
        refused = []

        def work(_index):
            done = []
            for _ in range(20):
                try:
                    done.append(g.start("walk", 3, 20_000).run())
                except ValueError as error:
                    refused.append(str(error))
                try:
                    g.write(0x80000, b"x")
                    g.read(0x80000, 1)
                    g.store.dirty_ranges()
                except ValueError as error:
                    refused.append(str(error))
            return done

        ended = [done for each in in_threads(work) for done in each]
        assert all("in use" in text or "gone on to another call" in text for text in refused)
        assert ended
        assert all(done.reason is rvcore.ExitReason.RETURNED for done in ended)
        g.renew()
        assert g.call("walk", 3, 20_000) == expected


def test_interrupting_from_all_sides_is_safe():
    """Stores come and go while other threads interrupt them."""
    engine = rvcore.Engine(SMALL)
    module = rvcore.Module(engine, link(WALK)[0])
    linker = rvcore.Linker(engine)
    stores = [None] * THREADS
    stop = threading.Event()

    def disturb():
        while not stop.is_set():
            for store in list(stores):
                if store is not None:
                    store.interrupt()

    disturber = threading.Thread(target=disturb)
    disturber.start()

    def work(index):
        values = set()
        for _ in range(10):
            with rvcore.Store(engine) as store:
                stores[index] = store
                call = linker.instantiate(store, module).exports(store)["walk"].start(store, 5, 5000)
                while (done := call.run()).reason is rvcore.ExitReason.INTERRUPTED:
                    pass
                values.update(done.values[:1])
        return values

    try:
        results = in_threads(work)
    finally:
        stop.set()
        disturber.join()
    assert results == [{walk(5, 5000)}] * THREADS
    engine.close()
