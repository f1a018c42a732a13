"""Approvals through the daemon: who is asked, what is stored, how long it holds, and what ends it."""

import json

import pytest
import trio

import berm
from conversing import Hands
from crabtalk import approvals
from crabtalk.errors import StoreError
from crabtalk.store.checking import check_records
from crabtalk.store.interfaces.approvals import Subject
from crabtalk.store.memory import MemoryEngine
from crabtalk.tools import Trigger
from crabtalk.wire.pb import crabtalk_pb2 as pb
from crabtalk.work import Work
from daemon_client import Refused
from declared_guests import guest, request

pytestmark = pytest.mark.trio

OTHER = guest(wake=True, notify=True, describe="other bytes")


def shown(prompt):
    return prompt.agent, prompt.harness, prompt.capability, prompt.argument


def stored(approval):
    return approval.agent, approval.harness, approval.capability, approval.argument


async def test_the_prompt_shows_what_is_stored(world, doing):
    agent, person = await world.declare(), await world.person()
    reading = doing(world.read, agent)
    prompt = await person.next()
    assert prompt.kind == "approval"
    assert shown(prompt) == (agent, "probe", "berm.fs.read", f"files = {world.files}")
    assert prompt.text == "path: a.txt"
    assert list(prompt.scopes) == ["once", "always"]
    await person.answer(prompt, scope="always")
    assert await reading.result() == ("o", "AAA")
    (approval,) = await world.approvals()
    assert stored(approval) == shown(prompt)
    assert (approval.scope, approval.sha256) == ("always", (await world.put("probe")))
    assert approval.client == "memory"  # as who asks is called there
    (record,) = world.runtime.approvals.all()
    assert record.text == prompt.text


async def test_once_is_once(world, doing):
    agent, person = await world.declare(), await world.person()
    for _ in range(2):
        reading = doing(world.read, agent)
        await person.answer(await person.next())
        assert await reading.result() == ("o", "AAA")
    assert [one.scope for one in await world.approvals()] == ["once"]  # the newer one in place of the older


async def test_always_covers_its_capability_and_no_other(world, doing):
    agent, person = await world.declare(), await world.person()
    reading = doing(world.read, agent)
    await person.answer(await person.next(), scope="always")
    await reading.result()
    assert await world.read(agent, "b.txt") == ("o", "BBB")
    await person.nothing()
    listing = doing(world.ask_for, agent, "berm.fs.list", ".")
    prompt = await person.next()
    assert prompt.capability == "berm.fs.list"
    await person.answer(prompt, allow=False)
    assert (await listing.result())[0] == "e"


async def test_a_session_is_covered_until_it_is_deleted(world, doing):
    agent, person = await world.declare(), await world.person()
    for handle in ("s", "t"):
        await world.client.ask(create_session=pb.CreateSessionMsg(session_handle=handle, agent=agent))
    reading = doing(world.read, agent, session_handle="s")
    prompt = await person.next()
    assert (prompt.session, list(prompt.scopes)) == ("s", ["once", "session", "always"])
    await person.answer(prompt, scope="session")
    await reading.result()
    assert await world.read(agent, session_handle="s") == ("o", "AAA")
    for options in ({"session_handle": "t"}, {}):
        reading = doing(world.read, agent, **options)
        await person.answer(await person.next(), allow=False)
        assert (await reading.result())[0] == "e"
    await world.client.ask(delete_conversation=pb.DeleteConversationMsg(file_path="s"))
    assert await world.approvals() == []
    await world.client.ask(create_session=pb.CreateSessionMsg(session_handle="s", agent=agent))
    reading = doing(world.read, agent, session_handle="s")
    await person.answer(await person.next(), allow=False)
    assert (await reading.result())[0] == "e"


async def test_a_refusal_is_told_with_its_reason(world, doing):
    agent, person = await world.declare(), await world.person()
    reading = doing(world.read, agent)
    await person.answer(await person.next(), allow=False, text="not that one")
    assert await reading.result() == (
        "e",
        "`berm.fs.read` was not approved: a person refused it, saying: not that one",
    )
    assert await world.approvals() == []


