"""The grammar of event sources and of the patterns that select them: pure.

A source is words joined by colons, `build:web:done`; a pattern is a source, or a prefix of whole words that
ends in `:*`. Some first words are the daemon's own.
"""

import re
from collections.abc import Iterator
from typing import Final

MAX_SOURCE_BYTES: Final = 128
RESERVED: Final = ("agent", "wake", "harness", "daemon", "mcp")  # first words that only the daemon publishes

_SOURCE: Final = re.compile(r"[a-z0-9_.-]+(:[A-Za-z0-9_.-]+)*\Z")
_ANY: Final = ":*"
_GRAMMAR: Final = (
    f"at most {MAX_SOURCE_BYTES} bytes of words joined by colons, the first of a-z 0-9 _ . -, "
    "the others of capitals too"
)


def check_source(source: str) -> str:
    """Return `source` if it is one.

    Raises:
        ValueError: if it is none, saying what would be.
    """
    if len(source) > MAX_SOURCE_BYTES or not _SOURCE.match(source):
        raise ValueError(f"event source {source[:MAX_SOURCE_BYTES]!a}: expected {_GRAMMAR}")
    return source


def check_pattern(pattern: str) -> str:
    """Return `pattern` if it is one.

    Raises:
        ValueError: if it is none, saying what would be.
    """
    if len(pattern) > MAX_SOURCE_BYTES or not _SOURCE.match(pattern.removesuffix(_ANY)):
        raise ValueError(
            f"event pattern {pattern[:MAX_SOURCE_BYTES]!a}: expected a source, or the beginning of one and "
            f"`{_ANY}`; a source is {_GRAMMAR}"
        )
    return pattern


def matches(pattern: str, source: str) -> bool:
    """Report whether a checked pattern selects a checked source; `a:*` selects `a:b` and not `a`."""
    return source.startswith(pattern[:-1]) if pattern.endswith(_ANY) else source == pattern


def covers(wide: str, narrow: str) -> bool:
    """Report whether everything that the pattern `narrow` selects is selected by `wide`."""
    return wide == narrow or (wide.endswith(_ANY) and narrow.startswith(wide[:-1]))


def selecting(source: str) -> Iterator[str]:
    """Yield every pattern that selects `source`, for looking them up: at most one for each word."""
    yield source
    end = source.rfind(":")
    while end > 0:
        yield source[:end] + _ANY
        end = source.rfind(":", 0, end)


def is_reserved(pattern: str) -> bool:
    """Report whether a source or pattern lies in what only the daemon publishes."""
    return pattern.partition(":")[0] in RESERVED
