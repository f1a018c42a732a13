"""`berm build`: C, C++, assembly and object files in, one image out."""

import argparse
import sys
from pathlib import Path

from berm.build.errors import BuildError
from berm.build.image import build_image, harness_sources


def add_compiler_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `berm build` and `berm test` share."""
    parser.add_argument("-g", dest="debug", action="store_true", help="keep line tables, for trap reports")
    parser.add_argument(
        *("-C", "--cflag"), dest="cflags", action="append", default=[], metavar="FLAG", help="pass a flag on"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="sources, or one project directory")
    parser.add_argument(
        "-o", dest="out", metavar="OUT.elf", help="the image; default: named for the first source"
    )
    parser.add_argument(
        "--cc", default="zig", help="zig (default), clang or riscv64-unknown-elf-gcc, or a path"
    )
    add_compiler_arguments(parser)


def complain(error: BuildError) -> None:
    """Show what the compiler said, then our own line."""
    sys.stderr.write(error.output)
    print(f"berm: {error.message}", file=sys.stderr)


def _chosen(named: list[Path]) -> tuple[list[Path], Path]:
    """Return the sources that were asked for, and where their image goes by default."""
    first = named[0].resolve()
    if not first.is_dir():
        return named, Path(f"{first.stem}.elf")
    if len(named) > 1:
        raise BuildError("name one directory, or sources")
    return harness_sources(named[0]), named[0] / f"{first.name}.elf"


def run(args: argparse.Namespace) -> int:
    """Build, and print the image's path, size and digest."""
    try:
        sources, out = _chosen([Path(source) for source in args.sources])
        built = build_image(sources, args.out or out, cc=args.cc, debug=args.debug, cflags=args.cflags)
    except BuildError as error:
        complain(error)
        return 1
    sys.stderr.write(built.warnings)
    print(f"{built.path}  {built.size:,} bytes  sha256 {built.sha256}")
    return 0
