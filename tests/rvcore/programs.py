"""Random programs: straight lines, branches, loops, calls through registers, memory of every width, traps.

A program is a list of units (one to five instructions that belong together); jumps go to the start of a
unit. s0, s1 and sp point into the data and are never written, so most accesses hit; `wild` programs also
use registers as they are. The same seed gives the same program for ever, whatever the machine.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

from .encode import encode
from .encode_rvc import compressed
from .hart import PAGE
from .isa import BY_MNEMONIC
from .state import LOW, Layout

DATA_PAGES = 3
RA, SP, T0, S0, S1 = 1, 2, 5, 8, 9
POINTERS = (SP, S0, S1)
_WRITABLE = [number for number in range(32) if number not in POINTERS]
_SHORT = [10, 11, 12, 13, 14, 15]
_EDGES = (
    0, 1, 2, 3, 7, 63, 64, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF,
    1 << 32, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 2, (1 << 64) - 1,
)  # fmt: skip

_BY_FORMAT: dict[str, list[str]] = {}
for _pattern in BY_MNEMONIC.values():
    _BY_FORMAT.setdefault(_pattern.format, []).append(_pattern.mnemonic)
_LOADS = [name for name in _BY_FORMAT["I"] if BY_MNEMONIC[name].match & 0x7F == 0x03]
_IMMEDIATE = [name for name in _BY_FORMAT["I"] if name not in _LOADS and name != "jalr"]
_AMOS = [name for name in _BY_FORMAT["AMO"] if not name.startswith("sc")]
_NO_INSTRUCTION = (0x0000000B, 0x00000000, 0xFFFFFFFF, 0x0000A063, 0x0600053B, 0x0000302F | 2 << 27 | 1 << 20)


@dataclass(frozen=True, slots=True)
class Jump:
    """A place in a unit that is known only when all units have their addresses."""

    mnemonic: str
    rd: int = 0
    rs1: int = 0
    rs2: int = 0
    size: int = 4
    odd: int = 0


Item = bytes | Jump
Unit = list[Item]


@dataclass(frozen=True, slots=True)
class RandomProgram:
    """Everything that a runner needs, and the seed that it came from."""

    seed: int
    code: bytes
    registers: tuple[int, ...]
    memory: bytes
    starts: tuple[int, ...]


def _word(mnemonic: str, **fields: int) -> bytes:
    return encode(mnemonic, **fields).to_bytes(4, "little")


def _half(mnemonic: str, *operands: int) -> bytes:
    return compressed(mnemonic, *operands).to_bytes(2, "little")


class _Generator:
    """Draws units; every method with a unit's name returns its items."""

    def __init__(self, seed: int, *, wild: bool, returns: bool) -> None:
        self.random = random.Random(seed)
        self.wild = wild
        self.returns = returns

    def destination(self) -> int:
        return self.random.choice(_WRITABLE)

    def source(self) -> int:
        return self.random.randrange(32)

    def short(self) -> int:
        return self.random.choice(_SHORT)

    def immediate(self) -> int:
        return self.random.choice((0, 1, -1, 2047, -2048, self.random.randrange(-2048, 2048)))

    def register_unit(self) -> Unit:
        name = self.random.choice(_BY_FORMAT["R"])
        return [_word(name, rd=self.destination(), rs1=self.source(), rs2=self.source())]

    def immediate_unit(self) -> Unit:
        name = self.random.choice(_IMMEDIATE)
        return [_word(name, rd=self.destination(), rs1=self.source(), imm=self.immediate())]

    def shift_unit(self) -> Unit:
        form, width = self.random.choice((("SHIFT6", 64), ("SHIFT5", 32)))
        name = self.random.choice(_BY_FORMAT[form])
        return [_word(name, rd=self.destination(), rs1=self.source(), imm=self.random.randrange(width))]

    def upper_unit(self) -> Unit:
        imm = self.random.choice(
            (0, 0x1000, -0x1000, 0x7FFFF000, -0x80000000, self.random.getrandbits(19) << 12)
        )
        return [_word(self.random.choice(_BY_FORMAT["U"]), rd=self.destination(), imm=imm)]

    def constant_unit(self) -> Unit:
        """Make an edge value from two instructions, so that later ones meet it."""
        rd = self.destination()
        upper = self.random.choice((0x1000, 0x7FFFF000, -0x80000000, -0x1000))
        shift = _word("slli", rd=rd, rs1=rd, imm=self.random.choice((0, 1, 31, 32, 33)))
        return [_word("lui", rd=rd, imm=upper), _word("addiw", rd=rd, rs1=rd, imm=self.immediate()), shift]

    def chain_unit(self) -> Unit:
        """Use each result at once, as either operand: what forwarding and fusion are made for."""
        rd = self.destination()
        out = _word("addi", rd=rd, rs1=self.source(), imm=self.immediate())
        for _ in range(self.random.randrange(1, 4)):
            name, other = self.random.choice(_BY_FORMAT["R"]), self.source()
            rs1, rs2 = self.random.choice(((rd, other), (other, rd), (rd, rd)))
            rd = self.destination()
            out += _word(name, rd=rd, rs1=rs1, rs2=rs2)
        return [out]

    def access_unit(self) -> Unit:
        """Load or store near a pointer, at any alignment, also across pages."""
        base, imm = self.random.choice(POINTERS), self.immediate()
        if self.random.random() < 0.5:
            return [_word(self.random.choice(_LOADS), rd=self.destination(), rs1=base, imm=imm)]
        return [_word(self.random.choice(_BY_FORMAT["S"]), rs2=self.source(), rs1=base, imm=imm)]

    def indexed_unit(self) -> Unit:
        """Compute an address inside the data and use it at once."""
        rd = self.random.choice([number for number in _WRITABLE if number])
        address = _word("andi", rd=rd, rs1=self.source(), imm=2047) + _word("add", rd=rd, rs1=rd, rs2=S0)
        if self.random.random() < 0.5:
            return [address + _word(self.random.choice(_LOADS), rd=self.destination(), rs1=rd)]
        return [address + _word(self.random.choice(_BY_FORMAT["S"]), rs2=self.source(), rs1=rd, imm=8)]

    def atomic_unit(self) -> Unit:
        name = self.random.choice(_AMOS)
        rd = self.random.choice([number for number in _WRITABLE if number])
        mask = 0x7FC if name.endswith("w") else 0x7F8
        address = _word("andi", rd=rd, rs1=self.source(), imm=mask) + _word("add", rd=rd, rs1=rd, rs2=S0)
        fields = {"rd": self.destination(), "rs1": rd, "rs2": self.source()}
        return [address + _word(name, ordering=self.random.randrange(4), **fields)]

    def reservation_unit(self) -> Unit:
        """Pair LR and SC with arithmetic between: nothing here stores, where harts may differ."""
        width = self.random.choice("wd")
        others = self.random.choice(((S0, S0), (S0, S0), (S0, SP), (SP, SP)))
        out = _word(f"lr.{width}", rd=self.destination(), rs1=others[0], ordering=self.random.randrange(4))
        for _ in range(self.random.randrange(3)):
            out += b"".join(item for item in self.register_unit() if isinstance(item, bytes))
        fields = {"rd": self.destination(), "rs1": others[1], "rs2": self.source()}
        return [out + _word(f"sc.{width}", **fields)]

    def compressed_unit(self) -> Unit:
        draw, rd = self.random.randrange, self.random.choice([number for number in _WRITABLE if number])
        choices: tuple[tuple[str, *tuple[int, ...]], ...] = (
            ("c.addi4spn", self.short(), SP, 4 * draw(1, 256)),
            ("c.lw", self.short(), 4 * draw(32), self.random.choice((S0, S1))),
            ("c.ld", self.short(), 8 * draw(32), self.random.choice((S0, S1))),
            ("c.sw", self.short(), 4 * draw(32), self.random.choice((S0, S1))),
            ("c.sd", self.short(), 8 * draw(32), self.random.choice((S0, S1))),
            ("c.nop", draw(-32, 32)),
            ("c.addi", rd, draw(-32, 32)),
            ("c.addiw", rd, draw(-32, 32)),
            ("c.li", rd, draw(-32, 32)),
            ("c.lui", rd, draw(1, 32)),
            ("c.lui", rd, draw(0xFFFE0, 0x100000)),
            ("c.srli", self.short(), draw(64)),
            ("c.srai", self.short(), draw(64)),
            ("c.andi", self.short(), draw(-32, 32)),
            *(
                (name, self.short(), self.short())
                for name in ("c.sub", "c.xor", "c.or", "c.and", "c.subw", "c.addw")
            ),
            ("c.slli", rd, draw(64)),
            ("c.lwsp", rd, 4 * draw(64), SP),
            ("c.ldsp", rd, 8 * draw(64), SP),
            ("c.mv", rd, draw(1, 32)),
            ("c.add", rd, draw(1, 32)),
            ("c.swsp", self.source(), 4 * draw(64), SP),
            ("c.sdsp", self.source(), 8 * draw(64), SP),
        )
        name, *operands = self.random.choice(choices)
        return [_half(name, *operands)]

    def hint_unit(self) -> Unit:
        """Fences, and encodings that do nothing visible."""
        fence = _word(self.random.choice(_BY_FORMAT["FENCE"]), imm=self.random.choice((0x33, 0x10, 0x833, 0)))
        hints = (_half("c.li", 0, 5), _half("c.lui", 0, 3), _half("c.slli", 0, 7), _half("c.mv", 0, 12))
        return [self.random.choice((fence, fence, *hints))]

    def branch_unit(self) -> Unit:
        if self.random.random() < 0.3:
            return [Jump(self.random.choice(("c.beqz", "c.bnez")), rs1=self.short(), size=2)]
        return [Jump(self.random.choice(_BY_FORMAT["B"]), rs1=self.source(), rs2=self.source())]

    def jump_unit(self) -> Unit:
        if self.random.random() < 0.3:
            return [Jump("c.j", size=2)]
        return [Jump("jal", rd=self.destination())]

    def indirect_unit(self) -> Unit:
        """Form an address with auipc and jump to it, at once or after an addi, perhaps with bit 0 set."""
        base = self.random.choice([number for number in _WRITABLE if number])
        kind = self.random.choice(("jalr", "c.jr", "c.jalr"))
        odd = self.random.randrange(2)
        if kind == "jalr":
            return [Jump("auipc+jalr", rd=self.destination(), rs1=base, size=8, odd=odd)]
        return [Jump("auipc+addi", rs1=base, size=8, odd=odd), _half(kind, base)]

    def call_unit(self) -> Unit:
        return [Jump("jal", rd=self.random.choice((RA, RA, T0)))]

    def return_unit(self) -> Unit:
        """Jump through a link register: returns, calls through it, and switches between the two."""
        other = self.random.choice(_WRITABLE)
        shapes = ((0, RA), (0, RA), (0, T0), (RA, T0), (T0, RA), (RA, RA), (T0, T0), (other, RA), (other, T0))
        rd, rs1 = self.random.choice(shapes)
        return [_word("jalr", rd=rd, rs1=rs1)]

    def trap_unit(self) -> Unit:
        """End the program here, by instruction or (in wild programs) by address."""
        base, rd = self.source(), self.destination()
        wild = (
            _word("ld", rd=rd, rs1=base),
            _word("sw", rs1=base, rs2=self.source()),
            _word("amoadd.d", rd=rd, rs1=S0, rs2=base),
            _word("lr.w", rd=rd, rs1=base),
            _word("jalr", rd=rd, rs1=base),
        )
        plain = (
            _word("ebreak"),
            _word("ecall"),
            _half("c.unimp"),
            _half("c.ebreak"),
            self.random.choice(_NO_INSTRUCTION).to_bytes(4, "little"),
            _word("lbu", rd=rd, imm=self.random.randrange(2048)),
            _word("sd", rs2=base, imm=self.random.randrange(2048)),
        )
        return [self.random.choice(wild if self.wild else plain)]

    def units(self, count: int) -> list[Unit]:
        weighted: tuple[tuple[Callable[[], Unit], float], ...] = (
            (self.register_unit, 18), (self.immediate_unit, 12), (self.shift_unit, 6), (self.upper_unit, 4),
            (self.constant_unit, 4), (self.chain_unit, 8), (self.access_unit, 14), (self.indexed_unit, 5),
            (self.atomic_unit, 9), (self.reservation_unit, 3), (self.compressed_unit, 20),
            (self.hint_unit, 2), (self.branch_unit, 12), (self.jump_unit, 3), (self.indirect_unit, 3),
            (self.trap_unit, 2 if self.wild else 0.15),
        )  # fmt: skip
        if self.returns:
            weighted += ((self.call_unit, 12), (self.return_unit, 6), (self.indirect_unit, 6))
        makers, weights = [pair[0] for pair in weighted], [pair[1] for pair in weighted]
        return [maker() for maker in self.random.choices(makers, weights, k=count)]

    def registers(self, data: int) -> tuple[int, ...]:
        values = [self.random.choice((*_EDGES, self.random.getrandbits(64))) for _ in range(32)]
        values[0] = 0
        values[SP] = data + PAGE + 16 * self.random.randrange(128)
        values[S0] = data + 2048 + 8 * self.random.randrange(512)
        values[S1] = data + 2 * PAGE - self.random.randrange(64)
        return tuple(values)


