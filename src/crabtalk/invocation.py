"""Driving a `berm.Invocation` under trio, for one that a provider of images was asked to call.

The first slice runs at once on the loop, where most tools end. A guest that goes on gets a nursery, which is
`call.tasks` of its capabilities, a watchdog, and threads to compute in, one turn after the other; blocking
capabilities run in threads, async ones are awaited here while the guest gives its slot away. Nothing of an
invocation outlives what drives it, and its memory is given back after everything else.

Inline capabilities and log lines may come from a worker thread, where the computation that they interrupt
runs: an inline capability does not touch trio.

berm sees to a guest's deadline, unless that is movable: then it is the driver that looks at it, between
slices, and what capabilities hear of it comes from the gate.
"""

import math
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import trio

from berm import Call, Done, Failed, HostCall, Invocation, Refused, Trap
from crabtalk.errors import Busy
from crabtalk.timed_call import TimedCall
from crabtalk.tools import Context, attended
from crabtalk.turns import Turns
from crabtalk.watchdog import Watchdog

T = TypeVar("T")
Ended = Done | Failed

# About 50 µs: less than moving to a thread costs, and short enough for a loop that serves others.
FIRST_SLICE: Final = 50_000
# About 5 ms, between two looks at who waits for a thread; four of them are a turn. Picked, not measured.
_SLICE: Final = 5_000_000
_SLICES_OF_A_TURN: Final = 4
_PAGE_BYTES: Final = 4096


def drive_inline(
    invocation: Invocation, context: Context, *, movable: bool = False
) -> Ended | Awaitable[Ended]:
    """Run a started invocation: its outcome at once if the first slice ends it, else what to await for it.

    `movable`: its deadline may stand still for a while, so berm was given none that matters.

    **Cancellation:** of what is awaited: the guest is interrupted, and whatever runs for it is waited for.

    The invocation is closed in every case, once what is awaited was awaited.

    Raises:
        Trap: if the guest died, or ran into a limit; raised here or by what is awaited.
    """
    step = invocation.advance(FIRST_SLICE)
    if type(step) is Done or type(step) is Failed:  # a quarter of what isinstance costs with a union
        return step
    assert step is None or type(step) is HostCall  # noqa: S101 - for the type checker
    return _Driver(invocation, context, movable=movable).go_on(step)


class _Expired(Exception):  # noqa: N818 - never leaves this file
    """The deadline passed while the guest stood in line for a thread."""


class _Driver:
    """What `drive_inline` does with a guest that its first slice did not end."""

    def __init__(self, invocation: Invocation, context: Context, *, movable: bool) -> None:
        self._invocation = invocation
        self._context = context
        self._movable = movable
        self._threads = context.gate.threads
        self._attended = attended(context.client)
        name = f"invocation {context.invocation_id} of `{context.harness}`"
        self._watchdog = Watchdog(invocation, name)
        self._watched = False  # only who was in a thread needs it
        self._until = math.inf  # of `time.monotonic`, where a turn in a thread has to end
        self._nursery: trio.Nursery  # from `go_on` on

    async def go_on(self, step: HostCall | None) -> Ended:
        """Run the guest to its end, in a nursery of its own."""
        failure: Exception | None = None
        outcome: Ended | None = None
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                try:
                    outcome = await self._to_the_end(step)
                except Exception as error:  # noqa: BLE001 - raised again below, outside the nursery
                    failure = error
                nursery.cancel_scope.cancel()
        finally:
            self._invocation.close()
        if failure is not None:
            raise failure
        assert outcome is not None  # noqa: S101 - for the type checker
        return outcome

    async def _to_the_end(self, step: HostCall | Ended | None) -> Ended:
        while not isinstance(step, Ended):
            try:
                if self._movable:
                    self._require_time()
                if isinstance(step, HostCall):
                    await self._serve(step)
                elif self._invocation.computing:
                    step = await self._in_thread("a computation", self._turn, self._threads.computing)
                    continue
                else:
                    await trio.lowlevel.checkpoint()
            except _Expired:
                self._invocation.expire()
            step = self._invocation.advance(FIRST_SLICE)
        return step

    def _require_time(self) -> None:
        """Go on if there is time left.

        Raises:
            _Expired: if there is none.
        """
        if trio.current_time() >= self._context.gate.deadline:
            raise _Expired

    def _turn(self) -> HostCall | Ended | None:
        """Let the guest compute in this thread, for a turn and for as long as nobody waits for the thread."""
        slices = 0
        until, turns = self._until, self._threads.computing
        while True:
            step = self._invocation.advance(_SLICE)
            slices += 1
            if step is not None or slices >= _SLICES_OF_A_TURN * turns.left(attended=self._attended):
                return step
            if time.monotonic() >= until:
                return None

    async def _serve(self, step: HostCall) -> None:
        """Run the capability that the guest waits for, and answer the guest."""
        if step.capability.is_async:
            self._invocation.attach_tasks(self._nursery)
            await self._serve_async(step)
        else:
            await self._serve_blocking(step)

    async def _serve_async(self, step: HostCall) -> None:
        machine = self._invocation.machine
        touched_bytes = 0 if machine is None else machine.dirty_pages() * _PAGE_BYTES
        gate, call = self._context.gate, self._call_of(step)
        try:
            with gate.bounded() if self._movable else trio.move_on_after(call.deadline_left) as scope:
                async with gate.suspended(touched_bytes):
                    result = await step.capability.function(call, step.request)
        except Busy as error:
            self._invocation.reply_error(Refused(error.message))
        except Exception as error:  # noqa: BLE001 - whatever a capability raises is its guest's to hear
            self._invocation.reply_error(error)
        else:
            if scope.cancelled_caught:
                self._invocation.expire()
            else:
                self._invocation.reply(result)

    def _call_of(self, step: HostCall) -> Call | TimedCall:
        return TimedCall(step.call, self._context.gate) if self._movable else step.call

    async def _serve_blocking(self, step: HostCall) -> None:
        call = self._call_of(step)

        def attempt() -> tuple[object, Exception | None]:
            try:
                return step.capability.function(call, step.request), None
            except Exception as error:  # noqa: BLE001 - as _serve_async
                return None, error

        result, error = await self._in_thread(f"`{step.capability.name}`", attempt, self._threads.blocking)
        if error is None:
            self._invocation.reply(result)
        else:
            self._invocation.reply_error(error)

    async def _in_thread(self, what: str, work: Callable[[], T], turns: Turns) -> T:
        """Run `work` in a thread when it is our turn; a cancellation meanwhile interrupts the guest.

        Raises:
            _Expired: if the deadline passed first.
        """
        if not self._watched:
            self._watched = True
            self._nursery.start_soon(self._watchdog.watch)
        deadline = self._context.gate.deadline if self._movable else self._context.deadline
        with trio.move_on_at(deadline) as waiting:
            await turns.acquire(self._context.agent.id, attended=self._attended)
        if waiting.cancelled_caught:
            raise _Expired
        if self._movable:
            self._until = time.monotonic() + deadline - trio.current_time()
        try:
            with self._watchdog.busy(what):
                return await turns.run(work)
        except Trap:
            # The trap of a guest that was interrupted because we are cancelled is nobody's outcome.
            await trio.lowlevel.checkpoint_if_cancelled()
            raise
        finally:
            turns.release()
