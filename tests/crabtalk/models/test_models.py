"""The models of a daemon: names, the active one, the list, changes, what the configuration may say."""

import dataclasses
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from crabtalk.cli import main
from crabtalk.clock import SystemClock
from crabtalk.config import Config, parse_config
from crabtalk.conversation.messages import Message
from crabtalk.conversation.model import ModelRequest
from crabtalk.daemon import _reload
from crabtalk.errors import ConfigError, NotFound
from crabtalk.model_config import ModelConfig, ModelsConfig
from crabtalk.models import Models
from crabtalk.providers.retrying import RetryPolicy
from crabtalk.store.memory import MemoryEngine
from crabtalk.wire.pb import crabtalk_pb2 as pb
from daemon_client import Refused, serving
from model_endpoints import HELLO, answering, chunk, collect, data, heard, refusal, response

pytestmark = pytest.mark.trio

ANSWER = response(data(chunk("Hi"), chunk(finish="stop"), "[DONE]"))


def config(models, environment=None):
    return parse_config({"models": models}, environment or {})


@pytest.fixture
def models(tmp_path):
    def models(table=None, store=None):
        parsed = config(table).models if table else ModelsConfig()
        return Models(parsed, tmp_path, store or MemoryEngine(), SystemClock())

    return models


def http(url="http://127.0.0.1:1/v1", **more):
    return {"provider": "openai", "model": "m1", "base_url": url, **more}


async def test_without_any_the_built_in_script_answers(models):
    one = models()
    assert (one.names(), one.active(), await one.catalogue()) == (["scripted"], "scripted", ["scripted"])
    events, error = await collect(one, ModelRequest(model="", messages=[Message("user", "x")]))
    assert heard(events).text.startswith("No model is configured")
    assert error is None


async def test_a_name_means_a_model_and_after_a_slash_another_of_the_same_endpoint(models):
    one = models({"default": "b", "a": http(context_window=1000), "b": {"provider": "scripted"}})
    assert [(m.name, m.id, m.context_window) for m in map(one.find, ("a", "a/x/y", "b", ""))] == [
        ("a", "m1", 1000),
        ("a/x/y", "x/y", 0),
        ("b", "scripted", 0),
        ("b", "scripted", 0),
    ]
    assert one.find("a").provider is one.find("a/x").provider
    assert [one.resolve(name) for name in ("a", "a/x/y", "")] == ["a", "a/x/y", "b"]
    for unknown in ("c", "scripted", "a/", "/a", "a/" + "x" * 300):
        with pytest.raises(NotFound):
            one.resolve(unknown)
    with pytest.raises(NotFound, match="there is no model `aa`; there is a, b; did you mean `a`"):
        one.resolve("aa")


async def test_the_active_model_is_stored_and_forgotten_when_it_is_gone(models):
    store = MemoryEngine()
    table = {"default": "a", "a": http(), "b": http()}
    one = models(table, store)
    await one.set_active("b/x")
    assert one.active() == "b/x"
    with pytest.raises(NotFound):
        await one.set_active("c")
    again = models(table, store)
    assert again.active() == "b/x"
    await again.configure(config({"a": http()}).models)
    assert again.active() == "a"
    await again.configure(config(table).models)
    assert again.active() == "b/x"
    await again.set_active("")
    assert again.active() == "a"


async def test_the_list_has_what_each_endpoint_says_once(models):
    listed = response(json.dumps({"data": [{"id": "m1"}, {"id": "m2"}]}).encode(), kind="application/json")
    async with answering(listed) as endpoint:
        one = models(
            {
                "default": "a",
                "a": http(endpoint.url),
                "b": http(endpoint.url, model="m3"),
                "c": {"provider": "scripted"},
                "gone": http(),
            }
        )
        assert await one.catalogue() == ["a", "b", "c", "gone", "a/m2"]
        await one.close()
    assert len(endpoint.asked) == 1


