"""Declarations: every key is checked, and what is wrong is said with its place."""

import json

import jsonschema
import pytest

from crabtalk import declared_servers
from crabtalk.asked_values import INNER_KEYS as ARGUMENTS
from crabtalk.binding import REGISTERS
from crabtalk.declarations import (
    AGENT_KEYS,
    HARNESS_KEYS,
    AgentConfig,
    Rate,
    RootArgument,
    check_agent_name,
    check_harness_name,
    from_json,
    parse_config,
    schema,
)
from crabtalk.errors import BadRequest
from guest_images import ROOT

FULL = {
    "description": "You help.\nAlways.",
    "model": "some-model",
    "max_iterations": 4,
    "tool_choice": "auto",
    "thinking": True,
    "max_tokens": 1000,
    "thinking_budget": 0,
    "skills": ["writing"],
    "mcps": [
        {"name": "git", "command": "git-mcp", "args": ["-x"], "env": {"TOKEN": "t"}, "auto_restart": True},
        {"name": "web", "url": "https://mcp.x.org", "auth": "secret"},
    ],
    "compact_tool_max_len": 0,
    "harnesses": [
        {
            "name": "everything",
            "sha256": "AB" * 32,
            "source": "github:somebody/something@v2.1.0",
            "root": {"session": "/srv/code"},
            "hosts": ["api.x.org", "*.y.org:8443", "http://127.0.0.1:8080"],
            "zone": ["Europe/Berlin", "UTC"],
            "storage": "16MiB",
            "calls": ["other"],
            "schedule": 64,
            "topics": ["build:*", "wake:missed"],
            "peers": ["*"],
            "send": ["reviewer"],
            "sessions": "own",
            "skills": ["code-review", "*"],
            "deadline": 1.5,
            "fuel": 2e10,
            "memory": "128MiB",
            "rate": "60/min",
            "concurrency": 3,
            "prefix": "r",
        },
        {"name": "other", "files": "/home/me/notes", "zone": "local", "storage": 65536},
        {"name": "memory", "builtin": "memory", "prefix": "m", "rate": "5/s"},
    ],
}

ENFORCED_FOR_ALL = {"deadline", "rate", "concurrency", "prefix"}


def one(**keys):
    return parse_config({"harnesses": [{"name": "os", **keys}]}).harnesses[0]


def refusal(config):
    with pytest.raises(BadRequest) as caught:
        parse_config(config)
    return caught.value.message


def refusal_of(**keys):
    return refusal({"harnesses": [{"name": "os", **keys}]})


def test_every_key_of_an_agent_is_read():
    config = parse_config(FULL)
    assert set(FULL) == set(AGENT_KEYS)
    assert (config.description, config.model) == ("You help.\nAlways.", "some-model")
    assert (config.max_iterations, config.max_tokens, config.compact_tool_max_len) == (4, 1000, 0)
    assert (config.tool_choice, config.thinking, config.thinking_budget) == ("auto", True, 0)
    assert config.skills == ("writing",)
    assert [server["name"] for server in config.mcps] == ["git", "web"]
    assert [harness.name for harness in config.harnesses] == ["everything", "other", "memory"]


def test_every_key_of_a_harness_is_read():
    everything, other, built_in = parse_config(FULL).harnesses
    assert {key for harness in FULL["harnesses"] for key in harness} == set(HARNESS_KEYS)
    assert everything.sha256 == "ab" * 32
    assert everything.source == "github:somebody/something@v2.1.0"
    assert everything.root == RootArgument("/srv/code", per_session=True)
    assert everything.hosts == ("api.x.org", "*.y.org:8443", "http://127.0.0.1:8080")
    assert everything.zone == ("Europe/Berlin", "UTC")
    assert (everything.storage, other.storage) == (16 << 20, 65536)
    assert (everything.calls, everything.topics) == (("other",), ("build:*", "wake:missed"))
    assert (everything.schedule, everything.peers) == (64, ("*",))
    assert (everything.deadline, everything.fuel, everything.memory) == (1.5, 20_000_000_000, 128 << 20)
    assert (everything.rate, everything.concurrency, everything.prefix) == (Rate(60, 60.0), 3, "r")
    assert (everything.sessions, everything.skills) == ("own", ("code-review", "*"))
    assert (other.files, other.zone) == ("/home/me/notes", ("local",))
    assert (built_in.builtin, built_in.prefix, built_in.rate) == ("memory", "m", Rate(5, 1.0))


