"""Driving an invocation under anyio, on asyncio or trio: the loop stays free, a cancellation stops the guest.

The first slice runs inline, since most tools end within it. A guest that is still computing moves to a worker
thread until it returns or calls out; capabilities run on the loop, blocking ones in a thread, async ones are
awaited while the guest is suspended. Every thread is waited for: nothing of an invocation outlives the call
that drives it.
"""

import contextlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus

from berm._call import HostCall
from berm._chain import Chain
from berm._invocation import Invocation
from berm._outcome import Done, Failed, Limits
from berm.harness import Harness

T = TypeVar("T")

# About 50 µs: less than moving to a thread costs, and short enough for a loop that serves others.
FIRST_SLICE = 50_000
# Between two looks at a thread whose task was cancelled past its shield.
_POLL_S = 0.001


async def call(  # noqa: PLR0913 - keyword-only options
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
        harness.start(tool, args, limits=limits, context=context, raw=raw, chain=chain, depth=depth),
        limiter=limiter,
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
    driver = _Driver(invocation, limiter)
    try:
        step = await driver.until_awaited()
        return await driver.with_tasks(step) if isinstance(step, HostCall) else step
    finally:
        invocation.close()


class _Tasks:
    """The task group of a guest that another one called: what it starts there ends with that guest."""

    def __init__(self) -> None:
        self.ended = anyio.Event()

    async def hold(self, *, task_status: TaskStatus[None]) -> None:
        try:
            async with anyio.create_task_group() as self.group:
                task_status.started()
                await anyio.sleep_forever()
        finally:
            self.ended.set()

    async def end(self) -> None:
        self.group.cancel_scope.cancel()
        await self.ended.wait()


class _Job(Generic[T]):
    """Work for a thread that can be waited for when the task that asked for it was cancelled regardless."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.work = work
        self.claim = threading.Lock()  # held by who came first: the thread, or a task that wants it no more
        self.ended = False

    def run(self) -> T:
        if not self.claim.acquire(blocking=False):
            raise RuntimeError("the work was given up before it began")
        try:
            return self.work()
        finally:
            self.ended = True

    async def give_up(self) -> None:
        """Return when the work will not begin any more, or has ended."""
        if self.claim.acquire(blocking=False):
            return
        while not self.ended:
            # A second cancellation has nothing to add, the first one is being obeyed.
            with contextlib.suppress(anyio.get_cancelled_exc_class()):
                await anyio.sleep(_POLL_S)


class _Driver:
    """What `drive` does, step by step."""

    def __init__(self, invocation: Invocation, limiter: anyio.CapacityLimiter | None) -> None:
        self.invocation = invocation
        self.limiter = limiter
        self.tasks: dict[int, _Tasks] = {}  # of callees, by invocation id

    async def until_awaited(self) -> Done | Failed | HostCall:
        """Go on until there is an outcome, or a capability that has to be awaited."""
        while True:
            step = self.invocation.advance(FIRST_SLICE)
            if isinstance(step, HostCall):
                if step.capability.is_async:
                    return step
                await self.serve_blocking(step)
            elif step is not None:
                return step
            elif self.invocation.computing:
                await self.in_thread(self.invocation.compute)
            else:
                await anyio.lowlevel.checkpoint()

    async def with_tasks(self, step: HostCall) -> Done | Failed:
        """Go on from the first awaited capability; only from here on is there a task group."""
        failure: Exception | None = None
        outcome: Done | Failed | HostCall = step
        async with anyio.create_task_group() as root:
            try:
                while isinstance(outcome, HostCall):
                    self.invocation.attach_tasks(await self.tasks_of(root, outcome))
                    await self.serve_async(outcome)
                    outcome = await self.until_awaited()
                    await self.end_tasks()
            except Exception as error:  # noqa: BLE001 - raised again below, outside the group
                failure = error
            root.cancel_scope.cancel()
        if failure is not None:
            raise failure
        assert not isinstance(outcome, HostCall)  # noqa: S101 - for the type checker
        return outcome

    async def tasks_of(self, root: TaskGroup, step: HostCall) -> TaskGroup:
        """Return what is `call.tasks`: the root group for the outermost guest, its own for a callee."""
        own = step.call.invocation_id
        if own == self.invocation.running_ids[0]:
            return root
        if own not in self.tasks:
            self.tasks[own] = _Tasks()
            await root.start(self.tasks[own].hold)
        return self.tasks[own].group

    async def end_tasks(self) -> None:
        """End what guests that have returned to their callers left running."""
        for ended in self.tasks.keys() - set(self.invocation.running_ids):
            await self.tasks.pop(ended).end()

    async def serve_async(self, step: HostCall) -> None:
        try:
            with anyio.move_on_after(step.call.deadline_left) as scope:
                self.invocation.reply(await step.capability.function(step.call, step.request))
            if scope.cancelled_caught:
                self.invocation.expire()
        except Exception as error:  # noqa: BLE001 - whatever a capability raises is its guest's to hear
            self.invocation.reply_error(error)

    async def serve_blocking(self, step: HostCall) -> None:
        def attempt() -> tuple[object, Exception | None]:
            try:
                return step.capability.function(step.call, step.request), None
            except Exception as error:  # noqa: BLE001 - as serve_async
                return None, error

        result, error = await self.in_thread(attempt)
        if error is None:
            self.invocation.reply(result)
        else:
            self.invocation.reply_error(error)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread and wait for it; a cancellation meanwhile interrupts the invocation."""
        running = True

        async def interrupt_when_cancelled() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                if running:
                    self.invocation.interrupt()

        job = _Job(work)
        result: list[T] = []
        failure: Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(interrupt_when_cancelled)
            with anyio.CancelScope(shield=True):
                try:
                    result.append(await anyio.to_thread.run_sync(job.run, limiter=self.limiter))
                except Exception as error:  # noqa: BLE001 - raised again below, outside the group
                    failure = error
                except BaseException:
                    # asyncio's own Task.cancel() knows no shields, and leaves the thread running.
                    self.invocation.interrupt()
                    await job.give_up()
                    raise
            running = False
            group.cancel_scope.cancel()
        await anyio.lowlevel.checkpoint_if_cancelled()
        if failure is not None:
            raise failure
        return result[0]