async def test_a_request_is_asked_by_the_endpoints_own_name_and_repeated_where_that_helps(models):
    told = []
    async with answering(refusal(529, {"type": "overloaded_error"}), refusal(429, {}), ANSWER) as endpoint:
        one = models({"a": http(endpoint.url)})
        policy = RetryPolicy(first_s=0.01, on_retry=told.append)
        events, error = await collect(one, ModelRequest(model="a", messages=HELLO.messages), retry=policy)
        await one.close()
    assert (heard(events).text, error) == ("Hi", None)
    assert [request.body["model"] for request in endpoint.asked] == ["m1"] * 3
    assert [retry.error.status for retry in told] == [529, 429]


async def test_a_quota_is_not_tried_twice(models):
    async with answering(refusal(429, {"code": "insufficient_quota"}), ANSWER) as endpoint:
        one = models({"a": http(endpoint.url)})
        _, error = await collect(one, ModelRequest(model="a"))
        await one.close()
    assert (error.kind, len(endpoint.asked)) == ("quota", 1)


async def test_another_configuration_keeps_what_is_the_same(models):
    one = models({"default": "a", "a": http(), "b": http()})
    before = one.find("a").provider, one.find("b").provider
    await one.configure(config({"default": "a", "a": http(), "b": http(timeout="5s")}).models)
    assert one.find("a").provider is before[0]
    assert one.find("b").provider is not before[1]


async def test_scripts_are_found_from_the_home(models, tmp_path):
    (tmp_path / "demo.toml").write_text('[[turns]]\ntext = "demo"\n')
    one = models({"demo": {"provider": "scripted", "script": "demo.toml"}})
    events, _ = await collect(one, ModelRequest(model="demo"))
    assert heard(events).text == "demo"


async def test_a_daemon_lists_its_models_and_changes_the_active_one():
    table = {"default": "a", "a": {"provider": "scripted"}, "b": {"provider": "scripted"}}
    async with serving(MemoryEngine(), Config(models=config(table).models)) as daemon:
        client = daemon.client
        listed = await client.ask(list_models=pb.ListModelsMsg())
        assert [(one.name, one.active) for one in listed.models] == [("a", True), ("b", False)]
        await client.ask(set_active_model=pb.SetActiveModelMsg(model="b"))
        listed = await client.ask(list_models=pb.ListModelsMsg())
        assert [(one.name, one.active) for one in listed.models] == [("a", False), ("b", True)]
        assert (await client.ask(get_stats=pb.GetStatsMsg())).active_model == "b"
        with pytest.raises(Refused) as refused:
            await client.ask(set_active_model=pb.SetActiveModelMsg(model="c"))
        assert (refused.value.code, refused.value.message) == (404, "there is no model `c`; there is a, b")


async def test_a_reload_brings_other_models():
    async with serving(MemoryEngine(), Config()) as daemon:
        assert daemon.runtime.models.names() == ["scripted"]
        daemon.runtime.home.config_file.write_text('[models.a]\nprovider = "scripted"\n')
        await _reload(daemon.runtime)
        listed = await daemon.client.ask(list_models=pb.ListModelsMsg())
        assert [(one.name, one.active) for one in listed.models] == [("a", True)]