def test_defaults():
    assert parse_config({}) == AgentConfig()
    assert (AgentConfig().max_iterations, AgentConfig().compact_tool_max_len) == (16, 1024)
    harness = one()
    assert (harness.deadline, harness.fuel, harness.memory) == (60.0, 20_000_000_000, 64 << 20)
    assert (harness.rate, harness.storage, harness.files, harness.root) == (None, None, None, None)


def test_a_root_can_be_written_in_three_ways():
    assert one(root="/p").root == one(root={"path": "/p"}).root == RootArgument("/p")
    assert one(root={"session": "/p"}).root == RootArgument("/p", per_session=True)


def test_an_unknown_key_names_the_nearest_one_and_its_place():
    assert refusal_of(fiels="/p") == "unknown key; did you mean `files`? - at `harnesses[0].fiels`"
    assert refusal({"modle": "m"}) == "unknown key; did you mean `model`? - at `modle`"
    assert refusal({"zzz\n": 1}) == "unknown key - at `zzz\\n`"
    place = refusal({"mcps": [{"name": "a", "url": "u", "evn": {}}]})
    assert place == "unknown key; did you mean `env`? - at `mcps[0].evn`"
    assert refusal_of(root={"paht": "/p"}).endswith("did you mean `path`? - at `harnesses[0].root.paht`")


WRONG = {
    "builtin": ["", "Memory", "a/b", 1, ["memory"]],
    "send": ["reviewer", [], ["*"], ["a b"], [1]],
    "sessions": ["", "all", ["own"], True],
    "skills": [[], "*", ["A"], ["a--b"], ["-a"], ["a", "a"], ["a" * 65], [1]],
    "name": ["", "Os", "a/b", "../x", "-x", "a" * 64, 1, None],
    "sha256": ["", "ab", "g" * 64, 1],
    "source": [1, "a\nb", "x" * 1025],
    "files": ["", "notes", "~/notes", "./x", "/a\0b", 1, ["/p"], "/" + "x" * 5000],
    "root": ["", "code", {}, {"session": "code"}, {"path": "/a", "session": "/b"}, [], 1],
    "hosts": [
        [],
        "api.x.org",
        ["ftp://x.org"],
        ["a b"],
        ["x.org", "x.org"],
        [1],
        ["2130706433"],
        ["x.org/y"],
    ],
    "zone": ["", "Mars/Base", "europe/berlin", [], ["UTC", "Mars/Base"], "../UTC", 1],
    "storage": [0, -1, "16 parsec", "1.5", True, None, "2TB0"],
    "calls": [[], "search", ["nobody"], [1]],
    "schedule": [0, -1, 1.5, "64", True, 100_001],
    "topics": [[], ["*"], ["a:*:b"], ["Build:done"], ["a b"], ["a:"], "build:*"],
    "peers": [[], "*", ["a b"], [1], ["*", "*"]],
    "deadline": [0, -1, 3601, "60", True, float("inf"), float("nan")],
    "fuel": [0, 1.5, "1e9", 10**16, True, float("inf"), float("nan")],
    "memory": [0, 1000, "63MiB", "8GiB", "64KiB", True],
    "rate": ["60", "0/min", "60/parsec", 60, "-1/s", "60/"],
    "concurrency": [0, 1025, "8", 1.5],
    "prefix": ["", "a__b", "a.b", "_a", "a_", "a b", 1],
}


