"""What a word is, and how a query is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabtalk.errors import BadRequest
from crabtalk.search.words import MAX_QUERY_CHARACTERS, MAX_TERMS, MAX_WORD, Term, parse_query, spans, words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("Plain words, and 2 numbers!", ["plain", "words", "and", "2", "numbers"]),
        ("os__read server-tool a.b/c", ["os", "read", "server", "tool", "a", "b", "c"]),
        ("Straße CAFÉ cafe\u0301 Ärger", ["strasse", "cafe", "cafe", "arger"]),
        ("日本語 test テスト", ["日", "本", "語", "test", "テ", "ス", "ト"]),
        ("한국어", ["한", "국", "어"]),
        ("Привет, мир", ["привет", "мир"]),
        ("ﬁne", ["fine"]),
        ("x" * 200, ["x" * MAX_WORD]),
        ("… — !?", []),
    ],
)
def test_words_are_folded_and_in_order(text, found):
    assert words(text) == found


def test_ascii_alone_is_read_as_it_is_beside_other_letters():
    text = "Some_Words 12ab, and (more)..."
    assert [*words(text), "u"] == words(text + " ü")
    assert list(spans(text)) == list(spans(text + " ü"))[:-1]


def test_spans_say_where_words_are():
    text = "Ein Café, zwei"
    assert [text[start:end] for start, end, _ in spans(text)] == ["Ein", "Café", "zwei"]


@given(st.text(max_size=200))
def test_folded_words_stay_as_they_are(text):
    found = words(text)
    assert words(" ".join(found)) == found
    assert all(0 < len(word) <= MAX_WORD and '"' not in word and " " not in word for word in found)


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("harbour", [Term(("harbour",))]),
        ("Harbour  night", [Term(("harbour",)), Term(("night",))]),
        ('"at the harbour" night', [Term(("at", "the", "harbour")), Term(("night",))]),
        ("harb*", [Term(("harb",), prefix=True)]),
        ('"the harb"*', [Term(("the", "harb"), prefix=True)]),
        ("foo-bar", [Term(("foo", "bar"))]),
        ("a a A", [Term(("a",))]),
        ('"unfinished phrase', [Term(("unfinished", "phrase"))]),
        ("東京", [Term(("東", "京"))]),
        ("NOT (a OR b)", [Term(("not",)), Term(("a",)), Term(("or",)), Term(("b",))]),
    ],
)
def test_a_query_is_words_phrases_and_beginnings(query, terms):
    assert parse_query(query) == tuple(terms)


@pytest.mark.parametrize("query", ["", "  ", "*", '""', "?!", "- -"])
def test_a_query_without_words_is_refused(query):
    with pytest.raises(BadRequest, match="query: expected words to look for"):
        parse_query(query)


def test_a_query_has_bounds():
    with pytest.raises(BadRequest, match=f"expected at most {MAX_QUERY_CHARACTERS} characters, got 1001"):
        parse_query("x" * 1001)
    with pytest.raises(BadRequest, match=f"expected at most {MAX_TERMS} words, got 33"):
        parse_query(" ".join(f"w{number}" for number in range(33)))
