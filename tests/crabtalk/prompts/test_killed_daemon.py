"""The plug is pulled right after an answer was acknowledged, and while a question waits."""

import contextlib
import json
import threading

from crabtalk.client.finding import ConnectionLost
from daemons import running_daemon
from declared_guests import guest, request, sha256_of

ELF = guest()
READ = request("berm.fs.read", "a.txt")


def test_an_approval_that_was_acknowledged_is_there(tmp_path):
    with running_daemon() as daemon:
        agent = declared(daemon, tmp_path)
        with calling(daemon, agent), daemon.client() as client, client.subscribe_prompts() as prompts:
            client.answer_prompt(id=next(prompts).id, allow=True, scope="always")
            daemon.kill()
        daemon.start()
        with daemon.client() as client:
            (approval,) = client.list_approvals().approvals
        assert (approval.agent, approval.scope) == (agent, "always")
        with calling(daemon, agent) as results:
            pass
        assert results == [b"oAAA"]


def test_a_question_that_waits_is_gone_with_the_daemon(tmp_path):
    with running_daemon() as daemon:
        agent = declared(daemon, tmp_path)
        with calling(daemon, agent) as results:
            with daemon.client() as client, client.subscribe_prompts() as prompts:
                assert next(prompts).capability == "berm.fs.read"
            daemon.kill()
        assert results == []
        daemon.start()
        with daemon.client() as client, client.subscribe_prompts() as prompts:
            assert prompts.next_within(0.3) is None
            assert not client.list_approvals().approvals


def declared(daemon, files):
    """Declare an agent whose guest may read `files` when somebody approves it: its id."""
    (files / "a.txt").write_text("AAA")
    probe = {"name": "probe", "files": {"path": str(files), "ask": True}}
    with daemon.client() as client:
        client.put_harness(name="probe", elf=ELF, sha256=sha256_of(ELF))
        return client.create_agent(name="ann", config=json.dumps({"harnesses": [probe]})).id


@contextlib.contextmanager
def calling(daemon, agent):
    """Call the tool beside the block; the list that it yields gets what came back, if anything did."""
    results = []

    def call():
        with contextlib.suppress(ConnectionLost), daemon.client() as client:
            outcome = client.call_tool(agent=agent, harness="probe", tool="ask", args=READ)
            results.append(outcome.done)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield results
    finally:
        thread.join(30)
        assert not thread.is_alive()
