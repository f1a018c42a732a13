"""Every access is checked page by page: a bad one is a trap that says where, how large and of what kind."""

import itertools

import pytest

import rvcore
from rvcore import TrapCode

from .guests import BASE, KIB, MIB, SMALL, STACK_TOP, Guest

pytestmark = pytest.mark.core

PAGE = 4096
LOADS = {"lb": 1, "lbu": 1, "lh": 2, "lhu": 2, "lw": 4, "lwu": 4, "ld": 8}
STORES = {"sb": 1, "sh": 2, "sw": 4, "sd": 8}
# One function for each load and store: address in a0, value in a1.
ACCESSES = (
    "; ".join(f"{name}: {name} a0, 0(a0); ret" for name in LOADS)
    + "; "
    + "; ".join(f"{name}: {name} a1, 0(a0); ret" for name in STORES)
)
RODATA = 0x20000
DATA = 0x30000
# code at BASE, rodata, data with half a page of bytes and two pages of bss
LAYOUT = {
    "rodata": bytes(range(256)) * 20,
    "rodata_addr": RODATA,
    "data": b"\xaa" * 2048,
    "data_addr": DATA,
    "bss": 2 * PAGE,
}
GUARD = SMALL.memory_size - SMALL.stack_size - SMALL.memory_size // 16


@pytest.fixture
def g(guest):
    return guest(ACCESSES, **LAYOUT)


def pc_of(g, name):
    return g.labels[name]


def check_fault(g, name, address):
    """The access traps with every fact right, and changes nothing."""
    dirty = g.store.dirty_ranges()
    trap = g.trap(name, address, 0x1122334455667788)
    store = name in STORES
    assert trap.code is (TrapCode.STORE_FAULT if store else TrapCode.LOAD_FAULT)
    assert trap.address == address % 2**64
    assert trap.size == (STORES if store else LOADS)[name]
    assert trap.access == ("store" if store else "load")
    assert trap.pc == pc_of(g, name)
    assert trap.registers[10] == address % 2**64
    assert g.store.dirty_ranges() == dirty


@pytest.mark.parametrize("name", [*LOADS, *STORES])
@pytest.mark.parametrize(
    "address",
    [
        0,
        1,
        PAGE - 1,
        PAGE,
        BASE - 1,
        MIB,
        MIB + PAGE,
        2**31,
        2**32,
        2**32 + DATA,
        2**63,
        2**63 + DATA,
        -1,
        -PAGE,
    ],
)
def test_an_access_outside_memory_traps(g, name, address):
    check_fault(g, name, address)


@pytest.mark.parametrize("name", [name for name in [*LOADS, *STORES] if name not in {"lb", "lbu", "sb"}])
def test_an_access_that_leaves_memory_at_its_last_byte_traps(g, name):
    size = (LOADS | STORES)[name]
    for inside in range(1, size):
        check_fault(g, name, MIB - inside)
        check_fault(g, name, -inside)


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("address", [BASE, BASE + 4, RODATA, RODATA + 5119, RODATA + 2 * PAGE - 8])
def test_text_and_read_only_data_are_readable_and_not_writable(g, name, address):
    before = g.read(address, 8)
    check_fault(g, name, address)
    assert g.read(address, 8) == before
    assert g.call("ld", address) == int.from_bytes(before, "little")


@pytest.mark.parametrize("name", [*LOADS, *STORES])
@pytest.mark.parametrize("address", [BASE + PAGE, RODATA - 8, RODATA + 2 * PAGE, DATA - 8, DATA - PAGE])
def test_gaps_between_segments_are_not_there(g, name, address):
    check_fault(g, name, address)


@pytest.mark.parametrize("name", [name for name in [*LOADS, *STORES] if name not in {"lb", "lbu", "sb"}])
def test_an_access_that_crosses_into_a_gap_traps_as_a_whole(g, name):
    size = (LOADS | STORES)[name]
    for inside in range(1, size):
        check_fault(g, name, DATA - inside)
        if name in LOADS:
            check_fault(g, name, RODATA + 2 * PAGE - inside)
    assert g.read(DATA, 8) == b"\xaa" * 8


