"""Every fused pair does what its two instructions do when stepped one by one.

The step functions are checked against an independent oracle elsewhere; here the handlers that the generator
derives from the same statements are held against them: each pair, each way of finding the next operand, each
direction of its jump, on operands that succeed and on operands that fault.
"""

from __future__ import annotations

import itertools
import random
import zlib

import pytest

import rvcore
from asm import assemble
from elfs import build_elf
from rvcore._handlers import FAST
from rvcore._ops import ALL, CODES
from rvcore._pairs import PAIRS

BASE = 0x10000
DATA = 0x40000
pytestmark = [pytest.mark.core]

SHIFTS = {"slli", "srli", "srai", "slliw", "srliw", "sraiw"}
LOADS = {"lb", "lh", "lw", "ld", "lbu", "lhu", "lwu"}
STORES = {"sb", "sh", "sw", "sd"}
BRANCHES = {"beq", "bne", "blt", "bge", "bltu", "bgeu"}
VARIANTS = ("f", "k", "l")


def text_of(name: str, rd: str, rs1: str, target: str) -> str:
    """Write one instruction down; its second operand is a2."""
    forms = {
        "li": f"addi {rd}, x0, 40",
        "mv": f"addi {rd}, {rs1}, 0",
        "j": f"jal x0, {target}",
        "jal": f"jal {rd}, {target}",
        "jalr": f"jalr {rd}, 0({rs1})",
        "jr": f"jalr x0, 0({rs1})",
        **dict.fromkeys(LOADS, f"{name} {rd}, 8({rs1})"),
        **dict.fromkeys(STORES, f"{name} a2, 8({rs1})"),
        **dict.fromkeys(BRANCHES, f"{name} {rs1}, a2, {target}"),
        **dict.fromkeys(SHIFTS, f"{name} {rd}, {rs1}, 3"),
    }
    operand = "24" if ALL[CODES[name]].format == "I" else "a2"
    return forms.get(name, f"{name} {rd}, {rs1}, {operand}")


def program(pair: tuple[str, str, str], variant: str, *, backward: bool) -> tuple[bytes, int]:
    """Return code whose entry runs the pair, and the address that an indirect jump may take."""
    first, second, link = pair
    source = {"f": "a0", "k": "a1", "l": "a3"}[link]
    following = {"f": "a4", "k": source, "l": "a5"}[variant]
    target = "back" if backward else "ahead"
    ending = "jalr x0, 0(ra)" if second == "ret" else text_of(second, "a4", source, target)
    code = f"""
        back: xori a7, {following}, 17
        ebreak
        run: jal ra, pair
        xori a7, {following}, 7
        ebreak
        pair: {text_of(first, "a0", "a1", target)}
        {ending}
        xori a6, {following}, 5
        xori a6, a6, 1
        ahead: xori a7, {following}, 9
        ebreak
    """
    out, labels = assemble(code, BASE)
    return out, labels["run"]


def load(code: bytes, entry: int, engine: rvcore.Engine) -> rvcore.Module:
    """Make a module whose function `run` starts at `entry`; data holds addresses of itself and of code."""
    words = [DATA, DATA + 64, BASE, 3, 0, 2**64 - 1, entry, DATA + 8] * 32
    data = b"".join(word.to_bytes(8, "little") for word in words)
    return rvcore.Module(
        engine,
        build_elf(
            code, base=BASE, entry=entry, symbols={"run": (entry, len(code) - (entry - BASE))}, data=data,
            data_addr=DATA, relocations=None,
        ),
    )  # fmt: skip


def outcome(module: rvcore.Module, operands: list[int], *, step: bool) -> tuple[object, ...]:
    """Run to the ebreak or another trap and return all that can be seen."""
    with rvcore.Store(module.engine) as store:
        instance = rvcore.Linker(module.engine).instantiate(store, module)
        if step:
            store.start_profile()
        # A warm page: the first store to it would leave the fast path.
        store.memory.write(store, store.memory.read(store, DATA, DATA + 1), DATA)
        call = instance.exports(store)["run"].start(store, *operands)
        end = call.run(1000)
        trap = end.trap
        facts = (trap.code, trap.pc, trap.address, trap.size, trap.registers) if trap else ()
        return end.reason, call.instructions, store.memory.read(store, DATA, DATA + 2048), *facts


def operand_sets(seed: int) -> list[list[int]]:
    """Operands that make addresses, shifted addresses, small numbers, code addresses and noise."""
    rand = random.Random(seed)
    sets = [
        [DATA] * 8,
        [DATA >> 3, DATA >> 3, 8, DATA >> 3, 0, 0, 0, 0],
        [0, 3, DATA - 3, DATA + 16, 5, 6, 7, 8],
        [1, DATA + 1, 1, DATA + 4093, 0, 0, 0, 0],
        [BASE + 8, BASE + 8, 0, BASE + 8, 1, 2, 3, 4],
        [2**64 - 8, 2**64 - 8, 2**64 - 1, 2**63, 9, 9, 9, 9],
    ]
    return [*sets, [rand.getrandbits(64) for _ in range(8)]]


def kind(name: str) -> str:
    return ALL[CODES[name]].kind


def shapes(pair: tuple[str, str, str]) -> list[tuple[str, bool]]:
    """List (variant, backward) of what the generator makes for a pair."""
    second = kind(pair[1])
    if second in {"ret", "jalr", "jr"}:
        return [("l", False)]
    if second in {"jal", "j"}:
        return [("l", False), ("l", True)]
    if second == "branch":
        return [(variant, back) for variant in ("k", "l") for back in (False, True)]
    return [(variant, False) for variant in VARIANTS]


@pytest.fixture(scope="module")
def engine() -> rvcore.Engine:
    return rvcore.Engine(rvcore.Config(memory_size=1 << 20, stack_size=1 << 16, cfi=False))


@pytest.mark.parametrize("first", sorted({pair[0] for pair in PAIRS}))
def test_pairs_starting_with(first: str, engine: rvcore.Engine) -> None:
    for pair in PAIRS:
        if pair[0] != first:
            continue
        for variant, backward in shapes(pair):
            code, entry = program(pair, variant, backward=backward)
            module = load(code, entry, engine)
            for operands in operand_sets(zlib.crc32(repr((pair, variant, backward)).encode())):
                fast, stepped = (outcome(module, operands, step=step) for step in (False, True))
                assert fast == stepped, (pair, variant, backward, operands)


@pytest.mark.skipif(not FAST, reason="this build has no fused handlers: it steps")
def test_every_pair_is_fused(engine: rvcore.Engine) -> None:
    """Else the comparison above compares stepping with stepping."""
    for pair in PAIRS:
        variant, backward = shapes(pair)[0]
        code, entry = program(pair, variant, backward=backward)
        links = load(code, entry, engine)._program.code.links()
        found = [
            fused
            for (name, link, fused), (after, _, _) in itertools.pairwise(links)
            if (name, after, link) == pair
        ]
        assert any(found), pair