def test_every_key_of_a_harness_has_wrong_values_in_the_table():
    assert set(WRONG) == set(HARNESS_KEYS)


@pytest.mark.parametrize(("key", "value"), [(key, value) for key in WRONG for value in WRONG[key]])
def test_a_wrong_value_is_refused_with_its_place(key, value):
    assert f" - at `harnesses[0].{key}" in refusal({"harnesses": [{"name": "os", key: value}]})


WRONG_OF_AGENT = {
    "description": [1, None, "x" * ((256 << 10) + 1)],
    "model": [1, "a\nb"],
    "max_iterations": [0, "16", 1001],
    "tool_choice": [1],
    "thinking": [1, "yes"],
    "max_tokens": [0, "1"],
    "thinking_budget": [-1],
    "skills": ["all", [1], ["a", "a"]],
    "mcps": [
        {},
        [{}],
        [{"name": "a"}],
        [{"name": "a", "url": "u", "command": "c"}],
        [{"name": "a", "url": "u"}, {"name": "a", "url": "v"}],
        [{"name": "a", "url": "u", "env": {"A": 1}}],
        [{"name": "a.b", "url": "u"}],
    ],
    "harnesses": [{}, [1], [{}], [{"name": "a"}, {"name": "a"}], [{"name": f"h{n}"} for n in range(65)]],
    "compact_tool_max_len": [-1, "x"],
}


def test_every_key_of_an_agent_has_wrong_values_in_the_table():
    assert set(WRONG_OF_AGENT) == set(AGENT_KEYS)


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key in WRONG_OF_AGENT for value in WRONG_OF_AGENT[key]]
)
def test_a_wrong_value_of_an_agent_is_refused_with_its_place(key, value):
    assert f" - at `{key}" in refusal({key: value})


@pytest.mark.parametrize("config", [None, [], "x", 1])
def test_a_configuration_is_a_table(config):
    assert refusal(config).startswith("expected a table, got ")


@pytest.mark.parametrize(
    ("key", "table", "value"),
    [
        ("root", {"path": "/p"}, RootArgument("/p")),
        ("root", {"session": "/p"}, RootArgument("/p", per_session=True)),
        ("files", {"path": "/p"}, "/p"),
        ("hosts", {"value": ["x.org"]}, ("x.org",)),
        ("zone", {"value": "UTC"}, ("UTC",)),
        ("storage", {"value": "1MiB"}, 1 << 20),
        ("schedule", {"value": 3}, 3),
        ("topics", {"value": ["a:*"]}, ("a:*",)),
        ("peers", {"value": ["*"]}, ("*",)),
        ("send", {"value": ["ann"]}, ("ann",)),
        ("sessions", {"value": "own"}, "own"),
        ("skills", {"value": ["*"]}, ("*",)),
        ("calls", {"value": ["os"]}, ("os",)),
    ],
)
def test_an_argument_may_say_that_it_has_to_be_approved(key, table, value):
    asked, unasked = one(**{key: {**table, "ask": True}}), one(**{key: {**table, "ask": False}})
    assert (getattr(asked, key), asked.ask) == (value, (key,))
    assert (getattr(unasked, key), unasked.ask) == (value, ())
    assert one(**{key: table}) == unasked
    config = {"harnesses": [{"name": "os", key: {**table, "ask": True}}]}
    jsonschema.validate({"name": "helper", **config}, json.loads(schema()))


def test_every_argument_may_have_to_be_approved():
    assert set(ARGUMENTS) == set(REGISTERS)


