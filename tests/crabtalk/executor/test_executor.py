# ruff: noqa: ARG001 - pytest-trio finds the clock among a test's arguments
"""The way of a piece of work: outcomes, rows, refusals and limits, with native tools behind the seam."""

import hashlib
import logging
from dataclasses import replace

import pytest
import trio

from crabtalk.chains import ChainSpent
from crabtalk.errors import (
    Cancelled,
    DeadlinePassed,
    Internal,
    NotFound,
    RequestError,
    ShuttingDown,
    StoreError,
)
from crabtalk.journal import End
from crabtalk.rates import Rate
from crabtalk.store.engine import put
from crabtalk.store.interfaces.audit import AuditRow
from crabtalk.store.memory import MemoryEngine
from crabtalk.tools import Done, Failed, Trapped, Trigger
from crabtalk.work import ExecutorLimits
from crabtalk.work_queue import Overloaded, QueueLimits

from .conftest import InlineNative, Native, agent

pytestmark = pytest.mark.trio


def sha256(data):
    return hashlib.sha256(data).hexdigest()


async def sleeping(_context, args):
    await trio.sleep(float(args))
    return b"slept"


# Outcomes and rows


@pytest.mark.parametrize(
    ("outcome", "ending", "message", "result"),
    [
        (Done(b"result", 7), "done", "", b"result"),
        (Failed("no such file", 7), "failed", "no such file", b"no such file"),
        (Trapped("store_fault", "store fault at 0x0", instructions=7), "trap", "store fault at 0x0", b""),
    ],
)
async def test_every_outcome_has_its_row(setup, native, outcome, ending, message, result, autojump_clock):
    s = setup(native(tool=lambda _context, _args: outcome))
    assert await s.run("tool", b"args", client="cli") == outcome
    (row,) = s.rows
    assert (row.outcome, row.message, row.instructions) == (ending, message, 7)
    assert (row.agent_id, row.agent_name, row.harness, row.tool) == ("id-a", "a", "native", "tool")
    assert (row.trigger, row.client, row.digest, row.depth) == ("tool", "cli", "image", 0)
    assert (row.args_size, row.args_digest) == (4, sha256(b"args"))
    assert (row.result_size, row.result_digest) == (len(result), sha256(result) if result else "")
    assert (row.chain, row.parent_chain) == (row.id, None)
    assert row.key is row.attempt is row.epoch is row.scheduled_at_ms is row.subject is None


async def test_a_call_that_ends_at_once_needs_no_task(setup):
    s = setup(InlineNative(tool=lambda _context, args: args))
    assert s.start("tool", b"x") == Done(b"x")
    assert s.executor.idle
    assert [row.outcome for row in s.rows] == ["done"]
    (end,) = s.heard
    assert (end.run.id, end.outcome, end.duration_us) == (s.rows[0].id, Done(b"x"), s.rows[0].duration_us)


def outcomes_of(answers):
    """Return the text of each answer: a result, a refusal's code, or `later`."""
    return [
        answer.outcome.data.decode()
        if isinstance(answer, End)
        else str(answer.code)
        if isinstance(answer, RequestError)
        else "later"
        for answer in answers
    ]


async def test_work_that_is_started_together_is_as_if_started_one_by_one(setup, autojump_clock):
    order = []

    def tool(_context, args):
        order.append(args)
        return args

    def gone(_context, _args):
        raise NotFound("gone meanwhile")

    s = setup(InlineNative(tool=tool, gone=gone), concurrency=2)
    works = [s.work("gone" if n == 4 else "tool", b"%d" % n) for n in range(9)]
    works[6] = s.work("tool", harness="unknown")
    answers = s.executor.start_all(works)
    assert outcomes_of(answers) == ["0", "1", "2", "3", "404", "5", "404", "7", "8"]
    assert order == [b"0", b"1", b"2", b"3", b"5", b"7", b"8"]
    assert s.executor.idle
    assert s.executor.queue.statistics().running == 0
    rows = s.rows
    assert sorted(row.outcome for row in rows) == ["done"] * 7 + ["refused"] * 2
    assert len({row.id for row in rows}) == 9
    assert [row.chain == row.id for row in rows if row.outcome == "done"] == [True] * 7


