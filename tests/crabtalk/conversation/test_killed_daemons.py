"""A daemon of its own, killed in each window of a turn, and what can be said in its sessions afterwards.

Each call of a tool writes a line of its own into a file, so that what ran can be compared with the history: a
call that was answered ran once; one that was interrupted says so and ran once at most; no other ran.
"""

import contextlib
import hashlib
import json
import random
import re
import threading
import time
from collections import Counter

import pytest

from crabtalk.conversation.history import INTERRUPTED
from daemons import running_daemon
from guest_images import image

RUN = "echo {1}/%s | tee -a ran; while [ -e hold ]; do sleep 0.01; done"
COUNTED = "It is counted."


def run(letter):
    return {"name": "bash", "arguments": {"command": RUN % letter}}


def asked(step):
    return {"matches": r"count ([\w.]+)", "step": step}


SCRIPT = {
    "turns": [
        {"expect": asked(0), "delay": "2ms", "text": "I run {1}/a and {1}/b", "calls": [run("a"), run("b")]},
        {"expect": asked(1), "delay": "2ms", "text": "I run {1}/c", "calls": [run("c")]},
        {"delay": "2ms", "text": COUNTED},
    ]
}


CONFIG = """
[models.script]
provider = "scripted"
script = "script.json"
"""


class Life:
    """Turns of a client, one after the other, and one of a wake, until the daemon is gone."""

    def __init__(self, daemon, agent, name):
        self.name = name
        self.told = threading.Condition()
        self.events = []  # of all turns of the client
        self.answered = set()  # calls whose result it was told
        with daemon.client() as client:
            client.schedule_wake(agent=agent, at_ms=0, payload=f"count {name}.w".encode())
        self.thread = threading.Thread(target=self._talk, args=(daemon, agent))
        self.thread.start()

    def _talk(self, daemon, agent):
        with contextlib.suppress(Exception), daemon.client() as client:
            for number in range(1000):
                for event in client.stream(
                    agent=agent, content=f"count {self.name}.{number}", session_handle="s"
                ):
                    self._note(event)

    def _note(self, event):
        with self.told:
            self.events.append(event.WhichOneof("event"))
            if self.events[-1] == "tool_result":
                self.answered.add(event.tool_result.output.strip())
            self.told.notify_all()

    def until_told(self, kind, times):
        with self.told:
            assert self.told.wait_for(lambda: self.events.count(kind) >= times, 10)


class World:
    """A daemon, its agent, and what its tools did."""

    def __init__(self, daemon, root, draw):
        self.daemon, self.draw = daemon, draw
        self.hold, self.ran = root / "hold", root / "ran"
        self.ran.touch()
        self.told = set()  # calls whose result a client heard
        elf = image("os")
        declared = {"harnesses": [{"name": "os", "root": str(root)}]}
        with daemon.client() as client:
            client.put_harness(name="os", elf=elf, sha256=hashlib.sha256(elf).hexdigest())
            self.agent = client.create_agent(name="ann", config=json.dumps(declared)).id

    def lines(self):
        return self.ran.read_text().split()

    def until(self, test):
        ends = time.monotonic() + 15
        while not test():
            assert time.monotonic() < ends
            time.sleep(0.002)

    def live(self, name, window):
        """Let a daemon live until a window opens, and start the next."""
        if window == "ran":
            self.hold.touch()
        life = Life(self.daemon, self.agent, name)
        if window == "ran":
            self.until(lambda: {f"{name}.0/a", f"{name}.w/a"} <= set(self.lines()))
        elif window == "any":
            time.sleep(self.draw.uniform(0, 0.3))
        else:
            life.until_told(window, self.draw.randrange(1, 6))
            time.sleep(self.draw.choice([0, 0, 0.002, 0.005]))
        self.daemon.kill()
        life.thread.join(10)
        self.told |= life.answered
        self.hold.unlink(missing_ok=True)
        self.daemon.start()

    def check(self, client):
        """Compare what ran with the history of each session, and return the calls that were interrupted."""
        self.until(lambda: not client.list_wakes(agent=self.agent).wakes)
        calls = {}  # -> whether it was answered
        for session in client.list_conversations(agent=self.agent).conversations:
            messages = [(one.role, one.content) for one in self.history(client, session.file_path)]
            calls |= results_of(messages)
            if session.file_path.startswith("wake:"):
                assert messages[-1] == ("assistant", COUNTED)
        ran = Counter(self.lines())
        assert {call: ran[call] for call, answered in calls.items() if answered and ran[call] != 1} == {}
        assert {call: times for call, times in ran.items() if times > 1 or call not in calls} == {}
        assert {call for call in self.told if not calls.get(call)} == set()
        return {call for call, answered in calls.items() if not answered}

    def history(self, client, handle):
        return client.get_conversation_history(file_path=handle).messages


def results_of(messages):
    """Return the calls of a history, each with whether it was answered and does not say `interrupted`."""
    found, waiting = {}, []
    for role, content in messages:
        if role != "tool":
            assert waiting == []
            waiting = re.findall(r"\S+/\w", content) if role == "assistant" else []
            continue
        call = waiting.pop(0)
        assert call not in found
        assert content in (f"{call}\n", INTERRUPTED)
        found[call] = content != INTERRUPTED
    assert waiting == []
    return found


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(number, marks=pytest.mark.soak) for number in range(1, 20))]
)
def test_no_tool_runs_twice_or_unseen_however_often_a_daemon_is_killed(seed, tmp_path):
    draw = random.Random(seed)
    windows = ["ran", "tool_start", "tool_result", *(["any"] if seed else [])]
    draw.shuffle(windows)
    with running_daemon(CONFIG) as daemon:
        (daemon.home.root / "script.json").write_text(json.dumps(SCRIPT))
        world = World(daemon, tmp_path, draw)
        interrupted = set()
        for number, window in enumerate(windows):
            world.live(f"{number}", window)
            with daemon.client() as client:
                before = interrupted
                interrupted = world.check(client)
                assert before <= interrupted
                if window == "ran":
                    assert {f"{number}.0/a", f"{number}.w/a"} <= interrupted & set(world.lines())
                told = world.history(client, "s")
                reply = client.send(agent=world.agent, content=f"count {number}.then", session_handle="s")
                assert reply.content == COUNTED
                assert world.history(client, "s")[: len(told)] == told
                assert world.check(client) == interrupted
        lives = range(len(windows))
        assert {f"{life}.then/{letter}" for life in lives for letter in "abc"} <= set(world.lines())


def test_a_stop_ends_turns_and_says_so():
    slow = {"turns": [{"text": "I take my time and more of it.", "delay": "500ms"}]}
    with running_daemon(f'shutdown.drain = "0s"\n{CONFIG}') as daemon, daemon.client() as client:
        (daemon.home.root / "script.json").write_text(json.dumps(slow))
        agent = client.create_agent(name="ann").id
        events = iter(client.stream(agent=agent, content="hello", session_handle="s"))
        said = [next(events).WhichOneof("event") for _ in range(3)]
        assert said == ["start", "text_start", "chunk"]
        daemon.process.terminate()
        rest = list(events)
        assert [one.WhichOneof("event") for one in rest[-2:]] == ["text_end", "end"]
        assert rest[-1].end.error == "the daemon is stopping"
        assert daemon.wait() == 0
