"""Sources in, image out: compile, compose, link, strip."""

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from berm.build.cache import cached, key_of
from berm.build.declarations import read_declarations
from berm.build.errors import BuildError
from berm.build.glue import glue_source
from berm.build.strip import strip
from berm.build.toolchain import OBJECT_SUFFIXES, SOURCE_SUFFIXES, Toolchain, each, find_toolchain, run

SDK = Path(__file__).resolve().parent.parent / "sdk"


@dataclass(frozen=True, slots=True)
class Built:
    """An image on disk."""

    path: Path
    sha256: str
    size: int
    manifest: dict[str, Any]
    warnings: str  # what the compiler said although it succeeded


def _sdk_flags(*, debug: bool) -> list[str]:
    """Return the flags that every guest source is compiled with, beside the compiler's own."""
    include, libc = SDK / "include", SDK / "libc"
    flags = ["-I", str(include), "-isystem", str(libc), f"-ffile-prefix-map={SDK}=berm-sdk"]
    return [*flags, "-g" if debug else "-g0"]


def _sdk_objects(toolchain: Toolchain, *, debug: bool) -> list[Path]:
    """Compile the SDK once per compiler, flags and content, and return its objects."""
    sources = sorted([*(SDK / "src").glob("*.c"), *(SDK / "guest").glob("*.[cS]")])
    content = [
        path.read_bytes()
        for part in ("include", "libc", "src", "guest")
        for path in sorted((SDK / part).rglob("*.[chS]"))
    ]
    flags = toolchain.compile_command(Path("x.c"), Path("x.o"), _sdk_flags(debug=debug))
    # Maps name directories of this machine and build, and take them out of what is made.
    fixed = [flag for flag in flags if not flag.startswith("-ffile-prefix-map=")]
    key = key_of([toolchain.identity, *fixed, *content])

    def make(directory: Path) -> None:
        if sys.stderr.isatty():
            print("berm: compiling the SDK for this compiler, once …", file=sys.stderr)
        flags = [f"-ffile-prefix-map={directory}=.", *_sdk_flags(debug=debug)]

        def compile_one(source: Path) -> None:
            command = toolchain.compile_command(source, directory / f"{source.name}.o", flags)
            run(command, f"compiling the SDK's {source.name}", toolchain.environment(), directory)

        each(partial(compile_one, source) for source in sources)

    entry = cached("sdk", key, make)
    return [entry / f"{source.name}.o" for source in sources]


def _check_sources(sources: Sequence[Path]) -> None:
    if not sources:
        raise BuildError("no sources")
    for source in sources:
        if not source.is_file():
            raise BuildError(f"no such file: {source}")
        if source.suffix not in SOURCE_SUFFIXES:
            known = ", ".join(sorted(SOURCE_SUFFIXES))
            raise BuildError(f"cannot build `{source}`: expected one of {known}")


def _check_target(target: Path, sources: Sequence[Path]) -> None:
    """Refuse to write over a source, or where there is no directory."""
    if any(target.resolve() == source.resolve() for source in sources):
        raise BuildError(f"the image would replace its source {target}: name another with -o")
    if not target.parent.is_dir():
        raise BuildError(f"cannot write {target}: no such directory as {target.parent}")


def _author_flags(source: Path, *, debug: bool) -> list[str]:
    """Add to the SDK's flags what hides where the sources stand: their paths become relative to themselves.

    The working directory comes first, so that the longer paths below it win.
    """
    working, place = Path.cwd(), source.parent.resolve()
    outer = [] if working == Path("/") else [f"-ffile-prefix-map={working}=."]
    inner = [f"-ffile-prefix-map={prefix}/=" for prefix in dict.fromkeys((place, source.parent))]
    return [*outer, *_sdk_flags(debug=debug), *inner]


def compile_sources(
    toolchain: Toolchain, sources: Sequence[Path], directory: Path, *, debug: bool, cflags: Sequence[str]
) -> tuple[list[Path], str]:
    """Compile sources into objects in `directory`; objects among them are passed on.

    Raises: BuildError with the compiler's output.
    """

    def compile_one(index: int, source: Path) -> tuple[Path, str]:
        if source.suffix in OBJECT_SUFFIXES:
            return source, ""
        target = directory / f"{index:03}-{source.stem}.o"
        flags = [*_author_flags(source, debug=debug), *cflags]
        command = toolchain.compile_command(source, target, flags)
        return target, run(command, f"compiling {source}", toolchain.environment())

    done = each(partial(compile_one, index, source) for index, source in enumerate(sources))
    return [target for target, _ in done], "".join(said for _, said in done)


def build_image(
    sources: Iterable[str | Path],
    out: str | Path,
    *,
    cc: str = "zig",
    debug: bool = False,
    cflags: Sequence[str] = (),
) -> Built:
    """Build a harness image from C, C++, assembly and object files.

    The same sources give the same bytes, wherever they stand. `debug` keeps line tables for traps.

    Raises: BuildError, with the compiler's output where it has some.
    """
    # No name of a file is an option of the compiler's.
    paths = [Path.cwd() / source if str(source).startswith("-") else Path(source) for source in sources]
    _check_sources(paths)
    target = Path(out)
    _check_target(target, paths)
    toolchain = find_toolchain(cc)
    with tempfile.TemporaryDirectory(prefix="berm-build-") as name:
        directory = Path(name)
        objects, said = compile_sources(toolchain, paths, directory, debug=debug, cflags=cflags)
        found = read_declarations(objects)
        if not found.tools and not found.exports:
            raise BuildError("the sources declare no tool: write one with BERM_TOOL")
        glue = directory / "glue.S"
        glue.write_text(glue_source(found), encoding="utf-8")
        glue_object = directory / "glue.o"
        run(toolchain.compile_command(glue, glue_object, ["-g0"]), "assembling", toolchain.environment())
        linked = directory / "linked.elf"
        parts = [glue_object, *objects, *_sdk_objects(toolchain, debug=debug)]
        said += run(toolchain.link_command(parts, linked), "linking", toolchain.environment())
        image = strip(linked.read_bytes(), debug=debug)
    _write(target, image)
    return Built(target, hashlib.sha256(image).hexdigest(), len(image), found.manifest(), said)


def _write(target: Path, image: bytes) -> None:
    """Replace the target in one step, so that nobody reads half an image."""
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        aside.write_bytes(image)
        aside.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise BuildError(f"cannot write {target}: {(error.strerror or str(error)).lower()}") from error


def harness_sources(directory: Path) -> list[Path]:
    """List the sources of a project: all but its tests.

    Raises: BuildError when there are none.
    """
    found = sorted(path for path in directory.iterdir() if path.suffix in SOURCE_SUFFIXES - OBJECT_SUFFIXES)
    sources = [path for path in found if not path.stem.endswith("_test")]
    if not sources:
        raise BuildError(f"no sources in {directory}")
    return sources


def build_harness(
    directory: str | Path, out: str | Path | None = None, *, cc: str = "zig", debug: bool = False
) -> Built:
    """Build the project in a directory; the image is NAME.elf in it when `out` is not given.

    Raises: BuildError.
    """
    place = Path(directory)
    target = Path(out) if out else place / f"{place.resolve().name}.elf"
    return build_image(harness_sources(place), target, cc=cc, debug=debug)
