"""No two instruction patterns overlap, and rvcore's table draws the same patterns as the oracle's."""

from __future__ import annotations

import importlib
import itertools
import random
from collections.abc import Iterable
from typing import Any

import pytest

from rvcore import _ops

from . import rvc
from .encode import assemble_line, encode
from .isa import BY_MNEMONIC, PATTERNS, decode

# A compiled module without a stub: what it offers to tests is not part of any API.
_decode: Any = importlib.import_module("rvcore._decode")
_DRAW = random.Random(32)


def _overlaps(patterns: Iterable[tuple[str, int, int]]) -> list[tuple[str, str]]:
    """Find two patterns that one word could match: they agree wherever both look."""
    return [
        (first, second)
        for (first, mask_a, match_a), (second, mask_b, match_b) in itertools.combinations(patterns, 2)
        if (match_a ^ match_b) & mask_a & mask_b == 0
    ]


def test_a_planted_overlap_is_found() -> None:
    """The check itself can fail."""
    assert _overlaps([("a", 0x7F, 0x13), ("b", 0x707F, 0x1013)]) == [("a", "b")]


def test_no_two_patterns_of_the_oracle_overlap() -> None:
    """Each word decodes to at most one instruction."""
    assert _overlaps((pattern.mnemonic, pattern.mask, pattern.match) for pattern in PATTERNS) == []


def test_no_two_patterns_of_rvcore_overlap() -> None:
    """The order of rvcore's rows does not matter."""
    assert _overlaps((row.name, row.mask, row.match) for row in _ops.INSTRUCTIONS) == []


def test_rvcore_knows_the_same_patterns() -> None:
    """Two tables, written separately, agree bit for bit."""
    ours = {(pattern.mnemonic.replace(".", "_"), pattern.mask, pattern.match) for pattern in PATTERNS}
    assert {(row.name, row.mask, row.match) for row in _ops.INSTRUCTIONS} == ours


def test_every_match_lies_in_its_mask() -> None:
    """A bit that must be one is a bit that is looked at."""
    assert [row.name for row in _ops.INSTRUCTIONS if row.match & ~row.mask] == []
    assert [pattern.mnemonic for pattern in PATTERNS if pattern.match & ~pattern.mask] == []


def _near_misses() -> Iterable[int]:
    """Words of each instruction with drawn operands, and those with one bit flipped."""
    for pattern in PATTERNS:
        for _ in range(8):
            word = pattern.match | _DRAW.getrandbits(32) & ~pattern.mask
            yield word
            for bit in range(32):
                yield word ^ 1 << bit


def test_rvcore_names_each_word_as_the_oracle_does() -> None:
    """Over instructions, their neighbours, and words drawn at random."""
    words = [*_near_misses(), *(_DRAW.getrandbits(32) | 3 for _ in range(20_000))]
    wrong = []
    for word in words:
        instruction = decode(word)
        expected = instruction.mnemonic.replace(".", "_") if instruction else "illegal"
        if word & 0x1C != 0x1C and _decode.name_of(word) != expected:
            wrong.append(f"0x{word:08x}: expected {expected}, got {_decode.name_of(word)}")
    assert wrong == []


def test_rvcore_expands_each_compressed_encoding_as_the_oracle_does() -> None:
    """All of them, as 32-bit words."""
    wrong = []
    for half in rvc.ALL_ENCODINGS:
        op = rvc.expand(half).instruction
        expected = encode(op.mnemonic, op.rd, op.rs1, op.rs2, op.imm) if op else 0
        if _decode.expansion(half) != expected:
            wrong.append(f"0x{half:04x}: expected 0x{expected:08x}, got 0x{_decode.expansion(half):08x}")
    assert wrong == []


@pytest.mark.parametrize("name", BY_MNEMONIC)
def test_encoding_and_decoding_are_inverse(name: str) -> None:
    """For drawn operands of each instruction."""
    pattern = BY_MNEMONIC[name]
    for _ in range(50):
        word = pattern.match | _DRAW.getrandbits(32) & ~pattern.mask
        op = decode(word)
        assert op is not None
        assert op.mnemonic == name
        again = encode(name, op.rd, op.rs1, op.rs2, op.imm)
        assert decode(again) == op


_LINES = {
    "addi a0, a1, -3": 0xFFD58513,
    "sd ra, 8(sp)": 0x00113423,
    "ld a0, -2048(s0)": 0x80043503,
    "lui t0, 0xfffff": 0xFFFFF2B7,
    "auipc gp, 1": 0x00001197,
    "jal ra, -4": 0xFFDFF0EF,
    "jalr zero, 0(ra)": 0x00008067,
    "beq a0, zero, +8": 0x00050463,
    "bgeu s11, t6, -4096": 0x81FDF063,
    "srai a0, a0, 63": 0x43F55513,
    "sraiw a0, a0, 31": 0x41F5551B,
    "mulhsu a0, a1, a2": 0x02C5A533,
    "remuw a0, a1, a2": 0x02C5F53B,
    "lr.d.aq a0, (a1)": 0x1405B52F,
    "sc.w.rl a0, a2, (a1)": 0x1AC5A52F,
    "amomaxu.d.aqrl a0, a2, (a1)": 0xE6C5B52F,
    "fence.i": 0x0000100F,
    "ebreak": 0x00100073,
}


@pytest.mark.parametrize("line", _LINES)
def test_a_line_assembles_to_the_word_that_clang_gives(line: str) -> None:
    """Words taken from clang's listing, not from this repository."""
    assert int.from_bytes(assemble_line(line), "little") == _LINES[line]
