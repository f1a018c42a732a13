"""What the compiler made of the hot path: handlers that jump to each other, no call, no GIL.

A handler that *calls* the next one runs correctly for a while: the C stack grows with every guest
instruction.
"""

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import rvcore._handlers
import rvcore._interp
import rvcore._memory
from rvcore._handlers import FAST

if not FAST:
    pytest.skip("this build steps: debug and sanitizer builds have no handlers", allow_module_level=True)
if shutil.which("objdump") is None:
    pytest.skip("no objdump to look with", allow_module_level=True)
if platform.machine() != "x86_64" or platform.system() != "Linux":
    pytest.skip("the patterns are those of x86-64 Linux", allow_module_level=True)

FUNCTION = re.compile(r"^[0-9a-f]+ <(\S+)>:$")
PADDING = re.compile(r"(data16 |cs )*nop|xchg +%ax,%ax")
LINE = re.compile(r"^\s*[0-9a-f]+:\s+(.*\S)\s*$")


def functions(module):
    """Return name → instructions of what Cython made of cdef functions, without its prefix."""
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", "-w", module.__file__],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    # As Cython writes it: __pyx_f_6rvcore_9_handlers_
    prefix = "__pyx_f_" + "".join(f"{len(part)}{part}_" for part in module.__name__.split("."))
    found = {}
    body = []
    for line in listing.splitlines():
        if start := FUNCTION.match(line):
            body = found.setdefault(start[1], [])
        elif code := LINE.match(line):
            body.append(code[1])
    return {
        name.split(prefix, 1)[1]: [code for code in body if not PADDING.match(code)]
        for name, body in found.items()
        if prefix in name
    }


@pytest.fixture(scope="module")
def handlers():
    return functions(rvcore._handlers)


def calls(body):
    return [code for code in body if code.startswith("call")]


def jumps_away(code):
    """Tell whether control leaves for good here."""
    return code.startswith(("jmp", "ret", "ud2"))


def hot(handlers):
    return {name: body for name, body in handlers.items() if name.startswith("h_")}


def test_there_is_a_handler_for_each_op_and_each_pair(handlers):
    from rvcore._pairs import PAIRS

    assert len(hot(handlers)) > 3 * len(PAIRS) > 900


def test_no_handler_calls_anything(handlers):
    assert {name: calls(body) for name, body in hot(handlers).items() if calls(body)} == {}


def test_every_handler_goes_on_by_an_indirect_jump(handlers):
    """Or is the same as another, which the compiler notices."""
    without = [
        name
        for name, body in hot(handlers).items()
        if not any(code.startswith("jmp    *") for code in body)
        and not (len(body) == 1 and re.match(r"jmp +[0-9a-f]+ <\w+_handlers_h_\w+>", body[0]))
    ]
    assert without == []


def test_every_handler_ends_in_a_jump(handlers):
    assert {name: body[-1] for name, body in hot(handlers).items() if not jumps_away(body[-1])} == {}


def test_no_handler_uses_the_stack(handlers):
    """A frame would mean that a tail call has something to clean up before it."""
    framed = [
        name
        for name, body in hot(handlers).items()
        if any(
            code.startswith(("push", "sub ")) and "rsp" in code + "rsp" * code.startswith("push")
            for code in body
        )
    ]
    # Divisions and high products need more registers than are free on some compilers.
    assert [name for name in framed if not re.search(r"div|rem|mulh", name)] == []


def test_the_slow_way_calls_its_step_and_nothing_else(handlers):
    for name, body in handlers.items():
        if name.split(".")[0] == "slow":
            assert len(calls(body)) == 1
            assert calls(body)[0].startswith("call   *")
            assert any(code.startswith("jmp    *") for code in body)


FOREIGN = re.compile(r"PyGILState|PyEval|__Pyx_|PyErr|PyObject|Py_|PyThread")


@pytest.mark.parametrize(
    ("module", "pattern"),
    [
        (rvcore._handlers, r"h_|slow|start|step_|jump_register|host_call|find_call|pause|trapped|misaligned"),
        (rvcore._interp, r"hart_run|run_fast|run_steps|monotonic_ns"),
        (rvcore._memory, r"load_slow|store_slow|guest_read|guest_write|is_readable|fault"),
    ],
)
def test_the_hot_path_knows_no_python(module, pattern):
    body = {
        name: [code for code in lines if FOREIGN.search(code)]
        for name, lines in functions(module).items()
        if re.match(pattern, name)
    }
    assert body
    assert {name: found for name, found in body.items() if found} == {}


def test_cython_was_told_that_nothing_here_raises():
    """A nogil function that may raise takes the GIL after every call to look."""
    source = Path(rvcore._handlers.__file__).with_name("_handlers.pyx")
    if not source.exists():
        pytest.skip("the generated source is not installed")
    heads = re.findall(
        r"^cdef (?!enum|extern|class|inline)[^\n=]*\)[^\n]*:$", source.read_text(), re.MULTILINE
    )
    assert len(heads) > 1000
    assert [head for head in heads if "noexcept nogil" not in head] == []
