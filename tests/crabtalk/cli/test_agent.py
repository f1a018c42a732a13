"""`crabtalk agent`: files in, a configuration kept, changes sent as patches."""

import json
import sys

import pytest

from berm.cli.exits import DONE, HOST_ERROR, USAGE


@pytest.fixture
def config(ask):
    return lambda agent: ask("agent", "inspect", agent)["config"]


@pytest.fixture
def forgotten(run):
    """Names of agents that a test makes; they are removed after it."""
    names = []
    yield names
    for name in names:
        run("agent", "rm", name, "--yes")


def test_an_agent_of_toml_has_what_the_file_says(config, agent):
    found = config(agent)
    assert found["description"] == "Rings.\nLoudly."
    (harness,) = found["harnesses"]
    assert (harness["name"], harness["schedule"], harness["topics"]) == ("alarm", 8, ["alarm:*"])


def test_the_bytes_are_pinned_when_it_is_declared(config, agent, ask):
    (stored,) = [one for one in ask("harness", "ls") if one["name"] == "alarm"]
    assert config(agent)["harnesses"][0]["sha256"] == stored["sha256"]


def test_an_agent_of_json_may_be_named_on_the_command_line(ask, config, tmp_path, forgotten):
    (tmp_path / "x.json").write_text(json.dumps({"description": "From JSON."}))
    forgotten.append("json-agent")
    made = ask("agent", "add", str(tmp_path / "x.json"), "--name", "json-agent")
    assert made["name"] == "json-agent"
    assert config("json-agent")["description"] == "From JSON."


def test_names_that_mean_nothing_yet_are_taken_and_told(run, config, tmp_path, forgotten):
    given = {"model": "nowhere/big", "skills": ["*", "juggling"]}
    (tmp_path / "x.json").write_text(json.dumps(given))
    forgotten.append("ahead")
    status, _, err = run("agent", "add", str(tmp_path / "x.json"), "--name", "ahead")
    told = [
        "crabtalk: there is no model nowhere/big, and without it no turn of ahead begins",
        "crabtalk: there is no skill juggling",
    ]
    assert (status, err.splitlines()) == (DONE, told)
    assert config("ahead")["model"] == "nowhere/big"
    status, _, err = run("agent", "edit", "ahead", "--patch", '{"model": null}')
    assert (status, err.splitlines()) == (DONE, told[1:])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.toml", "description = 'x'", "{file} has no name: give the agent one with --name"),
        ("x.toml", "name = [", "{file} is not TOML: "),
        ("x.json", "{", "{file} is not JSON: "),
        ("x.json", "[1]", "{file}: expected an object, got list"),
        (
            "x.toml",
            "name = 'x'\nborn = 1979-05-27",
            "a configuration holds no dates or times, got 1979-05-27",
        ),
    ],
)
def test_a_file_that_will_not_do_is_named(run, tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    status, out, err = run("agent", "add", str(tmp_path / name))
    assert status in {HOST_ERROR, USAGE}
    assert out == b""
    assert err.startswith(f"crabtalk: {message.format(file=tmp_path / name)}")


def test_a_wrong_key_is_refused_in_the_daemon_s_words(run, tmp_path):
    (tmp_path / "x.toml").write_text('name = "x"\n[[harnesses]]\nname = "alarm"\nfiels = "/tmp"\n')
    status, _, err = run("agent", "add", str(tmp_path / "x.toml"))
    assert status == HOST_ERROR
    assert "harnesses[0].fiels" in err
    assert "files" in err


def test_set_changes_one_value_of_a_harness(run, config, agent):
    assert run("agent", "edit", agent, "--set", "harnesses.alarm.schedule=3") == (DONE, b"", "")
    assert config(agent)["harnesses"][0]["schedule"] == 3


def test_set_and_unset_together(run, config, agent):
    assert (
        run("agent", "edit", agent, "--set", "max_iterations=4", "--unset", "harnesses.alarm.topics")[0]
        == DONE
    )
    found = config(agent)
    assert found["max_iterations"] == 4
    assert "topics" not in found["harnesses"][0]


def test_a_patch_is_sent_as_it_is(run, config, agent):
    assert run("agent", "edit", agent, "--patch", '{"description": "Patched."}') == (DONE, b"", "")
    assert config(agent)["description"] == "Patched."


def test_what_changes_nothing_is_said(run, agent):
    assert run("agent", "edit", agent, "--set", "harnesses.alarm.schedule=8") == (
        DONE,
        b"",
        "crabtalk: nothing changes\n",
    )


@pytest.mark.parametrize(
    "change", [["--set", "x"], ["--patch", "[]"], ["--patch", "{"], ["--unset", "nothing"]]
)
def test_a_change_that_is_none_is_a_usage_error(run, agent, change):
    assert run("agent", "edit", agent, *change)[0] == USAGE


def test_a_change_that_is_refused_changes_nothing(run, config, agent):
    before = config(agent)
    status, _, err = run("agent", "edit", agent, "--set", "harnesses.alarm.schedule=-1")
    assert status == HOST_ERROR
    assert "schedule" in err
    assert config(agent) == before


def test_an_editor_changes_it(run, config, agent, tmp_path, monkeypatch):
    script = tmp_path / "editor.py"
    script.write_text(
        "import sys, pathlib\nfile = pathlib.Path(sys.argv[1])\n"
        "file.write_text(file.read_text().replace('Loudly', 'Softly'))\n"
    )
    monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")
    monkeypatch.delenv("VISUAL", raising=False)
    assert run("agent", "edit", agent) == (DONE, b"", "")
    assert config(agent)["description"] == "Rings.\nSoftly."


def test_inspect_shows_toml_and_how_harnesses_stand(run, agent):
    status, out, err = run("agent", "inspect", agent)
    text = out.decode()
    assert (status, err) == (DONE, "")
    assert text.startswith(f"# {agent}, ")
    assert '\ndescription = """\nRings.\nLoudly."""\n' in text
    assert "\n# alarm: tools say, binary, refuse, crash, spin\n" in text


def test_ls_shows_a_line_each(run, agent):
    _, out, _ = run("agent", "ls")
    (line,) = [line for line in out.decode().splitlines() if line.startswith(f"{agent}\t")]
    assert line.split("\t")[2:] == ["alarm", "Rings."]


def test_rename_changes_the_name_alone(run, ask, agent):
    (before,) = [one for one in ask("agent", "ls") if one["name"] == agent]
    assert run("agent", "rename", agent, f"{agent}-2") == (DONE, b"", "")
    (after,) = [one for one in ask("agent", "ls") if one["id"] == before["id"]]
    assert after == {**before, "name": f"{agent}-2"}
    assert run("agent", "rename", f"{agent}-2", agent)[0] == DONE


def test_rm_wants_a_yes_where_nobody_can_be_asked(run, ask, agent):
    status, _, err = run("agent", "rm", agent)
    question = f"Remove {agent} with its wakes, its subscriptions and what its harnesses stored?"
    assert (status, err) == (USAGE, f"crabtalk: {question} Say --yes to do it\n")
    assert agent in [one["name"] for one in ask("agent", "ls")]
    assert run("agent", "rm", agent, "--yes") == (DONE, b"", "")
    assert agent not in [one["name"] for one in ask("agent", "ls")]


def test_an_agent_that_is_not_there_is_named(run):
    status, _, err = run("agent", "inspect", "nobody")
    assert (status, len(err.splitlines())) == (HOST_ERROR, 1)
    assert "nobody" in err
