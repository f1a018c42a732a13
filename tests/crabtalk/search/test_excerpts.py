"""The piece of a message that is shown."""

from hypothesis import given
from hypothesis import strategies as st

from crabtalk.search.excerpts import MAX_BYTES, excerpt
from crabtalk.search.words import parse_query


def test_a_short_text_is_shown_as_it_is():
    assert excerpt("All of it.", parse_query("all")) == ("All of it.", False)
    assert excerpt("ü" * (MAX_BYTES // 2)) == ("ü" * (MAX_BYTES // 2), False)


def test_without_terms_a_long_text_is_cut_at_its_end():
    text = "word " * 1000
    assert excerpt(text) == (text[:MAX_BYTES], True)


def test_the_excerpt_is_around_the_first_match_and_begins_with_a_word():
    text = "before " * 1000 + "the lighthouse stands " + "after " * 1000
    found, truncated = excerpt(text, parse_query("lighthouse"))
    assert truncated
    assert found.startswith("before before ")
    assert 0 < found.index("lighthouse") < 100


def test_the_place_with_the_most_different_terms_wins():
    text = "storm " * 5 + "x " * 2000 + "storm over the harbour" + " y" * 2000
    found, _ = excerpt(text, parse_query("harbour storm"))
    assert "storm over the harbour" in found


def test_beginnings_and_accents_are_found_too():
    text = "x " * 2000 + "die Häfen von Genua" + " y" * 2000
    assert "Häfen" in excerpt(text, parse_query("haf*"))[0]


@given(st.text(max_size=3000), st.integers(4, 600))
def test_an_excerpt_is_a_piece_of_the_text_and_fits(text, max_bytes):
    found, truncated = excerpt(text, parse_query("a b*"), max_bytes)
    assert found in text
    assert len(found.encode()) <= max_bytes
    assert truncated == (found != text)
