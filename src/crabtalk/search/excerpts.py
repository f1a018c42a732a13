"""The piece of a message that is shown: around what was looked for, no longer than it may be."""

from collections.abc import Sequence
from typing import Final

from crabtalk.search.words import Term, spans

MAX_BYTES: Final = 1024
MAX_SEARCHED: Final = 100_000  # characters of a message that are searched
_LEAD: Final = 80  # characters before the first match
_SPREAD: Final = 800  # characters within which matches are one place


def excerpt(text: str, terms: Sequence[Term] = (), max_bytes: int = MAX_BYTES) -> tuple[str, bool]:
    """Return the piece of a text with the most of `terms`, else its beginning, and whether it was cut."""
    # A character has four bytes at most, so that most texts need not be encoded to be known to fit.
    if len(text) * 4 <= max_bytes or len(text.encode(errors="replace")) <= max_bytes:
        return text, False
    start = _best_start(text, terms) if terms else 0
    raw = text[start : start + max_bytes].encode(errors="replace")[:max_bytes]
    return raw.decode(errors="ignore"), True


def _best_start(text: str, terms: Sequence[Term]) -> int:
    """Return where the excerpt begins: shortly before the place with the most different terms."""
    found = [
        (start, number)
        for start, _, word in spans(text[:MAX_SEARCHED])
        for number, term in enumerate(terms)
        if term.matches(word)
    ]
    best, most, after = 0, 0, 0
    counts = [0] * len(terms)
    # `after` only grows, and so does where it starts: each match goes in and out once.
    for start, number in found:
        while after < len(found) and found[after][0] < start + _SPREAD:
            counts[found[after][1]] += 1
            after += 1
        different = sum(1 for count in counts if count)
        if different > most:
            best, most = start, different
        counts[number] -= 1
    lead = max(0, best - _LEAD)
    space = text.find(" ", lead, best)
    return lead if lead == 0 or space < 0 else space + 1