async def test_an_invocation_is_not_asked_about_again_after_a_refusal(open_world, doing):
    """A guest that asks in a loop makes one prompt; another invocation may ask again."""

    async def insist(context, _given):
        subject, said = Subject(context.agent.id, "hands", "00", "berm.get", "storage = 1"), []
        for _ in range(3):
            with pytest.raises(berm.Refused) as caught:
                await world.runtime.approvals.require(context, subject, lambda: "key: k")
            said.append(str(caught.value))
        return "\n".join(said)

    async with open_world(MemoryEngine(), providers=[Hands(insist=insist)]) as world:
        agent, person = await world.client.declare("ann"), await world.person()
        for _ in range(2):
            insisting = doing(world.client.call, agent, "hands", "insist")
            await person.answer(await person.next(), allow=False)
            first, *others = (await insisting.result()).done.decode().split("\n")
            assert first == "`berm.get` was not approved: a person refused it"
            assert others == ["`berm.get` was not approved: it was refused already"] * 2
            await person.nothing()


async def test_an_agent_has_so_many_approvals(world, doing, monkeypatch):
    monkeypatch.setattr(approvals, "MAX_OF_AGENT", 2)
    agent, person = await world.declare(), await world.person()
    scopes = {"berm.fs.read": "once", "berm.fs.list": "always", "berm.fs.stat": "always"}
    for name, scope in scopes.items():
        doing_it = doing(world.ask_for, agent, name, "a.txt" if name != "berm.fs.list" else ".")
        await person.answer(await person.next(), scope=scope)
        assert (await doing_it.result())[0] == "o"
    assert [one.capability for one in await world.approvals()] == ["berm.fs.list", "berm.fs.stat"]
    writing = doing(world.ask_for, agent, "berm.fs.write", "c.txt", "C")
    with pytest.raises(Refused, match="this agent has 2 approvals, which is the most: revoke some"):
        await person.answer(await person.next(), scope="once")
    assert (await writing.result())[0] == "e"
    assert not (world.files / "c.txt").exists()


async def test_nobody_answers(world):
    world.runtime.prompts._limit_s = 0.05
    agent = await world.declare()
    assert await world.read(agent) == (
        "e",
        "`berm.fs.read` was not approved: nobody answered within 0.05 seconds",
    )


async def test_a_person_who_comes_later_is_asked(world, doing):
    agent = await world.declare()
    reading = doing(world.read, agent)
    await world.waiting(1)
    person = await world.person()
    await person.answer(await person.next())
    assert await reading.result() == ("o", "AAA")


async def test_of_two_clients_the_first_answer_counts(world, doing):
    agent, ann, bob = await world.declare(), await world.person(), await world.person()
    reading = doing(world.read, agent)
    prompt = await ann.next()
    assert await bob.next() == prompt
    await bob.answer(prompt)
    with pytest.raises(Refused, match="waits for an answer, or not any more") as caught:
        await ann.answer(prompt, allow=False)
    assert caught.value.code == 404
    assert await reading.result() == ("o", "AAA")
    over = await ann.shown()
    assert (over.id, over.expires_ms, list(over.scopes)) == (prompt.id, 0, [])


async def test_two_answers_at_once_are_one(world, doing):
    agent, ann, bob = await world.declare(), await world.person(), await world.person()
    reading = doing(world.read, agent)
    prompt = await ann.next()
    ids = [
        await one.client.send(answer_prompt=pb.AnswerPromptMsg(id=prompt.id, allow=True, scope="always"))
        for one in (ann, bob)
    ]
    codes = [await one.client.code(number) for one, number in zip((ann, bob), ids, strict=True)]
    assert sorted(codes) == [0, 404]
    assert await reading.result() == ("o", "AAA")
    assert len(await world.approvals()) == 1


