"""The piece of a message that is shown: around what was looked for, no longer than it may be."""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from crabtalk.search.words import Term, spans

MAX_BYTES: Final = 1024
MAX_SEARCHED: Final = 100_000  # characters of a message that are searched
_LEAD: Final = 80  # characters before the first match
_SPREAD: Final = 800  # characters within which matches are one place
_MATCHES: Final = 10_000  # that are looked at: a text with more is of little else


def excerpt(text: str, terms: Sequence[Term] = (), max_bytes: int = MAX_BYTES) -> tuple[str, bool]:
    """Return the piece of a text with the most of `terms`, else its beginning, and whether it was cut."""
    # A character has four bytes at most, so that most texts need not be encoded to be known to fit.
    if len(text) * 4 <= max_bytes or len(text.encode(errors="replace")) <= max_bytes:
        return text, False
    start = _best_start(text, terms) if terms else 0
    raw = text[start : start + max_bytes].encode(errors="replace")[:max_bytes]
    return raw.decode(errors="ignore"), True


def _best_start(text: str, terms: Sequence[Term]) -> int:
    """Return where the excerpt begins: shortly before the first place with the most different terms."""
    best, most = 0, 0
    place: deque[tuple[int, int]] = (
        deque()
    )  # matches that stand close to each other: where, and of which term
    counts = Counter[int]()
    for start, number in islice(_matches(text[:MAX_SEARCHED], terms), _MATCHES):
        place.append((start, number))
        counts[number] += 1
        while place[0][0] < start - _SPREAD:
            _, gone = place.popleft()
            counts[gone] -= 1
            if not counts[gone]:
                del counts[gone]
        if len(counts) > most:
            best, most = place[0][0], len(counts)
        if most == len(terms):
            break
    lead = max(0, best - _LEAD)
    space = text.find(" ", lead, best)
    return lead if lead == 0 or space < 0 else space + 1


def _matches(text: str, terms: Sequence[Term]) -> Iterator[tuple[int, int]]:
    """Walk the words that are looked for: where each starts, and which term it is of."""
    whole: dict[str, list[int]] = {}
    for number, term in enumerate(terms):
        for word in term.words:
            whole.setdefault(word, []).append(number)
    begun = [(term.words[-1], number) for number, term in enumerate(terms) if term.prefix]
    beginnings = tuple(beginning for beginning, _ in begun)
    for start, _, word in spans(text):
        for number in whole.get(word, ()):
            yield start, number
        if word.startswith(beginnings):
            yield from ((start, number) for beginning, number in begun if word.startswith(beginning))
