"""Compiles C and assembly for rvcore's own tests with zig, once for each content.

No SDK and no ABI: a program is a source text, and the options are those that change what an image looks like
to the loader. Images are kept outside the tree, keyed by everything that went into them.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

COMPILE = (
    "-target riscv64-freestanding-none -ffreestanding -fno-builtin -fno-pic -ffunction-sections "
    "-fdata-sections -fno-unwind-tables -fno-sanitize=undefined"
)
LINK = "ld.lld -m elf64lriscv -static --emit-relocs --gc-sections -e _start"
CPU = "generic_rv64+m+a+c"


def compile_image(
    source: str,
    *,
    language: str = "c",
    model: str = "medany",
    cpu: str = CPU + "+relax",
    abi: str = "lp64",
    options: str = "-O2",
    link: str = LINK,
) -> bytes:
    """Return the image of one source text ("c", "c++" or "assembler-with-cpp")."""
    compile_options = f"{COMPILE} -mabi={abi} -mcpu={cpu} -mcmodel={model} {options}"
    key = hashlib.sha256(repr((source, language, compile_options, link, version("ziglang"))).encode())
    image = _cache() / f"{key.hexdigest()[:32]}.elf"
    if not image.exists():
        with tempfile.TemporaryDirectory() as scratch:
            place = Path(scratch)
            suffix = {"c": "c", "c++": "cpp", "assembler-with-cpp": "S"}[language]
            path = place / f"guest.{suffix}"
            path.write_text(source)
            _zig(["cc", *compile_options.split(), "-c", path.name, "-o", "guest.o"], place)
            _zig([*link.split(), "-o", "guest.elf", "guest.o"], place)
            # Renamed into place, so that two runs at once do not see half a file.
            partial = image.with_suffix(f".{os.getpid()}")
            partial.write_bytes((place / "guest.elf").read_bytes())
            partial.replace(image)
    return image.read_bytes()


def _zig(arguments: list[str], directory: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ziglang", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"zig {' '.join(arguments)}: {done.stderr}")


def _cache() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = root / "crabtalk-tests" / "rvcore-images"
    place.mkdir(parents=True, exist_ok=True)
    return place
