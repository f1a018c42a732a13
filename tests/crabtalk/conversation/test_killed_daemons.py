"""A daemon of its own, killed whenever, and what can be said in its sessions afterwards."""

import contextlib
import json
import random
import threading
import time

import pytest

from daemons import running_daemon

SCRIPT = {
    "turns": [
        {"expect": {"step": 0}, "delay": "2ms", "text": "Let me see what I know.", "calls": [
            {"name": "recall", "arguments": {"query": "lamps"}},
            {"name": "remember", "arguments": {"name": "lamp", "content": "lamps are lit at dusk"}},
        ]},
        {"delay": "2ms", "text": "It is said that lamps are lit at dusk."},
    ]
}  # fmt: skip


CONFIG = """
[models.script]
provider = "scripted"
script = "script.json"
"""


@pytest.mark.parametrize("seed", range(1))
def test_sessions_survive_a_daemon_that_is_killed_at_any_moment(seed):
    draw = random.Random(seed)
    with running_daemon(CONFIG) as daemon:
        (daemon.home.root / "script.json").write_text(json.dumps(SCRIPT))
        declared = {"harnesses": [{"name": "memory", "builtin": "memory"}]}
        with daemon.client() as client:
            agent = client.create_agent(name="ann", config=json.dumps(declared)).id
        for life in range(3):
            talking = threading.Thread(target=talk_on, args=(daemon, agent))
            talking.start()
            time.sleep(draw.uniform(0.05, 0.3))
            daemon.kill()
            talking.join(10)
            daemon.start()
            with daemon.client() as client:
                reply = client.send(agent=agent, content=f"life {life}", session_handle="s")
                assert "dusk" in reply.content
                told = client.get_conversation_history(file_path="s").messages
        assert {one.role for one in told} == {"user", "assistant", "tool"}
        assert len(told) > 12


def talk_on(daemon, agent):
    """Talk until the daemon is gone."""
    with contextlib.suppress(Exception), daemon.client() as client:
        while True:
            client.send(agent=agent, content="and now?", session_handle="s")


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
