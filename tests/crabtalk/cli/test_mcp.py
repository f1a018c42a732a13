"""`crabtalk mcp`, with a real daemon and a real server."""

import json
import sys
from types import SimpleNamespace

import pytest

from crabtalk.cli import main
from crabtalk.mcp.tokens import Tokens
from mcp_servers import RAW

SERVER = [sys.executable, "-I", "-S", "-c", RAW, "plain"]


@pytest.fixture
def crabtalk(daemon, capfdbinary):
    """Run a command, with the home before what may end in `-- COMMAND`."""

    def run(command, action, *words):
        try:
            status = main([command, action, "--home", str(daemon.home), *words])
        except SystemExit as ended:
            status = ended.code
        printed = capfdbinary.readouterr()
        return SimpleNamespace(status=status, out=printed.out.decode(), err=printed.err.decode())

    return run


@pytest.fixture
def ann(crabtalk, tmp_path):
    file = tmp_path / "ann.json"
    file.write_text("{}")
    added = crabtalk("agent", "add", str(file), "--name", "ann-of-mcp")
    assert added.status == 0, added.err
    yield "ann-of-mcp"
    crabtalk("agent", "rm", "ann-of-mcp", "--yes")


def test_a_server_is_added_listed_called_and_taken_away(crabtalk, ann):
    added = crabtalk("mcp", "add", ann, "raw", "--env", "TOKEN=hush-hush", "--deadline", "5", "--", *SERVER)
    assert (added.status, added.out) == (0, "raw: connected; 1 tools\n")
    [server] = json.loads(crabtalk("mcp", "ls", ann, "--json").out)
    assert (server["agent"], server["name"], server["status"], server["tool_count"]) == (
        ann,
        "raw",
        "connected",
        1,
    )
    assert server["env"] == {"TOKEN": '{"$secret": "set"}'}
    called = crabtalk("call", ann, "raw", "echo", '{"n": 1}')
    assert (called.status, called.out.strip()) == (0, '{"n": 1}')
    assert "connected: raw 0, protocol 2025-06-18; 1 tools" in crabtalk("mcp", "logs", ann, "raw").out
    assert crabtalk("mcp", "reconnect", ann, "raw").out == "raw: connected; 1 tools\n"
    assert crabtalk("mcp", "rm", ann, "raw", "--yes").status == 0
    assert json.loads(crabtalk("mcp", "ls", ann, "--json").out) == []


def test_a_server_that_does_not_work_is_no_success(crabtalk, ann):
    added = crabtalk("mcp", "add", ann, "none", "--", "/no/such/program", "-x")
    assert added.status == 1
    assert "failed; it cannot be started: there is no program `/no/such/program`" in added.out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "give a program, after --, or a --url"),
        (["--url", "http://127.0.0.1:1/", "--", "x"], "give a program, after --, or a --url"),
        (["--env", "NOT_THERE_AT_ALL", "--", "x"], "there is no variable NOT_THERE_AT_ALL in this shell"),
    ],
)
def test_what_cannot_be_meant_is_said_to_be(crabtalk, ann, words, complaint):
    refused = crabtalk("mcp", "add", ann, "x", *words)
    assert refused.status == 64
    assert complaint in refused.err


def test_a_token_is_made_listed_and_taken_away(crabtalk, ann, daemon):
    added = crabtalk("mcp", "token", "add", "--agent", ann)
    assert added.status == 0
    text = added.out.strip()
    assert text.startswith("ctm_")
    token_id = added.err.split(";")[0].removeprefix("token ")
    assert [one["id"] for one in json.loads(crabtalk("mcp", "token", "ls", "--json").out)] == [token_id]
    assert Tokens(daemon.home).find(text).id == token_id
    assert ann in crabtalk("mcp", "token", "ls").out
    assert crabtalk("mcp", "token", "rm", token_id).status == 0
    assert Tokens(daemon.home).find(text) is None
    assert crabtalk("mcp", "token", "rm", token_id).status == 1
    assert crabtalk("mcp", "token", "add", "--agent", ann, "--harness", "none").status == 1
    assert crabtalk("mcp", "token", "add").status == 64
