"""Build the kernels under bench/guests/ for every engine, once per content, into bench/build/.

`build(name, target)` is what the benchmarks call. A result is kept beside a key (a digest of sources,
flags and compiler version) and rebuilt only when that key changes. Run alone, it builds every kernel.
"""

# mypy: disable-error-code="import-not-found, import-untyped"
from __future__ import annotations

import argparse
import enum
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

BENCH = Path(__file__).resolve().parent
GUESTS = BENCH / "guests"
BUILD = BENCH / "build"

RISCV = [
    "-target", "riscv64-freestanding-none", "-mcpu=generic_rv64+m+a+c+relax", "-mabi=lp64", "-mcmodel=medany",
    "-fno-pic",
]  # fmt: skip
# mvp plus what every engine here has: bulk memory and sign extension, no SIMD.
WASM = ["-target", "wasm32-freestanding", "-mcpu=mvp+sign_ext+mutable_globals+bulk_memory"]
WASM_LINK = ["-Wl,--no-entry", "-Wl,--strip-all", "-Wl,-z,stack-size=65536"]
COMMON = [
    "-std=gnu11", "-O2", "-ffreestanding", "-ffunction-sections", "-fdata-sections", "-fno-unwind-tables",
    "-g0",
]  # fmt: skip
RUNTIME = [
    "-target", "riscv64-freestanding-none", "-mcpu", "generic_rv64+m+a+c", "-mcmodel=medium", "-fno-PIC",
    "-O", "ReleaseSmall", "-fstrip", "-ffunction-sections", "-fdata-sections", "-fno-unwind-tables",
    "-static", "--name", "crt",
]  # fmt: skip


class Target(enum.Enum):
    """What a kernel is built for, and the ending of its file name."""

    RISCV = "elf"
    WASM = "wasm"
    NATIVE = "so"
    PROGRAM = "exe"


class BuildError(Exception):
    """A compiler refused a guest; the message holds its words."""


def kernels(group: str) -> list[str]:
    """Name the kernels of one group, `tuning` or `quoted`, as `group/name`."""
    return sorted(f"{group}/{path.stem}" for path in (GUESTS / group).glob("*.c"))


def build(name: str, target: Target) -> Path:
    """Build `group/name` for a target unless the same content was built before.

    Raises:
        BuildError: a compiler is missing or refused the source.
    """
    source = GUESTS / f"{name}.c"
    output = BUILD / f"{name}.{target.value}"
    return kept(output, [source, *sorted(GUESTS.glob("*.h"))], _RECIPES[target], source)


def kept(output: Path, sources: list[Path], recipe: _Recipe, *arguments: Path) -> Path:
    """Return `output`, made by `recipe` if no file with the same key is there.

    Raises:
        BuildError: as the recipe does.
    """
    key = _key(sources, recipe.flags)
    record = output.with_name(output.name + ".key")
    if output.exists() and record.exists() and record.read_text() == key:
        return output
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent) as folder:
        made = Path(folder) / output.name
        recipe(made, *arguments)
        made.replace(output)
    record.write_text(key)
    return output


_Maker = Callable[..., None]


class _Recipe:
    """A way to make a file, with the flags that belong into its key."""

    def __init__(self, flags: list[str], make: _Maker) -> None:
        self.flags = flags
        self._make = make

    def __call__(self, made: Path, *arguments: Path) -> None:
        self._make(made, *arguments)


def _key(sources: list[Path], flags: list[str]) -> str:
    digest = hashlib.sha256()
    for part in [_zig_version(), _gcc_version(), *flags]:
        digest.update(part.encode() + b"\0")
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()


def run(command: list[str]) -> None:
    """Run one compiler command.

    Raises:
        BuildError: the command is missing or failed.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    except OSError as error:
        raise BuildError(f"cannot run {command[0]}: {error}") from error
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}\n{done.stderr}{done.stdout}")


def zig(*arguments: str) -> list[str]:
    """Spell a zig command line for this interpreter's ziglang package."""
    return [sys.executable, "-m", "ziglang", *arguments]


@functools.cache
def _zig_version() -> str:
    return _output(zig("version"))


@functools.cache
def native_compiler() -> str | None:
    """Find gcc, the yardstick of the native figures, or None."""
    return os.environ.get("BENCH_CC") or shutil.which("gcc")


@functools.cache
def _gcc_version() -> str:
    compiler = native_compiler()
    if compiler is None:
        return "none"
    return _output([compiler, "-dumpfullversion"])


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def runtime_library() -> Path:
    """Build compiler-rt for RV64IMAC (soft float and the mem functions) once."""
    return kept(BUILD / "libcrt.a", [], _Recipe(RUNTIME, _make_runtime))


