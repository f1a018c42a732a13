"""The same sources for the author's own machine: how `berm test` builds its program.

The host compiler sees the SDK's headers and no guest libc; the host's side of the ABI is sdk/native. A
sanitizer is used where the compiler has one that links.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from berm.build.cache import cached, key_of
from berm.build.errors import BuildError
from berm.build.image import SDK
from berm.build.toolchain import ASSEMBLY_SUFFIXES, CXX_SUFFIXES, OBJECT_SUFFIXES, each, run

_SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
_FLAGS = ("-O1", "-g", "-fno-omit-frame-pointer", "-Wall", "-Wextra", "-DBERM_NATIVE")


@dataclass(frozen=True, slots=True)
class HostCompiler:
    """A C compiler of this machine, its C++ twin, and what it can check."""

    cc: str
    cxx: str
    version: str
    sanitize: tuple[str, ...]

    def compile(self, source: Path, target: Path, flags: Sequence[str] = ()) -> str:
        """Compile one file and return what the compiler said.

        Raises: BuildError with its output.
        """
        is_cxx = source.suffix in CXX_SUFFIXES
        standard = "-std=gnu++20" if is_cxx else "-std=gnu17"
        command = [self.cxx if is_cxx else self.cc, standard, *_FLAGS, *self.sanitize]
        if is_cxx:
            command += ["-fno-exceptions", "-fno-rtti"]
        command += ["-I", str(SDK / "include"), *flags, "-c", str(source), "-o", str(target)]
        return run(command, f"compiling {source}", dict(os.environ))

    def link(self, objects: Sequence[Path], target: Path, *, cxx: bool) -> None:
        """Link a program.

        Raises: BuildError with the linker's output.
        """
        command = [self.cxx if cxx else self.cc, *self.sanitize, "-o", str(target), *map(str, objects)]
        run(command, "linking the tests", dict(os.environ))


def find_host_compiler(cc: str | None = None) -> HostCompiler:
    """Find the C compiler: the one named, else $CC, else cc; and probe its sanitizers.

    Raises: BuildError when there is none.
    """
    wanted = cc or os.environ.get("CC") or "cc"
    found = shutil.which(wanted)
    if found is None:
        raise BuildError(
            f"found no C compiler `{wanted}` for this machine: install one, or name it with --cc"
        )
    version = run([found, "--version"], f"`{wanted} --version`", dict(os.environ))
    cxx = os.environ.get("CXX") or _twin(found)
    plain = HostCompiler(found, cxx, version, ())

    def probe(directory: Path) -> None:
        checked = HostCompiler(found, cxx, version, _SANITIZE)
        source = directory / "probe.c"
        source.write_text("int main(void) { return 0; }\n", encoding="utf-8")
        try:
            checked.compile(source, directory / "probe.o")
            checked.link([directory / "probe.o"], directory / "probe", cxx=False)
            works = subprocess.run([directory / "probe"], capture_output=True, check=False).returncode == 0
        except BuildError:
            works = False
        (directory / ("yes" if works else "no")).touch()

    answer = cached("sanitizers", key_of([found, version, *_SANITIZE]), probe)
    return HostCompiler(found, cxx, version, _SANITIZE) if (answer / "yes").exists() else plain


def _twin(cc: str) -> str:
    """Name the C++ compiler that belongs to a C compiler: gcc-12 → g++-12, clang → clang++, cc → c++."""
    path = Path(cc)
    for c, cxx in (("clang", "clang++"), ("gcc", "g++"), ("cc", "c++")):
        if c in path.name:
            twin = path.with_name(path.name.replace(c, cxx, 1))
            return str(twin) if twin.exists() else cxx
    return "c++"


def _sdk_objects(compiler: HostCompiler) -> list[Path]:
    sources = sorted([*(SDK / "src").glob("*.c"), *(SDK / "native").glob("*.c")])
    content = [
        path.read_bytes()
        for part in ("include", "src", "native")
        for path in sorted((SDK / part).rglob("*.[ch]"))
    ]
    key = key_of([compiler.cc, compiler.version, *compiler.sanitize, *_FLAGS, *content])

    def make(directory: Path) -> None:
        flags = [f"-ffile-prefix-map={SDK}=berm-sdk"]
        each(partial(compiler.compile, path, directory / f"{path.name}.o", flags) for path in sources)

    entry = cached("native", key, make)
    return [entry / f"{source.name}.o" for source in sources]


def build_tests(
    sources: Sequence[Path],
    tests: Sequence[Path],
    out: Path,
    *,
    cc: str | None = None,
    cflags: Sequence[str] = (),
) -> str:
    """Build sources and tests into the program `out`, and return what the compiler said.

    Raises: BuildError.
    """
    compiler = find_host_compiler(cc)
    foreign = [path for path in sources if path.suffix in OBJECT_SUFFIXES | ASSEMBLY_SUFFIXES]
    if foreign:
        raise BuildError(f"`{foreign[0]}` is for the guest: `berm test` needs C or C++")
    with tempfile.TemporaryDirectory(prefix="berm-test-") as name:
        paths = [*sources, *tests]
        objects = [Path(name) / f"{index:03}-{path.stem}.o" for index, path in enumerate(paths)]
        flags = ["-I", str(sources[0].parent), *cflags]
        jobs = zip(paths, objects, strict=True)
        said = each(partial(compiler.compile, path, target, flags) for path, target in jobs)
        cxx = any(path.suffix in CXX_SUFFIXES for path in paths)
        compiler.link([*objects, *_sdk_objects(compiler)], out, cxx=cxx)
    return "".join(said)
