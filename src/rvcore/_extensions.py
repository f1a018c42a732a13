"""Names of instructions beyond RV64IMAC, for saying what an image should not contain.

Owns the encodings of F, D, Q, Zfh, V, the Zb* and Zk* groups, Zicsr, Zicond and a few others, each with
the extension that defines it. A word that no table holds is None, so that data is not mistaken for code
more often than it must be. Operands are left out for vectors and atomics. Sources: the opcode maps of the
unprivileged and the vector specification.
"""

# ruff: noqa: PLR2004 - encodings are numbers

from __future__ import annotations

from collections.abc import Callable

from rvcore._registers import FLOAT_REGISTERS as _F
from rvcore._registers import REGISTERS as _X

Foreign = tuple[str, str]  # text, extension


_FORMATS = {0: ("s", "F"), 1: ("d", "D"), 2: ("h", "Zfh"), 3: ("q", "Q")}
_ROUNDING = {0: ", rne", 1: ", rtz", 2: ", rdn", 3: ", rup", 4: ", rmm", 7: ""}
_INTEGERS = ("w", "wu", "l", "lu")

# (funct7, funct3) of OP and OP-32
_OP = {
    (0x10, 2): ("sh1add", "Zba"), (0x10, 4): ("sh2add", "Zba"), (0x10, 6): ("sh3add", "Zba"),
    (0x20, 7): ("andn", "Zbb"), (0x20, 6): ("orn", "Zbb"), (0x20, 4): ("xnor", "Zbb"),
    (0x05, 4): ("min", "Zbb"), (0x05, 5): ("minu", "Zbb"), (0x05, 6): ("max", "Zbb"),
    (0x05, 7): ("maxu", "Zbb"), (0x30, 1): ("rol", "Zbb"), (0x30, 5): ("ror", "Zbb"),
    (0x05, 1): ("clmul", "Zbc"), (0x05, 2): ("clmulr", "Zbc"), (0x05, 3): ("clmulh", "Zbc"),
    (0x24, 1): ("bclr", "Zbs"), (0x24, 5): ("bext", "Zbs"), (0x34, 1): ("binv", "Zbs"),
    (0x14, 1): ("bset", "Zbs"), (0x04, 4): ("pack", "Zbkb"), (0x04, 7): ("packh", "Zbkb"),
    (0x14, 2): ("xperm4", "Zbkx"), (0x14, 4): ("xperm8", "Zbkx"), (0x07, 5): ("czero.eqz", "Zicond"),
    (0x07, 7): ("czero.nez", "Zicond"), (0x19, 0): ("aes64es", "Zkne"), (0x1B, 0): ("aes64esm", "Zkne"),
    (0x3F, 0): ("aes64ks2", "Zkne"), (0x1D, 0): ("aes64ds", "Zknd"), (0x1F, 0): ("aes64dsm", "Zknd"),
}  # fmt: skip
_OP_32 = {
    (0x04, 0): ("add.uw", "Zba"), (0x10, 2): ("sh1add.uw", "Zba"), (0x10, 4): ("sh2add.uw", "Zba"),
    (0x10, 6): ("sh3add.uw", "Zba"), (0x30, 1): ("rolw", "Zbb"), (0x30, 5): ("rorw", "Zbb"),
    (0x04, 4): ("packw", "Zbkb"),
}  # fmt: skip
# (funct3, imm12) and (funct3, funct6) of OP-IMM and OP-IMM-32
_UNARY = {
    (1, 0x600): ("clz", "Zbb"), (1, 0x601): ("ctz", "Zbb"), (1, 0x602): ("cpop", "Zbb"),
    (1, 0x604): ("sext.b", "Zbb"), (1, 0x605): ("sext.h", "Zbb"), (5, 0x287): ("orc.b", "Zbb"),
    (5, 0x6B8): ("rev8", "Zbb"), (5, 0x687): ("brev8", "Zbkb"), (1, 0x300): ("aes64im", "Zknd"),
    (1, 0x100): ("sha256sum0", "Zknh"), (1, 0x101): ("sha256sum1", "Zknh"),
    (1, 0x102): ("sha256sig0", "Zknh"), (1, 0x103): ("sha256sig1", "Zknh"),
    (1, 0x104): ("sha512sum0", "Zknh"), (1, 0x105): ("sha512sum1", "Zknh"),
    (1, 0x106): ("sha512sig0", "Zknh"), (1, 0x107): ("sha512sig1", "Zknh"), (1, 0x108): ("sm3p0", "Zksh"),
    (1, 0x109): ("sm3p1", "Zksh"), **{(1, 0x310 + round_): ("aes64ks1i", "Zkne") for round_ in range(11)},
}  # fmt: skip
_SHIFTS = {
    (5, 0x18): ("rori", "Zbb"), (1, 0x12): ("bclri", "Zbs"), (5, 0x12): ("bexti", "Zbs"),
    (1, 0x1A): ("binvi", "Zbs"), (1, 0x0A): ("bseti", "Zbs"),
}  # fmt: skip
_UNARY_32 = {(1, 0x600): ("clzw", "Zbb"), (1, 0x601): ("ctzw", "Zbb"), (1, 0x602): ("cpopw", "Zbb")}

