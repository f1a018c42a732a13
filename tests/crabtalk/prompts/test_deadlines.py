"""Deadlines stand still while a person is asked, those of callers too; and hold all the same."""

import time

import pytest
import trio

from berm import Call
from crabtalk.timed_call import TimedCall
from crabtalk.wire.pb import crabtalk_pb2 as pb
from declared_guests import request

pytestmark = pytest.mark.trio

DEADLINE_S = 0.3
LONGER_S = 0.6


async def late_answer(person, **options):
    prompt = await person.next()
    await trio.sleep(LONGER_S)
    await person.answer(prompt, **options)


async def test_the_deadline_stands_still(world, doing):
    agent = await world.declare(files={"path": str(world.files), "ask": True}, deadline=DEADLINE_S)
    person = await world.person()
    reading = doing(world.read, agent)
    await late_answer(person)
    assert await reading.result() == ("o", "AAA")


async def test_that_of_a_client_stands_still_as_well(world, doing):
    agent, person = await world.declare(), await world.person()
    reading = doing(world.read, agent, deadline_ms=round(DEADLINE_S * 1000))
    await late_answer(person)
    assert await reading.result() == ("o", "AAA")


async def test_those_of_callers_stand_still_as_well(world, doing):
    await world.put("probe")
    await world.put("outer")
    agent = await world.client.declare(
        "ann",
        {"name": "outer", "calls": ["probe"], "deadline": DEADLINE_S},
        {"name": "probe", "files": {"path": str(world.files), "ask": True}, "deadline": DEADLINE_S,
         "prefix": "p"},
    )  # fmt: skip
    person = await world.person()
    inner = request("berm.fs.read", "a.txt")
    calling = doing(world.ask_for, agent, "berm.call", "probe", "ask", inner, harness="outer")
    prompt = await person.next()
    assert prompt.harness == "probe"
    await trio.sleep(LONGER_S)
    await person.answer(prompt)
    assert await calling.result() == ("o", "oAAA")


@pytest.mark.parametrize("argument", ["files", "calls"])
async def test_a_guest_that_computes_is_stopped_at_its_deadline(world, argument):
    """As that of others, whose deadlines cannot move; the instructions say that it computed."""
    value = {"path": str(world.files), "ask": True} if argument == "files" else ["probe"]
    agent = await world.declare(**{argument: value}, deadline=DEADLINE_S)
    began_s = time.monotonic()
    with trio.fail_after(5):
        outcome = await world.client.call(agent, "probe", "spin")
    assert outcome.trap.kind == "deadline"
    assert outcome.instructions > 1_000_000
    assert DEADLINE_S <= time.monotonic() - began_s < DEADLINE_S + 1


async def test_time_that_was_used_before_is_gone_after(world, doing):
    """A person's answer gives back what was left, and no more: the command runs out of it."""
    agent = await world.declare(root={"path": str(world.files), "ask": True}, deadline=DEADLINE_S)
    person = await world.person()
    running = doing(world.outcome, agent, "berm.exec.run", "sleep 5", "")
    await late_answer(person)
    outcome = await running.result()
    assert outcome.trap.kind == "deadline" or b"ran past" in outcome.done


async def test_who_waits_for_a_person_holds_up_nobody(world, doing):
    agent = await world.declare(files={"path": str(world.files), "ask": True}, concurrency=1)
    person = await world.person()
    reading = doing(world.read, agent, client=await world.connect())
    prompt = await person.next()
    with trio.fail_after(5):
        outcome = await world.client.call(agent, "probe", "echo", "hello")
    assert outcome.done == b"hello"
    (running,) = (await world.client.ask(list_running=pb.ListRunningMsg())).invocations
    assert running.outcome == "suspended"
    await person.answer(prompt)
    assert await reading.result() == ("o", "AAA")


async def test_a_timed_call_has_all_that_a_call_has():
    assert {one for one in dir(Call) if not one.startswith("_")} == {
        one for one in dir(TimedCall) if not one.startswith("_")
    }