@pytest.mark.parametrize("concurrency", [1, 2, 8])
@pytest.mark.parametrize("place", range(5))
async def test_what_is_unforeseen_is_raised_for_its_own_work_and_costs_the_others_nothing(
    setup, autojump_clock, place, concurrency
):
    class Broken(InlineNative):
        def harnesses(self, agent):
            return 1 // 0 if agent.name == "bad" else super().harnesses(agent)

    ran = []
    s = setup(Broken(tool=lambda _context, args: ran.append(args) or args), concurrency=concurrency)
    works = [s.work("tool", b"%d" % n, of="bad" if n == place else "a") for n in range(5)]
    told = []
    while works:  # as a connection does
        try:
            answers = outcomes_of(s.executor.start_all(works))
        except ZeroDivisionError:
            answers = ["raised"]
        assert answers
        told += answers
        works = works[len(answers) :]
    assert told == ["raised" if n == place else str(n) for n in range(5)]
    assert ran == [b"%d" % n for n in range(5) if n != place]  # each once
    assert s.executor.queue.statistics().running == 0


async def test_work_that_is_started_together_has_one_place_after_the_other(setup, autojump_clock):
    """With one place for all, each is ended before the next has it."""
    s = setup(InlineNative(tool=lambda _context, args: args), concurrency=1)
    assert outcomes_of(s.executor.start_all([s.work("tool", b"%d" % n) for n in range(5)])) == list("01234")


async def test_what_does_not_end_at_once_is_awaited_beside_those_that_do(setup, autojump_clock):
    async def slow(_context, args):
        await trio.sleep(1)
        return args

    s = setup(InlineNative(tool=lambda _context, args: args, slow=slow), concurrency=2)
    works = [s.work(name, name.encode()) for name in ("tool", "slow", "tool", "slow", "tool", "tool")]
    answers = s.executor.start_all(works)
    # From the second slow one on there is no place: the others wait for theirs.
    assert outcomes_of(answers) == ["tool", "later", "tool", "later", "later", "later"]
    found = []

    async def note(at):
        found.append((at, (await answers[at]).data))

    async with trio.open_nursery() as nursery:
        for at in (1, 3, 4, 5):
            nursery.start_soon(note, at)
    assert sorted(found) == [(1, b"slow"), (3, b"slow"), (4, b"tool"), (5, b"tool")]
    assert s.executor.idle


async def test_large_results_end_what_is_started_together_early_and_cost_the_others_nothing(
    setup, autojump_clock
):
    begun = []

    def tool(_context, args):
        begun.append(args)
        return bytes(200_000)

    s = setup(InlineNative(tool=tool), rate=Rate(4, 60.0))
    works = [s.work("tool", b"%d" % n) for n in range(4)]
    first = s.executor.start_all(works)
    assert len(first) == 2
    assert begun == [b"0", b"1"]
    assert s.executor.queue.statistics().running == 0
    rest = s.executor.start_all([*works[2:], works[0]])
    # What was not begun has cost nothing of the rate.
    assert [isinstance(answer, End) for answer in rest] == [True, True, False]
    assert rest[2].code == 429


@pytest.mark.parametrize("parent", [None, "01J0000000000000000000000P"])
@pytest.mark.parametrize("size", [0, 1, 40_000])
async def test_all_ways_to_the_audit_make_the_same_row(setup, native, size, parent):
    tools = {"tool": lambda _context, args: args}
    for s in (setup(InlineNative(**tools)), setup(native(**tools))):
        facts = {"client": 'c"l\\i\né', "parent_chain": parent}
        await s.run("tool", bytes(size), **facts)
        await s.executor.run(s.work("tool", bytes(size), **facts, finish=lambda _outcome, _row: []))
        one, other = (row._replace(id="", chain="", started_ms=0, duration_us=0) for row in s.rows)
        assert all(row.chain == row.id for row in s.rows)
        assert (one.client, one.parent_chain) == (facts["client"], parent)
        assert one == other
        assert type(one) is AuditRow
        assert len(one) == len(AuditRow._fields)
        assert (one.args_size, one.args_digest) == (size, sha256(bytes(size)) if size else "")
        assert (one.result_size, one.result_digest) == (one.args_size, one.args_digest)


