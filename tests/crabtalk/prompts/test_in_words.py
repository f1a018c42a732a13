"""What a person reads of a request: every field, and nothing that looks like another."""

import pytest

from berm.errors import WireError
from berm.wire import pack_fields
from crabtalk.capabilities.asking import MAX_SHOWN, in_words, readable


def words(name, *fields):
    return in_words(name, pack_fields([one if isinstance(one, bytes) else one.encode() for one in fields]))


@pytest.mark.parametrize(
    ("name", "fields", "shown"),
    [
        ("berm.fs.read", ["notes/a.txt"], "path: notes/a.txt"),
        ("berm.fs.write", ["a", b"\xff" * 300], "path: a\ncontent: 300 bytes"),
        ("berm.exec.run", ["make all", "", "A", "1", "B", "2"],
         "command: make all\nenv: A = 1\nenv: B = 2"),
        ("berm.http.fetch", ["GET", "https://x.org/", "", "accept", "*/*"],
         "method: GET\nurl: https://x.org/\nheader: accept = */*"),
        ("crabtalk.agent.send", ["ann", "do it"], "agent: ann\ncontent: do it"),
        ("crabtalk.peers.list", [], ""),
        ("somebody.elses", ["a", "b"], "field: a\nfield: b"),
        ("berm.fs.read", ["a", "more"], "path: a\nfield: more"),
        ("berm.set", ["k", b"\xff\x00"], "key: k\nvalue: 2 bytes that are no text"),
    ],
)  # fmt: skip
def test_a_request_is_shown_by_its_fields(name, fields, shown):
    assert words(name, *fields) == shown


def test_a_field_cannot_look_like_two():
    assert words("berm.exec.run", "true\ncwd: /safe\r\x1b[2K\u202e", "/") == (
        "command: true\\ncwd: /safe\\r\\u001b[2K\\u202e\ncwd: /"
    )


@pytest.mark.parametrize("hidden", ["\u200b", "\u2066", "\ufeff", "\x9b", "\x7f", "\xad"])
def test_what_nobody_sees_is_shown(hidden):
    assert readable(f"a{hidden}b") == f"a\\u{ord(hidden):04x}b"


def test_what_is_left_out_is_counted():
    assert words("berm.exec.run", "x" * (MAX_SHOWN + 7)).endswith("… (7 more characters)")
    assert words("berm.exec.run", "c", "", *["e"] * 100).endswith("\nenv: e = e\n… and 36 more fields")
    assert words("berm.exec.run", "c", "", "A", "1", "B").endswith("env: A = 1\nenv: B")


def test_what_is_no_request_is_an_error():
    with pytest.raises(WireError):
        in_words("berm.fs.read", b"\xff")