@pytest.mark.parametrize("name", STORES)
def test_a_store_that_crosses_into_read_only_pages_writes_nothing(guest, name):
    """Writable data right below read-only data; the writable half must stay as it was."""
    g = guest(ACCESSES, data=b"\xaa" * PAGE, data_addr=0x1F000, rodata=b"\xbb" * 64, rodata_addr=RODATA)
    size = STORES[name]
    for inside in range(1, size):
        check_fault(g, name, RODATA - inside)
        assert g.read(RODATA - size, size) == b"\xaa" * size


def test_data_bss_heap_and_stack_are_writable_to_their_last_byte(g):
    top = g.program.heap_start + g.program.heap_size
    for address in (
        DATA,
        DATA + 2040,
        DATA + 2048,
        DATA + 3 * PAGE - 8,
        top - 8,
        GUARD - 8,
        MIB - SMALL.stack_size,
        MIB - 8,
    ):
        g.call("sd", address, 0x0102030405060708)
        assert g.call("ld", address) == 0x0102030405060708
    assert top == GUARD


def test_bss_heap_and_stack_start_as_zeroes(g):
    for start, stop in ((DATA + 2048, GUARD), (MIB - SMALL.stack_size, MIB)):
        assert not any(g.read(start, stop - start))


def test_zeroes_past_the_bytes_of_a_read_only_segment_are_read_only(guest):
    rodata = {name: value for name, value in LAYOUT.items() if name.startswith("rodata")}
    g = guest(ACCESSES, **rodata, segment_fields={".rodata": {"p_memsz": 4 * PAGE}})
    assert g.program.heap_start == RODATA + 4 * PAGE
    for address in (RODATA + 5120, RODATA + 2 * PAGE, RODATA + 4 * PAGE - 8):
        assert g.call("ld", address) == 0
        check_fault(g, "sd", address)


def test_the_heap_starts_on_the_page_after_the_image(g):
    assert g.program.heap_start == DATA + 3 * PAGE
    assert g.program.heap_start % PAGE == 0
    assert g.program.heap_size % PAGE == 0


@pytest.mark.parametrize("name", [*LOADS, *STORES])
@pytest.mark.parametrize("address", [GUARD, GUARD + PAGE, MIB - SMALL.stack_size - 8])
def test_the_guard_below_the_stack_is_a_stack_overflow(g, name, address):
    trap = g.trap(name, address)
    assert trap.code is TrapCode.STACK_OVERFLOW
    assert (trap.address, trap.pc) == (address, pc_of(g, name))
    assert trap.access == ("store" if name in STORES else "load")


def test_recursion_without_end_is_a_stack_overflow(guest):
    g = guest("f: addi sp, sp, -64; sd ra, 56(sp); jal f; ld ra, 56(sp); addi sp, sp, 64; ret")
    trap = g.trap("f")
    assert trap.code is TrapCode.STACK_OVERFLOW
    assert trap.address == MIB - SMALL.stack_size - 8
    assert trap.pc == BASE + 4
    # The whole stack was used, page by page.
    assert g.store.dirty_ranges() == [(MIB - SMALL.stack_size, MIB)]


@pytest.mark.parametrize("name", [*LOADS, *STORES])
def test_misaligned_and_page_crossing_accesses_work(g, name):
    size = (LOADS | STORES)[name]
    for address in itertools.chain(range(0x50000, 0x50010), range(0x51000 - 9, 0x51001)):
        pattern = bytes((address + i) % 251 + 1 for i in range(size))
        if name in STORES:
            g.write(address - 8, bytes(24))
            g.call(name, address, int.from_bytes(pattern + b"\xee" * (8 - size), "little"))
            assert g.read(address - 8, 24) == bytes(8) + pattern + bytes(16 - size)
        else:
            g.write(address, pattern)
            value = int.from_bytes(pattern, "little", signed=not name.endswith("u"))
            assert g.call(name, address) == value % 2**64