def _make_runtime(made: Path) -> None:
    import ziglang  # only a cold build needs it

    source = Path(ziglang.__file__).parent / "lib" / "compiler_rt.zig"
    run(zig("build-lib", str(source), *RUNTIME, f"-femit-bin={made}"))


def link_riscv(made: Path, objects: list[Path], entry: str, *more: str) -> None:
    """Link guest objects as the harness toolchain does: static, with relocations and symbols."""
    flags = ["-m", "elf64lriscv", "-static", "--emit-relocs", "--gc-sections", "-e", entry, *more]
    run(zig("ld.lld", *flags, "-o", str(made), *map(str, objects), str(runtime_library())))


def _make_riscv(made: Path, source: Path) -> None:
    compiled = made.with_suffix(".o")
    run(zig("cc", *RISCV, *COMMON, "-c", str(source), "-o", str(compiled)))
    link_riscv(made, [compiled], "_start" if source.stem == "tools" else "kernel")


def _make_wasm(made: Path, source: Path) -> None:
    run(zig("cc", *WASM, *COMMON, *WASM_LINK, "-Wl,--export=kernel", "-o", str(made), str(source)))


def _make_native(made: Path, source: Path) -> None:
    _run_native([*NATIVE, "-o", str(made), str(source)])


def _make_program(made: Path, source: Path) -> None:
    _run_native([*PROGRAM, "-o", str(made), str(source)])


def _run_native(arguments: list[str]) -> None:
    compiler = native_compiler()
    if compiler is None:
        raise BuildError("no gcc on the path: set BENCH_CC")
    run([compiler, *arguments])


def build_everything(target: Target) -> Path:
    """Build one image of all kernels (RISC-V: and the berm tools): a program of ordinary size.

    Raises:
        BuildError: a compiler is missing or refused a source.
    """
    sources = [GUESTS / f"{name}.c" for name in [*kernels("quoted"), *kernels("tuning")]]
    if target is Target.RISCV:
        sources.append(GUESTS / "calls" / "tools.c")
    output = BUILD / f"everything.{target.value}"
    return kept(output, [*sources, *GUESTS.glob("*.h")], _EVERYTHING[target], *sources)


def _objects(made: Path, flags: list[str], sources: tuple[Path, ...]) -> list[Path]:
    objects = []
    for source in sources:
        compiled = made.with_name(f"{source.stem}.o")
        run(zig("cc", *flags, f"-Dkernel=kernel_{source.stem}", "-c", str(source), "-o", str(compiled)))
        objects.append(compiled)
    return objects


def _make_everything_riscv(made: Path, *sources: Path) -> None:
    keep = [f"--undefined=kernel_{source.stem}" for source in sources if source.stem != "tools"]
    link_riscv(made, _objects(made, [*RISCV, *COMMON], sources), "_start", *keep)


def _make_everything_wasm(made: Path, *sources: Path) -> None:
    exports = [f"-Wl,--export=kernel_{source.stem}" for source in sources]
    objects = _objects(made, [*WASM, *COMMON], sources)
    run(zig("cc", *WASM, *WASM_LINK, *exports, "-o", str(made), *map(str, objects)))


NATIVE = ["-std=gnu11", "-O2", "-shared", "-fPIC", "-g0"]
PROGRAM = ["-std=gnu11", "-O2", "-static", "-g0"]
_EVERYTHING = {
    Target.RISCV: _Recipe([*RISCV, *COMMON, *RUNTIME], _make_everything_riscv),
    Target.WASM: _Recipe([*WASM, *COMMON, *WASM_LINK], _make_everything_wasm),
}
_RECIPES = {
    Target.RISCV: _Recipe([*RISCV, *COMMON, *RUNTIME], _make_riscv),
    Target.WASM: _Recipe([*WASM, *COMMON, *WASM_LINK], _make_wasm),
    Target.NATIVE: _Recipe(NATIVE, _make_native),
    Target.PROGRAM: _Recipe(PROGRAM, _make_program),
}


def main() -> None:
    """Build every kernel of the chosen groups and print the paths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", default=["tuning", "quoted"])
    parser.add_argument("--target", choices=[t.name.lower() for t in Target], action="append")
    chosen = parser.parse_args()
    targets = [Target[t.upper()] for t in chosen.target or ["riscv", "wasm", "native"]]
    for group in chosen.groups:
        for name in kernels(group):
            for target in targets:
                print(build(name, target).relative_to(BENCH.parent))


if __name__ == "__main__":
    main()
