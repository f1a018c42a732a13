"""The C half of the test assembler: `c.…` statements → halfwords."""

from __future__ import annotations

from collections.abc import Callable

from asm_fields import AsmError, Statement, fit, reg, scatter, short_reg


def compressed(at: Statement) -> int | None:
    """Encode a `c.` instruction, also in forms that the manual reserves (a zero immediate, say)."""
    name = at.name.removeprefix("c.")
    for table in (_C_MEMORY, _C_REGISTER, _C_CONTROL):
        if name in table:
            return table[name](at)
    return None


def _c_immediate(kind: int, *, signed: bool = True) -> Callable[[Statement], int]:
    def encode(at: Statement) -> int:
        rd, value = at.take(2)
        field = scatter(fit(at.number(value), 6, signed=signed), (5, 5, 12), (4, 0, 2))
        return kind | reg(rd) << 7 | field

    return encode


def _c_lui(at: Statement) -> int:
    rd, value = at.take(2)
    number = at.number(value)
    number -= 1 << 20 if number >= 1 << 19 else 0
    return 0x6001 | reg(rd) << 7 | scatter(fit(number, 6), (5, 5, 12), (4, 0, 2))


def _c_short_immediate(kind: int, *, signed: bool) -> Callable[[Statement], int]:
    def encode(at: Statement) -> int:
        rd, value = at.take(2)
        field = scatter(fit(at.number(value), 6, signed=signed), (5, 5, 12), (4, 0, 2))
        return kind | short_reg(rd) << 7 | field

    return encode


def _c_pair(kind: int) -> Callable[[Statement], int]:
    def encode(at: Statement) -> int:
        rd, rs2 = at.take(2)
        return kind | short_reg(rd) << 7 | short_reg(rs2) << 2

    return encode


def _c_move(kind: int) -> Callable[[Statement], int]:
    def encode(at: Statement) -> int:
        rd, rs2 = at.take(2)
        return kind | reg(rd) << 7 | reg(rs2) << 2

    return encode


def _c_addi16sp(at: Statement) -> int:
    value = fit(at.number(at.operands[-1]), 10, step=16)
    return 0x6101 | scatter(value, (9, 9, 12), (4, 4, 6), (6, 6, 5), (8, 7, 3), (5, 5, 2))


def _c_addi4spn(at: Statement) -> int:
    value = fit(at.number(at.operands[-1]), 10, signed=False, step=4)
    return scatter(value, (5, 4, 11), (9, 6, 7), (2, 2, 6), (3, 3, 5)) | short_reg(at.operands[0]) << 2


def _c_memory(kind: int, size: int) -> Callable[[Statement], int]:
    def encode(at: Statement) -> int:
        register, place = at.take(2)
        value, base = at.memory(place)
        if size == 4:
            fields = scatter(fit(value, 7, signed=False, step=4), (5, 3, 10), (2, 2, 6), (6, 6, 5))
        else:
            fields = scatter(fit(value, 8, signed=False, step=8), (5, 3, 10), (7, 6, 5))
        return kind | fields | short_reg(base) << 7 | short_reg(register) << 2

    return encode


def _c_stack(kind: int, size: int, *, store: bool) -> Callable[[Statement], int]:
    def encode(at: Statement) -> int:
        register, place = at.take(2)
        value, base = at.memory(place)
        if reg(base) != 2:
            raise AsmError(f"{at.name} takes sp, got {base}")
        value = fit(value, 8 if size == 4 else 9, signed=False, step=size)
        if store:
            high = ((5, 2, 9), (7, 6, 7)) if size == 4 else ((5, 3, 10), (8, 6, 7))
            return kind | scatter(value, *high) | reg(register) << 2
        high = ((5, 5, 12), (4, 2, 4), (7, 6, 2)) if size == 4 else ((5, 5, 12), (4, 3, 5), (8, 6, 2))
        return kind | scatter(value, *high) | reg(register) << 7

    return encode


def _c_j(at: Statement) -> int:
    fields = ((11, 11, 12), (4, 4, 11), (9, 8, 9), (10, 10, 8), (6, 6, 7), (7, 7, 6), (3, 1, 3), (5, 5, 2))
    return 0xA001 | scatter(fit(at.offset(at.take(1)[0]), 12, step=2), *fields)


def _c_branch(kind: int) -> Callable[[Statement], int]:
    def encode(at: Statement) -> int:
        register, target = at.take(2)
        value = fit(at.offset(target), 9, step=2)
        fields = scatter(value, (8, 8, 12), (4, 3, 10), (7, 6, 5), (2, 1, 3), (5, 5, 2))
        return kind | fields | short_reg(register) << 7

    return encode


_C_MEMORY: dict[str, Callable[[Statement], int]] = {
    "lw": _c_memory(0x4000, 4),
    "ld": _c_memory(0x6000, 8),
    "sw": _c_memory(0xC000, 4),
    "sd": _c_memory(0xE000, 8),
    "lwsp": _c_stack(0x4002, 4, store=False),
    "ldsp": _c_stack(0x6002, 8, store=False),
    "swsp": _c_stack(0xC002, 4, store=True),
    "sdsp": _c_stack(0xE002, 8, store=True),
}
_C_REGISTER: dict[str, Callable[[Statement], int]] = {
    "addi4spn": _c_addi4spn,
    "addi": _c_immediate(0x0001),
    "addiw": _c_immediate(0x2001),
    "li": _c_immediate(0x4001),
    "lui": _c_lui,
    "addi16sp": _c_addi16sp,
    "srli": _c_short_immediate(0x8001, signed=False),
    "srai": _c_short_immediate(0x8401, signed=False),
    "andi": _c_short_immediate(0x8801, signed=True),
    "sub": _c_pair(0x8C01),
    "xor": _c_pair(0x8C21),
    "or": _c_pair(0x8C41),
    "and": _c_pair(0x8C61),
    "subw": _c_pair(0x9C01),
    "addw": _c_pair(0x9C21),
    "slli": _c_immediate(0x0002, signed=False),
    "mv": _c_move(0x8002),
    "add": _c_move(0x9002),
}
_C_CONTROL: dict[str, Callable[[Statement], int]] = {
    "j": _c_j,
    "beqz": _c_branch(0xC001),
    "bnez": _c_branch(0xE001),
    "jr": lambda at: 0x8002 | reg(at.take(1)[0]) << 7,
    "jalr": lambda at: 0x9002 | reg(at.take(1)[0]) << 7,
}