async def test_duration_counts_what_it_took_and_not_the_wait(setup, native, autojump_clock):
    s = setup(native(tool=sleeping), concurrency=1)
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(s.run, "tool", b"2")
    assert [row.duration_us for row in s.rows] == [pytest.approx(2_000_000)] * 2


async def test_what_a_tool_is_told(setup, native):
    seen = []
    s = setup(native(tool=lambda context, _args: seen.append(context) or b""), deadline_s=5)
    before = trio.current_time()
    await s.run("tool", session="s", session_root="/r", client="c")
    (context,) = seen
    assert (context.agent.name, context.harness, context.trigger) == ("a", "native", Trigger.TOOL)
    assert (context.session, context.session_root, context.client) == ("s", "/r", "c")
    assert before + 5 <= context.deadline <= trio.current_time() + 5
    assert (context.invocation_id, context.chain.id) == (s.rows[0].id, s.rows[0].id)
    assert context.chain.berm.invocations_left == 255


async def test_a_long_result_is_digested_all_the_same(setup, native):
    data = bytes(range(256)) * 4096
    s = setup(native(tool=lambda _context, _args: data))
    assert await s.run("tool", data) == Done(data)
    assert (s.rows[0].result_digest, s.rows[0].args_digest) == (sha256(data), sha256(data))


async def test_a_provider_that_breaks_is_a_trap_of_ours(setup, native, caplog):
    def broken(_context, _args):
        raise ZeroDivisionError("by zero")

    s = setup(native(tool=broken))
    outcome = await s.run("tool")
    assert (outcome.kind, outcome.message) == ("internal", "ZeroDivisionError: by zero")
    assert outcome.sentence == "the tool stopped with an error and gave no result"
    assert [row.outcome for row in s.rows] == ["trap"]
    assert [(r.levelno, r.exc_info[0]) for r in caplog.records] == [(logging.ERROR, ZeroDivisionError)]
    assert s.executor.statistics().queue.running == 0


# What is refused


async def test_an_unknown_tool_is_not_found(setup, native):
    s = setup(native())
    with pytest.raises(NotFound, match="no tool `nope`"):
        await s.run("nope", b"x")
    (row,) = s.rows
    assert (row.outcome, row.message, row.tool) == ("refused", "404: no tool `nope`", "nope")
    assert s.executor.statistics().queue.running == 0
    assert s.executor.idle


async def test_an_unknown_harness_is_not_found(setup, native):
    s = setup(native())
    with pytest.raises(NotFound, match="agent `a` has no harness `other`"):
        s.start("tool", harness="other")
    assert [(row.outcome, row.harness) for row in s.rows] == [("refused", "other")]


async def test_names_of_anybody_s_invention_are_cut_in_rows(setup, native):
    s = setup(native())
    with pytest.raises(NotFound):
        s.start("t" * 10_000, harness="h" * 10_000)
    (row,) = s.rows
    assert (len(row.harness), len(row.tool)) == (128, 128)
    assert len(row.message) < 1000


async def test_a_flood_of_refusals_is_counted_and_not_listed(setup, native, autojump_clock):
    s = setup(native(tool=lambda _context, _args: b""), rate=Rate(1, 3600.0))
    await s.run("tool")
    for _ in range(1000):
        with pytest.raises(Overloaded):
            s.start("tool")
    await trio.sleep(11)
    with pytest.raises(Overloaded):
        s.start("tool")
    assert [row.outcome for row in s.rows] == ["done", "refused", "refused"]
    assert s.rows[1].message.startswith("429: the rate of `native`, 1 in 3600 s, is used up")
    assert s.rows[2].message.endswith("(999 more refusals of this harness were not listed)")
    statistics = s.executor.statistics()
    assert (statistics.started, statistics.refused, statistics.unlisted_refusals) == (1, 1001, 999)


