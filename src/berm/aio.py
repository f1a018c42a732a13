"""Driving an invocation under anyio, on asyncio or trio: the loop stays free, a cancellation stops the guest.

The first slice runs inline, since most tools end within it. A guest that is still computing moves to a worker
thread until it returns or calls out; capabilities run on the loop, blocking ones in a thread, async ones are awaited
while the guest is suspended. Every thread is waited for: nothing of an invocation outlives the call that drives it.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from berm._invocation import HostCall, Invocation
from berm._outcome import Done, Failed, Limits
from berm.chain import Chain
from berm.harness import Harness

T = TypeVar("T")

# About 50 µs: less than moving to a thread costs, and short enough for a loop that serves others.
FIRST_SLICE = 50_000


async def call(
    harness: Harness,
    tool: str,
    args: bytes | str,
    *,
    limits: Limits | None = None,
    context: object = None,
    raw: bool = False,
    chain: Chain | None = None,
    depth: int = 0,
    limiter: anyio.CapacityLimiter | None = None,
) -> Done | Failed:
    """Call a tool; `limiter` bounds the worker threads.

    **Cancellation:** the guest is interrupted, and whatever runs for it in a thread is waited for.

    Raises:
        NoSuchTool: if the image has no such tool.
        Trap: if the guest died, or ran into its fuel or deadline.
    """
    await anyio.lowlevel.checkpoint()
    return await drive(
        harness.start(tool, args, limits=limits, context=context, raw=raw, chain=chain, depth=depth), limiter=limiter
    )


async def wake(
    harness: Harness,
    payload: bytes | str,
    *,
    limits: Limits | None = None,
    context: object = None,
    limiter: anyio.CapacityLimiter | None = None,
) -> Done | Failed:
    """Call `on_wake`; otherwise as `call`.

    Raises:
        NoSuchEntry: if the image has no `on_wake`.
        Trap: as `call`.
    """
    await anyio.lowlevel.checkpoint()
    return await drive(harness.start_wake(payload, limits=limits, context=context), limiter=limiter)


async def notify(
    harness: Harness,
    payload: bytes | str,
    *,
    limits: Limits | None = None,
    context: object = None,
    limiter: anyio.CapacityLimiter | None = None,
) -> Done | Failed:
    """Call `on_notify`; otherwise as `call`.

    Raises:
        NoSuchEntry: if the image has no `on_notify`.
        Trap: as `call`.
    """
    await anyio.lowlevel.checkpoint()
    return await drive(harness.start_notify(payload, limits=limits, context=context), limiter=limiter)


async def drive(invocation: Invocation, *, limiter: anyio.CapacityLimiter | None = None) -> Done | Failed:
    """Run a started invocation to its end and close it.

    **Cancellation:** as `call`.

    Raises:
        Trap: as `call`.
    """
    try:
        while True:
            step = invocation.advance(FIRST_SLICE)
            if isinstance(step, HostCall):
                await _serve(invocation, step, limiter)
            elif step is not None:
                return step
            elif invocation.computing:
                await _in_thread(invocation, invocation.compute, limiter)
            else:
                await anyio.lowlevel.checkpoint()
    finally:
        invocation.close()


async def _serve(invocation: Invocation, step: HostCall, limiter: anyio.CapacityLimiter | None) -> None:
    function = step.capability.function
    try:
        if step.capability.is_async:
            with anyio.move_on_after(step.call.deadline_left) as scope:
                invocation.reply(await function(step.call, step.request))
            if scope.cancelled_caught:
                invocation.expire()
        else:
            invocation.reply(await _in_thread(invocation, lambda: function(step.call, step.request), limiter))
    except Exception as error:  # noqa: BLE001 - whatever a capability raises is its guest's to hear
        invocation.reply_error(error)


async def _in_thread(
    invocation: Invocation, work: Callable[[], T], limiter: anyio.CapacityLimiter | None
) -> T:
    """Run `work` in a thread and wait for it; a cancellation meanwhile interrupts the invocation."""
    running = True

    async def interrupt_when_cancelled() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            if running:
                invocation.interrupt()

    result: Any = None
    failure: BaseException | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(interrupt_when_cancelled)
        with anyio.CancelScope(shield=True):
            try:
                result = await anyio.to_thread.run_sync(work, limiter=limiter)
            except BaseException as error:  # noqa: BLE001 - raised again below, outside the group
                failure = error
        running = False
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    await anyio.lowlevel.checkpoint_if_cancelled()
    return result
