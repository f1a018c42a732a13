"""harness/peers in the daemon: who is shown, under which name."""

import json

import pytest

from crabtalk.wire.pb import crabtalk_pb2 as pb

pytestmark = pytest.mark.trio


@pytest.fixture
async def peers(keeper):
    """Ann's view of bob; carol is there too."""
    peers = keeper("peers")
    peers.bob = await peers.client.declare("bob", description="Reviews.\n\nStrictly.")
    await peers.client.declare("carol")
    await peers.declare(peers=["bob"])
    return peers


async def test_those_that_were_declared_are_shown(peers):
    assert await peers.done("list_peers") == "bob: Reviews. …\n"
    assert await peers.done("describe_peer", name="bob") == "Reviews.\n\nStrictly.\n"
    outcome = await peers.call("describe_peer", name="carol")
    assert outcome.failed == "no agent `carol`; list_peers shows them"


async def test_a_peer_that_is_renamed_stays_visible_and_its_old_name_tells_nothing(peers):
    await peers.client.ask(rename_agent=pb.RenameAgentMsg(agent=peers.bob, new_name="robert"))
    await peers.client.declare("bob", description="An impostor.")
    assert await peers.done("list_peers") == "robert: Reviews. …\n"


async def test_a_peer_that_is_deleted_is_gone(peers):
    await peers.client.ask(delete_agent=pb.DeleteAgentMsg(agent=peers.bob))
    assert await peers.done("list_peers") == "no other agents\n"


async def test_all_are_shown_where_all_were_declared(peers):
    config = {"harnesses": [{"name": "peers", "peers": ["*"]}]}
    await peers.client.ask(update_agent=pb.UpdateAgentMsg(agent=peers.agent, config=json.dumps(config)))
    await peers.client.declare("dave")
    shown = (await peers.done("list_peers")).splitlines()
    assert {line.split(":")[0] for line in shown} >= {"bob", "carol", "dave"}