@pytest.mark.parametrize(
    ("keys", "reason", "place"),
    [
        ({"root": {"ask": True}}, "expected either `path` or `session`", "root"),
        ({"files": {"ask": True}}, "missing", "files.path"),
        ({"files": {"path": "p", "ask": True}}, "expected an absolute path, got `p`", "files.path"),
        ({"hosts": {"values": [], "ask": True}}, "unknown key; did you mean `value`?", "hosts.values"),
        ({"zone": {"value": "UTC", "ask": 1}}, "expected true or false, got a number", "zone.ask"),
        ({"ask": True}, 'an argument has it, in a table: `root = {path = "/p", ask = true}`', "ask"),
    ],
)
def test_a_wrong_table_of_an_argument_is_refused_with_its_place(keys, reason, place):
    assert refusal_of(**keys) == f"{reason} - at `harnesses[0].{place}`"


def test_only_arguments_have_to_be_approved():
    assert refusal_of(deadline={"value": 1, "ask": True}).endswith("at `harnesses[0].deadline`")


@pytest.mark.parametrize("key", sorted(set(FULL["harnesses"][0]) - {"name", "source", *ENFORCED_FOR_ALL}))
def test_what_is_for_images_is_refused_of_what_is_built_in(key):
    value = FULL["harnesses"][0][key]
    config = {"harnesses": [{"name": "m", "builtin": "memory", key: value}, {"name": "other"}]}
    assert refusal(config) == (
        f"is for images, and `builtin` means that there is none - at `harnesses[0].{key}`"
    )


def test_a_list_called_system_is_answered_with_what_to_write():
    for message in (refusal({"system": ["fs"]}), refusal_of(system=["fs"])):
        assert 'write `root = "/path"`' in message


def test_files_and_root_together_are_refused():
    assert refusal_of(files="/p", root="/q") == (
        "`root` grants the files beneath it already: keep one of them - at `harnesses[0].files`"
    )


def test_a_missing_name_is_said():
    assert refusal({"harnesses": [{"files": "/p"}]}) == "missing - at `harnesses[0].name`"


def test_json_is_read_strictly():
    assert from_json('{"model": "m"}') == {"model": "m"}
    for text, why in {
        "": "not JSON",
        "[]": "expected an object, got a list",
        '{"a": 1, "a": 2}': "key `a` stands twice",
        '{"a": NaN}': "NaN is not JSON",
        '{"a": ' + "[" * 100 + "]" * 100 + "}": "nested deeper than",
        '{"a": "\\ud800"}': "lone surrogate",
    }.items():
        with pytest.raises(BadRequest) as caught:
            from_json(text)
        assert why in caught.value.message


def test_names_of_agents_and_harnesses():
    assert check_agent_name("Reviewer.2") == "Reviewer.2"
    assert check_harness_name("my-tool_2") == "my-tool_2"
    for name in ("", "a b", "a/b", ".x", "x" * 65, "a:b", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "ü"):
        with pytest.raises(BadRequest):
            check_agent_name(name)
    for name in ("", "A", "a.b", "..", "a/b", "x" * 64, "a\n"):
        with pytest.raises(BadRequest):
            check_harness_name(name)


def test_the_published_schema_is_that_of_the_code():
    published = ROOT / "docs" / "declarations.schema.json"
    assert published.read_text(encoding="utf-8") == schema(), "write crabtalk.declarations.schema() to it"


def test_the_schema_takes_what_the_code_takes():
    validator = jsonschema.Draft202012Validator(json.loads(schema()))
    validator.check_schema(json.loads(schema()))
    validator.validate({"name": "helper", **FULL})
    for config in ({"modle": "m"}, {"harnesses": [{}]}, {"harnesses": [{"name": "os", "fiels": "/p"}]}):
        assert not validator.is_valid(config)


def test_the_page_explains_every_key():
    page = (ROOT / "docs" / "declarations.md").read_text(encoding="utf-8")
    for key in (*AGENT_KEYS, *HARNESS_KEYS, *declared_servers.KEYS):
        assert f"`{key}`" in page


def test_one_table_where_a_list_is_wanted_is_told_how_toml_writes_one():
    with pytest.raises(BadRequest, match=r"in TOML `\[\[…\]\]`, got a table - at `harnesses`"):
        parse_config({"harnesses": {"name": "os"}})
