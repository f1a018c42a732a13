"""Markdown that grows: blocks that are complete are drawn once, the last one again and again until it is.

What is drawn are lines for a terminal, none wider than asked for. Whatever a model wrote is escaped before
it is read as Markdown, and again in what came of it, since an entity may stand for a control character.
"""

import re
from itertools import pairwise
from typing import Final

from markdown_it import MarkdownIt
from rich.color import ColorSystem
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown
from rich.segment import Segment
from rich.theme import Theme

from berm.cli.output import escape, escape_line

MAX_TAIL: Final = 16 << 10  # characters of an incomplete block; more of it is drawn for good
_FENCE: Final = re.compile(r" {0,3}(?:`{3,}|~{3,})[^\n]*\n")
_THEME: Final = Theme(
    {
        "markdown.code": "cyan",
        "markdown.code_block": "cyan",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.item.number": "bold",
        "markdown.table.header": "bold",
        "markdown.table.border": "dim",
    }
)


class _LeftHeading(Heading):
    """A heading where text begins, and not in the middle of the screen."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _Markdown(Markdown):
    elements = {**Markdown.elements, "heading_open": _LeftHeading}  # noqa: RUF012 - as rich has it


class GrowingMarkdown:
    """One text, as it comes."""

    def __init__(self, width: int, *, colour: bool) -> None:
        """Draw lines of at most `width` columns."""
        self._console = Console(
            width=width, force_terminal=True, color_system=None, theme=_THEME, highlight=False, emoji=False
        )
        self._colour = colour
        self._parser = MarkdownIt().enable("strikethrough").enable("table")
        self._rest = ""  # what is not drawn for good
        self._drew = False  # something was

    def feed(self, text: str) -> None:
        """Take more of it."""
        self._rest += escape(text)

    def take(self) -> list[str]:
        """Return the lines of those blocks that are complete since the last time."""
        lines = self._rest.split("\n")
        starts = self._starts()
        blocks = ["\n".join(lines[first:last]) for first, last in pairwise(starts)]
        self._rest = "\n".join(lines[starts[-1] :])
        drawn = [line for block in blocks for line in self._final(block)]
        if len(self._rest) > MAX_TAIL:
            drawn += self._final(self._cut())
        return drawn

    def tail(self) -> list[str]:
        """Return the lines of what may still change."""
        return self._spaced(self._drawn(self._rest))

    def finish(self) -> list[str]:
        """Return the lines of all that is left; nothing comes any more."""
        rest, self._rest = self._rest, ""
        return self._final(rest)

    def _starts(self) -> list[int]:
        """Return the lines with which blocks begin."""
        starts = [
            token.map[0]
            for token in self._parser.parse(self._rest)
            if token.level == 0 and token.nesting >= 0 and token.map
        ]
        return starts or [0]

    def _cut(self) -> str:
        """Take the whole lines of a block that is too long to be drawn again; code goes on as code."""
        end = self._rest.rfind("\n") + 1 or len(self._rest)
        cut, rest = self._rest[:end], self._rest[end:]
        fence = _FENCE.match(cut)
        self._rest = fence[0] + rest if fence else rest
        return cut

    def _final(self, text: str) -> list[str]:
        lines = self._spaced(self._drawn(text))
        self._drew = self._drew or bool(lines)
        return lines

    def _spaced(self, lines: list[str]) -> list[str]:
        return ["", *lines] if lines and self._drew else lines

    def _drawn(self, text: str) -> list[str]:
        if not text.strip():
            return []
        markdown = _Markdown(text, hyperlinks=False, code_theme="ansi_dark")
        found = self._console.render_lines(markdown, pad=False)
        lines = ["".join(map(self._written, _without_end(line))) for line in found]
        while lines and not lines[0]:
            del lines[0]
        while lines and not lines[-1]:
            del lines[-1]
        return lines

    def _written(self, segment: Segment) -> str:
        text = escape_line(segment.text)
        if segment.style is None or not self._colour:
            return text
        return segment.style.render(text, color_system=ColorSystem.STANDARD)


def _without_end(line: list[Segment]) -> list[Segment]:
    """Return a line without the spaces that fill it up."""
    while line and not line[-1].text.strip():
        line = line[:-1]
    return [*line[:-1], Segment(line[-1].text.rstrip(), line[-1].style)] if line else line
