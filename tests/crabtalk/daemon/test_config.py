"""`config.toml`: every key checked, secrets never shown, what needs a restart."""

import dataclasses
import tomllib
from pathlib import Path

import pytest

from crabtalk.config import Config, Secret, keys, load_config, parse_config
from crabtalk.errors import ConfigError

OPERATING = Path(__file__).parents[3] / "docs" / "operating.md"


def mistakes(table, environment=None):
    with pytest.raises(ConfigError) as caught:
        parse_config(table, environment or {})
    return [line.removeprefix("config.toml: ") for line in str(caught.value).splitlines()]


def test_a_missing_file_is_the_defaults(tmp_path):
    assert load_config(tmp_path / "config.toml") == Config()


def test_every_key_can_be_written_as_its_default():
    text = "".join(f"{key.section}.{key.name} = {key.written}\n" for key in keys())
    assert parse_config(tomllib.loads(text), {}) == Config()


def test_the_documentation_lists_every_key():
    rows = [
        f"| `{key.section}.{key.name}` | `{key.written}` | {key.help} | {'at once' if key.live else ''} |"
        for key in keys()
    ]
    assert "\n".join(rows) in OPERATING.read_text()


@pytest.mark.parametrize("key", list(keys()), ids=lambda key: f"{key.section}.{key.name}")
def test_every_key_refuses_a_value_of_another_kind(key):
    for wrong in ([3], {"a": 1}, None):
        assert mistakes({key.section: {key.name: wrong}})[0].startswith(
            f"{key.section}.{key.name}: expected "
        )


@pytest.mark.parametrize("key", list(keys()), ids=lambda key: f"{key.section}.{key.name}")
def test_every_key_has_a_sentence(key):
    assert key.help
    assert not key.help.endswith(".")


def test_every_mistake_is_named_with_its_place_and_the_nearest_key():
    assert mistakes(
        {"tpc": True, "log": {"levle": "info", "level": "inf"}, "executor": 3, "shutdown": {"drain": "soon"}}
    ) == [
        "unknown key `tpc`; did you mean `tcp`?",
        "unknown key `log.levle`; did you mean `level`?",
        "log.level: expected one of debug, info, warning, error, got `inf`; did you mean `info`?",
        "executor: expected a table, got `3`",
        "shutdown.drain: expected seconds, or a duration such as `90s` or `5min`, got `soon`",
    ]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, (False, "127.0.0.1", 6688)),
        ({"tcp": True}, (True, "127.0.0.1", 6688)),
        ({"tcp": False}, (False, "127.0.0.1", 6688)),
        ({"tcp": {"port": 7000}}, (False, "127.0.0.1", 7000)),
        ({"tcp": {"enabled": True, "port": 0}}, (True, "127.0.0.1", 0)),
        ({"tcp": {"host": "0.0.0.0", "off_loopback": True}}, (False, "0.0.0.0", 6688)),
    ],
)
def test_tcp_is_served_only_where_that_was_said(table, expected):
    tcp = parse_config(table, {}).tcp
    assert (tcp.enabled, tcp.host, tcp.port) == expected


def test_an_address_that_others_reach_has_to_be_meant():
    assert mistakes({"tcp": {"host": "0.0.0.0"}}) == [
        "tcp.host: other machines reach `0.0.0.0`; say `tcp.off_loopback = true` if that is meant"
    ]


@pytest.mark.parametrize(
    "value", ["10.0.0.1:9", "localhost:9", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:x", "tcp"]
)
def test_metrics_are_served_on_loopback_only(value):
    assert mistakes({"metrics": {"listen": value}})[0].startswith(
        "metrics.listen: expected `unix`, `off` or a "
    )


def test_secrets_come_from_the_environment_and_are_not_shown():
    config = parse_config({"secrets": {"openai": "${KEY}", "mixed": "a-${KEY}-b"}}, {"KEY": "sk-123456"})
    assert {name: secret.reveal() for name, secret in config.secrets.items()} == {
        "openai": "sk-123456",
        "mixed": "a-sk-123456-b",
    }
    assert "sk-123456" not in repr(config)
    assert "sk-123456" not in str(config.redacted())
    assert config.redacted()["secrets"] == {"openai": {"$secret": "set"}, "mixed": {"$secret": "set"}}


def test_a_variable_that_is_not_set_is_named():
    assert mistakes({"secrets": {"openai": "${KEY}"}}) == ["secrets.openai: ${KEY} is not set"]


def test_variables_stand_for_nothing_outside_secrets():
    assert mistakes({"log": {"level": "${LEVEL}"}}, {"LEVEL": "info"})[0].startswith(
        "log.level: expected one of"
    )


def test_what_is_wrong_with_a_secret_does_not_show_it():
    assert mistakes({"secrets": {"a": ["hidden-value"], "b c": "other-value"}}) == [
        "secrets.a: expected text",
        "secrets: `b c` is no name: letters, digits, `_`, `.` and `-`, at most 63",
    ]


def test_a_file_that_is_not_toml_is_named(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("tcp = yes\n")
    with pytest.raises(ConfigError, match=rf"^{path} is not TOML: "):
        load_config(path)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("#" * ((1 << 20) + 1))
    with pytest.raises(ConfigError, match="larger than 1048576 bytes"):
        load_config(path)


def test_a_directory_is_no_file(tmp_path):
    with pytest.raises(ConfigError, match="is a directory"):
        load_config(tmp_path)


def test_a_reload_takes_what_is_live_and_names_the_rest():
    old = Config()
    new = parse_config(
        {"log": {"level": "debug", "keep_lines": 5}, "tcp": True, "secrets": {"a": "value"}}, {}
    )
    assert old.needing_restart(new) == ["tcp.enabled", "log.keep_lines"]
    taken = old.with_live(new)
    assert taken.log == dataclasses.replace(old.log, level="debug")
    assert taken.tcp == old.tcp
    assert taken.secrets == {"a": Secret("value")}