_CSRS = {
    0x001: "fflags", 0x002: "frm", 0x003: "fcsr", 0x008: "vstart", 0x009: "vxsat", 0x00A: "vxrm",
    0x00F: "vcsr", 0x015: "seed", 0x300: "mstatus", 0x301: "misa", 0x304: "mie", 0x305: "mtvec",
    0x340: "mscratch",
    0x341: "mepc", 0x342: "mcause", 0x343: "mtval", 0x344: "mip", 0xC00: "cycle", 0xC01: "time",
    0xC02: "instret", 0xC20: "vl", 0xC21: "vtype", 0xC22: "vlenb", 0xF11: "mvendorid", 0xF12: "marchid",
    0xF13: "mimpid", 0xF14: "mhartid",
}  # fmt: skip
_CSR_OPS = {1: "csrrw", 2: "csrrs", 3: "csrrc", 5: "csrrwi", 6: "csrrsi", 7: "csrrci"}
_PRIVILEGED = {
    0x30200073: ("mret", "Machine"), 0x10200073: ("sret", "Supervisor"), 0x10500073: ("wfi", "Machine"),
    0x00D00073: ("wrs.nto", "Zawrs"), 0x01D00073: ("wrs.sto", "Zawrs"),
}  # fmt: skip
_CACHE = {
    0: ("cbo.inval", "Zicbom"),
    1: ("cbo.clean", "Zicbom"),
    2: ("cbo.flush", "Zicbom"),
    4: ("cbo.zero", "Zicboz"),
}

