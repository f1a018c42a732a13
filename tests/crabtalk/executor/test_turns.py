"""Threads in turns: bounded, fair between agents, and nobody's when whoever waited has gone."""

import math
import threading
import time
from functools import partial

import pytest
import trio

from crabtalk.turns import Threads, Turns

pytestmark = pytest.mark.trio


async def take_turns(turns, agent, order, times=1, *, attended=True):
    for _ in range(times):
        await turns.acquire(agent, attended=attended)
        order.append(agent)
        await trio.lowlevel.checkpoint()
        turns.release()


async def test_agents_take_turns_however_many_stand_in_line():
    turns, order = Turns(1), []
    await turns.acquire("first")
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(take_turns, turns, "many", order)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(take_turns, turns, "one", order)
        await trio.testing.wait_all_tasks_blocked()
        assert (turns.in_use, turns.waiting, turns.left(attended=True)) == (1, 6, 1)
        turns.release()
    assert order == ["many", "one", "many", "many", "many", "many"]
    assert (turns.in_use, turns.waiting, turns.left(attended=True)) == (0, 0, math.inf)


async def test_what_somebody_waits_for_goes_before_the_background_which_gets_one_turn_in_nine():
    turns, order = Turns(1), []
    await turns.acquire("first")
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(partial(take_turns, turns, "wake", order, attended=False))
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(20):
            nursery.start_soon(take_turns, turns, "call", order)
        await trio.testing.wait_all_tasks_blocked()
        turns.release()
    assert order == [*["call"] * 8, "wake", *["call"] * 8, "wake", *["call"] * 4, "wake"]
    assert (turns.in_use, turns.waiting) == (0, 0)


@pytest.mark.parametrize(
    ("waits", "to_attended", "to_background"),
    [((), math.inf, math.inf), ((False,), 8, 1), ((True,), 1, 1), ((False, True), 1, 1)],
)
async def test_who_holds_a_thread_goes_on_until_somebody_is_before_it(waits, to_attended, to_background):
    turns = Turns(1)
    await turns.acquire("first")
    async with trio.open_nursery() as nursery:
        for attended in waits:
            nursery.start_soon(partial(turns.acquire, "other", attended=attended))
        await trio.testing.wait_all_tasks_blocked()
        assert (turns.left(attended=True), turns.left(attended=False)) == (to_attended, to_background)
        nursery.cancel_scope.cancel()
    assert turns.waiting == 0


async def test_there_are_only_so_many():
    turns, inside, most = Turns(3), [], []

    def work():
        inside.append(threading.get_ident())
        most.append(len(inside))
        time.sleep(0.01)
        inside.pop()

    async def run():
        await turns.acquire("a")
        await turns.run(work)
        turns.release()

    async with trio.open_nursery() as nursery:
        for _ in range(12):
            nursery.start_soon(run)
    assert max(most) == 3


async def test_whoever_is_cancelled_in_line_is_taken_out():
    turns = Turns(1)
    await turns.acquire("a")
    with trio.move_on_after(0.01):
        await turns.acquire("b")
    assert turns.waiting == 0
    turns.release()
    assert turns.in_use == 0


async def test_a_turn_given_to_somebody_who_is_cancelled_goes_to_the_next():
    turns, got = Turns(1), []
    await turns.acquire("a")

    async def wait(agent, scope):
        with scope:
            await turns.acquire(agent)
            got.append(agent)
            turns.release()

    scopes = [trio.CancelScope(), trio.CancelScope()]
    async with trio.open_nursery() as nursery:
        for agent, scope in zip("bc", scopes, strict=True):
            nursery.start_soon(wait, agent, scope)
            await trio.testing.wait_all_tasks_blocked()
        turns.release()
        scopes[0].cancel()
    assert got in (["c"], ["b", "c"])  # trio may deliver the turn or the cancellation first
    assert (turns.in_use, turns.waiting) == (0, 0)


async def test_bounds_are_checked():
    with pytest.raises(ValueError, match="expected 1 or more, got 0"):
        Turns(0)
    assert Threads(0, 5).computing.threads >= 1
    assert Threads(3, 5).blocking.threads == 5
