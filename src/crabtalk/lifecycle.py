"""How the daemon lives: ready, reloading, stopping; what signals mean, and what is done every so often.

Pure of parts: it is given functions to call. The first signal to stop asks for an orderly end; the second
one ends the process within moments, whatever it is doing.
"""

import logging
import os
import resource
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from crabtalk.notify import Notifier
from crabtalk.store.engine import Trouble

logger = logging.getLogger(__name__)

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
RELOAD_SIGNAL: Final = signal.SIGHUP
_HURRY_S: Final = 2.0  # what a second signal leaves for closing what is open
_DESCRIPTORS: Final = 1 << 16  # a thousand clients, and as many guests with connections of their own
_LOOK_S: Final = 10.0  # between two looks, where there is no watchdog
_SIGNS_OF_LIFE: Final = 3  # in the time after which the manager would think us dead


class Lifecycle:
    """Which way the daemon is going."""

    def __init__(self) -> None:
        self.stopping = trio.Event()  # an orderly end was asked for
        self.hurry = trio.CancelScope()  # around the orderly end; cancelled by the second signal
        self.hurried = False

    def stop(self) -> None:
        """Ask for the end: in an orderly manner the first time, at once the second time."""
        if not self.stopping.is_set():
            self.stopping.set()
            return
        logger.warning("stopping at once: it was asked for twice")
        self.hurried = True
        self.hurry.cancel()
        _exit_in(_HURRY_S)


async def obey_signals(
    lifecycle: Lifecycle,
    reload: Callable[[], Awaitable[None]],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Stop and reload when the process is told to, until cancelled."""
    with trio.open_signal_receiver(*STOP_SIGNALS, RELOAD_SIGNAL) as signals:
        task_status.started()
        async for number in signals:
            logger.info("got %s", signal.Signals(number).name)
            if number == RELOAD_SIGNAL:
                await reload()
            else:
                lifecycle.stop()


async def show_life(notifier: Notifier, trouble: Callable[[], Trouble | None], status: str) -> None:
    """Tell the service manager that the loop goes round, as often as it wants to know, until cancelled.

    `trouble` becomes the status in place of `status`, and is logged. With one that only another start ends no
    sign of life is given any more: a manager with a watchdog makes that start.
    """
    known: Trouble | None = None
    period_s = _LOOK_S if notifier.watchdog_s is None else notifier.watchdog_s / _SIGNS_OF_LIFE
    while True:
        found = trouble()
        if (found is None) != (known is None):
            if found is not None:
                logger.error("%s", found.text)
            else:
                logger.info("the store takes what is written again")
        if found is not None or known is not None:
            notifier.status(found.text if found is not None else status)
        known = found
        if found is None or not found.lasting:
            notifier.alive()
        await trio.sleep(period_s)


async def every(seconds: float, what: str, act: Callable[[], Awaitable[None]]) -> None:
    """Do something now and again until cancelled; a failure is logged, and does not end it."""
    while True:
        try:
            await act()
        except Exception:
            logger.exception("%s failed", what)
        await trio.sleep(seconds)


def allow_descriptors() -> None:
    """Take as many file descriptors as are ever needed, or as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:
            logger.warning("at most %d files can be open: %s", soft, error)


def _exit_in(seconds: float) -> None:
    """End the process by force, should it still be there then."""
    timer = threading.Timer(seconds, os._exit, (1,))
    timer.daemon = True
    timer.start()
