"""One story from its beginning to its end, with a daemon of its own, real harnesses and a script for a model.

Somebody asks ann to correct a page. She reads and edits it, has it reviewed by bob and carol, and sets two
reminders. The first comes when nobody is connected any more, and reaches dora, who reads the page again.
Then the machine is off for two days, so that the second one comes late. What the audit and the search say
of it is compared with what happened.
"""

import hashlib
import json
import sys
import time
from collections import Counter

import pytest

from crabtalk.store.interfaces.audit import Audit
from crabtalk.store.opening import open_store
from daemons import running_daemon
from guest_images import image

CONFIG = """
[models.script]
provider = "scripted"
script = "script.json"
"""
ASKED = "Please correct the spelling of the page about the harbour."
PAGE = "# Harbour\n\nFerries leave at seveen.\nOttoline keeps the light.\n"
READ = {"name": "read", "arguments": {"path": "page.md"}}


def answer(who, step, text="", *calls, **expect):
    return {"expect": {"system": who, "step": step, **expect}, "text": text, "calls": list(calls)}


def call(name, **arguments):
    return {"name": name, "arguments": arguments}


SCRIPT = [
    answer("You write.", 0, "I open it.", READ),
    answer("You write.", 1, "", call("edit", path="page.md", old="seveen", new="seven"), result="seveen"),
    answer(
        "You write.",
        2,
        "",
        call("delegate", agent="bob", task="Is it true?"),
        call("delegate", agent="carol", task="Is it elegant?"),
    ),
    answer(
        "You write.",
        3,
        "",
        call("remind", when="in 3 seconds", text="second look"),
        call("remind", when="in 1 day", text="third look"),
        result="wording",  # what carol said
    ),
    answer("You write.", 4, "Corrected, reviewed, and somebody comes back to it."),
    answer("You review facts.", 0, "", READ),
    answer("You review facts.", 1, "The timetable agrees.", result="leave at seven."),
    answer("You review style.", 0, "", READ),
    answer("You review style.", 1, "Fine wording.", result="leave at seven."),
    answer("You proofread.", 0, "", READ),
    answer(
        "You proofread.",
        1,
        "",
        call("write", path="{1}.txt", content="{result}"),
        matches=r"reminders:due.*text\W+(\w+) look",
    ),
    answer("You proofread.", 2, "No complaint."),
]

AFTER_TWO_DAYS = """
import sys
from crabtalk.clock import SystemClock
now_ms = SystemClock.now_ms
SystemClock.now_ms = lambda self: now_ms(self) + 2 * 86_400_000
from crabtalk.daemon import main
sys.exit(main(sys.argv[-2:]))
"""


@pytest.fixture
def pages(tmp_path):
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "page.md").write_text(PAGE)
    return folder


@pytest.fixture
def daemon():
    with running_daemon(CONFIG) as daemon:
        (daemon.home.root / "script.json").write_text(json.dumps({"turns": SCRIPT}))
        yield daemon


def declare(client, pages):
    """Make the four agents, subscribe the last one, and return their names by id."""
    for name in ("os", "delegate", "reminders"):
        elf = image(name)
        client.put_harness(name=name, elf=elf, sha256=hashlib.sha256(elf).hexdigest())
    files = {"name": "os", "files": str(pages)}
    reminders = {"name": "reminders", "zone": "UTC", "storage": "1MiB", "schedule": 9}
    made = {
        "bob": ("You review facts.", files),
        "carol": ("You review style.", files),
        "dora": ("You proofread.", files),
        "ann": (
            "You write.",
            files,
            {"name": "delegate", "send": ["bob", "carol"]},
            {**reminders, "topics": ["reminders:*"]},
        ),
    }
    ids = {}
    for name, (description, *harnesses) in made.items():
        config = json.dumps({"description": description, "harnesses": harnesses})
        ids[name] = client.create_agent(name=name, config=config).id
    client.subscribe_event(source="reminders:due", target_agent=ids["dora"])
    return {agent: name for name, agent in ids.items()}


def until(true, timeout_s=20):
    ends = time.monotonic() + timeout_s
    while not (found := true()):
        assert time.monotonic() < ends, "waited in vain"
        time.sleep(0.02)
    return found


def turns_of_events(client):
    return [row for row in client.list_invocations(limit=100).invocations if row.trigger == "event"]


def test_a_story_is_told_by_the_audit_and_the_search(daemon, pages):
    with daemon.client() as client:
        names = declare(client, pages)
        ann = next(agent for agent, name in names.items() if name == "ann")
        reply = client.send(agent=ann, content=ASKED, session_handle="story", sender="reader")
        assert reply.content == "Corrected, reviewed, and somebody comes back to it."
        assert (pages / "page.md").read_text() == PAGE.replace("seveen", "seven")
    left_ms = time.time() * 1000

    until((pages / "second.txt").exists)  # nobody is connected
    with daemon.client() as client:
        until(lambda: turns_of_events(client))
        chain = check_rows(client, names, left_ms)
        check_search(client, names)
        check_sessions(client, chain)
    assert daemon.stop() == 0

    daemon.prefix = (sys.executable, "-W", "error", "-c", AFTER_TWO_DAYS)
    daemon.start()
    until((pages / "third.txt").exists)
    with daemon.client() as client:
        until(lambda: len(turns_of_events(client)) == 2)
    assert daemon.stop() == 0
    check_what_came_late(daemon.home, chain)


