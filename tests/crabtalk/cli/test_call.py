"""`crabtalk call`: what arrives on stdout and stderr, and with which exit code."""

import json

import pytest

from berm.cli.exits import DONE, FAILED, HOST_ERROR, USAGE


def test_the_result_is_on_stdout_unchanged(run, agent):
    out = "hello ü\n\x1b[1m".encode()
    assert run("call", agent, "alarm", "say", '{"text": "hello ü\\n\\u001b[1m"}') == (DONE, out, "")


def test_a_result_that_is_no_text_is_a_trap(run, agent):
    status, out, err = run("call", agent, "alarm", "binary")
    assert (status, out) == (FAILED, b"")
    assert err.startswith("trap: ")
    assert "UTF-8" in err


def test_a_failure_is_on_stderr_and_exits_with_2(run, agent):
    assert run("call", agent, "alarm", "refuse", '{"message": "no such page"}') == (
        FAILED,
        b"",
        "no such page\n",
    )


def test_a_trap_is_reported_on_stderr_and_exits_with_2(run, agent):
    status, out, err = run("call", agent, "alarm", "crash")
    assert (status, out) == (FAILED, b"")
    first, second, *frames = err.splitlines()
    assert first.startswith("trap: load fault, 1-byte load at 0x8")
    assert second == "frames, innermost first:"
    assert "berm_start_crash" in frames[0]


def test_arguments_come_from_a_file(run, agent, tmp_path):
    (tmp_path / "blob").write_text('{"text": "from a file"}')
    assert run("call", agent, "alarm", "say", f"@{tmp_path}/blob") == (DONE, b"from a file", "")


def test_a_deadline_ends_a_tool_that_does_not(run, agent):
    status, out, err = run("call", agent, "alarm", "spin", "--deadline", "0.2")
    assert (status, out) == (FAILED, b"")
    assert "deadline" in err


def test_stats_are_on_stderr(run, agent):
    status, out, err = run("call", agent, "alarm", "say", '{"text": "x"}', "--stats")
    assert (status, out) == (DONE, b"x")
    assert " instructions, " in err


def test_json_says_how_it_ended(ask, run, agent):
    done = ask("call", agent, "alarm", "say", '{"text": "x"}')
    assert (done["outcome"], done["result"]) == ("done", "x")
    assert done["instructions"] > 0
    status, out, err = run("call", agent, "alarm", "refuse", '{"message": "no"}', "--json")
    assert (status, err) == (FAILED, "")
    assert json.loads(out)["message"] == "no"
    status, out, _ = run("call", agent, "alarm", "crash", "--json")
    trap = json.loads(out)
    assert (status, trap["outcome"], trap["address"]) == (FAILED, "trap", 8)
    assert trap["report"].startswith("trap: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nobody", "alarm", "say"], "nobody"),
        (["AGENT", "clock", "say"], "clock"),
        (["AGENT", "alarm", "sing"], "sing"),
    ],
)
def test_what_is_not_there_is_named(run, agent, words, message):
    words = [agent if word == "AGENT" else word for word in words]
    status, out, err = run("call", *words)
    assert (status, out) == (HOST_ERROR, b"")
    assert err.startswith("crabtalk: ")
    assert message in err
    assert len(err.splitlines()) == 1


def test_an_agent_may_be_named_by_its_id(run, ask, agent):
    (agent_id,) = [one["id"] for one in ask("agent", "ls") if one["name"] == agent]
    assert run("call", agent_id, "alarm", "say", '{"text": "x"}') == (DONE, b"x", "")


def test_arguments_larger_than_a_request_are_refused_here(run, agent, tmp_path):
    (tmp_path / "blob").write_bytes(b"x" * (1 << 20))
    status, _, err = run("call", agent, "alarm", "say", f"@{tmp_path}/blob")
    assert (status, err) == (
        HOST_ERROR,
        "crabtalk: the arguments are 1,048,576 bytes; a request holds 1,044,480 of them\n",
    )


def test_a_deadline_that_is_none_is_a_usage_error(run, agent):
    assert run("call", agent, "alarm", "say", "--deadline", "soon")[0] == USAGE
