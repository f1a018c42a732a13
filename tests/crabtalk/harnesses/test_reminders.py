"""harness/reminders in the daemon: it fires, publishes, lasts, and ends."""

import hashlib
import itertools
import json
import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from crabtalk.wire.pb import crabtalk_pb2 as pb
from daemons import running_daemon
from guest_images import image

DECLARED = {
    "zone": ["Europe/Berlin", "America/New_York"],
    "storage": "1MiB",
    "schedule": 20,
    "topics": ["reminders:*"],
}
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture
async def reminders(keeper):
    reminders = keeper("reminders")
    await reminders.declare(**DECLARED)
    return reminders


@pytest.mark.trio
async def test_every_weekday_at_eight_in_berlin(reminders):
    said = await reminders.done("remind", when="every weekday 08:00 Europe/Berlin", text="stand up")
    assert said.endswith(" 08:00 Europe/Berlin\n")
    days = []
    for _ in range(7):
        run = await reminders.next_wake()
        assert (run.outcome, run.tool, run.depth) == ("done", "on_wake", 0)
        event = await reminders.event("reminders:due")
        assert (event["text"], event["late"]) == ("stand up", False)
        days.append(datetime.fromtimestamp(event["due_ms"] / 1000, BERLIN))
    assert {day.strftime("%H:%M:%S") for day in days} == {"08:00:00"}
    assert [b.date() > a.date() for a, b in itertools.pairwise(days)] == [True] * 6
    assert {day.isoweekday() for day in days} == {1, 2, 3, 4, 5}
    assert len(await reminders.pending()) == 1


@pytest.mark.trio
async def test_a_reminder_of_once_a_minute_goes_on(reminders):
    """Longer than a chain of calls may be deep: each occurrence begins a chain of its own."""
    await reminders.done("remind", when="every minute", text="tick")
    due = []
    for _ in range(20):
        assert (await reminders.next_wake()).outcome == "done"
        due.append((await reminders.event("reminders:due"))["due_ms"])
    assert [b - a for a, b in itertools.pairwise(due)] == [60_000] * 19


@pytest.mark.trio
async def test_what_was_missed_comes_once_and_says_so(reminders):
    await reminders.done("remind", when="every day 12:00 UTC", text="lunch")
    await reminders.next_wake(late_ms=3 * 86_400_000)
    assert (await reminders.event("reminders:due"))["late"] is True
    await reminders.next_wake()
    assert (await reminders.event("reminders:due"))["late"] is False


@pytest.mark.trio
async def test_reminders_are_listed_and_cancelled(reminders):
    await reminders.done("remind", when="every weekday 08:00 Europe/Berlin", text="stand up")
    await reminders.done("remind", when="in 3 hours", text="tea")
    lines = (await reminders.done("list_reminders")).splitlines()
    assert sorted(line.split("  ")[2:] for line in lines) == [
        ["[every weekday 08:00 Europe/Berlin]", '"stand up"'],
        ["[in 3 hours]", '"tea"'],
    ]
    for line in lines:
        await reminders.done("cancel_reminder", id=line.split()[0])
    assert await reminders.done("list_reminders") == "no reminders\n"
    assert await reminders.pending() == []


@pytest.mark.trio
async def test_the_declaration_bounds_how_many_there_are(keeper):
    reminders = keeper("reminders")
    await reminders.declare(**{**DECLARED, "schedule": 2})
    for _ in range(2):
        await reminders.done("remind", when="in 3 hours", text="tea")
    outcome = await reminders.call("remind", when="in 3 hours", text="tea")
    assert "2" in outcome.failed
    assert len((await reminders.done("list_reminders")).splitlines()) == 2


@pytest.mark.trio
async def test_what_a_person_schedules_ends_no_recurrence(keeper):
    reminders = keeper("reminders")
    await reminders.declare(**{**DECLARED, "schedule": 1})
    await reminders.done("remind", when="every minute", text="tick")
    wake = pb.ScheduleWakeMsg(
        agent=reminders.agent,
        harness="reminders",
        at_ms=reminders.clock.now_ms() + 3_600_000,
        payload=b"junk",
    )
    await reminders.client.ask(schedule_wake=wake)
    for _ in range(3):
        assert (await reminders.next_wake()).outcome == "done"
        assert len(await reminders.pending()) == 2


@pytest.mark.trio
@pytest.mark.parametrize("missing", ["zone", "storage", "schedule"])
async def test_without_an_argument_a_tool_is_a_trap_that_names_what_is_missing(keeper, missing):
    reminders = keeper("reminders")
    await reminders.declare(**{key: value for key, value in DECLARED.items() if key != missing})
    outcome = await reminders.call("remind", when="in 3 hours", text="tea")
    names = {"zone": "berm.clock.", "storage": "berm.", "schedule": "crabtalk.wake."}
    assert names[missing] in outcome.trap.message


@pytest.mark.trio
async def test_a_topic_that_was_not_granted_keeps_the_reminder(keeper):
    reminders = keeper("reminders")
    await reminders.declare(**{**DECLARED, "topics": ["other:*"]})
    await reminders.done("remind", when="in 2 hours", text="tea")
    for _ in range(3):
        run = await reminders.next_wake()
        assert (run.outcome, run.message) == ("failed", "source is not granted: reminders:due")
    assert len(await reminders.pending()) == 1


# ---- the daemon as a process ----


def call(client, agent, tool, **args):
    outcome = client.call_tool(agent=agent, harness="reminders", tool=tool, args=json.dumps(args).encode())
    assert outcome.WhichOneof("outcome") == "done", outcome
    return outcome.done.decode()


def test_a_reminder_survives_a_pulled_plug():
    with running_daemon() as daemon:
        with daemon.client() as client:
            elf = image("reminders")
            client.put_harness(name="reminders", elf=elf, sha256=hashlib.sha256(elf).hexdigest())
            config = {"harnesses": [{"name": "reminders", **DECLARED}]}
            agent = client.create_agent(name="ann", config=json.dumps(config)).id
            call(client, agent, "remind", when="in 6 seconds UTC", text="still here")
            call(client, agent, "remind", when="every weekday 08:00 Europe/Berlin", text="stand up")
            listed = call(client, agent, "list_reminders")
        daemon.kill()
        daemon.start()
        with daemon.client() as client, client.tail_events(source="reminders:*") as events:
            assert call(client, agent, "list_reminders") == listed
            event = events.next_within(20)
            payload = json.loads(event.payload)
            assert (event.source, payload["text"]) == ("reminders:due", "still here")
            assert abs(payload["due_ms"] - time.time() * 1000) < 20_000
            left = call(client, agent, "list_reminders").splitlines()
            while len(left) > 1:  # the record goes after the event was published
                left = call(client, agent, "list_reminders").splitlines()
            assert "stand up" in left[0]
            eight = datetime.strptime(left[0].split("  ")[1][:16], "%Y-%m-%d %H:%M").replace(tzinfo=BERLIN)
            assert eight.hour == 8
            assert eight.astimezone(UTC) > datetime.now(UTC)
        assert daemon.stop() == 0
