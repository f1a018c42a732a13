import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabtalk.events.matching import check_pattern, check_source, covers, is_reserved, matches, selecting

WORDS = st.text("ab.", min_size=1, max_size=2)
SOURCES = st.lists(WORDS, min_size=1, max_size=4).map(":".join)
PATTERNS = st.one_of(SOURCES, SOURCES.map(lambda source: source + ":*"))


@pytest.mark.parametrize("source", ["a", "build", "build:web", "build:Web:DONE", "a.b-c_d:0", "a" * 128])
def test_sources(source):
    assert check_source(source) == source
    assert check_pattern(source) == source


@pytest.mark.parametrize(
    "source",
    [
        "",
        ":",
        "a:",
        ":a",
        "a::b",
        "A",
        "Build:x",
        "a b",
        "a\n",
        "a:b\n",
        "a/b",
        "é",
        "a:é",
        "a" * 129,
        "*",
        "a:*",
    ],
)
def test_what_is_no_source(source):
    with pytest.raises(ValueError, match=r"event source .*: expected at most 128 bytes"):
        check_source(source)


@pytest.mark.parametrize("pattern", ["a:*", "build:web:*", "a" * 126 + ":*"])
def test_patterns(pattern):
    assert check_pattern(pattern) == pattern


@pytest.mark.parametrize(
    "pattern", ["*", ":*", "a*", "a:b*", "a:*:b", "a:*:*", "A:*", "a:* ", "a" * 127 + ":*"]
)
def test_what_is_no_pattern(pattern):
    with pytest.raises(ValueError, match=r"event pattern .*: expected a source, or"):
        check_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "source", "selected"),
    [
        ("a", "a", True),
        ("a", "a:b", False),
        ("a:*", "a:b", True),
        ("a:*", "a:b:c", True),
        ("a:*", "a", False),
        ("a:*", "ab:c", False),
        ("a:b:*", "a:b", False),
        ("a:b:*", "a:bc:d", False),
    ],
)
def test_matching(pattern, source, selected):
    assert matches(pattern, source) == selected


@given(PATTERNS, SOURCES)
def test_looking_up_finds_what_matching_finds(pattern, source):
    assert (pattern in selecting(source)) == matches(pattern, source)


@given(PATTERNS, PATTERNS, SOURCES)
def test_what_covers_selects_no_less(wide, narrow, source):
    if covers(wide, narrow) and matches(narrow, source):
        assert matches(wide, source)


@given(PATTERNS)
def test_a_pattern_covers_itself(pattern):
    assert covers(pattern, pattern)


def test_an_exact_pattern_covers_no_prefix():
    assert not covers("a:b", "a:b:*")
    assert covers("a:*", "a:b:*")
    assert not covers("a:b:*", "a:*")


@pytest.mark.parametrize("source", ["agent:x:done", "wake:missed", "harness", "daemon:*", "mcp:a"])
def test_reserved(source):
    assert is_reserved(source)


@pytest.mark.parametrize("source", ["agents:x", "build:wake", "wake-up", "harness.x:y"])
def test_not_reserved(source):
    assert not is_reserved(source)
