"""Compiles the raw C guests of tests/berm/guests with zig, once for each content.

These guests use no SDK: they are for tests of the ABI itself and of what misbehaves. A cache directory
outside the tree keeps the images, keyed by the sources, the commands and the compiler's version.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from berm.fnv import KNOWN_NAMES, call_number

SOURCES = Path(__file__).parent / "berm" / "guests"
CALLS = (*KNOWN_NAMES, "test.ask", "test.wait", "test.block", "test.unheard")
COMPILE = [
    "cc",
    "-target",
    "riscv64-freestanding-none",
    "-mcpu=generic_rv64+m+a+c+relax",
    "-mabi=lp64",
    "-mcmodel=medany",
    "-O2",
    "-ffreestanding",
    "-fno-builtin",
    "-fno-pic",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-unwind-tables",
    "-fno-sanitize=undefined",
    "-Wall",
    "-Wno-infinite-recursion",
    "-c",
]
LINK = ["ld.lld", "-m", "elf64lriscv", "-static", "--emit-relocs", "--gc-sections", "-e", "_start"]


def build(name: str, *, debug: bool = False) -> bytes:
    """Return the image of guests/`name`.c, compiled now or before."""
    source = SOURCES / f"{name}.c"
    generated = start(source.read_text())
    key = hashlib.sha256()
    for part in (
        source.read_text(),
        (SOURCES / "raw.h").read_text(),
        numbers(),
        generated,
        repr((COMPILE, LINK, debug, version("ziglang"))),
    ):
        key.update(part.encode())
    image = cache() / f"{name}-{key.hexdigest()[:24]}.elf"
    if not image.exists():
        compile_image(source, generated, image, debug=debug)
    return image.read_bytes()


def cache() -> Path:
    place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crabtalk-tests" / "raw-guests"
    place.mkdir(parents=True, exist_ok=True)
    return place


def numbers() -> str:
    """Define CALL_<name> for every host call that the guests name."""
    return "".join(f"#define CALL_{name.replace('.', '_')} {call_number(name):#x}ul\n" for name in CALLS)


def start(text: str) -> str:
    """Write the manifest and a `_start` that keeps every export."""
    tools = re.findall(r"^TOOL\((\w+)\)", text, re.MULTILINE)
    entries = re.findall(r"^Result (on_\w+)\(", text, re.MULTILINE)
    manifest = {
        "abi_version": 0,
        "tools": [
            {"name": tool, "description": f"the tool {tool}", "parameters": {"type": "object"}}
            for tool in tools
        ],
    }
    calls = "".join(f"    call {name}\n" for name in [*(f"berm_tool_{tool}" for tool in tools), *entries])
    return (
        f'.section .berm.abi,"",%progbits\n.ascii {json.dumps(json.dumps(manifest))}\n'
        f".text\n.globl _start\n.type _start, @function\n_start:\n{calls}    unimp\n"
    )


def compile_image(source: Path, generated: str, image: Path, *, debug: bool) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        (place / "numbers.h").write_text(numbers())
        (place / "start.S").write_text(generated)
        include = ["-I", str(SOURCES), "-I", str(place), "-g" if debug else "-g0"]
        zig(*COMPILE, *include, str(source), "-o", str(place / "guest.o"))
        zig(*COMPILE, *include, str(place / "start.S"), "-o", str(place / "start.o"))
        finished = image.with_suffix(f".{os.getpid()}")
        zig(*LINK, "-o", str(finished), str(place / "start.o"), str(place / "guest.o"))
        finished.replace(image)


def zig(*arguments: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "ziglang", *arguments], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, f"zig {' '.join(arguments)}\n{result.stderr}"
