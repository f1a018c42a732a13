"""One layer tries again: when, how often, how patiently, and never after something was given away."""

from contextlib import asynccontextmanager

import pytest
import trio

from crabtalk.conversation.messages import Usage
from crabtalk.conversation.model import ErrorKind, Finished, ModelError, TextDelta, UsageReport
from crabtalk.providers.retrying import RetryPolicy, retrying

pytestmark = pytest.mark.trio

USED = UsageReport(Usage(1, 1, 2))


class Attempts:
    """Each try gives events and raises errors as its list says; `early` ones before the stream is there."""

    def __init__(self, *tries, early=False):
        self.tries = list(tries)
        self.early = early
        self.at = []
        self.open = 0

    @asynccontextmanager
    async def __call__(self):
        self.at.append(trio.current_time())
        steps = self.tries.pop(0)
        if self.early and isinstance(steps[0], ModelError):
            raise steps[0]
        self.open += 1
        try:
            yield Steps(steps)
        finally:
            self.open -= 1


class Steps:
    def __init__(self, steps):
        self.steps = iter(steps)

    def __aiter__(self):
        return self

    async def __anext__(self):
        await trio.lowlevel.checkpoint()
        step = next(self.steps, None)
        if step is None:
            raise StopAsyncIteration
        if isinstance(step, ModelError):
            raise step
        return step


def failure(kind, retry_after_s=None):
    return ModelError(ErrorKind(kind), kind, retry_after_s=retry_after_s)


GOOD = [TextDelta("a"), Finished("stop")]


async def run(tried, /, **policy):
    events = []
    try:
        async with retrying(tried, RetryPolicy(**policy)) as stream:
            async for event in stream:
                events.append(event)  # noqa: PERF401 - an error must not take them along
    except ModelError as error:
        events.append(error.kind)
    assert tried.open == 0
    return events


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("kind", ["rate", "overloaded", "network", "timeout", "interrupted"])
async def test_what_passes_is_tried_again(autojump_clock, kind, early):  # noqa: ARG001
    attempts = Attempts([failure(kind)], [failure(kind)], GOOD, early=early)
    assert await run(attempts) == GOOD
    first, second, third = attempts.at
    assert 0.5 <= second - first <= 1.0
    assert 1.0 <= third - second <= 2.0


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("kind", ["auth", "quota", "context", "bad_request", "refused"])
async def test_what_does_not_pass_is_not(autojump_clock, kind, early):  # noqa: ARG001
    attempts = Attempts([failure(kind)], GOOD, early=early)
    assert await run(attempts) == [kind]
    assert len(attempts.at) == 1


async def test_after_something_was_given_nothing_is_tried_again(autojump_clock):  # noqa: ARG001
    attempts = Attempts([TextDelta("a"), failure("overloaded")], GOOD)
    assert await run(attempts) == [TextDelta("a"), "overloaded"]
    assert len(attempts.at) == 1


async def test_what_was_used_is_no_part_of_an_answer(autojump_clock):  # noqa: ARG001
    attempts = Attempts([USED, failure("overloaded")], GOOD)
    assert await run(attempts) == [USED, *GOOD]


async def test_the_last_error_is_the_one_that_is_said(autojump_clock):  # noqa: ARG001
    attempts = Attempts([failure("network")], [failure("rate")], [failure("overloaded")], GOOD)
    assert await run(attempts, attempts=3) == ["overloaded"]


async def test_what_the_endpoint_asks_for_is_waited(autojump_clock):  # noqa: ARG001
    attempts = Attempts([failure("rate", 42.0)], GOOD)
    assert await run(attempts) == GOOD
    assert attempts.at[1] - attempts.at[0] == pytest.approx(42.0)


async def test_nobody_waits_for_days(autojump_clock):  # noqa: ARG001
    attempts = Attempts([failure("rate", 172_800.0)], GOOD)
    assert await run(attempts) == ["rate"]
    assert trio.current_time() - attempts.at[0] < 1


async def test_no_wait_is_longer_than_the_cap(autojump_clock):  # noqa: ARG001
    attempts = Attempts(*([failure("rate")] for _ in range(12)), GOOD)
    assert await run(attempts, attempts=20) == GOOD
    waits = [after - before for before, after in zip(attempts.at, attempts.at[1:], strict=False)]
    assert max(waits) <= 60.0
    assert min(waits[6:]) >= 30.0


async def test_every_retry_is_told_before_its_wait(autojump_clock):  # noqa: ARG001
    told = []
    attempts = Attempts([failure("rate", 5.0)], [failure("network")], GOOD)
    await run(
        attempts, on_retry=lambda retry: told.append((retry.error.kind, retry.attempt, trio.current_time()))
    )
    assert [one[:2] for one in told] == [("rate", 1), ("network", 2)]
    assert told[0][2] == attempts.at[0]


async def test_cancelling_while_it_waits_ends_it(autojump_clock):  # noqa: ARG001
    attempts = Attempts([failure("rate", 50.0)], GOOD)
    with trio.move_on_after(10) as scope:
        await run(attempts)
    assert scope.cancelled_caught
    assert (attempts.open, len(attempts.at)) == (0, 1)


async def test_leaving_in_the_middle_closes_the_try(autojump_clock):  # noqa: ARG001
    attempts = Attempts(GOOD)
    async with retrying(attempts, RetryPolicy()) as stream:
        assert await anext(stream) == TextDelta("a")
        assert attempts.open == 1
    assert attempts.open == 0
