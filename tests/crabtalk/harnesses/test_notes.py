"""harness/notes in the daemon: what is kept, whose it is, and how much."""

import json

import pytest

from crabtalk.wire.pb import crabtalk_pb2 as pb

pytestmark = pytest.mark.trio


@pytest.fixture
async def notes(keeper):
    notes = keeper("notes")
    await notes.declare(storage="4KiB", concurrency=1)
    return notes


async def test_notes_are_kept_and_found(notes):
    assert await notes.done("save_note", name="work/plan", text="Die Grenze\nzuerst ü") == (
        "saved work/plan, 20 bytes\n"
    )
    await notes.done("append_note", name="work/plan", text="then speed")
    await notes.done("save_note", name="home", text="milk")
    assert await notes.done("read_note", name="work/plan") == "Die Grenze\nzuerst ü\nthen speed"
    assert await notes.done("list_notes") == "home\nwork/plan\n"
    assert await notes.done("find_notes", text="GRENZE") == "work/plan:1: Die Grenze\n"
    await notes.done("delete_note", name="home")
    assert await notes.done("list_notes", prefix="w") == "work/plan\n"


async def test_another_agent_has_notes_of_its_own(notes):
    await notes.done("save_note", name="secret", text="x")
    bob = await notes.client.declare("bob", {"name": "notes", "storage": "4KiB"})
    outcome = await notes.client.call(bob, "notes", "list_notes")
    assert outcome.done == b"no notes\n"


async def test_a_note_beyond_the_quota_is_refused_and_the_rest_stays(notes):
    await notes.done("save_note", name="small", text="x")
    outcome = await notes.call("save_note", name="large", text="x" * 5000)
    assert outcome.failed == "quota of 4096 bytes is used up"
    assert await notes.done("list_notes") == "small\n"


async def test_additions_at_once_are_all_there(notes):
    requests = []
    for number in range(20):
        args = json.dumps({"name": "log", "text": f"line {number}"}).encode()
        message = pb.CallToolMsg(agent=notes.agent, harness="notes", tool="append_note", args=args)
        requests.append(await notes.client.send(call_tool=message))
    for request in requests:
        assert (await notes.client.receive(request)).WhichOneof("outcome") == "done"
    lines = (await notes.done("read_note", name="log")).splitlines()
    assert sorted(lines) == sorted(f"line {number}" for number in range(20))


async def test_without_storage_there_are_no_notes(keeper):
    notes = keeper("notes")
    await notes.declare()
    outcome = await notes.call("list_notes")
    assert "berm.kv.keys" in outcome.trap.message
