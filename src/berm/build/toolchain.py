"""Compilers: how each is called to compile one file for the guest and to link an image.

Knows command lines only. Three families: zig (the default, from the `ziglang` package), clang and gcc.
"""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Protocol, TypeVar

from berm.build.cache import cached, key_of, open_cache
from berm.build.errors import BuildError

T = TypeVar("T")

CXX_SUFFIXES = frozenset({".cpp", ".cc", ".cxx", ".C"})
ASSEMBLY_SUFFIXES = frozenset({".s", ".S"})
C_SUFFIXES = frozenset({".c"})
OBJECT_SUFFIXES = frozenset({".o", ".a"})
SOURCE_SUFFIXES = C_SUFFIXES | CXX_SUFFIXES | ASSEMBLY_SUFFIXES | OBJECT_SUFFIXES

_COMMON = (
    "-O2",
    "-ffreestanding",
    "-fno-pic",
    "-fomit-frame-pointer",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-common",
    "-fno-stack-protector",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
    "-fno-ident",
    "-fvisibility=hidden",
    "-UNDEBUG",  # zig defines it when it optimizes
)
_CXX = ("-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-std=gnu++20")
_C = ("-std=gnu17",)
_WARNINGS = ("-Wall", "-Wextra")
_RISCV = ("-march=rv64imac", "-mabi=lp64", "-mcmodel=medany")
_GNU_SCRIPT = Path(__file__).resolve().parent.parent / "sdk" / "gnu.ld"
_LINK = ("--emit-relocs", "--gc-sections", "-e", "_start", "--build-id=none")


class Toolchain(Protocol):
    """A compiler and linker for the guest."""

    @property
    def identity(self) -> str:
        """Name the compiler and its version: part of every cache key."""

    def compile_command(self, source: Path, target: Path, flags: Sequence[str]) -> list[str]:
        """Compose the command that compiles one source into an object."""

    def link_command(self, objects: Sequence[Path], target: Path) -> list[str]:
        """Compose the command that links objects into an image."""

    def environment(self) -> dict[str, str]:
        """Return the environment the commands run in."""


def language_flags(source: Path) -> tuple[str, ...]:
    """Return the flags that depend on the language of a source."""
    if source.suffix in CXX_SUFFIXES:
        return _WARNINGS + _CXX
    if source.suffix in C_SUFFIXES:
        return _WARNINGS + _C
    return ()


