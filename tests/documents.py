"""Reads a Markdown document as a script: files to write, commands with their output, programs to run.

The conventions are in docs/README.md. Blocks keep the order of the document.
"""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```\s*$", re.DOTALL | re.MULTILINE
)
FILE_NAME = re.compile(r"(?://|#|/\*)\s+(?P<name>[\w./-]+\.\w+)(?:\s+\*/)?\s*")
LANGUAGES = frozenset({"console", "python", "c", "cpp", "text", "json", "toml", "make"})


@dataclasses.dataclass(frozen=True)
class Block:
    """One fenced block; `line` is where it starts."""

    language: str
    body: str
    line: int

    @property
    def file_name(self) -> str | None:
        """The file that the block's first line names."""
        match = FILE_NAME.fullmatch(self.body.partition("\n")[0])
        return match["name"] if match and self.language not in {"console", "text"} else None


@dataclasses.dataclass(frozen=True)
class Step:
    """One command of a console block and what it prints."""

    command: str
    expected: str
    line: int


def blocks(path: Path) -> list[Block]:
    text = path.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        indent = len(match["indent"])
        body = re.sub(rf"^ {{{indent}}}", "", match["body"], flags=re.MULTILINE)
        found.append(Block(match["language"].strip(), body, text.count("\n", 0, match.start()) + 1))
    return found


def steps(block: Block) -> Iterator[Step]:
    """Split a console block; a command goes on after a line that ends with a backslash."""
    command, output, start, continued = "", [], 0, False
    for number, line in enumerate(block.body.splitlines(), block.line + 1):
        if continued:
            command += "\n" + line.removeprefix("> ")
        elif line.startswith("$ "):
            if command:
                yield Step(command, "\n".join(output), start)
            command, output, start = line[2:], [], number
        else:
            output.append(line)
        continued = (continued or line.startswith("$ ")) and line.endswith("\\")
    if command:
        yield Step(command, "\n".join(output), start)


def matches(expected: str, actual: str) -> bool:
    """Compare line by line; `…` stands for anything in a line, alone for any number of lines."""
    lines = [line.rstrip() for line in actual.strip("\n").splitlines()]
    reached = {0}  # how many lines of `lines` the pattern so far can have eaten
    for line in expected.strip("\n").splitlines():
        if line.strip() == "…":
            reached = set(range(min(reached, default=len(lines) + 1), len(lines) + 1))
        else:
            pattern = re.compile(re.escape(line.rstrip()).replace("…", ".*"))
            reached = {n + 1 for n in reached if n < len(lines) and pattern.fullmatch(lines[n])}
    return len(lines) in reached
