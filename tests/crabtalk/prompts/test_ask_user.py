"""The tool `ask_user`, called by clients and by models."""

import json

import pytest
import trio

from conversing import Puppet, calls, says, sent
from crabtalk.tools import Trigger
from crabtalk.wire.pb import crabtalk_pb2 as pb
from crabtalk.work import Work
from daemon_client import Refused

pytestmark = pytest.mark.trio

BUILTIN = {"name": "ask_user", "builtin": "ask_user"}


async def asked(world, agent, question="Red or blue?", **options):
    arguments = json.dumps({"question": question})
    return await world.client.call(agent, "ask_user", "ask_user", arguments, **options)


async def test_the_answer_is_the_result(world, doing):
    agent, person = await world.client.declare("ann", BUILTIN), await world.person()
    asking = doing(asked, world, agent, "Red or\nblue?\x1b[2J")
    prompt = await person.next()
    assert (prompt.kind, prompt.agent, prompt.harness) == ("question", agent, "ask_user")
    assert prompt.text == "Red or\nblue?\\u001b[2J"
    assert not prompt.scopes
    assert not prompt.capability
    with pytest.raises(Refused, match="expected the answer"):
        await person.answer(prompt, text=" ")
    await person.answer(prompt, text="blue, grün")
    assert (await asking.result()).done.decode() == "blue, grün"
    assert await world.approvals() == []


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "the person did not answer"), ("later", "the person did not answer, saying: later")],
)
async def test_no_answer_is_a_failure(world, doing, text, message):
    agent, person = await world.client.declare("ann", BUILTIN), await world.person()
    asking = doing(asked, world, agent)
    await person.answer(await person.next(), allow=False, text=text)
    assert (await asking.result()).failed == message


async def test_nobody_is_there(world):
    world.runtime.prompts._limit_s = 0.05
    agent = await world.client.declare("ann", BUILTIN)
    assert (await asked(world, agent)).failed == "nobody answered within 0.05 seconds"


async def test_the_deadline_stands_still(world, doing):
    agent, person = await world.client.declare("ann", {**BUILTIN, "deadline": 0.2}), await world.person()
    asking = doing(asked, world, agent)
    prompt = await person.next()
    await trio.sleep(0.5)
    await person.answer(prompt, text="yes")
    assert (await asking.result()).done == b"yes"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "arguments: expected an object with `question`, a text, and nothing"),
        ("[]", "arguments: expected an object with `question`, a text, and nothing"),
        ('{"question": 1}', "arguments: expected an object with `question`, a text, and nothing"),
        ('{"question": "a", "b": 1}', "arguments: expected an object with `question`, a text, and nothing"),
        ('{"question": " "}', "question: expected 1 to 4096 characters"),
        ('{"question": "%s"}' % ("x" * 4097), "question: expected 1 to 4096 characters"),
        ('{"question"', "arguments: "),
        ("x" * 40_000, "arguments: expected at most 32768 bytes, got 40000"),
    ],
)  # fmt: skip
async def test_wrong_arguments_are_told(world, arguments, message):
    agent = await world.client.declare("ann", BUILTIN)
    outcome = await world.client.call(agent, "ask_user", "ask_user", arguments)
    assert outcome.failed.startswith(message)


async def test_what_a_wake_starts_asks_nobody(world):
    agent, person = await world.client.declare("ann", BUILTIN), await world.person()
    work = Work(
        trigger=Trigger.TOOL,
        agent=world.runtime.agents.get(agent),
        harness="ask_user",
        entry="ask_user",
        args=b'{"question": "?"}',
        client="wake:01",
    )
    outcome = await world.runtime.executor.run(work)
    assert outcome.message.startswith("nobody can be asked")
    await person.nothing()


async def test_too_many_questions_are_refused(world, doing):
    agent = await world.client.declare("ann", {**BUILTIN, "concurrency": 64})
    waiting = [doing(_ask, agent, await world.connect()) for _ in range(32)]
    await world.waiting(len(waiting))
    assert (await asked(world, agent)).failed == "32 questions of this agent wait for a person already"
    person = await world.person()
    for _ in waiting:
        await person.answer(await person.next(), allow=False)
    for one in waiting:
        await one.result()


async def _ask(agent, client):
    asked = pb.CallToolMsg(agent=agent, harness="ask_user", tool="ask_user", args=b'{"question": "?"}')
    return await client.ask(call_tool=asked)


async def test_a_model_asks_and_reads_the_answer(world, doing):
    model = Puppet(calls(("ask_user", {"question": "Which?"})), says("you said the second"))
    world.runtime.speaking._models = world.runtime.conversations._models = model
    agent, person = await world.client.declare("ann", BUILTIN), await world.person()
    turn = doing(sent, await world.connect(), agent, "do it")
    prompt = await person.next()
    assert (prompt.text, prompt.session) == ("Which?", "s")
    await person.answer(prompt, text="the second")
    assert (await turn.result()).content == "you said the second"
    assert model.requests[1].messages[-1].content == "the second"
