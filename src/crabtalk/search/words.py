"""What a word is, to everything that searches: the index, the query, the excerpt and the ranking of memories.

Letters and digits make words, in one case and without accents. Scripts that put no spaces between words are
cut into single characters, and a query for several of them is a phrase. Nothing here knows an index.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from crabtalk.errors import BadRequest

MAX_QUERY_CHARACTERS: Final = 1000
MAX_TERMS: Final = 32
MAX_WORD: Final = 64  # characters; what is longer is no word, and is cut

# Kana, ideographs, Hangul, Thai, Lao, Khmer, Burmese.
_SINGLE: Final = (
    "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
)
_WORD: Final = re.compile(rf"[{_SINGLE}]|(?:(?![{_SINGLE}])[^\W_]|[\u0300-\u036f])+")
_ALONE: Final = re.compile(rf"[{_SINGLE}]\Z")
_ASCII_WORD: Final = re.compile(r"[a-z0-9]+")
_PART: Final = re.compile(r'"([^"]*)("?)(\*?)|(\S+)')


@dataclass(frozen=True, slots=True)
class Term:
    """One thing that is looked for: a word, or several that follow each other."""

    words: tuple[str, ...]  # folded
    prefix: bool = False  # whether the last one may go on


def words(text: str) -> list[str]:
    """Return the folded words of a text, in order."""
    if text.isascii():
        return [word[:MAX_WORD] for word in _ASCII_WORD.findall(text.lower())]
    return [word for _, _, word in spans(text)]


def spans(text: str) -> Iterator[tuple[int, int, str]]:
    """Walk the words of a text: where each starts and ends, and its folded form."""
    if text.isascii():
        for match in _ASCII_WORD.finditer(text.lower()):
            yield match.start(), match.end(), match[0][:MAX_WORD]
        return
    for match in _WORD.finditer(text):
        for folded in _folded(match[0]):
            yield match.start(), match.end(), folded


def parse_query(text: str) -> tuple[Term, ...]:
    """Return what a person or a model looks for: words, `"phrases"`, and `beginnings*`.

    Raises:
        BadRequest: if there is no word in it, or it is too long.
    """
    if len(text) > MAX_QUERY_CHARACTERS:
        raise BadRequest(f"query: expected at most {MAX_QUERY_CHARACTERS} characters, got {len(text)}")
    found: dict[Term, None] = {}
    for part in _PART.finditer(text):
        phrase, _, star, bare = part.groups()
        source = bare if phrase is None else phrase
        if parsed := tuple(words(source)):
            found[Term(parsed, bool(star) or (bare or "").endswith("*"))] = None
    if not found:
        raise BadRequest("query: expected words to look for")
    if len(found) > MAX_TERMS:
        raise BadRequest(f"query: expected at most {MAX_TERMS} words, got {len(found)}")
    return tuple(found)


def _folded(word: str) -> list[str]:
    """Return what becomes of a word: mostly one, but a sign may stand for several."""
    if word.isascii():
        return [word.lower()[:MAX_WORD]]
    if len(word) == 1 and _ALONE.match(word):  # taken apart, a syllable would be three letters
        return [word]
    taken_apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", word).casefold())
    plain = "".join(one for one in taken_apart if one.isalnum())
    # What was written as one sign can be of the scripts that are cut.
    return [part[:MAX_WORD] for part in _WORD.findall(unicodedata.normalize("NFC", plain))]