def test_a_page_crossing_store_puts_both_pages_into_the_dirty_log(guest):
    g = guest(ACCESSES)
    g.call("sd", 0x51000 - 4, 1)
    assert g.store.dirty_ranges() == [(0x50000, 0x52000)]
    assert g.store.machine.dirty_pages() == 2


def test_loads_leave_the_dirty_log_alone(g):
    for address in range(0x50000, 0x60000, PAGE):
        g.call("ld", address)
    assert g.store.dirty_ranges() == []


@pytest.mark.parametrize("offset", [-2048, -1, 1, 2047])
@pytest.mark.parametrize("base", [0, 2**64 - 1, 2**32, 2**64 - 2048, MIB])
def test_base_plus_offset_wraps_to_64_bits_and_is_checked_there(guest, base, offset):
    g = guest(f"f: lb a0, {offset}(a0); ret")
    address = (base + offset) % 2**64
    if PAGE <= address < MIB:
        g.call("f", base)
    else:
        trap = g.trap("f", base)
        assert (trap.code, trap.address) == (TrapCode.LOAD_FAULT, address)


ATOMICS = [f"amoadd.{w}" for w in "wd"] + [f"sc.{w}" for w in "wd"] + [f"lr.{w}" for w in "wd"]


@pytest.mark.parametrize("name", ATOMICS)
def test_atomics_check_alignment_first_and_then_the_page(guest, name):
    operands = "a0, (a0)" if name.startswith("lr") else "a0, a1, (a0)"
    g = guest(f"f: lr.{name[-1]} a2, (a3); {name} {operands}; ret", rodata=b"ro", rodata_addr=RODATA)
    size = 4 if name.endswith("w") else 8
    good = 0x50000
    for address in (good + 1, good + size // 2, BASE + 1, MIB + 1, -1):
        trap = g.trap("f", address, 0, 0, good)
        assert trap.code is TrapCode.MISALIGNED_ATOMIC
        assert (trap.address, trap.size, trap.pc) == (address % 2**64, size, BASE + 4)
    for address in (0, PAGE, MIB, 2**64 - 8, GUARD - 2**40):
        trap = g.trap("f", address, 0, 0, good) if not name.startswith("sc") else None
        if trap is not None:
            assert trap.code is (TrapCode.LOAD_FAULT if name.startswith("lr") else TrapCode.STORE_FAULT)
            assert (trap.address, trap.size) == (address % 2**64, size)
            assert trap.access == ("load" if name.startswith("lr") else "store")
    if name.startswith("amo"):
        assert g.trap("f", RODATA, 0, 0, good).code is TrapCode.STORE_FAULT


def test_a_store_conditional_to_read_only_memory_traps_when_it_is_reserved(guest):
    g = guest("f: lr.d a2, (a0); sc.d a1, a2, (a0); ret", rodata=bytes(16), rodata_addr=RODATA)
    trap = g.trap("f", RODATA)
    assert (trap.code, trap.address, trap.size, trap.pc) == (TrapCode.STORE_FAULT, RODATA, 8, BASE + 4)


def test_an_atomic_goes_through_the_dirty_log(guest):
    g = guest("f: amoadd.d a1, a1, (a0); ret; g: lr.w a1, (a0); sc.w a2, a1, (a0); mv a0, a2; ret")
    g.call("f", 0x50000, 3)
    assert g.call("g", 0x51000) == 0
    assert g.store.dirty_ranges() == [(0x50000, 0x52000)]


@pytest.mark.parametrize(
    ("start", "stop"),
    [(0, 1), (BASE - 1, BASE + 1), (DATA - 1, DATA), (GUARD - 1, GUARD + 1), (MIB - 1, MIB + 1),
     (MIB, MIB + 1),
     (2**64 - 1, 2**64), (2**64 - 1, 2**65), (DATA + 1, DATA), (-1, 1), (DATA, 2**64 - 1)],
)  # fmt: skip
def test_the_host_reads_only_what_the_guest_may_read(g, start, stop):
    with pytest.raises(ValueError, match="is not readable"):
        g.memory.read(g.store, start, stop)


@pytest.mark.parametrize(
    "address", [0, BASE, RODATA, DATA - 1, GUARD - 1, GUARD, MIB - 1, MIB, 2**64 - 1, 2**64, -1]
)
def test_the_host_writes_only_what_the_guest_may_write(g, address):
    with pytest.raises(ValueError, match="is not writable"):
        g.write(address, b"xy")
    assert g.store.dirty_ranges() == []


def test_the_host_reads_and_writes_across_pages(g):
    content = bytes(i % 253 for i in range(3 * PAGE))
    g.write(0x50000 - 5, content)
    assert g.read(0x50000 - 5, len(content)) == content
    assert g.read(0x50000 - 6, 1) == b"\0"
    assert g.read(0x50000 - 5 + len(content), 1) == b"\0"
    assert g.store.dirty_ranges() == [(0x4F000, 0x53000)]


def test_a_range_longer_than_memory_is_neither_readable_nor_writable(g):
    """From the stack on nothing but the end of memory stops it."""
    start = MIB - PAGE
    for size in (PAGE + 1, MIB, MIB + 1, 2 * MIB, 2**63, 2**64 - start):
        with pytest.raises(ValueError, match="is not readable"):
            g.read(start, size)
    for size in (PAGE + 1, MIB, MIB + 1, 2 * MIB):
        with pytest.raises(ValueError, match="is not writable"):
            g.write(start, bytes(size))


def test_an_empty_range_is_readable_and_writable_anywhere(g):
    for address in (0, BASE, MIB, 2**64 - 1):
        assert g.read(address, 0) == b""
        g.write(address, b"")
    assert g.store.dirty_ranges() == []


@pytest.mark.parametrize("data", ["text", 5, None, memoryview(b"abcdef")[::2]])
def test_the_host_writes_bytes_and_nothing_else(g, data):
    with pytest.raises((TypeError, ValueError, BufferError)):
        g.write(0x50000, data)
    g.write(0x50000, bytearray(b"ab"))
    g.write(0x50002, memoryview(b"cd"))
    assert g.read(0x50000, 4) == b"abcd"


@pytest.mark.usefixtures("trusted_arenas")
def test_a_read_of_all_memory_is_refused_before_anything_is_allocated():
    """A hostile guest names 4 GiB; the null page in it must stop the host, not its allocator."""
    import tracemalloc

    with Guest(ACCESSES, config=rvcore.Config(memory_size=4 << 30)) as g:
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match="not readable"):
                g.memory.read(g.store, 1, 4 << 30)
            assert tracemalloc.get_traced_memory()[1] < MIB
        finally:
            tracemalloc.stop()


