"""A daemon as a user has it: a process of its own, in a home of its own."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from crabtalk.cli import main

READY_WITHIN_S = 60
GONE_WITHIN_S = 30


class Daemon:
    """Runs `crabtalk up`; its home has a short name, because a socket's path must be."""

    def __init__(self, **files):
        """Start one; `files` are texts by name, with `_` for the dot, that lie in its home from the start."""
        self.home = Path(tempfile.mkdtemp(prefix="ct", dir="/tmp"))
        for name, text in files.items():
            (self.home / name.replace("_", ".")).write_text(text)
        self.log = self.home / "daemon.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "crabtalk", "up", "--home", str(self.home)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home,
            )

    def wait(self):
        deadline = time.monotonic() + READY_WITHIN_S
        while not (self.home / "run" / "crabtalk.sock").exists():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)

    def stop(self):
        """Ask it to stop, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(GONE_WITHIN_S)
        finally:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="session")
def alarm(build):
    return build("tests/guests/alarm.c")


@pytest.fixture(scope="package")
def another_daemon():
    """Start daemons of a test module's own; see `Daemon`."""
    daemons = []

    def another_daemon(**files):
        daemons.append(Daemon(**files))
        daemons[-1].wait()
        return daemons[-1]

    yield another_daemon
    for daemon in daemons:
        daemon.process.kill()
        daemon.process.wait()
        shutil.rmtree(daemon.home)


@pytest.fixture(scope="package")
def daemon(alarm):
    """One daemon for all tests, with the image `alarm` in it; nothing but what they name is shared."""
    daemon = Daemon()
    try:
        daemon.wait()
        assert main(["harness", "add", str(alarm), "--name", "alarm", "--home", str(daemon.home)]) == 0
        yield daemon
        assert daemon.stop() == 0, daemon.log.read_text()
    finally:
        daemon.process.kill()
        daemon.process.wait()
        shutil.rmtree(daemon.home)


@pytest.fixture
def run(daemon, capfdbinary):
    """Run a command against the daemon, in this process: (exit code, stdout, stderr)."""

    def run(*arguments):
        try:
            status = main([*arguments, "--home", str(daemon.home)])
        except SystemExit as exit_:
            status = exit_.code
        printed = capfdbinary.readouterr()
        return status, printed.out, printed.err.decode()

    return run


@pytest.fixture
def ask(run):
    """Run a command that succeeds, and read what it prints with --json."""

    def ask(*arguments):
        status, out, err = run(*arguments, "--json")
        assert status == 0, err
        return json.loads(out)

    return ask


@pytest.fixture
def agent(ask, run, tmp_path, request):
    """An agent of the test's own that declares `alarm`: its name."""
    name = f"a{abs(hash(request.node.name)) % 10**9}"
    file = tmp_path / "agent.toml"
    file.write_text(
        f'name = "{name}"\ndescription = "Rings.\\nLoudly."\n'
        '[[harnesses]]\nname = "alarm"\nschedule = 8\ntopics = ["alarm:*"]\nstorage = "1MiB"\n'
    )
    ask("agent", "add", str(file))
    yield name
    run("agent", "rm", name, "--yes")
