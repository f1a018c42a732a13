"""What commands say when no daemon answers, and that two daemons do not share a home."""

import json
import subprocess
import sys

import pytest

from berm.cli.exits import DONE, HOST_ERROR
from crabtalk.cli import main
from daemons import running_daemon

ASKING = [
    ["ps"],
    ["call", "me", "os", "read"],
    ["agent", "ls"],
    ["harness", "ls"],
    ["wake", "ls"],
    ["event", "ls"],
    ["event", "publish", "a:b"],
    ["audit"],
    ["logs"],
]


@pytest.mark.parametrize("command", ASKING, ids=" ".join)
def test_a_command_that_needs_one_is_one_sentence(command, home, capfd):
    assert main(command) == HOST_ERROR
    printed = capfd.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("crabtalk: ")
    assert str(home) in line
    assert "crabtalk up" in line


def test_the_daemon_of_another_home_is_started_with_that_home(tmp_path, capfd):
    other = tmp_path / "not mine"
    assert main(["agent", "ls", "--home", str(other)]) == HOST_ERROR
    assert capfd.readouterr().err.endswith(f"; start it with `crabtalk up --home '{other}'`\n")


def test_status_says_so_and_exits_with_1(home, capfd):
    assert main(["status"]) == HOST_ERROR
    assert capfd.readouterr().out == f"daemon\tnot running\nhome\t{home}\n"
    assert main(["status", "--json"]) == HOST_ERROR
    assert json.loads(capfd.readouterr().out) == {"running": False, "home": str(home)}


def test_version_is_shown_anyway(capfd):
    from importlib.metadata import version

    assert main(["version"]) == DONE
    printed = capfd.readouterr()
    assert printed.out == f"command\t{version('crabtalk')}\ndaemon\tnot running\n"
    assert len(printed.err.splitlines()) == 1


def test_a_home_that_is_in_use_is_refused(daemon):
    """More than once: who fails to take the home leaves the holder's mark alone."""
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", "crabtalk", "up", "--home", str(daemon.home)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == HOST_ERROR
        holder = f"{daemon.home} is in use by process {daemon.process.pid}"
        assert done.stderr.splitlines()[-1] == f"crabtalk: {holder}"


def test_a_daemon_that_dies_ends_what_follows_it():
    with running_daemon() as daemon:
        tail = subprocess.Popen(
            [sys.executable, "-m", "crabtalk", "logs", "-f", "--home", str(daemon.home.root)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert tail.stdout.readline()
        daemon.kill()
        _, err = tail.communicate(timeout=60)
    assert tail.returncode == HOST_ERROR
    (line,) = err.splitlines()
    assert line.startswith("crabtalk: the daemon")


def test_a_configuration_with_mistakes_is_refused(home, capfd):
    home.mkdir()
    (home / "config.toml").write_text("tpc = true\nlog = 3\n")
    assert main(["up"]) == HOST_ERROR
    assert len(capfd.readouterr().err.splitlines()) == 2
