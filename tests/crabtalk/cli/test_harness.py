"""`crabtalk harness`: images in and out, and what an upgrade would change."""

import hashlib
import json

import pytest

from berm.cli.exits import DONE, FAILED, HOST_ERROR, USAGE


@pytest.fixture
def echo(build):
    return build("harness/echo/echo.c")


@pytest.fixture
def sha256():
    return lambda path: hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def stored(run):
    """Names that a test stores images under; they are removed after it."""
    names = []
    yield names
    for name in names:
        run("harness", "rm", name)


def test_add_says_what_was_stored_and_what_it_asks_for(run, alarm, sha256, stored):
    stored.append("bell")
    assert run("harness", "add", str(alarm), "--name", "bell") == (
        DONE,
        f"bell\t{sha256(alarm)}\tcrabtalk.event.publish, berm.set\n".encode(),
        "",
    )


def test_a_file_whose_name_is_none_for_a_harness_is_told_of_the_option(run, echo, tmp_path):
    odd = tmp_path / "Echo 2.elf"
    odd.write_bytes(echo.read_bytes())
    status, _, err = run("harness", "add", str(odd))
    assert status == HOST_ERROR
    assert "the file's name gives `Echo 2`" in err
    assert "give one with --name" in err


def test_other_bytes_than_those_wanted_are_refused(run, echo, sha256):
    status, _, err = run("harness", "add", str(echo), "--sha256", "0" * 64)
    assert (status, err) == (HOST_ERROR, f"crabtalk: {echo} is {sha256(echo)}, not {'0' * 64}\n")


def test_what_does_not_load_is_not_stored(run, ask, tmp_path):
    (tmp_path / "bad.elf").write_bytes(b"\x7fELF and no more")
    status, _, err = run("harness", "add", str(tmp_path / "bad.elf"))
    assert (status, len(err.splitlines())) == (HOST_ERROR, 1)
    assert "bad" not in [one["name"] for one in ask("harness", "ls")]


def test_ls_lists_what_is_stored(run, alarm, sha256):
    _, out, _ = run("harness", "ls")
    (line,) = [line for line in out.decode().splitlines() if line.startswith("alarm\t")]
    _, digest, size, tools, state = line.split("\t")
    assert (digest, size) == (sha256(alarm)[:12], str(alarm.stat().st_size))
    assert (tools, state) == ("say, binary, refuse, crash, spin", "loads")


def test_ls_of_an_agent_lists_what_it_declares(ask, agent):
    (one,) = ask("harness", "ls", agent)
    assert one["name"] == "alarm"
    assert any("alarm:*" in line for line in one["bound"])


@pytest.mark.parametrize("which", ["name", "sha256", "digits", "agent"])
def test_inspect_finds_an_image(run, agent, alarm, sha256, which):
    digest = sha256(alarm)
    text = {"name": "alarm", "sha256": digest, "digits": digest[:10], "agent": f"{agent}/alarm"}[which]
    status, out, err = run("harness", "inspect", text)
    lines = out.decode().splitlines()
    assert (status, err) == (DONE, "")
    assert lines[1] == f"sha256    {digest}"
    assert "exports   on_wake, on_notify" in lines
    assert "tool say" in lines
    assert any(line.startswith("bound     ") for line in lines) == (which == "agent")


def test_an_image_that_is_not_there_is_an_error(run):
    said = "crabtalk: no image is stored as 'nothing'; see crabtalk harness ls\n"
    assert run("harness", "inspect", "nothing") == (HOST_ERROR, b"", said)
    assert run("harness", "inspect", "0" * 64)[0] == HOST_ERROR


def test_an_upgrade_to_a_file_that_is_not_there_is_an_error(run, agent):
    said = "crabtalk: there is no file no.elf, and it is no sha256 of an image\n"
    assert run("harness", "upgrade", agent, "alarm", "no.elf") == (HOST_ERROR, b"", said)


def test_rm_refuses_what_is_declared_and_removes_the_rest(run, ask, agent, echo):
    assert agent
    assert run("harness", "add", str(echo), "--name", "gone")[0] == DONE
    status, _, err = run("harness", "rm", "alarm", "gone", "never")
    assert status == HOST_ERROR
    first, second = err.splitlines()
    assert "alarm" in first
    assert "never" in second
    assert [one["name"] for one in ask("harness", "ls")] == ["alarm"]


def test_what_does_not_load_is_shown_wherever_its_tools_would_be(run, ask, agent, tmp_path):
    """The directory that it was given is gone."""
    (tmp_path / "given").mkdir()
    assert run("agent", "edit", agent, "--set", f"harnesses.alarm.files={tmp_path}/given")[0] == DONE
    (tmp_path / "given").rmdir()
    why = f"root `{tmp_path}/given`: no such file or directory"
    assert f"\ndoes not load\n{agent}\talarm\t{why}\n" in run("ps")[1].decode()
    assert ask("ps")["broken"] == [{"agent": agent, "harness": "alarm", "error": why}]
    assert f"\tdoes not load: {why}\n" in run("harness", "ls", agent)[1].decode()
    assert f"\n# alarm: does not load: {why}\n" in run("agent", "inspect", agent)[1].decode()
    assert run("call", agent, "alarm", "say", '{"text": "x"}') == (FAILED, b"", f"trap: {why}\n")
    status, _, err = run("agent", "edit", agent, "--set", "description=Still.")
    assert (status, err) == (DONE, f"crabtalk: alarm does not load, and none of its tools is there: {why}\n")


def test_diff_of_a_file_and_what_an_agent_runs(run, agent, echo):
    status, out, _ = run("harness", "diff", f"{agent}/alarm", str(echo))
    lines = out.decode().splitlines()
    assert status == DONE
    assert "no longer exports: on_wake, on_notify" in lines
    assert "adds tools: echo" in lines


def test_upgrade_shows_the_difference_and_wants_a_yes(run, ask, agent, alarm, echo, sha256, stored):
    stored.append("echo")
    run("agent", "edit", agent, "--unset", "harnesses.alarm.schedule", "--unset", "harnesses.alarm.topics")
    status, out, err = run("harness", "upgrade", agent, "alarm", str(echo))
    assert status == USAGE
    assert f"sha256  {sha256(alarm)} -> {sha256(echo)}" in out.decode()
    assert err == f"crabtalk: Let {agent} run it as alarm? Say --yes to do it\n"
    assert ask("harness", "ls", agent)[0]["sha256"] == sha256(alarm)
    assert run("harness", "upgrade", agent, "alarm", sha256(echo), "--yes")[0] == DONE
    assert ask("harness", "ls", agent)[0]["sha256"] == sha256(echo)
    assert run("call", agent, "alarm", "echo", '{"text": "x"}') == (DONE, b"x", "")
    run("agent", "rm", agent, "--yes")


def test_an_upgrade_to_the_same_bytes_is_none(run, agent):
    status, out, err = run("harness", "upgrade", agent, "alarm")
    assert (status, err) == (DONE, "")
    assert out.decode().startswith("the same image, ")


def test_json_has_every_field(ask, alarm, sha256):
    (info,) = [one for one in ask("harness", "ls") if one["name"] == "alarm"]
    assert info["sha256"] == sha256(alarm)
    assert json.loads(info["tools"][0]["parameters"])["type"] == "object"
    assert (info["exports_wake"], info["exports_notify"], info["error"]) == (True, True, "")
