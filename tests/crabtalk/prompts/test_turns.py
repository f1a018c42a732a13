"""Approvals in turns of agents, with the harness that people use: what the model is told."""

import pytest
import trio

from conversing import Hands, Puppet, calls, says, sent
from crabtalk.store.memory import MemoryEngine
from crabtalk.tools import Trigger
from crabtalk.wire.pb import crabtalk_pb2 as pb
from crabtalk.work import Work
from guest_images import image_path

pytestmark = pytest.mark.trio


def speak(world, *answers):
    model = Puppet(*answers)
    world.runtime.speaking._models = world.runtime.conversations._models = model
    return model


@pytest.fixture
def coder(world):
    """Return what declares an agent with the harness `os`, whose root has to be approved."""

    async def declare(**more):
        await world.client.put("os", image_path("os"))
        root = {"path": str(world.files), "ask": True}
        return await world.client.declare("coder", {"name": "os", "root": root, **more})

    return declare


async def test_a_model_is_told_that_a_person_refused(world, doing, coder):
    agent, person = await coder(), await world.person()
    model = speak(world, calls(("bash", {"command": "rm -rf ."})), says("then not"))
    turn = doing(sent, await world.connect(), agent, "clean up")
    prompt = await person.next()
    assert (prompt.capability, prompt.argument) == ("berm.exec.run", f"root = {world.files}")
    assert prompt.text.startswith("command: rm -rf .")
    assert (prompt.session, list(prompt.scopes)) == ("s", ["once", "session", "always"])
    await person.answer(prompt, allow=False, text="keep them")
    assert (await turn.result()).content == "then not"
    result = model.requests[1].messages[-1]
    assert (result.role, result.is_error) == ("tool", True)
    assert "`berm.exec.run` was not approved: a person refused it, saying: keep them" in result.content
    assert (world.files / "a.txt").exists()


async def test_a_session_s_approval_covers_its_next_turns(world, doing, coder):
    agent, person = await coder(), await world.person()
    model = speak(
        world, *[answer for _ in range(3) for answer in (calls(("bash", {"command": "ls"})), says("ok"))]
    )
    turn = doing(sent, await world.connect(), agent, "look")
    await person.answer(await person.next(), scope="session")
    await turn.result()
    assert (await sent(world.client, agent, "again")).content == "ok"
    await person.nothing()
    assert "a.txt" in model.requests[3].messages[-1].content
    turn = doing(sent, await world.connect(), agent, "elsewhere", handle="t")
    prompt = await person.next()
    assert prompt.session == "t"
    await person.answer(prompt, allow=False)
    await turn.result()


async def test_parallel_calls_are_asked_about_side_by_side(world, doing, coder):
    agent, person = await coder(), await world.person()
    wanted = [("bash", {"command": f"echo {number}"}) for number in range(5)]
    model = speak(world, calls(*wanted), says("ok"))
    turn = doing(sent, await world.connect(), agent, "count")
    prompts = [await person.next() for _ in wanted]
    assert len({one.text for one in prompts}) == 5
    await person.answer(prompts[0], allow=False)
    await person.answer(prompts[1], scope="session")
    assert (await turn.result()).content == "ok"
    results = [one for one in model.requests[1].messages if one.role == "tool"]
    assert sorted(one.is_error for one in results) == [False] * 4 + [True]


async def test_a_turn_that_is_cancelled_takes_its_question_back(world, doing, coder):
    agent, person = await coder(), await world.person()
    speak(world, calls(("bash", {"command": "ls"})), says("ok"))
    doing(_end_of, sent, await world.connect(), agent, "look")
    prompt = await person.next()
    await world.client.ask(kill=pb.KillMsg(session_handle="s"))
    over = await person.shown()
    assert (over.id, over.expires_ms) == (prompt.id, 0)
    assert await world.approvals() == []


async def _end_of(function, *args):
    with pytest.raises(Exception, match="killed"):
        await function(*args)


async def test_the_deadline_of_a_harness_that_sends_stands_still(world, doing):
    """A guest waits for a turn of another agent, and that turn for a person."""
    await world.client.declare("bob", {"name": "ask_user", "builtin": "ask_user"})
    agent, person = await world.declare(send=["bob"], deadline=0.3), await world.person()
    speak(world, calls(("ask_user", {"question": "Which?"})), says("that one"))
    sending = doing(world.ask_for, agent, "crabtalk.agent.send", "bob", "ask them")
    prompt = await person.next()
    await trio.sleep(0.6)
    await person.answer(prompt, text="the second")
    assert await sending.result() == ("o", "that one")


async def test_what_a_wake_or_an_event_started_is_known_by_its_client(open_world):
    seen = []
    hands = Hands(on_wake=lambda context, _given: seen.append(context.client) or "", tool=_client_of)
    async with open_world(MemoryEngine(), providers=[hands]) as world:
        agent = world.runtime.agents.get(await world.client.declare("ann"))
        work = Work(
            trigger=Trigger.WAKE, agent=agent, harness="hands", entry="on_wake", args=b"{}", subject="W1"
        )
        with trio.fail_after(5):
            await world.runtime.executor.run(work)
            await world.runtime.executor.run(work._replace(trigger=Trigger.EVENT))
            outcome = await world.client.call(agent.id, "hands", "tool")
    assert seen == ["wake:W1", "event:W1"]
    assert outcome.done == b"memory"


def _client_of(context, _given):
    return context.client
