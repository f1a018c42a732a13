"""Numbers of host calls: the hash, the names that are known, and what is said of those that are not bound."""

import re
from pathlib import Path

import pytest

from berm import fnv


@pytest.mark.parametrize(
    ("name", "number"),
    [  # test vectors of the FNV reference code, and names whose numbers images in the field hold
        ("", 0xCBF29CE484222325),
        ("a", 0xAF63DC4C8601EC8C),
        ("foobar", 0x85944171F73967E8),
    ],
)
def test_hash_is_fnv_1a_64(name, number):
    assert fnv.call_number(name) == number


def test_hash_is_over_utf8():
    assert fnv.call_number("é") == fnv._hash("é") != fnv.call_number("e")


def test_every_known_name_has_its_own_number():
    assert (
        len({fnv.call_number(name) for name in fnv.KNOWN_NAMES})
        == len(fnv.KNOWN_NAMES)
        == len(set(fnv.KNOWN_NAMES))
    )


def test_known_numbers_lead_back_to_their_names():
    assert [fnv.call_name(fnv.call_number(name)) for name in fnv.KNOWN_NAMES] == list(fnv.KNOWN_NAMES)
    assert fnv.call_name(fnv.call_number("berm.nothing")) is None


def test_list_of_names_is_that_of_the_documented_abi():
    """docs/abi.md and docs/capabilities.md, where they name a call, name one of these."""
    docs = Path(__file__).parents[2] / "docs"
    text = "".join(page.read_text() for page in (docs / "abi.md", docs / "capabilities.md") if page.exists())
    named = {name for name in re.findall(r"`((?:berm|crabtalk)(?:\.[a-z]+)+)`", text) if "aio" not in name}
    assert named - set(fnv.KNOWN_NAMES) == set()
    assert set(fnv.ALWAYS_PRESENT) <= named


def test_retired_name_comes_with_its_replacements():
    assert fnv.advice("crabtalk.protocol.call").startswith("retired, use berm.call, crabtalk.agent.send")
    assert fnv.advice("berm.get") == ""