async def test_an_answer_for_always_covers_what_waits_already(world, doing):
    agent, person = await world.declare(), await world.person()
    readings = [doing(world.read, agent, client=await world.connect()) for _ in range(4)]
    prompts = [await person.next() for _ in readings]
    await person.answer(prompts[2], scope="always")
    assert [await one.result() for one in readings] == [("o", "AAA")] * 4
    assert len(await world.approvals()) == 1
    assert world.runtime.prompts.pending == []


async def test_an_answer_for_once_covers_one_of_those_that_wait(world, doing):
    agent, person = await world.declare(), await world.person()
    readings = [doing(world.read, agent, path, client=await world.connect()) for path in ("a.txt", "b.txt")]
    by_text = {one.text: one for one in [await person.next(), await person.next()]}
    await person.answer(by_text["path: b.txt"])
    assert await readings[1].result() == ("o", "BBB")
    assert not readings[0].ended
    await person.answer(by_text["path: a.txt"], allow=False)
    assert (await readings[0].result())[0] == "e"


async def test_the_question_is_taken_back_when_whoever_called_is_gone(world, doing):
    agent, person, caller = await world.declare(), await world.person(), await world.connect()
    nobody = doing(_gone, world, agent, caller)
    prompt = await person.next()
    caller.stream.close()
    over = await person.shown()
    assert (over.id, over.expires_ms) == (prompt.id, 0)
    assert await nobody.result() is None
    with pytest.raises(Refused):
        await person.answer(prompt, scope="always")
    assert await world.approvals() == []


async def _gone(world, agent, caller):
    with pytest.raises((AssertionError, trio.ClosedResourceError)):
        await world.read(agent, client=caller)


async def test_a_person_who_vanishes_leaves_the_question_to_others(world, doing):
    agent, ann = await world.declare(), await world.person()
    reading = doing(world.read, agent)
    await ann.next()
    ann.client.stream.close()
    bob = await world.person()
    await bob.answer(await bob.next())
    assert await reading.result() == ("o", "AAA")
    assert len(world.runtime.prompts._inboxes) == 1


async def test_other_bytes_ask_again_and_the_old_ones_do_not(world, doing):
    agent, person = await world.declare(), await world.person()
    reading = doing(world.read, agent)
    await person.answer(await person.next(), scope="always")
    await reading.result()
    digests = [(await world.approvals())[0].sha256, await world.put("probe", OTHER)]
    await upgrade(world, agent, digests[1])
    reading = doing(world.read, agent)
    await person.answer(await person.next(), scope="always")
    assert await reading.result() == ("o", "AAA")
    assert [one.sha256 for one in await world.approvals()] == digests


async def upgrade(world, agent, sha256):
    await world.client.ask(
        upgrade_harness=pb.UpgradeHarnessMsg(agent=agent, name="probe", sha256=sha256, confirm=True)
    )


async def test_another_argument_asks_again(world, doing, tmp_path):
    agent, person = await world.declare(), await world.person()
    reading = doing(world.read, agent)
    await person.answer(await person.next(), scope="always")
    await reading.result()
    (tmp_path / "a.txt").write_text("elsewhere")
    harnesses = [{"name": "probe", "files": {"path": str(tmp_path), "ask": True}}]
    await world.client.ask(
        update_agent=pb.UpdateAgentMsg(agent=agent, config=json.dumps({"harnesses": harnesses}))
    )
    reading = doing(world.read, agent)
    prompt = await person.next()
    assert prompt.argument == f"files = {tmp_path}"
    await person.answer(prompt, allow=False)
    assert (await reading.result())[0] == "e"


async def test_another_agent_with_the_same_image_asks_for_itself(world, doing):
    ann, person = await world.declare("ann"), await world.person()
    bob = await world.declare("bob")
    reading = doing(world.read, ann)
    await person.answer(await person.next(), scope="always")
    await reading.result()
    reading = doing(world.read, bob)
    prompt = await person.next()
    assert prompt.agent == bob
    await person.answer(prompt, allow=False)
    assert (await reading.result())[0] == "e"


