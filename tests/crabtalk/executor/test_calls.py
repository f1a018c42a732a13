"""`berm.call` under the executor: rows of their own, one chain, no new slot, callees end before callers."""

import time

import pytest
import trio

from berm import Capability
from berm.wire import pack_fields
from crabtalk.capabilities.calls import calls
from crabtalk.rates import Rate
from crabtalk.tools import Trigger
from crabtalk.work import ExecutorLimits
from crabtalk.work_queue import QueueLimits

from .conftest import Raw

pytestmark = [pytest.mark.trio, pytest.mark.usefixtures("no_guest_left")]

FOREVER = b"1000000000000"
LIMITS = ExecutorLimits(queue=QueueLimits(slots=1))


def request(harness, tool, args=b""):
    return pack_fields((harness.encode(), tool.encode(), args))


class Later:
    """The executor of capabilities that are made before it."""

    def run(self, work):
        return self.executor.run(work)


@pytest.fixture
def siblings(setup, plain):
    """Return a function that sets up `caller`, which may call itself and `callee`, and not `other`."""

    def siblings(*capabilities, **options):
        later = Later()
        may_call = calls(later, ["caller", "callee"])
        s = setup(
            Raw(caller=plain(*may_call), callee=plain(*capabilities, *may_call), other=plain()), **options
        )
        later.executor = s.executor
        return s

    return siblings


async def test_a_callee_s_result_is_the_caller_s_reply(siblings):
    s = siblings(limits=LIMITS)
    outcome = await s.run("call", request("callee", "echo", b"hi"), harness="caller", session="s", client="c")
    assert outcome.data == b"0:hi"
    callee, caller = sorted(s.rows, key=lambda row: -row.depth)
    assert (callee.trigger, callee.harness, callee.tool, callee.depth) == ("call", "callee", "echo", 1)
    assert (caller.trigger, caller.harness, caller.tool, caller.depth) == ("tool", "caller", "call", 0)
    assert caller.id == caller.chain == callee.chain
    assert callee.client == "c"
    assert callee.instructions > 0


@pytest.mark.parametrize(
    ("called", "reply"),
    [
        (("callee", "fails", b"no such file"), b"2:no such file"),
        (("callee", "unbound", b""), b"2:`unbound` died: unknown host call"),
        (("callee", "nope", b""), b"3:no tool"),
        (("other", "echo", b""), b"3:no such harness: other"),
        (("nobody", "echo", b""), b"3:no such harness: nobody"),
    ],
)
async def test_what_a_caller_hears_instead(siblings, called, reply):
    s = siblings()
    outcome = await s.run("call", request(*called), harness="caller")
    assert outcome.data.startswith(reply)


async def test_a_malformed_request_is_an_error(siblings):
    outcome = await siblings().run("call", pack_fields((b"callee",)), harness="caller")
    assert outcome.data == b"2:expected harness, tool and args, got 1 fields"


async def test_a_callee_s_callee_is_one_deeper_until_the_chain_s_depth(siblings):
    s = siblings(limits=LIMITS)
    nested = b"x"
    for _ in range(9):
        nested = request("caller", "call", nested)
    outcome = await s.run("call", nested, harness="caller")
    assert outcome.data.startswith(b"0:" * 8 + b"3:chain ")
    assert outcome.data.endswith(b": depth 9 is beyond the chain's 8")
    assert sorted(row.depth for row in s.rows) == [*range(9), 9]


async def test_a_chain_has_so_many_invocations(siblings):
    s = siblings()
    await s.run("call", request("callee", "echo"), harness="caller")
    callee = s.heard[0].run
    assert callee.chain.berm.invocations_left == 254


async def test_callees_take_the_slot_of_their_caller(siblings):
    running = []

    async def wait(_call, request):
        running.append(s.executor.statistics().queue)
        running.append(s.states())
        return request

    s = siblings(Capability("test.wait", wait), limits=LIMITS)
    await s.run("call", request("callee", "wait"), harness="caller")
    assert (running[0].running, running[0].suspended, running[0].queued) == (0, 2, 0)
    assert running[1] == ["suspended", "suspended"]


async def test_a_harness_may_call_itself_with_a_concurrency_of_one(siblings):
    s = siblings(limits=LIMITS, concurrency=1)
    outcome = await s.run("call", request("caller", "echo", b"me"), harness="caller")
    assert outcome.data == b"0:me"


async def test_a_rate_holds_across_chains_and_refuses_callees(siblings):
    s = siblings(rate=Rate(1, 3600.0))
    await s.run("echo", harness="callee")
    outcome = await s.run("call", request("callee", "echo"), harness="caller")
    assert outcome.data.startswith(b"3:the rate of `callee`, 1 in 3600 s, is used up")


async def test_a_callee_ends_with_the_deadline_of_its_caller(siblings):
    s = siblings()
    began = time.monotonic()
    outcome = await s.run("call", request("callee", "compute", FOREVER), harness="caller", deadline_s=0.2)
    assert outcome.kind == "deadline"
    assert time.monotonic() - began < 2
    assert s.endings in (["trap", "trap"], ["cancelled", "trap"])


async def test_cancelling_a_caller_ends_its_callees_first(siblings):
    s = siblings()
    async with trio.open_nursery() as nursery:
        nested = request("callee", "call", request("callee", "compute", FOREVER))
        nursery.start_soon(lambda: s.run("call", nested, harness="caller"))
        with trio.fail_after(10):
            while not s.executor.statistics().computing:  # noqa: ASYNC110 - a fact of threads
                await trio.sleep(0.001)
        assert [one.trigger for one in s.executor.running()] == [Trigger.TOOL, Trigger.CALL, Trigger.CALL]
        began = time.monotonic()
        nursery.cancel_scope.cancel()
    assert time.monotonic() - began < 0.5
    ended = [(end.run.work.harness, end.outcome.kind) for end in s.heard]
    assert ended == [("callee", "cancelled"), ("callee", "cancelled"), ("caller", "cancelled")]
    assert not s.trapped_rows  # they are nobody's fault


async def test_a_callee_that_is_cancelled_alone_is_an_error_to_its_caller(siblings):
    s = siblings()
    outcomes = []

    async def call():
        outcomes.append((await s.run("call", request("callee", "compute", FOREVER), harness="caller")).data)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        with trio.fail_after(10):
            while not s.executor.statistics().computing:  # noqa: ASYNC110 - a fact of threads
                await trio.sleep(0.001)
        s.executor.cancel(s.executor.running()[1].id)
    assert outcomes == [b"2:`compute` died: cancelled"]


async def test_callees_go_on_while_the_daemon_drains(siblings):
    go = trio.Event()

    async def wait(_call, request):
        await go.wait()
        return request

    s = siblings(Capability("test.wait", wait))
    outcomes = []

    async def call():
        nested = request("callee", "wait")
        outcomes.append((await s.run("call", request("caller", "call", nested), harness="caller")).data)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(s.executor.shutdown, 10)
        await trio.testing.wait_all_tasks_blocked()
        go.set()
    assert outcomes == [b"0:0:0:"]
