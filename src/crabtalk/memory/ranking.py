"""Which memories answer a question best: BM25 over weighted fields, in memory, for one agent.

A word in a name tells more than one in an alias, and that more than one in the text. Nothing here is stored.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

NAME: Final = 4.0
ALIAS: Final = 3.0
CONTENT: Final = 1.0

# The usual ones: how fast a repeated word stops to count, and how much a long text is held against it.
_SATURATION: Final = 1.2
_LENGTH: Final = 0.6


@dataclass(slots=True)
class _Document:
    counts: Mapping[str, float]  # by word: how often, by the weights of the fields that it is in
    length: int  # words
    weight: float


@dataclass(slots=True)
class Ranking:
    """Documents by key."""

    _documents: dict[str, _Document] = field(default_factory=dict)
    _holders: dict[str, set[str]] = field(default_factory=dict)  # by word
    _length: int = 0  # of all documents

    def __len__(self) -> int:
        return len(self._documents)

    def put(self, key: str, fields: Iterable[tuple[float, list[str]]], weight: float = 1.0) -> None:
        """Take a document in, or another one in its place: words, by the weight of their field."""
        self.remove(key)
        counts: dict[str, float] = {}
        length = 0
        for share, words in fields:
            length += len(words)
            for word, times in Counter(words).items():
                counts[word] = counts.get(word, 0.0) + share * times
        self._documents[key] = _Document(counts, length, weight)
        self._length += length
        for word in counts:
            self._holders.setdefault(word, set()).add(key)

    def remove(self, key: str) -> None:
        """Take a document out, if it is there."""
        document = self._documents.pop(key, None)
        if document is None:
            return
        self._length -= document.length
        for word in document.counts:
            holders = self._holders[word]
            holders.discard(key)
            if not holders:
                del self._holders[word]

    def rank(self, words: Iterable[str]) -> list[tuple[str, float]]:
        """Return every document with one of `words`, the best first; of equals, whichever came last."""
        scores: dict[str, float] = {}
        usual = self._length / len(self._documents) if self._documents else 0.0
        for word in dict.fromkeys(words):
            holders = self._holders.get(word, ())
            rarity = math.log(1 + (len(self._documents) - len(holders) + 0.5) / (len(holders) + 0.5))
            for key in holders:
                document = self._documents[key]
                often = document.counts[word]
                room = _SATURATION * (1 - _LENGTH + _LENGTH * document.length / usual)
                scores[key] = scores.get(key, 0.0) + document.weight * rarity * often / (often + room)
        order = {key: place for place, key in enumerate(self._documents)}
        return sorted(scores.items(), key=lambda one: (-one[1], -order[one[0]]))