async def test_the_real_directory_of_a_session_is_what_is_approved(world, doing):
    (world.files / "sub").mkdir()
    (world.files / "sub" / "a.txt").write_text("inner")
    (world.files / "link").symlink_to("sub")
    agent = await world.declare(root={"session": str(world.files), "ask": True})
    person = await world.person()
    await world.client.ask(create_session=pb.CreateSessionMsg(session_handle="s", agent=agent, root="link"))
    reading = doing(world.read, agent, session_handle="s")
    prompt = await person.next()
    assert prompt.argument == f"root = {world.files}/sub"
    await person.answer(prompt, scope="always")
    assert await reading.result() == ("o", "inner")
    reading = doing(world.read, agent)
    prompt = await person.next()
    assert prompt.argument == f"root = {world.files}"
    await person.answer(prompt, allow=False)
    await reading.result()


async def test_an_approval_is_there_after_a_restart(open_world, doing):
    store = MemoryEngine()
    async with open_world(store) as world:
        agent, person = await world.declare(), await world.person()
        reading = doing(world.read, agent)
        await person.answer(await person.next(), scope="always")
        await reading.result()
    assert check_records(store) == []
    async with open_world(store) as world:
        person = await world.person()
        assert await world.read(agent) == ("o", "AAA")
        await person.nothing()
        (approval,) = await world.approvals()
        await world.client.ask(revoke_approval=pb.RevokeApprovalMsg(id=approval.id))
    async with open_world(store) as world:
        assert await world.approvals() == []


async def test_what_is_revoked_is_asked_again(world, doing):
    agent, person = await world.declare(), await world.person()
    reading = doing(world.read, agent)
    await person.answer(await person.next(), scope="always")
    await reading.result()
    (approval,) = await world.approvals()
    await world.client.ask(revoke_approval=pb.RevokeApprovalMsg(id=approval.id))
    with pytest.raises(Refused) as caught:
        await world.client.ask(revoke_approval=pb.RevokeApprovalMsg(id=approval.id))
    assert caught.value.code == 404
    reading = doing(world.read, agent)
    await person.answer(await person.next(), allow=False)
    assert (await reading.result())[0] == "e"


async def test_what_could_not_be_revoked_is_in_force(world, doing, monkeypatch):
    agent, person = await world.declare(), await world.person()
    reading = doing(world.read, agent)
    await person.answer(await person.next(), scope="always")
    await reading.result()
    (approval,) = await world.approvals()
    with monkeypatch.context() as patched:
        patched.setattr(world.runtime.store, "commit", _broken)
        with pytest.raises(Refused) as caught:
            await world.client.ask(revoke_approval=pb.RevokeApprovalMsg(id=approval.id))
    assert caught.value.code == 500
    assert await world.approvals() == [approval]


async def _broken(_writes):
    raise StoreError("no space")


async def test_an_approval_that_is_not_stored_counts_for_nothing(world, doing, monkeypatch):
    agent, person = await world.declare(), await world.person()
    reading = doing(world.read, agent)
    prompt = await person.next()
    with monkeypatch.context() as patched:
        patched.setattr(world.runtime.store, "commit", _broken)
        with pytest.raises(Refused) as caught:
            await person.answer(prompt, scope="always")
    assert caught.value.code == 500
    assert (await reading.result())[0] == "e"
    assert await world.approvals() == []


async def test_the_approvals_of_an_agent_go_with_it(world, doing):
    agent, person = await world.declare(), await world.person()
    reading = doing(world.read, agent)
    await person.answer(await person.next(), scope="always")
    await reading.result()
    waiting = doing(world.outcome, agent, "berm.fs.list", ".", client=await world.connect())
    prompt = await person.next()
    await world.client.ask(delete_agent=pb.DeleteAgentMsg(agent=agent))
    assert await world.approvals() == []
    with pytest.raises(Refused) as caught:
        await person.answer(prompt, scope="always")
    assert caught.value.code == 404
    assert (await waiting.result()).done[:1] == b"e"
    assert await world.approvals() == []
    assert check_records(world.runtime.store) == []


