"""`crabtalk service`: the daemon, started with the machine and looked after."""

import argparse
import contextlib
import getpass
import os
import shlex
import subprocess
import sys
from pathlib import Path

from berm.cli.arguments import count
from berm.cli.exits import DONE, HOST_ERROR, CommandError
from berm.cli.parsing import Parser
from crabtalk.cli.actions import Action
from crabtalk.service import Manager, Service, Systemd

_LINGERING = Path("/var/lib/systemd/linger")


def _add_dry_run(parser: Parser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="print the unit, and what would be done")


def _add_log_arguments(parser: Parser) -> None:
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what comes")
    parser.add_argument(
        "-n", "--lines", metavar="N", type=count, default=100, help="the last N (default: 100)"
    )


def _install(args: argparse.Namespace) -> int:
    """Write the unit and start the service."""
    manager, service = _manager(), Service(args.home)
    file, text = manager.file(service), manager.text(service)
    if args.dry_run:
        print(text, end="")
        _announce(f"write {file}", manager.start(service))
        return DONE
    was_there = file.exists()
    if was_there:  # launchd takes no unit that it has already
        for command in manager.stop(service):
            _run(command, quiet=True)
    _write(file, text)
    first, *others = manager.start(service)
    if (status := _run(first)) != 0:
        if not was_there:
            file.unlink()
        raise CommandError(
            f"{shlex.join(first)} ended with {status}, and no daemon was started; "
            "`crabtalk up` runs it without a service manager"
        )
    _run_all(others)
    print(f"{service.name} runs, and starts with your session; its unit is {file}", file=sys.stderr)
    if isinstance(manager, Systemd) and not (_LINGERING / getpass.getuser()).exists():
        print("to start it with the machine: loginctl enable-linger", file=sys.stderr)
    return DONE


def _uninstall(args: argparse.Namespace) -> int:
    """Stop the service and remove its unit; the home stays as it is."""
    manager, service = _manager(), Service(args.home)
    file = manager.file(service)
    if args.dry_run:
        _announce(f"remove {file}", manager.stop(service), manager.forget(service))
        return DONE
    if not file.exists():
        raise CommandError(f"{service.name} is not installed: there is no {file}")
    answers = _answers(manager)
    if answers:
        _run_all(manager.stop(service))
    for path in [file, *manager.links(service)]:
        path.unlink(missing_ok=True)
    if not answers:
        print(
            f"no service manager answers, so nothing was stopped; the unit {file} is removed and "
            f"{args.home} stays as it is",
            file=sys.stderr,
        )
        return DONE
    for command in manager.forget(service):
        _run(command, quiet=True)
    print(f"{service.name} is removed; {args.home} stays as it is", file=sys.stderr)
    return DONE


def _status(args: argparse.Namespace) -> int:
    """Pass on what the service manager says."""
    return DONE if _run(_manager().status(Service(args.home))) == 0 else HOST_ERROR


def _logs(args: argparse.Namespace) -> int:
    command = _manager().logs(Service(args.home), args.lines, follow=args.follow)
    return DONE if _run(command) == 0 else HOST_ERROR


def _manager() -> Manager:
    if sys.platform == "darwin":  # untested
        from crabtalk.launchd import Launchd

        return Launchd()
    return Systemd()


def _write(file: Path, text: str) -> None:
    """Put the unit in place, whole or not at all."""
    new = file.with_name(f"{file.name}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(text, encoding="utf-8")
        os.replace(new, file)  # noqa: PTH105 - as it is known
    except OSError as error:
        with contextlib.suppress(OSError):
            new.unlink()
        raise CommandError(f"cannot write {file}: {(error.strerror or str(error)).lower()}") from error


def _announce(change: str, *commands: list[list[str]]) -> None:
    print(f"would {change}", file=sys.stderr)
    for command in (one for some in commands for one in some):
        print(f"would run {shlex.join(command)}", file=sys.stderr)


def _answers(manager: Manager) -> bool:
    try:
        return _run(manager.probe(), quiet=True) == 0
    except CommandError:
        return False


def _run_all(commands: list[list[str]]) -> None:
    for command in commands:
        status = _run(command)
        if status != 0:
            raise CommandError(f"{shlex.join(command)} ended with {status}")


def _run(command: list[str], *, quiet: bool = False) -> int:
    """Run a program of the machine's and return its exit code; it talks to the user itself."""
    sys.stdout.flush()
    try:
        out = subprocess.DEVNULL if quiet else None
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False)  # noqa: S603 - ours
    except FileNotFoundError as error:
        raise CommandError(
            f"there is no {command[0]} here; --dry-run shows what your service manager would need"
        ) from error
    return done.returncode


ACTIONS = {
    "install": Action(
        "write the unit, start the daemon, and start it again with your session", _add_dry_run, _install
    ),
    "uninstall": Action("stop the daemon and remove its unit; the home stays", _add_dry_run, _uninstall),
    "status": Action("show what the service manager says", lambda _parser: None, _status),
    "logs": Action("show what the service manager kept of the daemon's log", _add_log_arguments, _logs),
}
