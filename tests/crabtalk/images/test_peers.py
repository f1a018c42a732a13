"""`crabtalk.peers.list`: its form and bounds; who is seen is tested with agents."""

import json

import pytest

from berm.wire import pack_fields
from crabtalk.capabilities._failure import Failure
from crabtalk.capabilities.peers import MAX_DESCRIPTION, MAX_PEERS, peers


def listed(call, *visible):
    (capability,) = peers(lambda: iter(visible))
    return json.loads(capability.function(call, pack_fields([])))


def test_peers_are_listed_by_name(call):
    assert listed(call, ("b", "Bees."), ("a", "")) == [
        {"name": "a", "description": ""},
        {"name": "b", "description": "Bees."},
    ]
    assert listed(call) == []


def test_a_long_description_is_cut(call):
    (one,) = listed(call, ("a", "ü" * 5000))
    assert one["description"] == "ü" * (MAX_DESCRIPTION - 1) + "…"


def test_too_many_peers_are_an_error_that_says_so(call):
    many = [(f"a{number}", "") for number in range(MAX_PEERS + 1)]
    assert len(listed(call, *many[1:])) == MAX_PEERS
    with pytest.raises(Failure, match="there are more than 1000 agents"):
        listed(call, *many)