async def test_a_full_queue_refuses_and_what_waits_runs(setup, native, autojump_clock):
    limits = ExecutorLimits(queue=QueueLimits(slots=1, queued=2))
    s = setup(native(tool=sleeping), limits=limits)
    outcomes = []

    async def call():
        outcomes.append(await s.run("tool", b"1"))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        assert s.states() == ["running", "queued", "queued"]
        with pytest.raises(Overloaded, match="queue is full"):
            s.start("tool", b"1")
    assert outcomes == [Done(b"slept")] * 3
    (first, first_s), (second, second_s) = s.waits  # the third began at once
    assert (first, second) == ("tool", "tool")
    assert 0 < first_s < second_s


async def test_whoever_waits_too_long_for_a_turn_is_told(setup, native, autojump_clock):
    s = setup(native(tool=sleeping), concurrency=1, deadline_s=100)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(s.run, "tool", b"50")
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(DeadlinePassed, match="waited 3 s for other calls to end, and was not run"):
            await s.run("tool", b"1", deadline_s=3)
    assert s.endings == ["done", "refused"]


async def test_background_work_waits_as_long_as_it_takes(setup, native, autojump_clock):
    s = setup(native(tool=sleeping), concurrency=1, deadline_s=100)
    async with trio.open_nursery() as nursery:
        for _ in range(4):
            work = s.work("tool", b"90", trigger=Trigger.WAKE, interactive=False)
            nursery.start_soon(s.executor.run, work)
    assert [row.outcome for row in s.rows] == ["done"] * 4


async def test_a_concurrency_that_was_raised_counts_for_those_who_wait(setup, native, autojump_clock):
    s = setup(native(tool=sleeping), concurrency=1)
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(s.run, "tool", b"5")
        await trio.testing.wait_all_tasks_blocked()
        s.bounds = replace(s.bounds, concurrency=3)
        nursery.start_soon(s.run, "tool", b"5")
    assert trio.current_time() == pytest.approx(5)


# Deadlines


async def test_a_deadline_stops_a_native_tool(setup, native, autojump_clock):
    s = setup(native(tool=sleeping), deadline_s=5)
    outcome = await s.run("tool", b"100")
    assert (outcome.kind, outcome.sentence) == ("deadline", "the tool took too long and was stopped")
    assert [(row.outcome, row.message) for row in s.rows] == [("trap", outcome.message)]
    assert s.rows[0].duration_us == pytest.approx(5_250_000)


async def test_a_caller_s_deadline_can_only_be_shorter(setup, native, autojump_clock):
    s = setup(native(tool=sleeping), deadline_s=5)
    began = trio.current_time()
    assert (await s.run("tool", b"100", deadline_s=1)).kind == "deadline"
    assert trio.current_time() - began == pytest.approx(1.25)
    assert (await s.run("tool", b"100", deadline_s=1000)).kind == "deadline"
    assert trio.current_time() - began == pytest.approx(6.5)


# Finishing: the row and what the work writes are one batch


def finishing(*keys):
    return lambda outcome, row: [put("wake", key, f"{row.outcome} {outcome.data!r}".encode()) for key in keys]


async def test_finish_s_writes_and_the_row_are_committed_together(setup, native):
    batches = []

    class Store(MemoryEngine):
        async def commit(self, batch):
            batches.append([write.column for write in batch])
            await super().commit(batch)

    s = setup(native(on_wake=lambda _context, _args: b"x"), store=Store())
    work = s.work(
        "on_wake",
        trigger=Trigger.WAKE,
        interactive=False,
        key="k",
        epoch=3,
        reason="late",
        attempt=2,
        scheduled_at_ms=17,
        subject="wake-id",
        finish=finishing(b"1", b"2"),
    )
    assert await s.executor.run(work) == Done(b"x")
    assert batches == [["wake", "wake", "audit"]]
    assert s.store.get("wake", b"2") == b"done b'x'"
    (row,) = s.rows
    assert (row.trigger, row.key, row.epoch, row.reason, row.attempt) == ("wake", "k", 3, "late", 2)
    assert (row.scheduled_at_ms, row.subject) == (17, "wake-id")


async def test_finish_that_returns_none_leaves_no_trace(setup, native):
    s = setup(native(on_wake=lambda _context, _args: b"x"))
    work = s.work("on_wake", trigger=Trigger.WAKE, finish=lambda _outcome, _row: None)
    assert await s.executor.run(work) == Done(b"x")
    assert s.rows == []