# funct6 of OP-V: integer, mask and multiply, float
_V_INTEGER = {
    0: "vadd", 2: "vsub", 3: "vrsub", 4: "vminu", 5: "vmin", 6: "vmaxu", 7: "vmax", 9: "vand", 10: "vor",
    11: "vxor", 12: "vrgather", 14: "vslideup", 15: "vslidedown", 16: "vadc", 17: "vmadc", 18: "vsbc",
    19: "vmsbc", 23: "vmerge", 24: "vmseq", 25: "vmsne", 26: "vmsltu", 27: "vmslt", 28: "vmsleu", 29: "vmsle",
    30: "vmsgtu", 31: "vmsgt", 32: "vsaddu", 33: "vsadd", 34: "vssubu", 35: "vssub", 37: "vsll", 39: "vsmul",
    40: "vsrl", 41: "vsra", 42: "vssrl", 43: "vssra", 44: "vnsrl", 45: "vnsra", 46: "vnclipu", 47: "vnclip",
    48: "vwredsumu", 49: "vwredsum",
}  # fmt: skip
_V_MULTIPLY = {
    0: "vredsum", 1: "vredand", 2: "vredor", 3: "vredxor", 4: "vredminu", 5: "vredmin", 6: "vredmaxu",
    7: "vredmax", 8: "vaaddu", 9: "vaadd", 10: "vasubu", 11: "vasub", 14: "vslide1up", 15: "vslide1down",
    16: "vmv", 18: "vext", 20: "vmsbf", 23: "vcompress", 24: "vmandn", 25: "vmand", 26: "vmor", 27: "vmxor",
    28: "vmorn", 29: "vmnand", 30: "vmnor", 31: "vmxnor", 32: "vdivu", 33: "vdiv", 34: "vremu", 35: "vrem",
    36: "vmulhu", 37: "vmul", 38: "vmulhsu", 39: "vmulh", 41: "vmadd", 43: "vnmsub", 45: "vmacc",
    47: "vnmsac", 48: "vwaddu", 49: "vwadd", 50: "vwsubu", 51: "vwsub", 52: "vwaddu.w", 53: "vwadd.w",
    54: "vwsubu.w", 55: "vwsub.w", 56: "vwmulu", 58: "vwmulsu", 59: "vwmul", 60: "vwmaccu", 61: "vwmacc",
    62: "vwmaccus", 63: "vwmaccsu",
}  # fmt: skip
_V_FLOAT = {
    0: "vfadd", 1: "vfredusum", 2: "vfsub", 3: "vfredosum", 4: "vfmin", 5: "vfredmin", 6: "vfmax",
    7: "vfredmax", 8: "vfsgnj", 9: "vfsgnjn", 10: "vfsgnjx", 14: "vfslide1up", 15: "vfslide1down", 16: "vfmv",
    18: "vfcvt", 19: "vfsqrt", 23: "vfmerge", 24: "vmfeq", 25: "vmfle", 27: "vmflt", 28: "vmfne",
    29: "vmfgt", 31: "vmfge", 32: "vfdiv", 33: "vfrdiv", 36: "vfmul", 39: "vfrsub", 40: "vfmadd",
    41: "vfnmadd", 42: "vfmsub", 43: "vfnmsub", 44: "vfmacc", 45: "vfnmacc", 46: "vfmsac", 47: "vfnmsac",
    48: "vfwadd", 49: "vfwredusum", 50: "vfwsub", 51: "vfwredosum", 52: "vfwadd.w", 54: "vfwsub.w",
    56: "vfwmul", 60: "vfwmacc", 61: "vfwnmacc", 62: "vfwmsac", 63: "vfwnmsac",
}  # fmt: skip
_V_FORMS = {
    0: (_V_INTEGER, "vv"), 3: (_V_INTEGER, "vi"), 4: (_V_INTEGER, "vx"), 2: (_V_MULTIPLY, "vv"),
    6: (_V_MULTIPLY, "vx"), 1: (_V_FLOAT, "vv"), 5: (_V_FLOAT, "vf"),
}  # fmt: skip
_V_WIDTHS = {0: 8, 5: 16, 6: 32, 7: 64}
_FLOAT_WIDTHS = {1: ("h", "Zfh"), 2: ("w", "F"), 3: ("d", "D"), 4: ("q", "Q")}


def foreign(word: int) -> Foreign | None:
    """Return the text and the extension of a 32-bit instruction beyond RV64IMAC, None where none is known."""
    form = _FORMS.get(word & 0x7F)
    return form(word) if form else None


def _rd(word: int) -> int:
    return word >> 7 & 31


def _rs1(word: int) -> int:
    return word >> 15 & 31


def _rs2(word: int) -> int:
    return word >> 20 & 31


def _kind(word: int) -> int:
    return word >> 12 & 7


def _float_memory(word: int, letter: str, offset: int) -> Foreign | None:
    """Name a load (letter l) or a store (letter s) of a float or a vector."""
    known = _FLOAT_WIDTHS.get(_kind(word))
    if known is None:
        return _vector_memory(word, letter)
    offset -= offset >> 11 << 12
    register = _F[_rd(word) if letter == "l" else _rs2(word)]
    return f"f{letter}{known[0]} {register}, {offset}({_X[_rs1(word)]})", known[1]


def _vector_memory(word: int, letter: str) -> Foreign:
    mode = {0: "e", 1: "uxei", 2: "se", 3: "oxei"}[word >> 26 & 3]
    fields = (word >> 29) + 1
    segment = f"seg{fields}" if fields > 1 else ""
    return (
        f"v{letter}{mode if not segment else mode.replace('e', segment + 'e', 1)}{_V_WIDTHS[_kind(word)]}.v",
        "V",
    )


def _load_fp(word: int) -> Foreign | None:
    return _float_memory(word, "l", word >> 20)


def _store_fp(word: int) -> Foreign | None:
    return _float_memory(word, "s", word >> 25 << 5 | word >> 7 & 31)