@pytest.mark.parametrize(
    ("table", "mistake"),
    [
        (3, "models: expected a table, got `3`"),
        ({"a": 3}, "models.a: expected a table, got `3`"),
        ({"a/b": {}}, "models: `a/b` is no name: letters, digits, `_`, `.` and `-`, at most 63"),
        ({"a": {}}, "models.a.provider: say which one: openai, anthropic, scripted"),
        (
            {"a": {"provider": "opnai", "model": "m"}},
            (
                "models.a.provider: expected one of openai, anthropic, scripted, "
                "got `opnai`; did you mean `openai`?"
            ),
        ),
        ({"a": {"provider": "openai"}}, "models.a.model: say what the endpoint calls the model"),
        ({"a": http(modell="x")}, "unknown key `models.a.modell`; did you mean `model`?"),
        ({"a": http(script="x")}, "models.a.script: only of the provider `scripted`"),
        ({"a": {"provider": "scripted", "api_key": "x"}}, "models.a.api_key: a script has none"),
        ({"a": http(api_key="${NOPE}")}, "models.a.api_key: ${NOPE} is not set"),
        ({"a": http(api_key=3)}, 'models.a.api_key: expected text such as `"${NAME}"`'),
        (
            {"a": http(api_key="a\nb")},
            "models.a.api_key: expected printable ASCII without spaces at its ends",
        ),
        ({"a": http(api_key="")}, "models.a.api_key: expected printable ASCII without spaces at its ends"),
        ({"a": http(headers={"host": "x"})}, "models.a.headers: `host` is no header that can be set"),
        (
            {"a": http(headers={"x": "é"})},
            "models.a.headers: x: expected printable ASCII without spaces at its ends",
        ),
        (
            {"a": http("ftp://x")},
            "models.a.base_url: expected a URL such as `https://api.x.org/v1`, got `ftp://x`",
        ),
        (
            {"a": http("http://")},
            "models.a.base_url: expected a URL such as `https://api.x.org/v1`, got `http://`",
        ),
        (
            {"a": http("http://[x/")},
            "models.a.base_url: expected a URL such as `https://api.x.org/v1`, got `http://[x/`",
        ),
        (
            {"a": http("http://u:p@x/v1")},
            "models.a.base_url: expected a URL without a user or password; a key belongs into `api_key`",
        ),
        (
            {"a": http(timeout="soon")},
            "models.a.timeout: expected seconds, or a duration such as `90s` or `5min`, got `soon`",
        ),
        ({"a": http(), "b": http()}, "models.default: say which one is meant: a, b"),
        (
            {"default": "aa", "a": http()},
            "models.default: expected the name of one of [models.*], got `aa`; did you mean `a`?",
        ),
        ({"default": 3, "a": http()}, "models.default: expected the name of one of [models.*], got `3`"),
    ],
)
async def test_every_mistake_of_the_configuration_has_its_place(table, mistake):
    with pytest.raises(ConfigError) as caught:
        config(table)
    assert str(caught.value) == f"config.toml: {mistake}"


async def test_the_documentation_lists_every_key():
    rows = [
        f"| `{field.name}` | `{field.metadata['written']}` | {field.metadata['help']} |"
        for field in dataclasses.fields(ModelConfig)
        if field.metadata
    ]
    assert "\n".join(rows) in (Path(__file__).parents[3] / "docs" / "models.md").read_text()


async def test_what_the_command_shows_of_models_is_toml_again(home, capsys):
    home.mkdir()
    (home / "config.toml").write_text(
        'models.default = "a-1.5"\n[models."a-1.5"]\nprovider = "openai"\nmodel = "m"\n'
        'api_key = "secret-key"\n'
        '[models.b]\nprovider = "scripted"\n'
    )
    assert main(["config", "show"]) == 0
    shown = capsys.readouterr().out
    models = tomllib.loads(shown)["models"]
    assert models["default"] == "a-1.5"
    assert models["a-1.5"]["api_key"] == {"$secret": "set"}
    assert models["b"]["provider"] == "scripted"
    assert "secret-key" not in shown


async def test_keys_come_from_the_environment_and_are_never_shown():
    parsed = config({"a": http(api_key="${K}", headers={"X-Key": "v ${K}"})}, {"K": "sk-12345"})
    assert parsed.models.endpoints["a"].api_key.reveal() == "sk-12345"
    assert parsed.models.endpoints["a"].headers["X-Key"].reveal() == "v sk-12345"
    assert "sk-12345" not in repr(parsed) + json.dumps(parsed.redacted())
    assert {secret.reveal() for secret in parsed.known_secrets()} == {"sk-12345", "v sk-12345"}
    assert parsed.redacted()["models"]["a"]["api_key"] == {"$secret": "set"}


async def test_models_change_without_a_restart():
    old, new = config({"a": http()}), config({"b": http()})
    assert old.needing_restart(new) == []
    assert old.with_live(new).models == new.models


async def test_no_client_of_http_is_imported_before_a_model_is_asked():
    program = "import sys, crabtalk.daemon; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: ASYNC221
    assert not {"httpx2", "httpcore2", "truststore"} & set(loaded.stdout.split())
