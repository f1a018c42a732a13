"""From a command line to a harness with its capabilities bound, ready to be called."""

import argparse
import contextlib
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from berm.cli.arguments import loading, read_image, tool_arguments
from berm.cli.exits import USAGE, CommandError
from berm.cli.granting import granted
from berm.cli.output import escape_line

if TYPE_CHECKING:
    from berm import Call, Capability, Config, Engine, Harness, Invocation, Limits
    from berm.cli.ending import Ending
    from rvcore._recorder import Recorder


@dataclasses.dataclass(frozen=True)
class Session:
    """A loaded harness; `needs_loop` says that something bound to it is async."""

    harness: "Harness"
    needs_loop: bool

    def call(self, args: argparse.Namespace, *, raw: bool = False) -> "Ending":
        """Call the tool that the command line names.

        Raises:
            rvcore.Error: no such tool.
        """
        return self._drive(self._start(args, raw=raw))

    def watch(self, args: argparse.Namespace, *, max_events: int = 0) -> "tuple[Recorder, Ending]":
        """Call the tool, whatever its result is made of, and record what it does.

        Raises:
            rvcore.Error: no such tool.
        """
        from rvcore._recorder import Recorder

        invocation = self._start(args, raw=True)
        machine = invocation.machine
        if machine is None:
            raise RuntimeError("an invocation that has not run has no machine, please report")
        recorder = machine.hook = Recorder(machine.program, max_events=max_events)
        return recorder, self._drive(invocation)

    def _start(self, args: argparse.Namespace, *, raw: bool) -> "Invocation":
        blob = tool_arguments(args.arguments)
        return self.harness.start(args.tool, blob, limits=limits_of(args), raw=raw)

    def _drive(self, invocation: "Invocation") -> "Ending":
        """Run to the end; a trap is one way to end."""
        from berm import Trap

        try:
            if not self.needs_loop:
                return invocation.run()
            import anyio

            from berm import aio

            return anyio.run(aio.drive, invocation)
        except Trap as trap:
            return trap


@dataclasses.dataclass(frozen=True)
class Binding:
    """What a command line grants; every image that is loaded gets all of it."""

    engine: "Engine"
    capabilities: "tuple[Capability, ...]"

    def load(self, path: Path) -> "Harness":
        """Load an image.

        Raises:
            CommandError: it cannot be read.
            rvcore.Error: it cannot be loaded.
        """
        from berm import Harness

        with loading(path):
            return Harness.load(self.engine, read_image(path), self.capabilities, log=_print_log)


@contextlib.contextmanager
def bound(args: argparse.Namespace) -> Iterator[Binding]:
    """Load what --call names and bind what the command line grants, and close it all afterwards.

    Raises:
        CommandError: a file cannot be read, or a grant makes no sense.
        rvcore.Error: an image cannot be loaded.
    """
    from berm import Config, Engine

    capabilities = granted(args)
    try:
        config = Config() if args.memory is None else _config(args.memory)
    except ValueError as error:
        raise CommandError(f"--memory: {error}", status=USAGE) from error
    with contextlib.closing(Engine(config)) as engine:
        if args.call:
            capabilities += (_calls(engine, args.call),)
        yield Binding(engine, capabilities)


@contextlib.contextmanager
def opened(args: argparse.Namespace) -> Iterator[Session]:
    """Load IMAGE with what the command line grants, and close it all afterwards.

    Raises:
        CommandError, rvcore.Error: as `bound`.
    """
    with bound(args) as binding:
        yield Session(binding.load(args.image), any(one.is_async for one in binding.capabilities))


def _calls(engine: "Engine", images: list[tuple[str, Path]]) -> "Capability":
    """Bind berm.call to `images`. These reach each other and nothing else: no grant is theirs."""
    from berm import Harness, calls

    harnesses: dict[str, Harness] = {}
    capability = calls(lambda _call, name: harnesses.get(name))
    for name, path in images:
        if name in harnesses:
            raise CommandError(f"--call names {name} twice", status=USAGE)
        with loading(path):
            harnesses[name] = Harness.load(engine, read_image(path), (capability,), log=_print_log)
    return capability


def _print_log(call: "Call", line: str) -> None:
    print(f"{call.tool}: {escape_line(line)}", file=sys.stderr)


def _config(memory_size: int) -> "Config":
    """Keep the stack from filling a small memory.

    Raises:
        ValueError: the size cannot be had.
    """
    from berm import Config

    return Config(memory_size=memory_size, stack_size=min(Config().stack_size, memory_size // 4))


def limits_of(args: argparse.Namespace) -> "Limits":
    """Make the limits that the command line sets, with berm's defaults for the rest."""
    from berm import Limits

    given = {"fuel": args.fuel, "deadline": args.deadline}
    return Limits(**{name: value for name, value in given.items() if value is not None})