SIZES = [128 * KIB, 256 * KIB, MIB, 16 * MIB, 64 * MIB, 1 << 30, 2 << 30, 4 << 30]


@pytest.mark.usefixtures("trusted_arenas")
@pytest.mark.parametrize("size", SIZES)
def test_memory_of_every_size_ends_where_it_should(size):
    config = rvcore.Config(memory_size=size, stack_size=16 * KIB)
    with Guest(ACCESSES, config=config) as g:
        assert g.memory.size == size
        for name, width in STORES.items():
            g.call(name, size - width, 0x5A5A5A5A5A5A5A5A)
            trap = g.trap(name, size)
            assert (trap.code, trap.address) == (TrapCode.STORE_FAULT, size)
        assert g.call("ld", size - 8) == 0x5A5A5A5A5A5A5A5A
        guard = size - 16 * KIB
        assert g.trap("sb", guard - 1).code is TrapCode.STACK_OVERFLOW
        heap_end = g.program.heap_start + g.program.heap_size
        g.call("sd", heap_end - 8, 1)
        assert g.trap("sb", heap_end).code is TrapCode.STACK_OVERFLOW


@pytest.mark.usefixtures("trusted_arenas")
def test_the_top_of_four_gigabytes_does_not_wrap_to_zero():
    with Guest(ACCESSES, config=rvcore.Config(memory_size=4 << 30)) as g:
        for name, width in (LOADS | STORES).items():
            for inside in range(1, width):
                trap = g.trap(name, 2**32 - inside)
                assert trap.address == 2**32 - inside
            assert g.trap(name, 2**32).address == 2**32