def _fused(name: str) -> Callable[[int], Foreign | None]:
    def form(word: int) -> Foreign | None:
        letter, extension = _FORMATS[word >> 25 & 3]
        rounding = _ROUNDING.get(_kind(word))
        if rounding is None:
            return None
        registers = ", ".join(_F[index] for index in (_rd(word), _rs1(word), _rs2(word), word >> 27))
        return f"{name}.{letter} {registers}{rounding}", extension

    return form


def _op_fp(word: int) -> Foreign | None:
    letter, extension = _FORMATS[word >> 25 & 3]
    for form in (_float_arithmetic, _float_compare, _float_convert, _float_move):
        text = form(word, letter)
        if text:
            return text, extension
    return None


def _float_arithmetic(word: int, letter: str) -> str | None:
    rd, rs1, rs2 = _F[_rd(word)], _F[_rs1(word)], _F[_rs2(word)]
    group, kind = word >> 27, _kind(word)
    name = {0: "fadd", 1: "fsub", 2: "fmul", 3: "fdiv"}.get(group)
    rounding = _ROUNDING.get(kind)
    if name and rounding is not None:
        return f"{name}.{letter} {rd}, {rs1}, {rs2}{rounding}"
    if group == 0x0B and _rs2(word) == 0 and rounding is not None:
        return f"fsqrt.{letter} {rd}, {rs1}{rounding}"
    if group == 4 and kind < 3 and rs1 == rs2:  # fsgnj, with its aliases
        return f"{('fmv', 'fneg', 'fabs')[kind]}.{letter} {rd}, {rs1}"
    pairs = {4: ("fsgnj", "fsgnjn", "fsgnjx"), 5: ("fmin", "fmax", "fminm", "fmaxm")}
    names = pairs.get(group, ())
    return f"{names[kind]}.{letter} {rd}, {rs1}, {rs2}" if kind < len(names) else None


def _float_compare(word: int, letter: str) -> str | None:
    name = {0: "fle", 1: "flt", 2: "feq", 4: "fleq", 5: "fltq"}.get(_kind(word))
    if word >> 27 != 0x14 or name is None:
        return None
    return f"{name}.{letter} {_X[_rd(word)]}, {_F[_rs1(word)]}, {_F[_rs2(word)]}"


def _float_convert(word: int, letter: str) -> str | None:
    group, source, rounding = word >> 27, _rs2(word), _ROUNDING.get(_kind(word))
    if rounding is None:
        return None
    if group == 0x08:
        name = {4: f"fround.{letter}", 5: f"froundnx.{letter}"}.get(source)
        if name is None and source in _FORMATS:
            name = f"fcvt.{letter}.{_FORMATS[source][0]}"
            # Widening is exact: its rounding field says nothing and is not shown.
            rounding = "" if word >> 25 & 3 in {1, 3} and source != word >> 25 & 3 else rounding
        return f"{name} {_F[_rd(word)]}, {_F[_rs1(word)]}{rounding}" if name else None
    if source >= len(_INTEGERS) or group not in {0x18, 0x1A}:
        return None
    if group == 0x18:
        return f"fcvt.{_INTEGERS[source]}.{letter} {_X[_rd(word)]}, {_F[_rs1(word)]}{rounding}"
    exact = letter in {"d", "q"} and source < 2  # every 32-bit integer fits
    return f"fcvt.{letter}.{_INTEGERS[source]} {_F[_rd(word)]}, {_X[_rs1(word)]}{'' if exact else rounding}"


def _float_move(word: int, letter: str) -> str | None:
    group, kind, source = word >> 27, _kind(word), _rs2(word)
    width = {"s": "w"}.get(letter, letter)
    if group == 0x1C and source == 0:
        name = {0: f"fmv.x.{width}", 1: f"fclass.{letter}"}.get(kind)
        return f"{name} {_X[_rd(word)]}, {_F[_rs1(word)]}" if name else None
    if group == 0x1E and kind == 0 and source == 0:
        return f"fmv.{width}.x {_F[_rd(word)]}, {_X[_rs1(word)]}"
    return f"fli.{letter} {_F[_rd(word)]}, {_rs1(word)}" if group == 0x1E and source == 1 else None


def _op_v(word: int) -> Foreign | None:
    kind = _kind(word)
    if kind == 7:
        return "vsetvli" if word >> 31 == 0 else "vsetivli" if word >> 30 == 3 else "vsetvl", "V"
    names, suffix = _V_FORMS[kind]
    name = names.get(word >> 26)
    return (f"{name}.{suffix}", "V") if name else None


