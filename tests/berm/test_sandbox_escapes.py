"""Every way out of the sandbox that we know, tried: each ends as the trap that names it, the host goes on.

docs/security.md points here: one promise, one test.
"""

import resource
import time

import pytest

import berm
from berm import TrapCode
from rvcore._elf import read_elf

pytestmark = pytest.mark.core

MEMORY = 8 << 20
STACK = 1 << 20
TOP = MEMORY - STACK  # lowest address of the stack
GUARD = MEMORY // 16  # bytes below it that nothing may touch
PAGE = 4096


@pytest.fixture(scope="module")
def engine():
    with berm.Engine(berm.Config(memory_size=MEMORY, stack_size=STACK)) as engine:
        yield engine


@pytest.fixture(scope="module")
def entry(attacks_image):
    """Return a function that gives a tool's address."""
    exports = read_elf(attacks_image).exports
    return lambda tool: exports[f"berm_tool_{tool}"]


def trapped(harness, tool, argument="", **options):
    with pytest.raises(berm.Trap) as caught:
        harness.call(tool, str(argument), **options)
    return caught.value


@pytest.fixture(autouse=True)
def _everything_is_given_back_and_clean(attacks, no_guest_left):  # noqa: ARG001 - for its check
    yield
    assert attacks.call("find_leftovers", "").text == "0"


# Endless work


@pytest.mark.parametrize("tool", ["spin", "tail_chain", "indirect_chain"])
def test_endless_guest_ends_at_its_deadline(attacks, tool):
    began = time.monotonic()
    assert trapped(attacks, tool, limits=berm.Limits(deadline=0.05)).code is TrapCode.DEADLINE
    assert time.monotonic() - began < 1


@pytest.mark.parametrize("tool", ["spin", "tail_chain", "indirect_chain", "log_flood", "ask_flood"])
def test_endless_guest_ends_with_its_fuel(attacks, tool):
    assert trapped(attacks, tool, limits=berm.Limits(fuel=300_000)).code is TrapCode.OUT_OF_FUEL


def test_endless_recursion_hits_the_guard_below_the_stack(attacks):
    trap = trapped(attacks, "recurse", 0)
    assert trap.code is TrapCode.STACK_OVERFLOW
    assert trap.symbol == "deeper"
    assert TOP - GUARD <= trap.address < TOP


# Addresses


@pytest.mark.parametrize(
    "address",
    [
        0,
        1,
        PAGE - 1,
        0x8000,
        TOP - 1,
        TOP - 8,
        MEMORY,
        MEMORY + 8,
        1 << 32,
        1 << 63,
        (1 << 64) - 8,
        (1 << 64) - 1,
    ],
)
@pytest.mark.parametrize(
    ("tool", "code", "size"),
    [
        ("read8", "LOAD_FAULT", 1),
        ("read64", "LOAD_FAULT", 8),
        ("write8", "STORE_FAULT", 1),
        ("write64", "STORE_FAULT", 8),
    ],
)
def test_wild_access_is_a_trap_with_its_address(attacks, tool, code, size, address):
    trap = trapped(attacks, tool, address)
    in_guard = TOP - GUARD <= address < TOP
    assert trap.code is (TrapCode.STACK_OVERFLOW if in_guard else TrapCode[code])
    assert (trap.address, trap.size, trap.access) == (
        address,
        size,
        "load" if code == "LOAD_FAULT" else "store",
    )
    assert trap.symbol == f"berm_tool_{tool}"


@pytest.mark.parametrize("address", [MEMORY - 7, MEMORY - 1, (1 << 64) - 7])
@pytest.mark.parametrize("tool", ["read64", "write64"])
def test_access_across_the_end_of_memory_is_a_trap(attacks, tool, address):
    assert trapped(attacks, tool, address).address == address


def test_last_bytes_of_memory_are_the_first_frame(attacks):
    trap = trapped(attacks, "write64", MEMORY - 8)  # where the tool saved its return address
    assert trap.code is TrapCode.BAD_RETURN
    assert trap.address == 0


@pytest.mark.parametrize("tool", ["write_text", "write_rodata"])
def test_code_and_constants_cannot_be_written(attacks, tool):
    trap = trapped(attacks, tool)
    assert trap.code is TrapCode.STORE_FAULT
    assert trap.symbol == f"berm_tool_{tool}"


