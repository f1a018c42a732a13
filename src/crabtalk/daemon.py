"""The daemon as a process: what it opens, in which order, and how it ends.

    home and lock → log → runtime → sockets → READY … stop → no new work → drain → interrupt → flush → 0

A stop lets what runs go on for `shutdown.drain`, interrupts what is left, and tells everybody who waits.
"""

import argparse
import faulthandler
import gc
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import trio

from crabtalk import lifecycle, metrics, notify, retention
from crabtalk.clock import LoopClock
from crabtalk.config import Config, load_config
from crabtalk.errors import ConfigError, CrabtalkError, StoreError
from crabtalk.handlers.table import request_table
from crabtalk.home import Home, find_home
from crabtalk.known_secrets import KNOWN
from crabtalk.lifecycle import Lifecycle
from crabtalk.logs import Logs, logging_to_stderr
from crabtalk.mcp.doors import Doors
from crabtalk.metrics_server import listen, serve_metrics
from crabtalk.notify import Notifier
from crabtalk.runtime import Runtime, open_runtime, version
from crabtalk.server import Server
from crabtalk.transports.stream import Listener
from crabtalk.transports.tcp import load_token, open_tcp
from crabtalk.transports.unix import open_unix

logger = logging.getLogger(__name__)

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 64
_GARBAGE: Final = 10_000  # objects of a collection: a call makes ten, which live until its row is stored
_RETENTION_S: Final = 3600.0
_MARGIN_S: Final = 30.0  # that a stop may take beyond its drain
_REPLIES_S: Final = 5.0  # for the last replies to be read


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `crabtalkd`; return its exit status."""
    parser = argparse.ArgumentParser(prog="crabtalkd", description="The daemon that runs harnesses.")
    parser.add_argument("--home", type=Path, help="its directory; $CRABTALK_HOME, or ~/.crabtalk")
    parser.add_argument("--version", action="version", version=f"crabtalkd {version()}")
    try:
        given = parser.parse_args(arguments)
    except SystemExit as ended:
        return EXIT_USAGE if ended.code else EXIT_OK
    try:
        home = find_home(given.home)
        return run(home, load_config(home.config_file))
    except CrabtalkError as error:
        print(f"crabtalkd: {error}", file=sys.stderr)  # noqa: T201 - there is no log yet
        return EXIT_FAILED
    except KeyboardInterrupt:  # before there was anybody to obey it
        return EXIT_FAILED


def run(home: Home, config: Config) -> int:
    """Serve a home until a signal ends it; return the exit status.

    Raises:
        HomeError: if the home cannot be used, or is in use.
    """
    faulthandler.enable()
    home.prepare()
    with home.locked(), logging_to_stderr(config.log, config.known_secrets()) as logs:
        try:
            return trio.run(serve, config, home, logs, Notifier())
        except* CrabtalkError as errors:
            for error in _leaves(errors):
                logger.error("%s", error)  # noqa: TRY400 - it says what is wrong, and the traceback would not
        return EXIT_FAILED


async def serve(config: Config, home: Home, logs: Logs, notifier: Notifier) -> int:
    """Serve until a signal; return the exit status.

    Raises:
        StoreError: if the store cannot be used.
        ConfigError: if something cannot be listened on.
    """
    lifecycle.allow_descriptors()
    notify.forget_manager()
    living = Lifecycle()
    reloading = _Reloading(notifier)
    async with trio.open_nursery() as signals:
        await signals.start(lifecycle.obey_signals, living, reloading)
        async with open_runtime(config, home, LoopClock(), logs) as runtime:
            reloading.runtime = runtime
            await _serve(runtime, living, notifier)
        signals.cancel_scope.cancel()
    logger.info("stopped")
    return EXIT_FAILED if living.hurried else EXIT_OK


async def _serve(runtime: Runtime, living: Lifecycle, notifier: Notifier) -> None:
    where = runtime.home.root
    async with trio.open_nursery() as nursery:
        server = await _listen(runtime, living, nursery)
        nursery.start_soon(lifecycle.show_life, notifier, runtime.store.trouble, f"serving {where}")
        nursery.start_soon(lifecycle.every, _RETENTION_S, "expiring the audit", _Expiring(runtime))
        logger.info("serving %s", where, extra={"version": runtime.version, "boot": runtime.boot.number})
        gc.freeze()  # what is here now stays: no collection has to look at it again
        gc.set_threshold(_GARBAGE)
        notifier.ready(f"serving {where}")
        await living.stopping.wait()
        with living.hurry:
            await _drain(runtime, server, notifier)
        nursery.cancel_scope.cancel()


async def _listen(runtime: Runtime, living: Lifecycle, nursery: trio.Nursery) -> Server[Runtime]:
    """Open every way in."""
    config, home = runtime.settings.config, runtime.home
    listeners: list[Listener] = [open_unix(home.socket)]
    token = None
    if config.tcp.enabled:
        token = load_token(home.run)
        tcp = config.tcp
        listeners.append(open_tcp(home.run, host=tcp.host, port=tcp.port, allow_remote=tcp.off_loopback))
    server = Server(request_table(), runtime, token=token)
    for listener in listeners:
        await nursery.start(server.serve, listener)
    await nursery.start(Doors(runtime).serve)
    await _serve_metrics(runtime, server, living, nursery)
    return server


async def _serve_metrics(
    runtime: Runtime, server: Server[Runtime], living: Lifecycle, nursery: trio.Nursery
) -> None:
    where = runtime.settings.config.metrics.listen
    if where == "off":
        return
    counted = runtime.metrics
    counted.gauges(lambda: {"connections": server.statistics().connections}, "clients")
    counted.counters(
        lambda: {
            "connections_accepted": server.statistics().accepted,
            "requests": server.statistics().requests,
        },
        "since the start",
    )
    counted.labelled(
        "errors", "code", lambda: _by_text(server.statistics().errors), "replies that were errors"
    )
    pages = {
        "/metrics": lambda: (200, metrics.CONTENT_TYPE, counted.text()),
        "/healthz": lambda: _health(runtime, living),
    }
    await nursery.start(serve_metrics, listen(where, runtime.home.metrics_socket), pages)


def _by_text(counts: Mapping[int, int]) -> Mapping[str, float]:
    return {str(number): count for number, count in counts.items()}


def _health(runtime: Runtime, living: Lifecycle) -> tuple[int, str, bytes]:
    """Answer 200 as long as requests are taken, and the store can be read and written."""
    if living.stopping.is_set():
        return 503, "text/plain", b"stopping\n"
    trouble = runtime.store.trouble()
    if trouble is not None:
        return 503, "text/plain", f"{trouble.text}\n".encode()
    try:
        runtime.store.scan_keys("config", limit=1)
    except StoreError as error:
        return 503, "text/plain", f"{error}\n".encode()
    return 200, "text/plain", b"ok\n"


async def _drain(runtime: Runtime, server: Server[Runtime], notifier: Notifier) -> None:
    """End in order: nobody new, nothing new, what runs has its time, the rest is interrupted."""
    drain_s = runtime.settings.config.shutdown.drain
    server.stop()
    runtime.stop_starting()
    notifier.stopping(drain_s + _MARGIN_S, "finishing what runs")
    logger.info("stopping; what runs has %g s", drain_s)
    await runtime.shutdown(drain_s)
    with trio.move_on_after(_REPLIES_S):
        await server.close()


class _Expiring:
    """Removes rows of the audit that are older or more than the configuration keeps."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def __call__(self) -> None:
        runtime = self._runtime
        await retention.expire(runtime.audit, runtime.store, runtime.settings.config.audit, runtime.clock)


