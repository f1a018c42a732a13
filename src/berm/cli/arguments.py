"""Arguments that several commands share, and how their text becomes values."""

import argparse
import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from berm.cli.exits import CommandError

_SIZE = re.compile(r"(\d+)\s*([kmgt]?)(i?b)?", re.IGNORECASE | re.ASCII)
_COUNT = re.compile(r"(\d+(?:\.\d+)?(?:e\d{1,2})?)([kmgt]?)", re.IGNORECASE | re.ASCII)
_MAX_COUNT = 2**63 - 1
MAX_ARGUMENT_BYTES = 64 * 1024 * 1024  # as much as a guest's default memory: more could not be read by it
MAX_IMAGE_BYTES = 256 * 1024 * 1024  # what the loader accepts; more is not read


def size_bytes(text: str) -> int:
    """Read a size such as `64MiB`, `64M` or `65536`: binary multiples, always."""
    match = _SIZE.fullmatch(text.strip())
    if not match or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"expected a size like 64MiB, got {text!r}")
    return int(match[1]) << (10 * " kmgt".index(match[2].lower() or " "))


def count(text: str) -> int:
    """Read a number of instructions such as `20000000000`, `2e10`, `20_000_000` or `20G`."""
    match = _COUNT.fullmatch(text.strip().replace("_", ""))
    value = round(float(match[1]) * 1000 ** " kmgt".index(match[2].lower() or " ")) if match else 0
    if match and match[1].isdigit() and not match[2]:
        value = int(match[1])  # exact, also above 2**53
    if not 0 < value <= _MAX_COUNT:
        raise argparse.ArgumentTypeError(f"expected a count like 2e10 or 20G, got {text!r}")
    return value


def seconds(text: str) -> float:
    """Read a positive, finite number of seconds."""
    try:
        value = float(text.removesuffix("s"))
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of seconds like 2.5, got {text!r}")
    return value


def tool_arguments(text: str) -> bytes:
    """Return the argument blob that `text` names: itself, the bytes of `@FILE`, or stdin for `-`.

    Raises:
        CommandError: the file cannot be read, or there are more bytes than any tool is given.
    """
    if text == "-" and sys.stdin is None:
        raise CommandError("there is no stdin to read the arguments from")
    if text == "-":
        blob = sys.stdin.buffer.read(MAX_ARGUMENT_BYTES + 1)
    elif text.startswith("@"):
        blob = read_file(Path(text[1:]), MAX_ARGUMENT_BYTES)
    else:
        _warn_of_file_name(text)
        return text.encode("utf-8", "surrogateescape")
    if len(blob) > MAX_ARGUMENT_BYTES:
        where = "stdin" if text == "-" else text[1:]
        raise CommandError(f"arguments in {where} are larger than {MAX_ARGUMENT_BYTES >> 20} MiB")
    return blob


def _warn_of_file_name(text: str) -> None:
    """Say that a file's name was taken for the arguments themselves, which is likely a slip."""
    if text.endswith(".json") and "\0" not in text and Path(text).is_file():
        print(f"note: `{text}` is passed as text; `@{text}` passes what the file holds", file=sys.stderr)


def read_file(path: Path, limit: int) -> bytes:
    """Read `path`, at most `limit` bytes and one.

    Raises:
        CommandError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(limit + 1)
    except OSError as error:
        raise CommandError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:  # a NUL in the name
        raise CommandError(f"cannot read {str(path)!r}: {error}") from error


def read_image(path: Path) -> bytes:
    """Read an image file; one larger than the loader accepts is cut, so that the loader says so.

    Raises:
        CommandError: it cannot be read.
    """
    return read_file(path, MAX_IMAGE_BYTES)


@contextlib.contextmanager
def loading(path: Path) -> Iterator[None]:
    """Name the image in what loading it raises.

    Raises:
        CommandError: the image is refused.
    """
    from berm.errors import ManifestError
    from rvcore import LinkError, LoadError

    try:
        yield
    except (LoadError, LinkError, ManifestError) as error:
        raise CommandError(f"{path}: {error}") from error


def add_image(parser: argparse.ArgumentParser) -> None:
    """Declare IMAGE."""
    parser.add_argument("image", metavar="IMAGE", type=Path, help="the harness, an ELF file")


def add_tool_call(parser: argparse.ArgumentParser) -> None:
    """Declare IMAGE TOOL [JSON | @FILE | -]."""
    add_image(parser)
    parser.add_argument("tool", metavar="TOOL", help="the tool's name, as `berm inspect` shows it")
    parser.add_argument(
        "arguments",
        metavar="JSON | @FILE | -",
        nargs="?",
        default="{}",
        help="the tool's arguments, a file that holds them, or - for stdin (default: {})",
    )


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Declare --fuel, --deadline and --memory."""
    group = parser.add_argument_group("limits")
    group.add_argument("--fuel", metavar="N", type=count, help="instructions at most (default: 20G)")
    group.add_argument("--deadline", metavar="S", type=seconds, help="seconds at most (default: 60)")
    group.add_argument("--memory", metavar="SIZE", type=size_bytes, help="guest memory (default: 64MiB)")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Declare --json."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
