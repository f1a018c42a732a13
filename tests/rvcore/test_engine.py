"""An engine remembers programs by their bytes, bounds what it keeps, and gives everything back."""

import gc
import threading
from pathlib import Path

import pytest

import rvcore
from rvcore import Config

from .guests import KIB, MIB, SMALL, Guest, link

pytestmark = pytest.mark.core

FILES = Path("/proc/self/fd")
SMALLEST = {"memory_size": 128 * KIB, "stack_size": 4 * KIB}


def numbered(number):
    return link(f"f: li a0, {number}; ret")[0]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("memory_size", 0),
        ("memory_size", 64 * KIB),
        ("memory_size", 3 * MIB),
        ("memory_size", 8 << 30),
        ("memory_size", -MIB),
        ("stack_size", 0),
        ("stack_size", 4095),
        ("stack_size", 64 * MIB),
        ("stack_size", -4096),
        ("fuel", -1),
        ("pool_bytes", -1),
        ("pool_arenas", -1),
        ("cache_bytes", -1),
    ],
)
def test_a_bad_limit_is_a_value_error_that_names_its_field(field, value):
    with pytest.raises(ValueError, match=f"got {value} .*- at `{field}`"):
        Config(**{field: value})


def test_a_config_is_frozen_and_keyword_only():
    config = Config()
    with pytest.raises(AttributeError):
        config.fuel = 1
    with pytest.raises(TypeError):
        Config(MIB)


def test_the_smallest_memory_runs():
    with Guest("f: addi sp, sp, -16; sd a0, 0(sp); ld a0, 0(sp); ret", config=Config(**SMALLEST)) as g:
        assert g.call("f", 5) == 5


def test_bytes_that_were_seen_before_are_not_decoded_again():
    engine = rvcore.Engine(SMALL)
    elf = numbered(1)
    one, two = rvcore.Module(engine, elf), rvcore.Module(engine, bytearray(elf))
    other = rvcore.Module(engine, numbered(2))
    assert one.image is two.image
    assert one.image is not other.image
    assert one.sha256 == two.sha256 != other.sha256
    assert engine.statistics().programs == 2


def test_programs_are_forgotten_oldest_first_past_the_cache():
    engine = rvcore.Engine(SMALL)
    rvcore.Module(engine, numbered(0))
    one = engine.statistics().program_bytes
    engine = rvcore.Engine(Config(memory_size=MIB, stack_size=65536, cache_bytes=3 * one))
    kept = [rvcore.Module(engine, numbered(i)) for i in range(3)]
    rvcore.Module(engine, numbered(0))
    kept.append(rvcore.Module(engine, numbered(3)))
    held = engine.statistics()
    assert (held.programs, held.program_bytes) == (3, 3 * one)
    # 0 was used again, so 1 was the oldest.
    assert rvcore.Module(engine, numbered(0)).image is kept[0].image
    assert rvcore.Module(engine, numbered(1)).image is not kept[1].image


@pytest.mark.parametrize("elf", ["tool.elf", Path("tool.elf")])
def test_a_path_in_place_of_bytes_is_explained(elf):
    with rvcore.Engine() as engine, pytest.raises(TypeError, match=r"got \w+: read the file, as in Path"):
        engine.load(elf)
    with rvcore.Engine() as engine, pytest.raises(TypeError, match=r"bytes of an ELF file, got NoneType$"):
        engine.load(None)


def test_an_engine_without_cache_still_loads():
    engine = rvcore.Engine(Config(memory_size=MIB, stack_size=65536, cache_bytes=0))
    module = rvcore.Module(engine, numbered(7))
    with rvcore.Store(engine) as store:
        exports = rvcore.Linker(engine).instantiate(store, module).exports(store)
        assert exports["f"](store) == 7
    assert engine.statistics().programs == 0
    # The program that nobody remembers still has the arena of that store.
    assert engine.statistics().arenas_free == 1
    engine.close()
    held = engine.statistics()
    assert (held.arenas_free, held.arena_bytes_free) == (0, 0)


def test_a_closed_engine_says_so():
    engine = rvcore.Engine(SMALL)
    module = rvcore.Module(engine, numbered(1))
    store = rvcore.Store(engine)
    linker = rvcore.Linker(engine)
    engine.close()
    engine.close()
    for use in (
        lambda: rvcore.Module(engine, numbered(1)),
        lambda: rvcore.Module(engine, numbered(2)),
        lambda: linker.instantiate(store, module),
        engine.__enter__,
    ):
        with pytest.raises(ValueError, match="engine is closed"):
            use()


def test_a_run_goes_on_when_its_engine_closes():
    g = Guest("f: addi a0, a0, 1; bne a0, a1, f; ret")
    call = g.start("f", 0, 1000)
    call.run(10)
    g.engine.close()
    assert call.run().values[0] == 1000
    g.store.close()
    held = g.engine.statistics()
    assert (held.arenas_live, held.arenas_free) == (0, 0)


def test_an_engine_is_a_context_manager():
    with rvcore.Engine(SMALL) as engine:
        rvcore.Module(engine, numbered(1))
    with pytest.raises(ValueError, match="engine is closed"):
        rvcore.Module(engine, numbered(1))


def open_files():
    gc.collect()
    return len(list(FILES.iterdir()))


@pytest.mark.skipif(not FILES.is_dir(), reason="no /proc/self/fd to count")
def test_a_forgotten_engine_gives_up_its_files():
    """Each program holds its image in a memory file."""
    before = open_files()
    engine = rvcore.Engine(SMALL)
    for number in range(20):
        rvcore.Module(engine, numbered(number))
    assert open_files() >= before + 20
    del engine
    assert open_files() == before


@pytest.mark.skipif(not FILES.is_dir(), reason="no /proc/self/fd to count")
def test_a_refused_image_leaves_nothing_behind():
    engine = rvcore.Engine(Config(**SMALLEST))
    before = open_files()
    for _ in range(3):
        with pytest.raises(rvcore.LoadError):
            rvcore.Module(engine, link("f: ret", data=bytes(MIB))[0])
    assert open_files() == before
    assert engine.statistics().programs == 0


def test_threads_that_load_the_same_bytes_get_the_same_program():
    engine = rvcore.Engine(SMALL)
    elf, _ = link("f: ret; " + "nop; " * 20000)
    start = threading.Barrier(4)
    modules = []

    def load():
        start.wait()
        modules.append(rvcore.Module(engine, elf))

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(module.image) for module in modules}) == 1
    assert engine.statistics().programs == 1


def test_the_digest_is_that_of_the_program():
    import hashlib

    elf = numbered(3)
    assert rvcore.Module(rvcore.Engine(SMALL), elf).sha256 == hashlib.sha256(elf).hexdigest()