@pytest.mark.parametrize(("scope", "read"), [("", False), ("session", False), ("always", True)])
@pytest.mark.parametrize("trigger", ["wake", "event"])
async def test_what_a_wake_or_an_event_starts_asks_nobody(world, doing, scope, read, trigger):
    agent, person = await world.declare(), await world.person()
    if scope:
        await world.client.ask(create_session=pb.CreateSessionMsg(session_handle="s", agent=agent))
        reading = doing(world.read, agent, session_handle="s")
        await person.answer(await person.next(), scope=scope)
        await reading.result()
    outcome = await _unattended(world, agent, trigger)
    await person.nothing()
    why = "a wake or an event started this, so nobody is asked, and it needs an approval for always"
    assert outcome == (("o", "AAA") if read else ("e", f"`berm.fs.read` was not approved: {why}"))


async def _unattended(world, agent, trigger):
    """Run the guest as something that a wake or an event started runs it."""
    work = Work(
        trigger=Trigger.CALL,
        agent=world.runtime.agents.get(agent),
        harness="probe",
        entry="ask",
        args=request("berm.fs.read", "a.txt"),
        client=f"{trigger}:01",
        session="s",
    )
    outcome = await world.runtime.executor.run(work)
    return outcome.data[:1].decode(), outcome.data[1:].decode()


async def test_an_answer_that_does_not_fit_leaves_the_question(world, doing):
    agent, person = await world.declare(), await world.person()
    reading = doing(world.read, agent)
    prompt = await person.next()
    for options, code in (
        ({"scope": "session"}, 400),
        ({"scope": "forever"}, 400),
        ({"text": "x" * 20_000}, 413),
    ):
        with pytest.raises(Refused) as caught:
            await person.answer(prompt, **options)
        assert caught.value.code == code
    await person.answer(prompt)
    assert await reading.result() == ("o", "AAA")


async def test_arguments_that_ask_and_those_that_do_not(world, doing):
    agent = await world.declare(files=str(world.files), zone={"value": "UTC", "ask": True}, storage="1MiB")
    person = await world.person()
    assert await world.read(agent) == ("o", "AAA")
    now = doing(world.ask_for, agent, "berm.clock.now")
    prompt = await person.next()
    assert (prompt.argument, prompt.text) == ("zone = UTC", "")
    await person.answer(prompt)
    assert (await now.result())[0] == "o"
    info = await world.client.ask(inspect_harness=pb.InspectHarnessMsg(agent=agent, name="probe"))
    assert "berm.clock.*: zone = UTC, asks first" in info.bound


async def test_a_request_goes_on_beside_its_guest_once_it_was_approved(world, doing):
    agent = await world.declare(hosts={"value": ["http://127.0.0.1:9"], "ask": True})
    person = await world.person()
    starting = doing(world.ask_for, agent, "berm.http.start", "GET", "http://127.0.0.1:9/", "", "a", "b")
    prompt = await person.next()
    assert prompt.argument == "hosts = http://127.0.0.1:9"
    assert prompt.text == "method: GET\nurl: http://127.0.0.1:9/\nheader: a = b"
    await person.answer(prompt)
    assert (await starting.result()) == ("o", "1")
    assert await world.ask_for(agent, "berm.http.collect", "") == ("e", "no request is in flight")
    await person.nothing()


async def test_agents_that_are_peers_stay_asked_about(world):
    peer = await world.client.declare("peer")
    agent = await world.declare(peers={"value": ["peer"], "ask": True})
    (one,) = world.runtime.agents.get(agent).config["harnesses"]
    assert one["peers"] == {"value": [peer], "ask": True}