async def test_refused_work_is_not_finished_and_has_no_row(setup, native):
    finished = []
    s = setup(native())
    work = s.work("nope", trigger=Trigger.WAKE, finish=lambda *ended: finished.append(ended))
    with pytest.raises(NotFound):
        await s.executor.run(work)
    assert (finished, s.rows) == ([], [])


async def test_a_store_that_fails_is_said_and_frees_everything(setup, native, caplog):
    class Store(MemoryEngine):
        async def commit(self, _batch):
            raise StoreError("disk full")

        def defer(self, _batch):
            raise StoreError("disk full")

    s = setup(native(tool=lambda _context, _args: b"x"), store=Store())
    work = s.work("tool", key="k", finish=finishing(b"1"))
    for _ in range(2):
        with pytest.raises(Internal, match="it ran, but its end was not stored: disk full"):
            await s.executor.run(work)
    assert await s.run("tool") == Done(b"x")
    assert s.executor.idle
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 3


async def test_a_finish_that_breaks_is_said_and_frees_everything(setup, native, caplog):
    def broken(_outcome, _row):
        raise ZeroDivisionError("by zero")

    s = setup(native(tool=lambda _context, _args: b"x"))
    for _ in range(2):
        with pytest.raises(Internal, match="its end was not stored: ZeroDivisionError: by zero"):
            await s.executor.run(s.work("tool", key="k", finish=broken))
    assert s.executor.idle
    assert (s.rows, len(caplog.records)) == ([], 2)


async def test_one_key_runs_once_at_a_time_and_after_the_other_s_commit(setup, native, autojump_clock):
    order = []

    class Store(MemoryEngine):
        async def commit(self, _batch):
            order.append("commit begins")
            await trio.sleep(1)
            order.append("commit ends")

    async def tool(_context, args):
        order.append(args)
        await trio.sleep(1)
        return b""

    s = setup(native(tool=tool), store=Store())
    async with trio.open_nursery() as nursery:
        for args in (b"1", b"2"):
            nursery.start_soon(s.executor.run, s.work("tool", args, key="k", finish=lambda _o, _r: []))
            await trio.testing.wait_all_tasks_blocked()
    assert order == [b"1", "commit begins", "commit ends", b"2", "commit begins", "commit ends"]


# Cancelling


@pytest.mark.parametrize("finish", [None, lambda _outcome, _row: []], ids=["tool", "wake"])
async def test_cancelling_the_caller_stops_the_tool(setup, native, finish, autojump_clock):
    stopped = []

    async def tool(_context, _args):
        try:
            await trio.sleep_forever()
        finally:
            stopped.append(True)

    s = setup(native(tool=tool))
    with trio.move_on_after(1) as scope:
        await s.executor.run(s.work("tool", finish=finish))
    assert scope.cancelled_caught
    assert stopped == [True]
    assert [(row.outcome, row.message) for row in s.rows] == [("cancelled", "who asked for it took it back")]
    assert s.executor.idle
    assert s.executor.statistics().queue.running == 0