@pytest.mark.usefixtures("trusted_arenas")
def test_an_image_high_in_memory_runs():
    config = rvcore.Config(memory_size=4 << 30)
    with Guest(ACCESSES + "; far: tail lb", base=0x80000000, config=config) as g:
        assert (
            g.call("far", 0x80000000) == int.from_bytes(g.read(0x80000000, 1), "little", signed=True) % 2**64
        )
        assert g.trap("lb", 0x7FFFFFFF).code is TrapCode.LOAD_FAULT


@pytest.mark.usefixtures("trusted_arenas")
def test_calls_by_auipc_work_in_every_quarter_of_memory():
    """The constant of auipc is negative as a 32-bit number from 2 GiB up."""
    for base in (0x10000, 0x40000000, 0x7FFFE000, 0x80000000, 0xC0000000):
        text = """
        f:  addi sp, sp, -16
            sd ra, 0(sp)
            call g
            call g
            ld ra, 0(sp)
            addi sp, sp, 16
            tail h
        g:  addi a0, a0, 1
            ret
        h:  addi a0, a0, 2
            ret
        """
        with Guest(text, base=base, config=rvcore.Config(memory_size=4 << 30)) as g:
            assert g.call("f") == 4


def test_an_image_that_fills_memory_up_to_the_guard_runs(guest):
    top = GUARD
    g = guest(ACCESSES, data=b"\1" * (top - DATA), data_addr=DATA)
    assert (g.program.heap_start, g.program.heap_size) == (top, 0)
    assert g.call("lbu", top - 1) == 1
    g.call("sb", top - 1, 7)
    assert g.trap("sb", top).code is TrapCode.STACK_OVERFLOW


@pytest.mark.parametrize("kind", ["data", "bss"])
def test_an_image_one_byte_past_the_guard_is_refused(kind):
    size = GUARD - DATA + 1
    image = {"data": b"\1" * size} if kind == "data" else {"data": b"\1", "bss": size - 1}
    with pytest.raises(rvcore.LoadError, match="raise memory_size or link lower"):
        Guest(ACCESSES, data_addr=DATA, **image)


def test_an_image_in_the_null_page_is_refused():
    with pytest.raises(rvcore.LoadError, match="covers the null page"):
        Guest("f: ret", base=0xFFE)


def test_segments_of_different_rights_cannot_share_a_page():
    with pytest.raises(rvcore.LoadError, match="shares a page"):
        Guest(ACCESSES, rodata=bytes(100), rodata_addr=RODATA, data=b"x", data_addr=RODATA + 2048)


def test_a_tail_of_zeroes_may_not_reach_into_the_page_of_read_only_data():
    with pytest.raises(rvcore.LoadError, match="shares a page"):
        Guest(
            ACCESSES,
            data=b"x",
            data_addr=RODATA - PAGE,
            bss=PAGE + 10,
            rodata=bytes(100),
            rodata_addr=RODATA + 2048,
        )


def test_segments_of_equal_rights_may_share_a_page(guest):
    g = guest("f: ret", base=RODATA, rodata=b"read only", rodata_addr=RODATA + 1024)
    assert g.read(RODATA + 1024, 9) == b"read only"
    assert g.read(RODATA + 512, 4) == bytes(4)


def test_code_cannot_be_written_through_any_door(g):
    """Neither the guest's stores, nor its atomics, nor the host on its behalf."""
    before = g.read(BASE, 64)
    for name in STORES:
        check_fault(g, name, BASE)
    with pytest.raises(ValueError, match="not writable"):
        g.write(BASE, b"\0\0")
    assert g.read(BASE, 64) == before
    assert STACK_TOP == MIB
