"""Secrets of the configuration: they are in no reason that leaves the daemon, and in no row of its audit."""

import dataclasses

import pytest
import trio

from crabtalk.config import Config
from crabtalk.config_values import Secret
from crabtalk.known_secrets import KNOWN, KnownSecrets
from crabtalk.store.memory import MemoryEngine
from crabtalk.tools import Done, Failed, Trapped
from crabtalk.wire.pb import crabtalk_pb2 as pb
from daemon_client import Refused, serving
from guest_images import image_path

SECRET = "sk-very-secret"


@pytest.fixture
def secrets():
    known = KnownSecrets()
    known.learn("a", [Secret(SECRET)])
    return known


@pytest.mark.trio
async def test_no_reason_and_no_row_has_a_secret_and_a_result_is_left_as_it_is():
    config = Config(secrets={"api": Secret(SECRET)})
    async with serving(MemoryEngine(), config) as daemon:
        client = daemon.client
        await client.put("alarm", image_path("alarm"))
        agent = await client.declare("ann", "alarm")

        said = await client.call(agent, "alarm", "say", f'{{"text": "{SECRET}"}}')
        assert said.done == SECRET.encode()
        failed = await client.call(agent, "alarm", "refuse", f'{{"message": "no {SECRET} here"}}')
        assert failed.failed == "no [redacted] here"
        with pytest.raises(Refused) as refused:
            await client.call(agent, "alarm", SECRET)
        assert "`[redacted]`" in refused.value.message
        with pytest.raises(Refused) as unknown:
            await client.ask(get_agent=pb.GetAgentMsg(name=SECRET))
        assert (unknown.value.code, SECRET in unknown.value.message) == (404, False)

        listed = (await client.ask(list_invocations=pb.ListInvocationsMsg())).invocations
        messages = {row.outcome: row.message for row in listed}
        assert messages["failed"] == "no [redacted] here"
        assert "`[redacted]`" in messages["refused"]
        stored = daemon.runtime.store.scan("audit", b"", None, 100)
        assert not any(f'"no {SECRET}' in raw.decode() for _, raw in stored)
    assert not KNOWN


@pytest.mark.trio
async def test_the_reason_of_a_turn_that_failed_has_no_secret():
    config = Config(secrets={"api": Secret(SECRET)})
    async with serving(MemoryEngine(), config) as daemon:
        agent = await daemon.client.declare("ann", model="scripted")
        request = await daemon.client.send(
            stream=pb.StreamMsg(agent=agent, content="hello", session_handle="s", tool_choice=SECRET)
        )
        with trio.fail_after(5):
            while (event := await daemon.client.receive(request)).WhichOneof("event") != "end":
                pass
        assert "[redacted]" in event.end.error
        assert SECRET not in event.end.error


def test_what_a_guest_died_of_is_shown_without_secrets(secrets):
    died = Trapped("link", f"no {SECRET}", frames=(f"at {SECRET}",), host_calls=("berm.get", SECRET))
    shown = secrets.outcome(died)
    assert SECRET not in str(dataclasses.astuple(shown))
    assert (shown.message, shown.frames, shown.kind) == ("no [redacted]", ("at [redacted]",), "link")
    assert secrets.outcome(Failed(f"{SECRET}!", 7)) == Failed("[redacted]!", 7)
    done = Done(SECRET.encode())
    assert secrets.outcome(done) is done


def test_a_secret_is_known_within_json_too():
    known = KnownSecrets()
    known.learn("a", [Secret('pä"ss\\word')])
    assert known.text(r'{"path": "p\u00e4\"ss\\word"}') == '{"path": "[redacted]"}'
    assert known.text(r'{"path": "pä\"ss\\word"}') == '{"path": "[redacted]"}'


def test_an_old_secret_stays_one_until_its_owner_is_gone(secrets):
    secrets.learn("a", [Secret("another-one")])
    secrets.learn("b", [Secret("a-third")])
    assert secrets.text(f"{SECRET} another-one a-third") == "[redacted] [redacted] [redacted]"
    secrets.forget("a")
    assert secrets.text(f"{SECRET} a-third") == f"{SECRET} [redacted]"
    secrets.forget("b")
    assert not secrets
    assert secrets.text("a-third") == "a-third"