_REACH = {"c.j": 2046, "c.beqz": 254, "c.bnez": 254, "auipc+jalr": 2040, "auipc+addi": 2040}


def _bind(jump: Jump, distance: int) -> bytes:
    """Encode a jump over `distance` bytes."""
    name = jump.mnemonic
    if name == "c.j":
        return _half(name, distance)
    if name.startswith("c.b"):
        return _half(name, jump.rs1, distance)
    if name.startswith("auipc"):
        second = "jalr" if name.endswith("jalr") else "addi"
        rd = jump.rd if second == "jalr" else jump.rs1
        return _word("auipc", rd=jump.rs1) + _word(second, rd=rd, rs1=jump.rs1, imm=distance + jump.odd)
    if name == "jal":
        return _word(name, rd=jump.rd, imm=distance)
    return _word(name, rs1=jump.rs1, rs2=jump.rs2, imm=distance)


def _target(draw: random.Random, at: int, starts: list[int], reach: int) -> int:
    """Pick a place to jump to: mostly forward, so that programs get somewhere, and within reach."""
    forward = draw.random() < 0.75
    near = [start for start in starts if abs(start - at) <= reach and (start > at) == forward]
    return draw.choice(near[:12] if forward else near[-12:]) if near else starts[-1]


def _size(item: Item) -> int:
    return item.size if isinstance(item, Jump) else len(item)


def random_program(
    seed: int, size: int = 120, *, wild: bool = False, returns: bool = False, layout: Layout = LOW
) -> RandomProgram:
    """Draw a program of about `size` units; it ends with an ebreak, if it ends at all."""
    maker = _Generator(seed, wild=wild, returns=returns)
    ending: Unit = [_word("ebreak")]
    units = [*maker.units(size), ending]
    starts, at = [], 0
    for unit in units:
        starts.append(at)
        at += sum(_size(item) for item in unit)
    out = b""
    for item in itertools.chain.from_iterable(units):
        if isinstance(item, Jump):
            target = _target(maker.random, len(out), starts, _REACH.get(item.mnemonic, 4000))
            # The last unit may be out of a short jump's reach: then it goes to the one after it.
            near = abs(target - len(out)) <= _REACH.get(item.mnemonic, 4000)
            out += _bind(item, target - len(out) if near else item.size)
        else:
            out += item
    memory = maker.random.randbytes(DATA_PAGES * PAGE)
    return RandomProgram(seed, out, maker.registers(layout.data), memory, tuple(starts))


def describe(program: RandomProgram) -> str:
    """Say how to get this program again."""
    return f"seed {program.seed}, {len(program.code)} bytes of code"