class _Reloading:
    """Reads the configuration again; what is wrong with it is logged, and the old one stays."""

    def __init__(self, notifier: Notifier) -> None:
        self.runtime: Runtime | None = None  # None while it is being put together
        self._notifier = notifier

    async def __call__(self) -> None:
        if self.runtime is None:
            return
        self._notifier.reloading()
        try:
            await _reload(self.runtime)
        finally:
            self._notifier.ready(f"serving {self.runtime.home.root}")


async def _reload(runtime: Runtime) -> None:
    try:
        new = await trio.to_thread.run_sync(load_config, runtime.home.config_file)
    except ConfigError as error:
        logger.error("the configuration was not taken: %s", error)  # noqa: TRY400 - as above
        return
    old = runtime.settings.config
    for key in old.needing_restart(new):
        logger.warning("%s changes with the next start", key)
    runtime.settings.config = old.with_live(new)
    runtime.logs.configure(runtime.settings.config.log, new.known_secrets())
    KNOWN.learn(runtime.boot.id, new.known_secrets())
    await runtime.models.configure(new.models)
    await runtime.images.scan_directory(runtime.home.harnesses)
    logger.info("configuration read again")


def _leaves(errors: BaseExceptionGroup[CrabtalkError]) -> list[CrabtalkError]:
    found: list[CrabtalkError] = []
    for error in errors.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
