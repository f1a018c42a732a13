"""The watchdog of a guest that did not end in its first slice: whoever cancels it, it stops.

A guest in a thread hears nothing of trio's cancellations. The watchdog does, interrupts the guest, and says
in the log who is stuck if that does not end it: a capability that blocks is waited for, since no thread is
abandoned.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

from berm import Invocation

logger = logging.getLogger(__name__)

# What a provider has beyond the deadline of a guest to end it by itself, with a better explanation.
GRACE_S: Final = 0.25
_STUCK_S: Final = 5.0  # between complaints about a thread that does not come back


class Watchdog:
    """Watches one invocation, from a task of the nursery in which it is driven."""

    def __init__(self, invocation: Invocation, name: str) -> None:
        self._invocation = invocation
        self._name = name
        self._busy_with = ""  # what runs for the guest in a thread, if anything does
        self._let_go = trio.Event()

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Note that a thread runs something for the guest, as long as the block does."""
        self._busy_with = what
        self._let_go = trio.Event()
        try:
            yield
        finally:
            self._busy_with = ""
            self._let_go.set()

    async def watch(self) -> None:
        """Wait to be cancelled, then interrupt the guest if a thread has it.

        **Cancellation:** is what it waits for; it ends when the thread has let go of the guest.
        """
        try:
            await trio.sleep_forever()
        finally:
            if self._busy_with:
                self._invocation.interrupt()
                with trio.CancelScope(shield=True):
                    await self._until_let_go()

    async def _until_let_go(self) -> None:
        """Return when the thread has come back, and complain as long as it has not."""
        waited_s = 0.0
        while self._busy_with:
            with trio.move_on_after(_STUCK_S):
                await self._let_go.wait()
                return
            waited_s += _STUCK_S
            logger.warning(
                "%s was stopped %.0f s ago and is still busy with %s", self._name, waited_s, self._busy_with
            )