def test_code_is_readable(attacks, attacks_image, entry):
    word = int(attacks.call("read64", str(entry("spin"))).text)
    assert word.to_bytes(8, "little") in attacks_image


# Control flow


@pytest.mark.parametrize("tool", ["jump_data", "jump_middle", "jump_never_taken"])
def test_indirect_jump_to_what_is_no_target_is_a_trap(attacks, tool):
    assert trapped(attacks, tool).code in {TrapCode.BAD_JUMP, TrapCode.FETCH_FAULT}


@pytest.mark.parametrize("target", [0, 2, 0x10000, 1 << 40, (1 << 64) - 2, 0xFFFFF000, TOP])
def test_jump_anywhere_is_a_trap(attacks, target):
    trap = trapped(attacks, "jump_to", target)
    assert trap.code in {TrapCode.BAD_JUMP, TrapCode.FETCH_FAULT}
    assert trap.address == target


def test_jump_into_the_middle_of_a_tool_is_a_trap(attacks, entry):
    trap = trapped(attacks, "jump_to", entry("spin") + 2)
    assert trap.code is TrapCode.BAD_JUMP


@pytest.mark.parametrize("tool", ["bad_return", "smash_stack"])
def test_overwritten_return_address_is_a_trap(attacks, tool):
    assert trapped(attacks, tool).code in {TrapCode.BAD_RETURN, TrapCode.BAD_JUMP, TrapCode.FETCH_FAULT}


def test_return_to_the_start_of_a_function_is_a_trap(attacks, entry):
    trap = trapped(attacks, "return_to", entry("aborts"))
    assert trap.code in {TrapCode.BAD_RETURN, TrapCode.BAD_JUMP}


# Pointers given to the host


WILD = [0, 8, PAGE - 8, TOP - 8, MEMORY - 15, MEMORY, 1 << 40, (1 << 64) - 16, (1 << 64) - 1]


@pytest.mark.parametrize("address", WILD)
@pytest.mark.parametrize("tool", ["log_at", "fail_at", "ask_at", "result_at"])
def test_pointer_that_the_guest_could_not_read_is_its_load_fault(attacks, tool, address):
    trap = trapped(attacks, tool, address)
    in_guard = TOP - GUARD <= address < TOP
    assert trap.code is (TrapCode.STACK_OVERFLOW if in_guard else TrapCode.LOAD_FAULT)
    assert (trap.address, trap.size, trap.access) == (address, 16, "load")


@pytest.mark.parametrize("address", [*WILD, 0x10000])
@pytest.mark.parametrize("tool", ["args_to", "reply_to"])
def test_pointer_that_the_guest_could_not_write_is_its_store_fault(engine, attacks_image, tool, address):
    reply = berm.Capability("test.ask", lambda _call, _request: b"sixteen bytes ok")
    harness = berm.Harness.load(engine, attacks_image, [reply])
    trap = trapped(harness, tool, f"{address:020}")
    in_guard = TOP - GUARD <= address < TOP
    assert trap.code is (TrapCode.STACK_OVERFLOW if in_guard else TrapCode.STORE_FAULT)
    assert (trap.address, trap.size, trap.access) == (address, 16, "store")


def test_the_host_does_not_write_code_for_a_guest(attacks):
    assert trapped(attacks, "args_to_text", "0123456789abcdef").code is TrapCode.STORE_FAULT


def test_fault_in_a_host_call_stands_at_the_ecall(attacks):
    trap = trapped(attacks, "ask_at", 0)
    assert trap.disassembly == "ecall"
    assert trap.host_calls[-1] == "test.ask"
    trap = trapped(attacks, "log_at", 0)
    assert trap.disassembly == "ecall"
    assert trap.host_calls[-1] == "berm.log"


