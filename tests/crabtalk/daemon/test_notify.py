"""What the service manager hears, on a socket of the test's own."""

import os
import socket
import tempfile
from pathlib import Path

import pytest

from crabtalk.notify import Notifier, forget_manager


@pytest.fixture
def manager():
    directory = Path(tempfile.mkdtemp(dir="/tmp"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(directory / "n"))
        listening.settimeout(5)
        yield listening
    (directory / "n").unlink()
    directory.rmdir()


def test_each_change_is_one_datagram(manager):
    notifier = Notifier({"NOTIFY_SOCKET": manager.getsockname()})
    notifier.ready("serving\n2 agents")
    notifier.reloading()
    notifier.alive()
    notifier.stopping(40.0, "draining")
    assert manager.recv(4096) == b"READY=1\nSTATUS=serving 2 agents"
    reloading = manager.recv(4096).decode().split("\n")
    assert reloading[0] == "RELOADING=1"
    assert int(reloading[1].removeprefix("MONOTONIC_USEC=")) > 0
    assert manager.recv(4096) == b"WATCHDOG=1"
    assert manager.recv(4096) == b"STOPPING=1\nEXTEND_TIMEOUT_USEC=40000000\nSTATUS=draining"


def test_the_abstract_namespace_is_known():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        name = f"crabtalk-test-{os.getpid()}"
        listening.bind(f"\0{name}")
        listening.settimeout(5)
        Notifier({"NOTIFY_SOCKET": f"@{name}"}).alive()
        assert listening.recv(100) == b"WATCHDOG=1"


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1"}])
def test_without_a_manager_nothing_is_sent(environment):
    notifier = Notifier({"WATCHDOG_USEC": "1000000", **environment})
    assert notifier.watchdog_s is None
    notifier.ready()


def test_a_manager_that_is_gone_is_no_reason_to_stop(tmp_path):
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready()


def test_the_watchdog_is_ours_only_if_it_says_so(manager):
    known = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "30000000"}
    assert Notifier(known).watchdog_s == 30.0
    assert Notifier({**known, "WATCHDOG_PID": str(os.getpid())}).watchdog_s == 30.0
    assert Notifier({**known, "WATCHDOG_PID": "1"}).watchdog_s is None


def test_what_the_manager_set_is_not_handed_on(monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/n")
    monkeypatch.setenv("WATCHDOG_USEC", "1")
    forget_manager()
    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} & set(os.environ)
