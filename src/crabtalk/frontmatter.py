"""The head of a SKILL.md: a small part of YAML, in which every value is text.

YAML reads `no` as false and `1.10` as a number, lets a value refer to another one, and refuses a description
with a colon in it; a skill needs none of this. What is read: `key: text` with or without quotes, text on the
lines that follow, `|` and `>` blocks, lists, and one level of keys below a key. Everything else is an error
with its line.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MAX_BYTES: Final = 16 << 10

Value = str | list[str] | dict[str, str]

_FENCE: Final = re.compile(r"---[ \t]*\Z")
_KEY: Final = re.compile(r"(?P<key>[A-Za-z0-9_][A-Za-z0-9_.-]*)[ \t]*:(?:[ \t]+(?P<rest>.*))?\Z")
_BLOCK: Final = re.compile(r"(?P<style>[|>])(?P<chomp>[+-]?)\Z")
_COMMENT: Final = re.compile(r"(?:^|(?<=[ \t]))#")
_ESCAPES: Final = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/", "r": "\r", "0": "\0"}


class FrontmatterError(ValueError):
    """The head cannot be read; says in which line of the file."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


def split_frontmatter(text: str) -> tuple[dict[str, Value], str]:
    """Return the keys of a file's head, and what comes after it.

    Raises:
        FrontmatterError: if there is no head, or it cannot be read.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if not _FENCE.match(lines[0]):
        raise FrontmatterError(1, "expected `---` before the keys")
    end = next((number for number, line in enumerate(lines[1:], 1) if _FENCE.match(line)), None)
    if end is None:
        raise FrontmatterError(1, "expected a second `---` after the keys")
    head = lines[1:end]
    if sum(len(line) + 1 for line in head) > MAX_BYTES:
        raise FrontmatterError(1, f"the head is longer than {MAX_BYTES} characters")
    return _Reader(head).table(), "\n".join(lines[end + 1 :]).strip("\n")


@dataclass
class _Reader:
    """Goes through the lines of a head."""

    lines: list[str]
    at: int = 0  # the line that is read next
    said: int = 0  # the line that is spoken of: in the file, from 1

    def table(self) -> dict[str, Value]:
        """Read the whole head."""
        return self._keys(0, self._value)

    def _keys(self, indent: int, read: Callable[[str, int], Value]) -> dict[str, Value]:
        found: dict[str, Value] = {}
        while (line := self._next_line()) is not None:
            depth = _depth(line)
            if depth < indent:
                break
            match = _KEY.match(line.strip())
            if depth > indent or match is None:
                raise self._error("expected `key: value`")
            key = match["key"]
            if key in found:
                raise self._error(f"key `{key}` stands twice")
            self.at += 1
            found[key] = read((match["rest"] or "").strip(), indent)
        return found

    def _value(self, rest: str, indent: int) -> Value:
        """Read what follows `key:`, in its line and in those below it."""
        if rest and not rest.startswith("#"):
            return self._listed(rest) if rest.startswith("[") else self._text(rest, indent)
        line = self._next_line()
        if line is None or (_depth(line) <= indent and not line.lstrip().startswith("- ")):
            return ""
        if line.lstrip().startswith("- "):
            return self._items()
        if _KEY.match(line.strip()):
            below = self._keys(_depth(line), self._text)
            return {key: text for key, text in below.items() if isinstance(text, str)}
        self.at += 1
        return self._text(line.strip(), indent)

    def _text(self, rest: str, indent: int) -> str:
        block = _BLOCK.match(rest)
        if block is not None:
            return self._block(block["style"], block["chomp"], indent)
        text = " ".join([rest, *self._continued(indent)]).strip()
        if text[:1] in {'"', "'"}:
            return self._quoted(text)
        if text[:1] in set("&*!%@`{}"):
            raise self._error(f"a value that starts with `{text[0]}` has to be in quotes")
        return _without_comment(text)

    def _continued(self, indent: int) -> list[str]:
        """Return the lines that go on with a value: those that are indented more."""
        more = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.strip() and _depth(line) <= indent:
                break
            if line.strip():
                more.append(line.strip())
            self.at += 1
        return more

    def _block(self, style: str, chomp: str, indent: int) -> str:
        taken: list[str] = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.strip() and _depth(line) <= indent:
                break
            taken.append(line.rstrip())
            self.at += 1
        while taken and not taken[-1] and chomp != "+":
            taken.pop()
        margin = min((_depth(line) for line in taken if line), default=0)
        text = "\n".join(line[margin:] for line in taken)
        if style == ">":
            text = re.sub(r"(?<!\n)\n(?!\n)", " ", text)
        return text if chomp == "-" or not text else text + "\n"

    def _items(self) -> list[str]:
        found = []
        while (line := self._next_line()) is not None and line.lstrip().startswith("- "):
            self.at += 1
            found.append(self._scalar(line.lstrip()[2:].strip()))
        return found

    def _listed(self, rest: str) -> list[str]:
        if not rest.endswith("]"):
            raise self._error("expected `]` in the same line")
        inside = rest[1:-1].strip()
        return [self._scalar(one.strip()) for one in inside.split(",")] if inside else []

    def _scalar(self, text: str) -> str:
        return self._quoted(text) if text[:1] in {'"', "'"} else _without_comment(text)

    def _quoted(self, text: str) -> str:
        quote = text[0]
        if quote == "'":
            match = re.match(r"'((?:[^']|'')*)'[ \t]*(?:#.*)?\Z", text)
            if match is not None:
                return match[1].replace("''", "'")
        elif (match := re.match(r'"((?:[^"\\]|\\.)*)"[ \t]*(?:#.*)?\Z', text)) is not None:
            return re.sub(r"\\(.)", self._unescaped, match[1])
        raise self._error(f"expected {quote} at the end of the value, and nothing after it")

    def _unescaped(self, match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise self._error(f"unknown escape `\\{match[1]}`")
        return _ESCAPES[match[1]]

    def _next_line(self) -> str | None:
        """Return the next line that says something, without going on."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.strip() and not line.lstrip().startswith("#"):
                self.said = self.at + 2  # after the fence
                if "\t" in line[: len(line) - len(line.lstrip())]:
                    raise self._error("indented by a tab: use spaces")
                return line
            self.at += 1
        return None

    def _error(self, reason: str) -> FrontmatterError:
        return FrontmatterError(self.said, reason)


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _without_comment(text: str) -> str:
    return _COMMENT.split(text, maxsplit=1)[0].strip()
