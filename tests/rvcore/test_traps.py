"""What traps say: as one line, as a report, and after a trip through pickle."""

import copy
import pickle

import pytest

from rvcore._errors import Error
from rvcore._traps import Frame, Trap, TrapCode

pytestmark = pytest.mark.core

PLACE = {"pc": 0x10234, "symbol": "berm_tool_echo", "offset": 0x24, "location": "echo.c:12"}
HERE = "0x10234 berm_tool_echo+0x24 (echo.c:12)"

LINES = {
    "illegal instruction": (
        {
            "code": TrapCode.ILLEGAL_INSTRUCTION,
            "bytes": b"\x53\x75\xb5\x02",
            "disassembly": "fadd.d fa0, fa0, fa1",
        },
        f"illegal instruction 0x02b57553 (fadd.d fa0, fa0, fa1) - at {HERE}",
    ),
    "illegal compressed instruction": (
        {"code": TrapCode.ILLEGAL_INSTRUCTION, "bytes": b"\0\0", "disassembly": "c.unimp"},
        f"illegal instruction 0x0000 (c.unimp) - at {HERE}",
    ),
    "breakpoint": ({"code": TrapCode.BREAKPOINT}, f"breakpoint - at {HERE}"),
    "load": (
        {"code": TrapCode.LOAD_FAULT, "address": 16, "size": 8, "access": "load"},
        f"load fault, 8-byte load at 0x10 - at {HERE}",
    ),
    "store": (
        {"code": TrapCode.STORE_FAULT, "address": 0x10000, "size": 1, "access": "store"},
        f"store fault, 1-byte store at 0x10000 - at {HERE}",
    ),
    "access of unknown size": (
        {"code": TrapCode.LOAD_FAULT, "address": (1 << 64) - 1},
        f"load fault, access at 0xffffffffffffffff - at {HERE}",
    ),
    "atomic": (
        {"code": TrapCode.MISALIGNED_ATOMIC, "address": 0x20001, "size": 4, "access": "store"},
        f"misaligned atomic, 4-byte store at 0x20001 - at {HERE}",
    ),
    "jump": (
        {"code": TrapCode.BAD_JUMP, "address": 0x10300},
        f"bad jump to 0x10300, which no relocation names as a target - at {HERE}",
    ),
    "return": (
        {"code": TrapCode.BAD_RETURN, "address": 0x4141},
        f"bad return to 0x4141, which is no return site - at {HERE}",
    ),
    "fetch": (
        {"code": TrapCode.FETCH_FAULT, "address": 0x10238},
        f"fetch fault at 0x10238, which is not code - at {HERE}",
    ),
    "stack": (
        {"code": TrapCode.STACK_OVERFLOW, "address": 0x3EFFFF8, "size": 8, "access": "store"},
        f"stack overflow, 8-byte store at 0x3effff8 - at {HERE}",
    ),
    "unknown call": (
        {"code": TrapCode.UNKNOWN_HOST_CALL, "number": 0x1234},
        f"unknown host call 0x0000000000001234 - at {HERE}",
    ),
    "known but absent call": (
        {"code": TrapCode.UNKNOWN_HOST_CALL, "number": 1, "name": "berm.fs.read"},
        f"unknown host call 0x0000000000000001, `berm.fs.read` is not bound here - at {HERE}",
    ),
    "host error": (
        {"code": TrapCode.HOST_ERROR, "detail": "ValueError: no"},
        f"host error: ValueError: no - at {HERE}",
    ),
    "fuel": ({"code": TrapCode.OUT_OF_FUEL}, f"out of fuel - at {HERE}"),
}


@pytest.mark.parametrize(("facts", "line"), LINES.values(), ids=LINES)
def test_a_trap_is_one_line(facts, line):
    trap = Trap(**facts, **PLACE)
    assert str(trap) == line
    assert isinstance(trap, Error)
    assert {name: getattr(trap, name) for name in (*facts, *PLACE)} == {**facts, **PLACE}


def test_a_trap_that_no_guest_made_has_no_place():
    trap = Trap(code=TrapCode.DEADLINE, detail="after 60 s")
    assert str(trap) == "deadline: after 60 s"
    assert trap.pc is None
    assert trap.report() == "trap: deadline: after 60 s"


def test_a_place_shows_what_is_known_of_it():
    assert str(Frame(0x10)) == "0x10"
    assert str(Frame(0x10, "f", 0)) == "0x10 f+0x0"
    assert str(Frame(0x10, "f", 2, "a.c:3")) == "0x10 f+0x2 (a.c:3)"
    assert str(Frame(0x10, None, None, "a.c:3")) == "0x10 (a.c:3)"


