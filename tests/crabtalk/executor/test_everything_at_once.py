"""Many guests of every kind, cancelled at random: every call has one row, and nothing is left behind."""

import random
import time
from collections import Counter

import pytest
import trio

from berm import Capability
from berm.wire import pack_fields
from crabtalk.capabilities.calls import calls
from crabtalk.errors import RequestError
from crabtalk.work import ExecutorLimits
from crabtalk.work_queue import QueueLimits

from .conftest import Raw

pytestmark = [pytest.mark.trio, pytest.mark.usefixtures("no_guest_left")]

CALLS = 400
LIMITS = ExecutorLimits(
    workers=2,
    blocking_workers=3,
    queue=QueueLimits(
        slots=8,
        slots_of_agent=5,
        background_slots=6,
        queued=60,
        queued_of_agent=40,
        suspended=12,
        suspended_of_harness=6,
    ),
)


class Later:
    def run(self, work):
        return self.executor.run(work)


async def wait(_call, request):
    await trio.sleep(0.003)
    return request


def block(_call, request):
    time.sleep(0.001)
    return request


def entries(draw):
    """Choose a tool and its arguments, calls of calls among them."""
    plain = [
        ("echo", b"x"),
        ("compute", str(draw.choice([100, 100_000, 3_000_000])).encode()),
        ("compute", b"1000000000000"),
        ("wait", b"x"),
        ("wait_often", b"3"),
        ("block", b"x"),
        ("block_then_wait", b"x"),
        ("unbound", b""),
        ("fails", b"no"),
        ("no_such_tool", b""),
    ]
    tool, args = draw.choice(plain)
    for _ in range(draw.choice([0, 0, 1, 3])):
        tool, args = "call", pack_fields((draw.choice([b"one", b"two"]), tool.encode(), args))
    return tool, args


@pytest.mark.parametrize("seed", range(3))
async def test_nothing_is_left_behind(setup, plain, seed):
    draw = random.Random(seed)
    later = Later()
    bound = (Capability("test.wait", wait), Capability("test.block", block, blocking=True))
    harness = plain(*bound, *calls(later, ["one", "two"]))
    s = setup(Raw(one=harness, two=harness), limits=LIMITS, concurrency=3, deadline_s=0.5)
    later.executor = s.executor
    ends = Counter()

    async def call():
        tool, args = entries(draw)
        facts = {"harness": draw.choice(["one", "two"]), "of": draw.choice("abc")}
        facts["key"] = draw.choice([None, None, "k"])
        facts["interactive"] = draw.random() < 0.7
        try:
            with trio.move_on_after(draw.choice([0.0, 0.002, 0.05, 2.0])) as scope:
                ends[type(await s.run(tool, args, **facts)).__name__] += 1
        except RequestError as error:
            ends[error.code] += 1
        if scope.cancelled_caught:
            ends["cancelled"] += 1

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for _ in range(CALLS):
                nursery.start_soon(call)
                if draw.random() < 0.5:
                    await trio.sleep(draw.random() * 0.004)
                if draw.random() < 0.05 and (running := s.executor.running()):
                    s.executor.cancel(draw.choice(running).id)

    assert sum(ends.values()) == CALLS, f"seed {seed}"
    assert s.executor.idle
    statistics = s.executor.statistics()
    assert (statistics.computing, statistics.waiting_to_compute, statistics.blocking) == (0, 0, 0)
    queue = statistics.queue
    assert (queue.running, queue.queued, queue.suspended, queue.suspended_bytes) == (0, 0, 0, 0)
    outer = [row for row in s.rows if row.trigger == "tool"]
    unlisted = statistics.unlisted_refusals
    assert CALLS - unlisted <= len(outer) <= CALLS, f"seed {seed}"
    assert len({row.id for row in s.rows}) == len(s.rows)