async def test_cancelling_by_id(setup, native, autojump_clock):
    s = setup(native(tool=sleeping))
    assert s.executor.cancel("nothing") is False
    outcomes = []

    async def call():
        outcomes.append(await s.run("tool", b"100"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        (running,) = s.executor.running()
        assert s.executor.cancel(running.id, "an operator stopped it")
    (outcome,) = outcomes
    assert (outcome.kind, outcome.message) == ("cancelled", "an operator stopped it")
    assert outcome.sentence == "the tool was stopped and gave no result"
    assert [(row.outcome, row.message) for row in s.rows] == [("cancelled", "an operator stopped it")]


async def test_cancelling_what_waits_takes_it_out(setup, native, autojump_clock):
    s = setup(native(tool=sleeping), concurrency=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(s.run, "tool", b"10")
        await trio.testing.wait_all_tasks_blocked()
        waiting = s.executor.start(s.work("tool", b"1"))
        s.executor.cancel(s.executor.running()[1].id)
        with pytest.raises(Cancelled, match="it was cancelled") as caught:
            await waiting
        assert caught.value.code == 499
        with trio.move_on_after(1):
            await s.run("tool", b"1")
    assert s.endings == ["cancelled", "done", "refused"]
    assert s.executor.statistics().queue.queued == 0


@pytest.mark.parametrize("checkpoints", range(6))
async def test_a_cancellation_at_each_step_leaves_nothing_behind(setup, native, checkpoints):
    async def tool(context, _args):
        await trio.lowlevel.checkpoint()
        async with context.gate.suspended(4096):
            await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        return b""

    s = setup(native(tool=tool), concurrency=1)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(s.run, "tool")
        for _ in range(checkpoints):
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert s.executor.idle
    statistics = s.executor.statistics().queue
    assert (statistics.running, statistics.queued, statistics.suspended, statistics.suspended_bytes) == (
        0,
    ) * 4
    assert await s.run("tool") == Done(b"")


# Suspending


async def test_suspended_tools_give_their_slot_away(setup, native, autojump_clock):
    async def tool(context, args):
        async with context.gate.suspended(1 << 20):
            await trio.sleep(float(args))
        return args

    s = setup(native(tool=tool), limits=ExecutorLimits(queue=QueueLimits(slots=1)))
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(s.run, "tool", b"5")
        await trio.testing.wait_all_tasks_blocked()
        assert s.states() == ["suspended"] * 20
        assert s.executor.statistics().queue.suspended_bytes == 20 << 20
    assert trio.current_time() < 6
    assert [row.outcome for row in s.rows] == ["done"] * 20


async def test_too_many_suspended_tools_are_told(setup, native, autojump_clock):
    async def tool(context, _args):
        async with context.gate.suspended():
            await trio.sleep(5)
        return b""

    s = setup(native(tool=tool), limits=ExecutorLimits(queue=QueueLimits(suspended_of_harness=2)))
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(s.run, "tool")
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(Overloaded, match="2 calls of `native` wait for something already"):
            await s.run("tool")
    assert await s.run("tool") == Done(b"")


async def test_concurrency_counts_those_who_run(setup, native, autojump_clock):
    inside = 0
    most = 0

    async def tool(context, _args):
        nonlocal inside, most
        for _ in range(3):
            inside += 1
            most = max(most, inside)
            await trio.sleep(1)
            inside -= 1
            async with context.gate.suspended():
                await trio.sleep(1)
        return b""

    s = setup(native(tool=tool), concurrency=2)
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(s.run, "tool")
    assert most == 2
    assert [row.outcome for row in s.rows] == ["done"] * 10


# Chains


async def test_budgets_are_shared_along_a_chain(setup, native):
    s = setup(native(tool=lambda _context, _args: b""))
    chains = []
    s.executor._providers[0][0].functions["tool"] = lambda context, _args: chains.append(context.chain) or b""
    await s.run("tool")
    await s.run("tool", chain=chains[0], depth=3)
    assert chains[0] is chains[1]
    assert chains[0].berm.invocations_left == 254
    assert [(row.chain, row.depth) for row in s.rows] == [(chains[0].id, 0), (chains[0].id, 3)]


async def test_a_stored_record_finds_the_chain_that_it_tells_of(setup, native):
    chains = []

    def tool(context, _args):
        chains.append((context.chain, context.depth))
        return context.chain.record(context.depth + 1) and b""

    s = setup(native(tool=tool))
    await s.run("tool")
    record = chains[0][0].record(1)
    for _ in range(2):
        await s.run("tool", chain=record)
    assert [(chain is chains[0][0], depth) for chain, depth in chains] == [(True, 0), (True, 1), (True, 1)]
    assert chains[0][0].berm.invocations_left == 253


async def test_a_record_is_found_while_the_one_who_made_it_still_runs(setup, native, autojump_clock):
    chains = []

    async def tool(context, _args):
        chains.append(context.chain)
        await trio.sleep(1)
        return b""

    s = setup(native(tool=tool))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(s.run, "tool")
        await trio.testing.wait_all_tasks_blocked()
        await s.run("tool", chain=chains[0].record(1))
    assert chains[0] is chains[1]


async def test_a_spent_chain_refuses(setup, native):
    s = setup(native(tool=lambda context, _args: chains.append(context.chain) or b""))
    chains = []
    await s.run("tool")
    with pytest.raises(ChainSpent, match="depth 9 is beyond the chain's 8") as caught:
        await s.run("tool", chain=chains[0], depth=9)
    assert caught.value.code == 400
    assert s.endings == ["done", "refused"]
    assert {row.chain for row in s.rows} == {chains[0].id}


# Fairness


async def test_one_agent_s_flood_does_not_starve_another(setup, native, autojump_clock):
    s = setup(
        native(tool=sleeping),
        limits=ExecutorLimits(queue=QueueLimits(slots=4, slots_of_agent=4, queued=1000, queued_of_agent=500)),
        concurrency=100,
        deadline_s=3600,
    )
    ended = []

    async def call(of):
        await s.run("tool", b"1", of=of)
        ended.append(of)

    async with trio.open_nursery() as nursery:
        for _ in range(400):
            nursery.start_soon(call, "flood")
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        for _ in range(3):
            await s.run("tool", b"1", of="quiet")
        assert trio.current_time() - began <= 6
        nursery.cancel_scope.cancel()


# Stopping


async def test_stopping_lets_work_end_and_accepts_no_more(setup, native, autojump_clock):
    s = setup(native(tool=sleeping), concurrency=1)
    outcomes = []

    async def call():
        outcomes.append(await s.run("tool", b"2"))

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(s.executor.shutdown, 10)
        await trio.testing.wait_all_tasks_blocked()
        assert s.executor.closing
        with pytest.raises(ShuttingDown, match="the daemon is stopping"):
            s.start("tool", b"1")
    assert outcomes == [Done(b"slept")] * 2
    assert s.endings == ["done", "done", "refused"]


async def test_stopping_cancels_what_takes_too_long(setup, native, autojump_clock):
    s = setup(native(tool=sleeping), concurrency=1)
    ends = []

    async def call():
        try:
            ends.append((await s.run("tool", b"50")).kind)
        except ShuttingDown as error:
            ends.append(error.code)

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        await s.executor.shutdown(3)
        assert trio.current_time() == pytest.approx(3)
    assert sorted(ends, key=str) == [503, "cancelled"]
    assert s.executor.idle


async def test_stopping_leaves_waiting_background_work_to_the_store(setup, native, autojump_clock):
    s = setup(native(tool=sleeping), concurrency=1)
    finished = []
    ends = []

    async def call():
        work = s.work(
            "tool", b"5", trigger=Trigger.WAKE, interactive=False, finish=lambda o, _row: finished.append(o)
        )
        try:
            ends.append(await s.executor.run(work))
        except ShuttingDown:
            ends.append("not run")

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        await s.executor.shutdown(60)
    assert ends == ["not run", "not run", Done(b"slept")]
    assert finished == [Done(b"slept")]
    assert trio.current_time() == pytest.approx(5)


async def test_the_end_of_open_stops_everything(setup, native):
    s = setup(native(tool=sleeping))
    async with trio.open_nursery() as nursery:
        async with s.executor.open():
            nursery.start_soon(s.run, "tool", b"1000")
            await trio.testing.wait_all_tasks_blocked()
        assert s.executor.idle
    assert [row.outcome for row in s.rows] == ["cancelled"]


# What is seen of it


async def test_running_shows_who_runs_and_who_waits(setup, native, autojump_clock):
    s = setup(native(tool=sleeping), concurrency=1)
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(lambda: s.run("tool", b"1", session="s"))
        await trio.testing.wait_all_tasks_blocked()
        first, second = s.executor.running()
        assert (first.state, second.state) == ("running", "queued")
        assert (first.agent, first.harness, first.tool) == (agent("a"), "native", "tool")
        assert (first.trigger, first.depth, first.chain, first.session) == (Trigger.TOOL, 0, first.id, "s")
    assert s.executor.running() == []


@pytest.mark.parametrize("provider", [Native, InlineNative])
async def test_several_providers_have_each_their_harnesses(setup, provider):
    s = setup(
        provider("one", tool=lambda _context, _args: b"1"),
        provider("two", tool=lambda _context, _args: b"2"),
    )
    assert await s.run("tool", harness="one") == Done(b"1")
    assert await s.run("tool", harness="two") == Done(b"2")
