"""The file of tokens."""

import os
import stat

import pytest

from crabtalk.errors import NotFound
from crabtalk.mcp import tokens
from crabtalk.mcp.tokens import Tokens, TokensBroken


def test_a_token_is_found_by_its_text_and_kept_as_a_digest(tmp_path):
    text, made = tokens.add(tmp_path, "01AGENT", "alarm")
    known = Tokens(tmp_path)
    assert known.find(text) == made
    assert (made.agent, made.harness) == ("01AGENT", "alarm")
    file = tmp_path / tokens.FILE_NAME
    assert text not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for other in ("", text[:-1], text.upper(), made.digest):
        assert known.find(other) is None


def test_what_the_command_changes_is_seen_at_once(tmp_path):
    known = Tokens(tmp_path)
    assert known.all() == []
    text, made = tokens.add(tmp_path, "a")
    other, _ = tokens.add(tmp_path, "b")
    assert [one.agent for one in known.all()] == ["a", "b"]
    tokens.remove(tmp_path, made.id)
    assert known.find(text) is None
    assert known.find(other) is not None
    with pytest.raises(NotFound):
        tokens.remove(tmp_path, made.id)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        '[{"id": "x"}]',
        '{"a": 1}',
        '[{"id": "x", "digest": [], "agent": "a", "harness": "", "created_ms": 1}]',
        '[{"id": "x", "digest": "d", "agent": "a", "harness": null, "created_ms": 1}]',
        "[" * 200_000,
    ],
)
def test_a_file_that_is_broken_opens_nothing(tmp_path, text):
    (tmp_path / tokens.FILE_NAME).write_text(text)
    with pytest.raises(TokensBroken):
        Tokens(tmp_path).find("x")


def test_what_is_no_file_opens_nothing(tmp_path):
    place = tmp_path / tokens.FILE_NAME
    place.symlink_to(place)
    for make in (lambda: None, place.mkdir, lambda: os.mkfifo(place)):
        make()
        for asking in (lambda: Tokens(tmp_path).find("x"), Tokens(tmp_path).all):
            with pytest.raises(TokensBroken):
                asking()
        place.rmdir() if place.is_dir() else place.unlink()
