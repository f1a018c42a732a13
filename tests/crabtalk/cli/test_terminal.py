"""What a person at a terminal sees, and is asked."""

import os
import pty
import select
import sys

import pytest

from berm.cli.exits import DONE, HOST_ERROR


@pytest.fixture
def at_terminal(daemon):
    """Run a command whose stdin, stdout and stderr are one terminal: (exit code, what it printed)."""

    def at_terminal(*arguments, answer=b""):
        command = [sys.executable, "-m", "crabtalk", *arguments, "--home", str(daemon.home)]
        pid, master = pty.fork()
        if pid == 0:
            os.environ.update(TERM="xterm", NO_COLOR="1")
            os.execv(command[0], command)
        os.write(master, answer)
        printed = b""
        while select.select([master], [], [], 60)[0]:
            try:
                piece = os.read(master, 65536)
            except OSError:  # Linux says EIO at the end
                break
            if not piece:
                break
            printed += piece
        os.close(master)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), printed.decode().replace("\r\n", "\n")

    return at_terminal


def test_a_table_has_a_head_and_columns(at_terminal, agent):
    status, printed = at_terminal("harness", "ls", agent)
    head, line = printed.splitlines()
    assert status == DONE
    assert head.split() == ["name", "sha256", "bytes", "tools", "state"]
    assert line.index("say") == head.index("tools")


def test_control_characters_of_a_guest_are_shown_and_not_sent(at_terminal, agent):
    status, printed = at_terminal("call", agent, "alarm", "refuse", '{"message": "\\u001b[2Jgone"}')
    assert (status, printed) == (2, "\\x1b[2Jgone\n")


def test_a_result_ends_with_a_newline(at_terminal, agent):
    assert at_terminal("call", agent, "alarm", "say", '{"text": "x"}') == (DONE, "x\n")


@pytest.mark.parametrize(
    ("answer", "status", "is_there"),
    [(b"n\n", HOST_ERROR, True), (b"\n", HOST_ERROR, True), (b"y\n", DONE, False)],
)
def test_a_person_is_asked_before_an_agent_is_removed(at_terminal, ask, agent, answer, status, is_there):
    found, printed = at_terminal("agent", "rm", agent, answer=answer)
    assert found == status
    assert f"Remove {agent} with its wakes, " in printed
    assert "[y/N]" in printed
    assert ("nothing was changed" in printed) == is_there
    assert (agent in [one["name"] for one in ask("agent", "ls")]) == is_there