def full_trap(**changes):
    facts = {
        "code": TrapCode.LOAD_FAULT,
        "address": 16,
        "size": 8,
        "access": "load",
        "registers": tuple(range(32)),
        "frames": (Frame(0x10234, "berm_tool_echo", 0x24, "echo.c:12"), Frame(0x10100, "_start", 0x10)),
        "host_calls": ("berm.args.len", "berm.args.read"),
        "bytes": b"\x03\x35\x05\x00",
        "disassembly": "ld a0, 0(a0)",
        **PLACE,
        **changes,
    }
    return Trap(**facts)


def test_a_report_tells_everything():
    assert full_trap().report().splitlines() == [
        "trap: load fault, 8-byte load at 0x10 - at 0x10234 berm_tool_echo+0x24 (echo.c:12)",
        "instruction: 03 35 05 00  ld a0, 0(a0)",
        "frames, innermost first:",
        "  #0 0x10234 berm_tool_echo+0x24 (echo.c:12)",
        "  #1 0x10100 _start+0x10",
        "registers:",
        "  zero 0x0000000000000000    ra 0x0000000000000001    sp 0x0000000000000002",
        "    gp 0x0000000000000003    tp 0x0000000000000004    t0 0x0000000000000005",
        "    t1 0x0000000000000006    t2 0x0000000000000007    s0 0x0000000000000008",
        "    s1 0x0000000000000009    a0 0x000000000000000a    a1 0x000000000000000b",
        "    a2 0x000000000000000c    a3 0x000000000000000d    a4 0x000000000000000e",
        "    a5 0x000000000000000f    a6 0x0000000000000010    a7 0x0000000000000011",
        "    s2 0x0000000000000012    s3 0x0000000000000013    s4 0x0000000000000014",
        "    s5 0x0000000000000015    s6 0x0000000000000016    s7 0x0000000000000017",
        "    s8 0x0000000000000018    s9 0x0000000000000019   s10 0x000000000000001a",
        "   s11 0x000000000000001b    t3 0x000000000000001c    t4 0x000000000000001d",
        "    t5 0x000000000000001e    t6 0x000000000000001f",
        "last host calls, oldest first:",
        "  berm.args.len",
        "  berm.args.read",
    ]


def test_a_report_of_deep_recursion_is_short():
    frames = (Frame(0x10, "leaf"), *[Frame(0x20, "deep")] * 62, Frame(0x30, "main"))
    lines = full_trap(frames=frames).report().splitlines()
    at = lines.index("frames, innermost first:")
    assert lines[at + 1 : at + 6] == [
        "  #0 0x10 leaf+0x0",
        "  #1 0x20 deep+0x0",
        "  #2 … #62 the same",
        "  #63 0x30 main+0x0",
        "registers:",
    ]


def test_a_few_equal_frames_are_listed_one_by_one():
    lines = full_trap(frames=(Frame(0x20, "deep"),) * 3).report().splitlines()
    assert [line for line in lines if "deep" in line] == [f"  #{index} 0x20 deep+0x0" for index in range(3)]


def test_a_report_of_a_stripped_image_says_how_to_strip_instead():
    report = full_trap(symbol=None, offset=None, location=None).report()
    assert report.splitlines()[-1].startswith(
        "hint: the image has no symbol for this address; strip with `objcopy"
    )


def test_a_report_without_lines_says_how_to_get_them():
    report = full_trap(location=None).report()
    assert report.splitlines()[-1] == "hint: the image has no line table; build with -g for file and line"


def test_text_from_a_guest_cannot_drive_a_terminal():
    trap = full_trap(
        symbol="\x1b[2J", detail="\x07", location="a\nb:1", host_calls=("\x1b]0;x\x07",), disassembly="\r"
    )
    assert str(trap).isprintable()
    assert all(line.isprintable() for line in trap.report().split("\n"))


def test_a_long_name_is_cut():
    assert len(str(full_trap(symbol="f" * 10_000))) < 400


def test_a_trap_survives_pickle_and_copy():
    trap = full_trap()
    trap.add_note("while serving a call")
    for again in (pickle.loads(pickle.dumps(trap)), copy.copy(trap)):
        assert type(again) is Trap
        assert again.__dict__ == trap.__dict__
        assert again.report() == trap.report()


def test_facts_are_given_by_name():
    with pytest.raises(TypeError):
        Trap(TrapCode.DEADLINE)


def test_a_frame_is_frozen():
    with pytest.raises(AttributeError):
        Frame(0x10).pc = 1