def check_rows(client, names, left_ms):
    """Compare the rows of the first day with what happened; return the chain that all of it belongs to."""
    rows = client.list_invocations(limit=100).invocations
    found = Counter((names[row.agent], row.trigger, row.harness, row.tool, row.depth) for row in rows)
    assert found == {
        ("ann", "client", "", "turn", 0): 1,
        ("ann", "tool", "os", "read", 0): 1,
        ("ann", "tool", "os", "edit", 0): 1,
        ("ann", "tool", "delegate", "delegate", 0): 2,
        ("bob", "call", "", "turn", 1): 1,
        ("bob", "tool", "os", "read", 1): 1,
        ("carol", "call", "", "turn", 1): 1,
        ("carol", "tool", "os", "read", 1): 1,
        ("ann", "tool", "reminders", "remind", 0): 2,
        ("ann", "wake", "reminders", "on_wake", 1): 1,
        ("dora", "event", "", "turn", 2): 1,
        ("dora", "tool", "os", "read", 2): 1,
        ("dora", "tool", "os", "write", 2): 1,
    }
    assert {(row.outcome, row.message) for row in rows} == {("done", "")}
    assert all((row.instructions > 0 and len(row.digest) == 64) == (row.tool != "turn") for row in rows)
    assert {(row.trigger, row.depth) for row in rows if row.started_ms > left_ms} == {
        ("wake", 1),
        ("event", 2),
        ("tool", 2),
    }
    (chain,) = {row.chain for row in rows}
    return chain


def check_search(client, names):
    """What was said is found, and what tools are called; neither what they were given nor what they said."""

    def found(query, **options):
        hits = client.search_sessions(query=query, **options).hits
        return sorted((hit.session_handle.partition(":")[0], hit.agent_name, hit.msg_idx) for hit in hits)

    assert found("spelling harbour") == [("story", "ann", 0)]
    assert found("corrected") == [("story", "ann", 11)]
    assert found("elegant") == [("send", "carol", 0)]  # the argument of ann's call is what was said to carol
    assert found("timetable") == [("send", "bob", 3)]
    assert found("complaint") == [("event", "dora", 5)]
    assert found("second look") == [("event", "dora", 0)]
    assert found("delegate") == [("story", "ann", 5)]
    assert found("write") == [("event", "dora", 3)]
    assert found("read") == [
        ("event", "dora", 1),
        ("send", "bob", 1),
        ("send", "carol", 1),
        ("story", "ann", 1),
    ]
    assert found("seveen") == found("Ottoline") == found("third") == []
    (hit,) = client.search_sessions(query="delegate", context_before=0, context_after=2).hits
    assert [(item.role, item.tool_name) for item in hit.window[1:]] == [("tool", "delegate")] * 2
    assert hit.sender == "reader"
    for agent, name in names.items():
        assert {where[1] for where in found("read", agent=agent)} == {name}


def check_sessions(client, chain):
    """Every turn has a session of its own, which says who spoke."""
    told = client.list_conversations().conversations
    (ann,) = [one.agent_id for one in told if one.agent_name == "ann"]
    senders = sorted((one.agent_name, one.sender) for one in told)
    assert senders == [
        ("ann", "reader"),
        ("bob", f"agent:{ann}"),
        ("carol", f"agent:{ann}"),
        ("dora", "event:reminders:due"),
    ]
    assert {one.file_path.rpartition(":")[0] for one in told if one.sender.startswith("agent")} == {
        f"send:{chain}"
    }


def check_what_came_late(home, chain):
    """The second reminder began a chain of its own, and knows where it came from."""
    with open_store(home.store_file, create=False, read_only=True) as store:
        rows = sorted(Audit(store).since(0, 1000), key=lambda row: row.id)
    first, late = [row for row in rows if row.chain == chain], [row for row in rows if row.chain != chain]
    assert (len(first), {row.parent_chain for row in first}) == (15, {None})
    wake, turn, *tools = late
    assert (wake.trigger, wake.reason, wake.depth, wake.outcome) == ("wake", "late", 0, "done")
    assert wake.started_ms > wake.scheduled_at_ms + 86_000_000
    assert (turn.trigger, turn.agent_name, turn.depth, turn.outcome) == ("event", "dora", 1, "done")
    assert [(row.tool, row.client) for row in tools] == [
        (tool, f"event:{turn.subject}") for tool in ("read", "write")
    ]
    assert {row.chain for row in late} == {wake.id}
    assert {row.parent_chain for row in late} == {chain}
