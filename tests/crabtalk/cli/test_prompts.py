"""Prompts and approvals from a shell: seen, answered, listed, revoked."""

import json
import os
import pty
import subprocess
import sys
import time

import pytest

from berm.cli.exits import DONE, HOST_ERROR, USAGE
from declared_guests import guest, request

WITHIN_S = 30


@pytest.fixture
def asker(ask, run, tmp_path, request):
    """An agent of the test's own that asks, and has files that have to be approved: its name."""
    name = f"p{abs(hash(request.node.name)) % 10**9}"
    (tmp_path / "probe.elf").write_bytes(guest())
    (tmp_path / "a.txt").write_text("AAA")
    assert run("harness", "add", str(tmp_path / "probe.elf"), "--name", "probe")[0] == DONE
    file = tmp_path / "agent.toml"
    file.write_text(
        f'name = "{name}"\n[[harnesses]]\nname = "probe"\nfiles = {{path = "{tmp_path}", ask = true}}\n'
        '[[harnesses]]\nname = "ask_user"\nbuiltin = "ask_user"\n'
    )
    ask("agent", "add", str(file))
    yield name
    run("agent", "rm", name, "--yes")


@pytest.fixture
def calling(daemon, asker, tmp_path):
    """Call a tool beside the test: the process; it does not outlive the test."""
    started = []

    def calling(harness, tool, args):
        file = tmp_path / "args"
        file.write_bytes(args)
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "crabtalk", "call", asker, harness, tool, f"@{file}"),
                *("--home", str(daemon.home)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield calling
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def waiting(ask):
    """Return the one prompt that waits, when it does."""

    def waiting():
        deadline = time.monotonic() + WITHIN_S
        while not (prompts := ask("prompts", "ls")):
            assert time.monotonic() < deadline, "nothing was asked"
        (prompt,) = prompts
        return prompt

    return waiting


READ = request("berm.fs.read", "a.txt")


def test_an_approval_from_prompt_to_revocation(asker, calling, waiting, ask, run, tmp_path):
    reading = calling("probe", "ask", READ)
    prompt = waiting()
    assert (prompt["kind"], prompt["capability"], prompt["text"]) == (
        "approval",
        "berm.fs.read",
        "path: a.txt",
    )
    assert run("prompts", "allow", prompt["id"], "--scope", "always") == (DONE, b"", "")
    assert reading.communicate(timeout=WITHIN_S)[0].strip() == b"oAAA"
    (approval,) = ask("approvals", "ls", asker)
    assert (approval["argument"], approval["scope"]) == (f"files = {tmp_path}", "always")
    status, out, _ = run("approvals", "ls", asker)
    cells = out.decode().rstrip("\n").split("\t")
    assert (status, cells[:2]) == (DONE, [approval["id"], f"{asker}/probe"])
    assert cells[2:6] == [approval["sha256"][:12], "berm.fs.read", f"files = {tmp_path}", "always"]
    status, _, err = run("approvals", "revoke", approval["id"], "nonesuch")
    assert (status, err) == (HOST_ERROR, "crabtalk: there is no approval `nonesuch`\n")
    assert ask("approvals", "ls", asker) == []


def test_a_refusal_with_its_reason(calling, waiting, run):
    reading = calling("probe", "ask", READ)
    prompt = waiting()
    assert run("prompts", "deny", prompt["id"], "not now")[0] == DONE
    assert reading.communicate(timeout=WITHIN_S)[0].strip().endswith(b"a person refused it, saying: not now")
    status, _, err = run("prompts", "deny", prompt["id"])
    assert (status, err.count("waits for an answer, or not any more")) == (HOST_ERROR, 1)


def test_a_question(asker, calling, waiting, run):
    asking = calling("ask_user", "ask_user", json.dumps({"question": "Red\nor blue?"}).encode())
    prompt = waiting()
    assert (prompt["kind"], prompt["text"]) == ("question", "Red\nor blue?")
    line = run("prompts", "ls")[1].decode().split("\t")
    assert line[:3] == [prompt["id"], "question", f"{asker}/ask_user"]
    assert line[5] == "Red\\x0aor blue?"
    assert run("prompts", "answer", prompt["id"], "blue")[0] == DONE
    assert asking.communicate(timeout=WITHIN_S)[0].strip() == b"blue"


def test_watching_needs_a_terminal(run):
    status, _, err = run("prompts", "watch")
    assert (status, err) == (
        USAGE,
        "crabtalk: there is no terminal to ask at: say --json to see what is asked\n",
    )


@pytest.mark.parametrize(
    ("typed", "got"), [("once", b"oAAA"), ("no", b"a person refused it"), ("forever", b"a person refused it")]
)
def test_answering_at_a_terminal(daemon, calling, typed, got):
    terminal, its_end = pty.openpty()
    watching = subprocess.Popen(
        [sys.executable, "-m", "crabtalk", "prompts", "watch", "--home", str(daemon.home)],
        stdin=its_end,
        stdout=its_end,
        stderr=its_end,
    )
    os.close(its_end)
    try:
        reading = calling("probe", "ask", READ)
        shown = read_until(terminal, b"(anything else: no)")
        assert b"wants to use berm.fs.read, with files = " in shown
        assert b"path: a.txt" in shown
        assert b"allow: once, always?" in shown
        os.write(terminal, typed.encode() + b"\n")
        assert got in reading.communicate(timeout=WITHIN_S)[0]
    finally:
        watching.kill()
        watching.wait()
        os.close(terminal)


def read_until(terminal, wanted):
    found = b""
    while wanted not in found:
        found += os.read(terminal, 4096)
    return found