def run(command: Sequence[str], what: str, environment: dict[str, str], directory: Path | None = None) -> str:
    """Run a compiler or linker and return what it printed.

    Raises: BuildError with its output when it fails or does not exist.
    """
    try:
        done = subprocess.run(
            command,
            env=environment,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise BuildError(f"cannot run `{command[0]}`: {(error.strerror or str(error)).lower()}") from error
    output = (done.stderr + done.stdout).decode(errors="replace")
    if done.returncode != 0:
        raise BuildError(f"{what} failed", output)
    return output


def each(jobs: Iterable[Callable[[], T]]) -> list[T]:
    """Do jobs that wait for compilers, a few at a time, and return what they return, in order.

    Raises: the first job's exception that stands first in the order.
    """
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


def _version(command: str) -> str:
    return run([command, "--version"], f"`{command} --version`", dict(os.environ))


@dataclass(frozen=True)
class Zig:
    """`zig cc`, `ld.lld` and compiler-rt out of the ziglang package."""

    root: Path  # the package's directory
    version: str

    @property
    def identity(self) -> str:
        """Name zig and its version."""
        return f"zig {self.version}"

    @property
    def _zig(self) -> str:
        return str(self.root / "zig")

    def environment(self) -> dict[str, str]:
        """Keep zig's own caches out of the author's directory."""
        own = str(open_cache() / "zig")
        return {**os.environ, "ZIG_GLOBAL_CACHE_DIR": own, "ZIG_LOCAL_CACHE_DIR": own}

    def compile_command(self, source: Path, target: Path, flags: Sequence[str]) -> list[str]:
        """Compose a `zig cc` command; `+relax` keeps the relocations of address-taken functions."""
        cpu = "-mcpu=generic_rv64+m+a+c+relax+unaligned_scalar_mem"
        head = [self._zig, "cc", "-target", "riscv64-freestanding-none", cpu, "-mabi=lp64", "-mcmodel=medany"]
        # zig names its headers relative to the working directory where they are below it.
        roots = (str(self.root), os.path.relpath(self.root))
        own = [*(f"-ffile-prefix-map={root}=zig" for root in roots), "-fdebug-compilation-dir=."]
        return [*head, *_COMMON, *flags, *own, *language_flags(source), "-c", str(source), "-o", str(target)]

    def link_command(self, objects: Sequence[Path], target: Path) -> list[str]:
        """Compose an `ld.lld` command, since `zig cc` refuses --emit-relocs."""
        head = [self._zig, "ld.lld", "-m", "elf64lriscv", "-static", *_LINK]
        return [*head, "-o", str(target), *map(str, objects), str(self.runtime())]

    def runtime(self) -> Path:
        """Return compiler-rt as an archive, built once per version of zig.

        Raises: BuildError when zig cannot build it.
        """
        flags = (
            *("-target", "riscv64-freestanding-none", "-mcpu", "generic_rv64+m+a+c", "-mcmodel=medium"),
            *("-O", "ReleaseSmall", "-fstrip", "-ffunction-sections", "-fdata-sections"),
            *("-fno-unwind-tables", "-fno-PIC", "-static", "--name", "crt"),
        )

        def make(directory: Path) -> None:
            source = self.root / "lib" / "compiler_rt.zig"
            emit = f"-femit-bin={directory / 'libcrt.a'}"
            command = [self._zig, "build-lib", str(source), *flags, emit]
            run(command, "building compiler-rt", self.environment())

        return cached("compiler-rt", key_of([self.identity, *flags]), make) / "libcrt.a"


@dataclass(frozen=True)
class Gcc:
    """A GNU cross compiler such as riscv64-unknown-elf-gcc."""

    command: str
    version: str = field(repr=False)

    @property
    def identity(self) -> str:
        """Name the command and what it says of itself."""
        return f"{self.command} {self.version}"

    def environment(self) -> dict[str, str]:
        """Speak plain English, whatever the author's locale."""
        return {**os.environ, "LC_ALL": "C"}

    def compile_command(self, source: Path, target: Path, flags: Sequence[str]) -> list[str]:
        """Compose a gcc command; loops in our memcpy must not become calls of memcpy."""
        if source.suffix in ASSEMBLY_SUFFIXES:
            # GNU as does not know the prefix maps: its line tables would name the machine's directories.
            flags = [flag for flag in flags if flag != "-g"]
        own = [*_RISCV, "-mno-strict-align", "-fno-builtin", "-fno-tree-loop-distribute-patterns"]
        return [
            *(self.command, *own, *_COMMON, *language_flags(source), *flags),
            *("-c", str(source), "-o", str(target)),
        ]

    def link_command(self, objects: Sequence[Path], target: Path) -> list[str]:
        """Compose a link through gcc, without its start files and without relaxation."""
        passed = [f"-Wl,{','.join(_LINK)},--no-relax", "-T", str(_GNU_SCRIPT)]
        head = [self.command, *_RISCV, "-nostdlib", "-static", *passed]
        return [*head, "-o", str(target), *map(str, objects), "-lgcc"]


@dataclass(frozen=True)
class Clang:
    """A clang with RISC-V in it, linking with its lld."""

    command: str
    version: str = field(repr=False)

    @property
    def identity(self) -> str:
        """Name the command and what it says of itself."""
        return f"{self.command} {self.version}"

    def environment(self) -> dict[str, str]:
        """Pass the author's environment on."""
        return dict(os.environ)

    def compile_command(self, source: Path, target: Path, flags: Sequence[str]) -> list[str]:
        """Compose a clang command."""
        head = [self.command, "--target=riscv64-unknown-elf", *_RISCV, "-mrelax", "-fdebug-compilation-dir=."]
        return [*head, *_COMMON, *flags, *language_flags(source), "-c", str(source), "-o", str(target)]

    def link_command(self, objects: Sequence[Path], target: Path) -> list[str]:
        """Compose a link through clang and the lld beside it; soft float comes from zig or gcc."""
        linker = _lld_of(self.command)
        head = [linker, "-m", "elf64lriscv", "-static", *_LINK, "-o", str(target)]
        return [*head, *map(str, objects), *map(str, _soft_float())]


def _lld_of(clang: str) -> str:
    """Find ld.lld with the same suffix as clang (`clang-16`: `ld.lld-16`), else any."""
    suffix = Path(clang).name.removeprefix("clang")
    for name in (f"ld.lld{suffix}", "ld.lld"):
        found = shutil.which(str(Path(clang).with_name(name))) or shutil.which(name)
        if found:
            return found
    raise BuildError(f"found no ld.lld beside `{clang}`: install lld{suffix}")


def _soft_float() -> list[Path]:
    """Clang brings no soft float for bare RISC-V: take compiler-rt from zig, or gcc's library."""
    if importlib.util.find_spec("ziglang"):
        return [find_zig().runtime()]
    gcc = shutil.which("riscv64-unknown-elf-gcc")
    if not gcc:
        return []
    command = [gcc, *_RISCV, "-print-libgcc-file-name"]
    return [Path(run(command, "asking gcc for its library", dict(os.environ)).strip())]


@cache
def find_zig() -> Zig:
    """Find the ziglang package beside this one.

    Raises: BuildError that names the extra when it is not installed.
    """
    found = importlib.util.find_spec("ziglang")
    if found is None or not found.submodule_search_locations:
        raise BuildError(
            "the compiler is not installed: pip install 'crabtalk[build]', or name another with --cc"
        )
    root = Path(next(iter(found.submodule_search_locations)))
    version = run([str(root / "zig"), "version"], "`zig version`", dict(os.environ)).strip()
    return Zig(root, version)


@cache
def find_toolchain(cc: str) -> Toolchain:
    """Return the toolchain for `zig`, or for a clang or gcc by name or path.

    Raises: BuildError when it is not there or is neither.
    """
    if cc == "zig":
        return find_zig()
    command = shutil.which(cc)
    if command is None:
        raise BuildError(f"found no compiler `{cc}`: use zig, clang or riscv64-unknown-elf-gcc")
    version = _version(command)
    if "clang" in version:
        return Clang(command, version)
    if "Free Software Foundation" in version:
        return Gcc(command, version)
    raise BuildError(
        f"`{cc}` is neither clang nor gcc: {version.splitlines()[0] if version else 'no version'}"
    )
