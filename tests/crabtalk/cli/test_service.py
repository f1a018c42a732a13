"""Units: what they say, that the service manager takes them, and which commands install them."""

import os
import plistlib
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from berm.cli.exits import DONE, HOST_ERROR
from crabtalk.cli import main
from crabtalk.errors import ConfigError
from crabtalk.launchd import Launchd
from crabtalk.service import Service, Systemd

ODD = Path("/tmp/a b%c$d\"e'f\\g")
needs_analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")

# Stands in for systemctl and journalctl, which need a user's session: says what it was asked, and may fail.
RECORDER = """#!/bin/sh
echo "$(basename "$0") $*" >> "$RECORD"
case "$*" in *"$FAIL_ON"*) [ -z "$FAIL_ON" ] || exit 3;; esac
"""


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Put recording programs first on PATH, and return what they were asked so far."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("systemctl", "journalctl"):
        (programs / name).write_text(RECORDER)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("RECORD", str(tmp_path / "record"))
    monkeypatch.setenv("FAIL_ON", "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return lambda: (tmp_path / "record").read_text().splitlines() if (tmp_path / "record").exists() else []


def verify(unit, tmp_path):
    """Ask systemd what is wrong with a unit."""
    file = tmp_path / "crabtalk.service"
    file.write_text(unit)
    return subprocess.run(
        ["systemd-analyze", "--user", "verify", str(file)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def setting(unit, name):
    return [line.partition("=")[2] for line in unit.splitlines() if line.startswith(f"{name}=")]


@needs_analyze
@pytest.mark.parametrize("home", [Path("/home/me/.crabtalk"), ODD], ids=["plain", "odd"])
def test_systemd_has_nothing_to_say_about_the_unit(home, tmp_path):
    done = verify(Systemd().text(Service(home)), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@needs_analyze
def test_a_unit_with_a_mistake_would_be_noticed(tmp_path):
    unit = Systemd().text(Service(Path("/home/me"))).replace("WatchdogSec=", "WatchDog=")
    assert "WatchDog" in verify(unit, tmp_path).stderr


def test_the_unit_waits_for_readiness_and_watches():
    unit = Systemd().text(Service(Path("/home/me/.crabtalk")))
    assert setting(unit, "Type") == ["notify"]
    assert setting(unit, "WatchdogSec") == ["30"]
    assert setting(unit, "NoNewPrivileges") == ["yes"]
    assert setting(unit, "LimitCORE") == ["0"]
    assert setting(unit, "UMask") == ["0077"]
    assert setting(unit, "KillMode") == ["mixed"]


def test_paths_in_a_unit_are_taken_as_they_are():
    unit = Systemd().text(Service(ODD, python=Path("/opt/my $py/bin/python")))
    assert setting(unit, "ExecStart") == ['"/opt/my $$py/bin/python" -P -m crabtalk up']
    assert setting(unit, "Environment") == ['"CRABTALK_HOME=/tmp/a b%%c$d\\"e\'f\\\\g"']
    assert setting(unit, "EnvironmentFile") == ["-/tmp/a b%%c$d\"e'f\\g/environment"]


@pytest.mark.parametrize("path", ["/home/me\nExecStartPre=/bin/evil", "/home/\x1b[1m", "/home/\u202e"])
def test_a_path_that_would_add_lines_to_a_unit_is_refused(path):
    with pytest.raises(ConfigError, match="it has control characters"):
        Service(Path(path))


def test_two_homes_are_two_services():
    names = {Service(Path(path)).name for path in ("/a", "/b", Path("~/.crabtalk").expanduser())}
    assert len(names) == 3
    assert "crabtalk" in names


def test_the_unit_s_command_is_one_that_this_interpreter_knows():
    command = Service(Path("/home/me")).command
    assert command[0] == sys.executable
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "usage: crabtalk up [-h] [--home DIR]")


def test_a_dry_run_prints_the_unit_and_does_nothing(asked, home, capfd):
    assert main(["service", "install", "--dry-run"]) == DONE
    printed = capfd.readouterr()
    assert printed.out == Systemd().text(Service(home))
    assert "would run systemctl --user restart" in printed.err
    assert asked() == []
    assert not Systemd().file(Service(home)).exists()


def test_install_writes_the_unit_and_starts_it(asked, home):
    assert main(["service", "install"]) == DONE
    service = Service(home)
    file = Systemd().file(service)
    assert file.read_text() == Systemd().text(service)
    assert asked() == [
        "systemctl --user daemon-reload",
        f"systemctl --user enable --quiet {service.name}.service",
        f"systemctl --user restart {service.name}.service",
    ]
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert stat.S_ISREG(file.stat().st_mode)


def test_to_install_again_stops_the_old_one_first(asked):
    for _ in range(2):
        assert main(["service", "install"]) == DONE
    assert [line.split()[2] for line in asked()] == [
        *("daemon-reload", "enable", "restart"),
        *("disable", "daemon-reload", "enable", "restart"),
    ]


def notified(manager, *wanted):
    """Read what the daemon tells its service manager until it says one of `wanted`."""
    said = []
    while not any(line in wanted for line in said):
        said += manager.recv(4096).decode().splitlines()
    return said


def test_the_daemon_tells_the_service_manager_what_the_unit_expects():
    """The test is the manager: it runs the unit's command with the unit's environment, as systemd would."""
    home = Path(tempfile.mkdtemp(prefix="ct", dir="/tmp"))
    unit = Systemd().text(Service(home))
    (command,), (variable,) = setting(unit, "ExecStart"), setting(unit, "Environment")
    name, _, value = shlex.split(variable)[0].partition("=")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(home / "notify"))
        manager.settimeout(60)
        # WatchdogSec, shortened: the daemon is to say in time that it lives, whatever the time is.
        told = {"NOTIFY_SOCKET": str(home / "notify"), "WATCHDOG_USEC": "400000"}
        daemon = subprocess.Popen(
            shlex.split(command), env={**os.environ, **told, name: value}, stderr=subprocess.DEVNULL
        )
        try:
            assert setting(unit, "Type") == ["notify"]
            assert "READY=1" in notified(manager, "READY=1")
            assert "WATCHDOG=1" in notified(manager, "WATCHDOG=1")
            daemon.send_signal(signal.SIGHUP)
            assert "RELOADING=1" in notified(manager, "RELOADING=1")
            notified(manager, "READY=1")
            daemon.send_signal(signal.SIGTERM)
            assert "STOPPING=1" in notified(manager, "STOPPING=1")
            assert daemon.wait(60) == 0
        finally:
            daemon.kill()
            daemon.wait()
            shutil.rmtree(home)


def test_uninstall_stops_it_and_removes_the_unit(asked, home):
    main(["service", "install"])
    service = Service(home)
    assert main(["service", "uninstall"]) == DONE
    assert not Systemd().file(service).exists()
    assert asked()[4] == f"systemctl --user disable --quiet --now {service.name}.service"


def test_where_no_service_manager_answers_the_unit_is_removed_all_the_same(asked, home, monkeypatch, capfd):
    main(["service", "install"])
    file = Systemd().file(Service(home))
    link = file.parent / "default.target.wants" / file.name
    link.parent.mkdir()
    link.symlink_to(file)
    monkeypatch.setenv("FAIL_ON", "--user")
    assert main(["service", "uninstall"]) == DONE
    assert "no service manager answers, so nothing was stopped" in capfd.readouterr().err
    assert not file.exists()
    assert not link.is_symlink()
    assert not any("disable" in line for line in asked())


def test_a_service_that_does_not_stop_keeps_its_unit(asked, home, monkeypatch, capfd):
    main(["service", "install"])
    monkeypatch.setenv("FAIL_ON", "disable")
    assert main(["service", "uninstall"]) == HOST_ERROR
    assert "ended with 3" in capfd.readouterr().err
    assert Systemd().file(Service(home)).exists()
    assert asked()[-1].endswith(".service")


def test_what_is_not_installed_cannot_be_uninstalled(asked, capfd):
    assert main(["service", "uninstall"]) == HOST_ERROR
    assert "is not installed: there is no " in capfd.readouterr().err
    assert asked() == []


@pytest.mark.usefixtures("asked")
def test_a_unit_that_does_not_start_is_an_error(monkeypatch, capfd):
    monkeypatch.setenv("FAIL_ON", "restart")
    assert main(["service", "install"]) == HOST_ERROR
    assert "restart crabtalk-" in capfd.readouterr().err.splitlines()[-1]


@pytest.mark.usefixtures("asked")
def test_where_no_service_manager_answers_nothing_is_left(home, monkeypatch, capfd):
    monkeypatch.setenv("FAIL_ON", "daemon-reload")
    assert main(["service", "install"]) == HOST_ERROR
    assert "and no daemon was started; `crabtalk up` runs" in capfd.readouterr().err.splitlines()[-1]
    assert not Systemd().file(Service(home)).exists()


@pytest.mark.usefixtures("asked")
def test_a_unit_that_was_there_stays_when_the_service_manager_is_gone(home, monkeypatch):
    assert main(["service", "install"]) == DONE
    monkeypatch.setenv("FAIL_ON", "daemon-reload")
    assert main(["service", "install"]) == HOST_ERROR
    assert Systemd().file(Service(home)).exists()


def test_status_and_logs_ask_the_service_manager(asked, home, monkeypatch):
    name = Service(home).name
    assert main(["service", "status"]) == DONE
    assert main(["service", "logs", "-f", "-n", "7"]) == DONE
    assert asked() == [
        f"systemctl --user --no-pager status {name}.service",
        f"journalctl --user --no-pager --lines=7 --unit={name}.service --follow",
    ]
    monkeypatch.setenv("FAIL_ON", "status")
    assert main(["service", "status"]) == HOST_ERROR


def test_without_a_service_manager_the_command_says_so(monkeypatch, tmp_path, capfd):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert main(["service", "status"]) == HOST_ERROR
    assert capfd.readouterr().err.startswith("crabtalk: there is no systemctl here; --dry-run shows")


def test_the_property_list_is_one():
    """That launchd takes it is untested."""
    service = Service(ODD)
    entries = plistlib.loads(Launchd().text(service).encode())
    assert entries["ProgramArguments"] == service.command
    assert entries["EnvironmentVariables"] == {"CRABTALK_HOME": str(ODD)}
    assert entries["KeepAlive"] == {"SuccessfulExit": False}
