"""The head of a SKILL.md: what is read, what it becomes, and what is said of the rest."""

import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crabtalk.frontmatter import MAX_BYTES, FrontmatterError, split_frontmatter


def head(text):
    return split_frontmatter(f"---\n{textwrap.dedent(text)}\n---\nbody")[0]


def refusal(text):
    with pytest.raises(FrontmatterError) as caught:
        split_frontmatter(text)
    return str(caught.value)


def test_the_body_is_what_follows():
    keys, body = split_frontmatter("---\nname: a\n---\n\n# Title\n\n---\nnot a fence of ours\n")
    assert keys == {"name": "a"}
    assert body == "# Title\n\n---\nnot a fence of ours"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("key: plain text", "plain text"),
        ("key:   spaces around   ", "spaces around"),
        ("key: Use when: the user asks", "Use when: the user asks"),
        ("key: no", "no"),
        ("key: 1.10", "1.10"),
        ("key: 2026-11-30", "2026-11-30"),
        ("key: null", "null"),
        ("key: text # and a comment", "text"),
        ("key: C# is no comment", "C# is no comment"),
        ('key: "quoted: # text"', "quoted: # text"),
        ('key: "a \\"b\\" \\n c\\\\"', 'a "b" \n c\\'),
        ("key: 'it''s'", "it's"),
        ("key: 'x' # comment", "x"),
        ("key:", ""),
        ("key: # nothing", ""),
        ("key: first\n  second\n  third", "first second third"),
        ("key:\n  on the next line\n  and on", "on the next line and on"),
        ('key: "over\n  two lines"', "over two lines"),
        ("key: |\n  first\n    indented\n\n  last", "first\n  indented\n\nlast\n"),
        ("key: |-\n  no end", "no end"),
        ("key: >\n  folded\n  text\n\n  paragraph", "folded text\n\nparagraph\n"),
        ("key: >-\n  folded\n  text", "folded text"),
        ("key: [a, 'b c', d]", ["a", "b c", "d"]),
        ("key: []", []),
        ("key:\n  - a\n  - b", ["a", "b"]),
        ("key:\n- a\n- 'b'", ["a", "b"]),
        (
            "key:\n  author: me\n  version: 1.0\n  note: a\n    b",
            {"author": "me", "version": "1.0", "note": "a b"},
        ),
    ],
)
def test_every_value_is_text_lists_or_one_level_of_keys(text, value):
    assert split_frontmatter(f"---\n{text}\nnext: x\n---\n")[0] == {"key": value, "next": "x"}


def test_comments_and_empty_lines_are_passed_over():
    assert head("# about\n\na: 1\n\n# more\nb: 2\n") == {"a": "1", "b": "2"}


def test_lines_may_end_as_elsewhere_and_a_mark_may_come_first():
    assert split_frontmatter("\ufeff---\r\nname: a\r\n---\r\nbody\r\n") == ({"name": "a"}, "body")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "line 1: expected `---` before the keys"),
        ("# Title\n", "line 1: expected `---` before the keys"),
        ("---\nname: a\n", "line 1: expected a second `---` after the keys"),
        ("---\nname: a\nname: b\n---\n", "line 3: key `name` stands twice"),
        ("---\nname: a\n  more: b: c\nnonsense\n---\n", "line 4: expected `key: value`"),
        ("---\nname a\n---\n", "line 2: expected `key: value`"),
        ("---\n  name: a\n---\n", "line 2: expected `key: value`"),
        ("---\nname: a\nx: 1\n\tname: b\n---\n", "line 4: indented by a tab: use spaces"),
        ("---\nname: &anchor a\n---\n", "line 2: a value that starts with `&` has to be in quotes"),
        ("---\na: 1\nname: *anchor\n---\n", "line 3: a value that starts with `*` has to be in quotes"),
        ("---\nname: {a: 1}\n---\n", "line 2: a value that starts with `{` has to be in quotes"),
        ("---\nname: !!python/object x\n---\n", "line 2: a value that starts with `!` has to be in quotes"),
        ('---\nname: "open\n---\n', 'line 2: expected " at the end of the value, and nothing after it'),
        ("---\nname: 'a' b\n---\n", "line 2: expected ' at the end of the value, and nothing after it"),
        ('---\nname: "\\q"\n---\n', "line 2: unknown escape `\\q`"),
        ("---\nname: [a, b\n---\n", "line 2: expected `]` in the same line"),
        ("---\n\tname: a\n---\n", "line 2: indented by a tab: use spaces"),
        ("---\n" + "a: b\n" * MAX_BYTES + "---\n", f"line 1: the head is longer than {MAX_BYTES} characters"),
    ],
)
def test_everything_else_is_an_error_with_its_line(text, why):
    assert refusal(text) == why


@settings(max_examples=500, deadline=None)
@given(st.text(alphabet=st.sampled_from("ab:#'\"|>-[]{}&* \n\t\\.,"), max_size=80))
def test_any_head_is_read_or_refused(text):
    try:
        keys, _ = split_frontmatter(f"---\n{text}\n---\n")
    except FrontmatterError:
        return
    assert all(isinstance(key, str) for key in keys)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.text(st.characters(codec="utf-8"), max_size=30)
    )
)
def test_quoted_text_comes_back(values):
    escaped = {
        key: "".join({"\n": "\\n", '"': '\\"', "\\": "\\\\", "\r": "\\r"}.get(one, one) for one in text)
        for key, text in values.items()
    }
    lines = [f'{key}: "{text}"' for key, text in escaped.items()]
    keys, _ = split_frontmatter("\n".join(["---", *lines, "---", ""]))
    assert keys == values
