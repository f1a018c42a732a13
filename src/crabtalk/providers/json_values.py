"""Reading JSON that an endpoint sent: whatever it is, something of the wanted type comes out, or nothing.

An answer is not refused for a field that has a wrong type, since endpoints that imitate a dialect differ in
just that; it is read as if the field were not there.
"""

import json
import re
from typing import Any, Final

_MAX_COUNT: Final = (1 << 32) - 1  # what the protocol can carry
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def loads(text: str | bytes) -> Any:  # noqa: ANN401 - it is JSON
    """Parse JSON.

    Raises:
        ValueError: if it is none, or nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def table(value: object) -> dict[str, Any]:
    """Return an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Return a list, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """Return text as it is, else nothing."""
    return value if isinstance(value, str) else ""


def clean(value: object) -> str:
    """Return text that can be encoded, else nothing."""
    return _SURROGATE.sub("\ufffd", text(value))


def number(value: object) -> int | None:
    """Return a whole number, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def count(value: object) -> int | None:
    """Return a number of tokens, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        return None
    return min(int(value), _MAX_COUNT)


class Joiner:
    """Joins text whose pieces were cut between the halves of a character.

    JSON can write a character beyond the first 65,536 as two escapes, and endpoints cut between them. A half
    that stays alone becomes U+FFFD, since nothing could encode it.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return what of the text is certain now."""
        if not self._held and not _SURROGATE.search(piece):
            return piece
        joined = self._held + piece
        self._held = joined[-1] if "\ud800" <= joined[-1:] <= "\udbff" else ""
        whole = joined[:-1] if self._held else joined
        return whole.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def end(self) -> str:
        """Return what is left."""
        held, self._held = self._held, ""
        return "\ufffd" if held else ""