def _with_operands(known: Foreign | None, word: int, last: str | None) -> Foreign | None:
    """Add rd, rs1 and a last operand to a name."""
    if known is None:
        return None
    operands = [_X[_rd(word)], _X[_rs1(word)]] + ([] if last is None else [last])
    return f"{known[0]} {', '.join(operands)}", known[1]


def _op(word: int) -> Foreign | None:
    return _with_operands(_OP.get((word >> 25, _kind(word))), word, _X[_rs2(word)])


def _op_32(word: int) -> Foreign | None:
    if word >> 20 == 0x080 and _kind(word) == 4:  # packw of x0
        return _with_operands(("zext.h", "Zbb"), word, None)
    if word >> 20 == 0x080 and _kind(word) == 0:  # add.uw of x0
        return _with_operands(("zext.w", "Zba"), word, None)
    return _with_operands(_OP_32.get((word >> 25, _kind(word))), word, _X[_rs2(word)])


def _op_imm(word: int) -> Foreign | None:
    kind = _kind(word)
    unary = _with_operands(_UNARY.get((kind, word >> 20)), word, None)
    return unary or _with_operands(_SHIFTS.get((kind, word >> 26)), word, str(word >> 20 & 63))


def _op_imm_32(word: int) -> Foreign | None:
    kind = _kind(word)
    if kind == 1 and word >> 26 == 2:
        return _with_operands(("slli.uw", "Zba"), word, str(word >> 20 & 63))
    if kind == 5 and word >> 25 == 0x30:
        return _with_operands(("roriw", "Zbb"), word, str(word >> 20 & 31))
    return _with_operands(_UNARY_32.get((kind, word >> 20)), word, None)


def _atomic(word: int) -> Foreign | None:
    width = {0: "b", 1: "h", 2: "w", 3: "d", 4: "q"}.get(_kind(word))
    group = word >> 27
    if width is None:
        return None
    if group == 5:
        return f"amocas.{width}", "Zacas"
    names = {0: "amoadd", 1: "amoswap", 4: "amoxor", 8: "amoor", 12: "amoand", 16: "amomin", 20: "amomax",
             24: "amominu", 28: "amomaxu"}  # fmt: skip
    return (f"{names[group]}.{width}", "Zabha") if width in "bh" and group in names else None


def _misc_mem(word: int) -> Foreign | None:
    return _CACHE.get(word >> 20) if _kind(word) == 2 and _rd(word) == 0 else None


def _system(word: int) -> Foreign | None:
    kind = _kind(word)
    if kind == 4 and word & 0xB0000000 == 0x80000000:  # may-be-operations
        low = (word >> 30 & 1) << 2 | word >> 26 & 3
        if word >> 22 & 15 == 7:
            return f"mop.r.{low << 2 | word >> 20 & 3}", "Zimop"
        return (f"mop.rr.{low}", "Zimop") if word >> 25 & 1 else None
    name = _CSR_OPS.get(kind)
    if name is None:
        return _PRIVILEGED.get(word)
    source = _X[_rs1(word)] if kind < 4 else str(_rs1(word))
    csr = _CSRS.get(word >> 20, f"{word >> 20:#x}")
    if kind == 2 and _rs1(word) == 0:
        short = {"cycle": "rdcycle", "time": "rdtime", "instret": "rdinstret"}.get(csr)
        return (f"{short} {_X[_rd(word)]}" if short else f"csrr {_X[_rd(word)]}, {csr}"), "Zicsr"
    if _rd(word) == 0:
        return f"{name.replace('rr', 'r')} {csr}, {source}", "Zicsr"
    return f"{name} {_X[_rd(word)]}, {csr}, {source}", "Zicsr"


_FORMS: dict[int, Callable[[int], Foreign | None]] = {
    0x07: _load_fp,
    0x27: _store_fp,
    0x43: _fused("fmadd"),
    0x47: _fused("fmsub"),
    0x4B: _fused("fnmsub"),
    0x4F: _fused("fnmadd"),
    0x53: _op_fp,
    0x57: _op_v,
    0x13: _op_imm,
    0x1B: _op_imm_32,
    0x33: _op,
    0x3B: _op_32,
    0x2F: _atomic,
    0x0F: _misc_mem,
    0x73: _system,
}
