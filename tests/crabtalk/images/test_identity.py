"""Digests of images: equal where the same was bound, different where it was not."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from crabtalk.declarations import HarnessDeclaration, Rate, RootArgument
from crabtalk.identity import arguments, canonical_json, image_digest

PLAIN = HarnessDeclaration(name="os", sha256="ab" * 32)

# For each key that is part of an image: two values that bind different things.
BINDING = {
    "sha256": ("ab" * 32, "cd" * 32),
    "files": ("/usr", "/etc"),
    "root": (RootArgument("/usr"), RootArgument("/usr", per_session=True)),
    "hosts": (("a.org",), ("b.org",)),
    "zone": (("UTC", "Europe/Berlin"), ("Europe/Berlin", "UTC")),
    "storage": (1000, 2000),
    "calls": (("a",), ("b",)),
    "schedule": (1, 2),
    "topics": (("a:*",), ("a",)),
    "peers": (("*",), ("01ARZ3NDEKTSV4RRFFQ69G5FAV",)),
    "send": (("a", "b"), ("a",)),
    "sessions": ("own", ""),
    "skills": (("*",), ("review",)),
    "memory": (64 << 20, 128 << 20),
    "ask": (("root",), ()),
}
DECLARATIONS = Path(__file__).parents[3] / "docs" / "declarations.md"
# For each key that is no part: another value.
OTHER = {
    "name": "another",
    "builtin": "memory",  # there is no image then
    "source": "somewhere",
    "deadline": 1.0,
    "fuel": 1,
    "rate": Rate(1, 1.0),
    "concurrency": 1,
    "prefix": "p",
}
OWNED = {"storage", "calls", "schedule", "topics", "peers", "send", "sessions", "skills"}


def test_every_key_is_a_part_of_an_image_or_not():
    assert {one.name for one in fields(HarnessDeclaration)} == {*BINDING, *OTHER}


@pytest.mark.parametrize("key", BINDING)
def test_what_is_bound_is_part_of_the_digest(key):
    first, second = (replace(PLAIN, **{key: value}) for value in BINDING[key])
    assert image_digest(first, "A") == image_digest(replace(first), "A")
    assert image_digest(first, "A") != image_digest(second, "A")


@pytest.mark.parametrize("key", OTHER)
def test_what_is_not_bound_is_no_part(key):
    assert image_digest(replace(PLAIN, **{key: OTHER[key]}), "A") == image_digest(PLAIN, "A")


@pytest.mark.parametrize("key", BINDING)
def test_agents_share_an_image_unless_something_is_theirs(key):
    one = replace(PLAIN, **{key: BINDING[key][0]})
    assert (image_digest(one, "A") == image_digest(one, "B")) == (key not in OWNED)
    named = replace(one, name="another")
    assert (image_digest(one, "A") == image_digest(named, "A")) == (key not in OWNED)


def test_the_order_of_lists_says_nothing_but_in_zones():
    one = replace(PLAIN, hosts=("a.org", "b.org"), topics=("x", "y"))
    other = replace(PLAIN, hosts=("b.org", "a.org"), topics=("y", "x"))
    assert image_digest(one, "A") == image_digest(other, "A")


def test_a_root_is_its_real_path(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    digests = {
        image_digest(replace(PLAIN, **{key: kind(str(tmp_path / name))}), "A")
        for key, kind in (("root", RootArgument),)
        for name in ("real", "link", "link/../real", "./real")
    }
    assert len(digests) == 1


def test_a_session_root_counts_only_where_it_is_used():
    per_session = replace(PLAIN, root=RootArgument("/usr", per_session=True))
    calling = replace(PLAIN, calls=("a",))
    for one, used in (
        (per_session, True),
        (calling, True),
        (replace(PLAIN, root=RootArgument("/usr")), False),
    ):
        assert (image_digest(one, "A", "lib") != image_digest(one, "A", "bin")) == used
        assert (image_digest(one, "A", "lib") != image_digest(one, "A")) == used


def test_the_digest_is_the_one_that_is_documented():
    one = replace(PLAIN, hosts=("b.org", "a.org"), storage=1000)
    text = (
        '{"abi":0,"agent":"A","arguments":{"hosts":["a.org","b.org"],"storage":1000},"harness":"os",'
        f'"memory":67108864,"sha256":"{"ab" * 32}"}}'
    )
    assert arguments(one) == {"hosts": ["a.org", "b.org"], "storage": 1000}
    import hashlib

    assert image_digest(one, "A") == hashlib.sha256(text.encode()).hexdigest()


def test_canonical_json_is_one_text():
    assert canonical_json({"b": [1, 2], "a": "ü"}) == '{"a":"ü","b":[1,2]}'.encode()


def test_the_documentation_says_what_an_identity_is_made_of():
    text = DECLARATIONS.read_text().partition("## Identity")[2]
    bound = set(BINDING) - {"sha256", "memory"}
    assert {key for key in bound if f'"{key}": ' not in text} == set()
    owned = text.partition("`agent` and `harness` are in it where")[2]
    assert {key for key in OWNED if f"`{key}`" not in owned.partition(";")[0]} == set()