@pytest.mark.parametrize("size", [MEMORY, MEMORY + 1, 1 << 32, 1 << 62, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("tool", ["log_huge", "fail_huge", "ask_huge"])
def test_huge_range_is_a_load_fault_and_costs_nothing(attacks, tool, size):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    trap = trapped(attacks, tool, size)
    assert trap.code is TrapCode.LOAD_FAULT
    assert trap.size == size
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10


def test_huge_request_is_an_error_reply_and_is_never_copied(attacks_image):
    """A guest with much memory cannot make the host hold as much again."""
    asked = []

    def ask(_call, request):
        asked.append(len(request))
        return b"reply"

    limit = 64 << 20
    with berm.Engine(berm.Config(memory_size=256 << 20)) as engine:
        harness = berm.Harness.load(engine, attacks_image, [berm.Capability("test.ask", ask)])
        assert int(harness.call("ask_huge", str(limit + 1)).text) >> 63 == 1
        assert asked == []
        assert int(harness.call("ask_huge", str(limit)).text) == len("reply")
    assert asked == [limit]


@pytest.mark.parametrize("size", [(64 << 20) + 1, 1 << 40, 1 << 63, (1 << 64) - 1])
def test_huge_result_is_beyond_the_limit(attacks, size):
    assert trapped(attacks, "result_huge", size).code is TrapCode.OUTPUT_LIMIT


def test_result_that_runs_out_of_memory_is_a_load_fault(attacks):
    trap = trapped(attacks, "result_huge", MEMORY)
    assert (trap.code, trap.size, trap.symbol) == (TrapCode.LOAD_FAULT, MEMORY, "berm_tool_result_huge")
    assert trap.disassembly == "ret"


@pytest.mark.parametrize("address", [0, 1 << 40, (1 << 64) - 1])
def test_empty_result_is_empty_wherever_it_points(attacks, address):
    assert attacks.call("result_empty_anywhere", str(address)).data == b""


def test_reply_can_be_read_again_and_there_is_none_before_a_call(attacks):
    assert attacks.call("reply_twice", "").text == "5"
    assert attacks.call("reply_before_any", "").text == "0"


# Floods


def test_log_flood_is_cut_with_a_count(engine, attacks_image):
    lines = []
    harness = berm.Harness.load(engine, attacks_image, log=lambda _call, line: lines.append(line))
    trap = trapped(harness, "log_flood", limits=berm.Limits(fuel=5_000_000, log=1000))
    assert trap.code is TrapCode.OUT_OF_FUEL
    assert set(lines[:-2]) == {"flood"}
    assert sum(map(len, lines[:-1])) < 1000
    assert lines[-1].startswith("… ")
    assert lines[-1].endswith(" log lines were cut or dropped")
    assert int(lines[-1].split()[1]) > 100_000


def test_empty_log_lines_are_not_free(engine, attacks_image):
    lines = []
    harness = berm.Harness.load(engine, attacks_image, log=lambda _call, line: lines.append(line))
    assert harness.call("log_flood_empty", "", limits=berm.Limits(log=1600)).text == "done"
    assert lines == [""] * 100 + ["… 999900 log lines were cut or dropped"]


def test_log_line_that_is_not_text_is_repaired(engine, attacks_image):
    lines = []
    berm.Harness.load(engine, attacks_image, log=lambda _call, line: lines.append(line)).call(
        "log_garbage", ""
    )
    assert lines == ["\ufffd\ufffd\x1b[2J"]


def test_failure_flood_keeps_one_message(attacks):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(attacks.call("fail_flood", "").message) == 8192
    # Together the messages are 800 MB; a sanitizer holds 256 MB of freed memory back.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10


def test_guest_that_touches_all_its_memory_leaves_none_of_it(engine, attacks):
    assert attacks.call("touch_everything", "").text == "ok"
    assert attacks.call("find_leftovers", "").text == "0"
    assert engine.statistics().arena_bytes_free <= engine.config.pool_bytes


# Instructions


@pytest.mark.parametrize(
    ("tool", "code"),
    [
        ("aborts", TrapCode.ILLEGAL_INSTRUCTION),
        ("breaks", TrapCode.BREAKPOINT),
        ("csr", TrapCode.ILLEGAL_INSTRUCTION),
        ("misaligned_atomic", TrapCode.MISALIGNED_ATOMIC),
    ],
)
def test_instruction_that_is_no_use_here_is_a_trap(attacks, tool, code):
    assert trapped(attacks, tool).code is code
