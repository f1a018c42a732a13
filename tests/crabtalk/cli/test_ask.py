"""`crabtalk ask` and `crabtalk sessions`: for pipes and scripts, with a real daemon and a scripted model."""

import json
import signal
import subprocess
import sys

import pytest

from berm.cli.exits import DONE, FAILED, HOST_ERROR, INTERRUPTED, USAGE
from terminals import crabtalk

CONFIG = '[models.demo]\nprovider = "scripted"\nscript = "script.toml"\n'
SCRIPT = r"""
[[turns]]
expect = {matches = "find out", step = 0}
text = "One moment."
calls = [{name = "something", arguments = {}}, {name = "nothing", arguments = {}}]

[[turns]]
expect = {matches = "ask me", step = 0}
text = "One moment."
calls = [{name = "ask_user", arguments = {question = "Which?"}}]

[[turns]]
expect = {step = 1}
text = "Found out."

[[turns]]
expect = {user = "fail"}
text = "half an ans"
error = {kind = "bad_request", message = "no way"}

[[turns]]
expect = {user = "slow"}
delay = "0.2s"
text = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"

[[turns]]
expect = {user = "raw"}
text = "a\u001b[2Jb"

[[turns]]
text = "You said: {user}"
"""


@pytest.fixture(scope="module")
def talker(another_daemon):
    from crabtalk.client import SyncClient

    daemon = another_daemon(config_toml=CONFIG, script_toml=SCRIPT)
    with SyncClient.connect(daemon.home) as client:
        for name in ("ann", "bob"):
            config = {"harnesses": [{"name": "ask_user", "builtin": "ask_user"}]}
            client.create_agent(name=name, config=json.dumps(config))
    return daemon


@pytest.fixture
def run(talker):
    def run(*arguments, **options):
        options = {"stdin": subprocess.DEVNULL, **options} if "input" not in options else options
        return subprocess.run(
            [sys.executable, "-W", "error", "-m", "crabtalk", *arguments, "--home", str(talker.home)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            **options,
        )

    return run


@pytest.fixture
def said(run):
    """Say something in a session of the test's own: its handle."""

    def said(*words, agent="ann"):
        done = run("ask", agent, *words, "--json")
        assert done.returncode == DONE, done.stderr
        return json.loads(done.stdout)["session"]

    return said


def test_the_answer_alone_goes_to_stdout(run):
    done = run("ask", "ann", "hello", "there")
    assert (done.returncode, done.stdout, done.stderr) == (DONE, "You said: hello there\n", "")


def test_a_pipe_is_added_below_what_is_asked(run):
    assert run("ask", "ann", "sum up", input="line 1\nline 2\n").stdout == (
        "You said: sum up\n\nline 1\nline 2\n"
    )


def test_a_pipe_alone_will_do(run):
    assert run("ask", "ann", input="hello\n").stdout == "You said: hello\n"


def test_a_pipe_gets_the_answer_as_it_is(run):
    assert run("ask", "ann", "raw").stdout == "a\x1b[2Jb\n"


def test_what_is_said_before_a_call_is_no_part_of_the_answer(run):
    done = run("ask", "ann", "find out", "--tool-choice", "auto", "--ephemeral", "--verbose", "--json")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["answer"], answer["session"]) == (DONE, "Found out.", "")
    assert [(one["name"], one["is_error"]) for one in answer["tool_calls"]] == [
        ("something", True),
        ("nothing", True),
    ]
    assert "> something " in done.stderr
    assert "< nothing failed after " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["ann", "fail"], FAILED, "no way"),
        (["nobody", "x"], HOST_ERROR, "there is no agent nobody"),
        (["ann", "x", "--tool-choice", "hammer"], FAILED, "there is no tool `hammer`"),
        (["ann", "x", "--session", "send:1"], HOST_ERROR, "the daemon's own"),
        (["ann"], USAGE, "nothing to say"),
        (["ann", "x", "--session", ""], USAGE, "expected a handle"),
        ([], USAGE, "required: AGENT"),
    ],
)
def test_how_it_ended_is_its_exit_code(run, arguments, status, message):
    done = run("ask", *arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_text_that_is_no_text_is_refused(run):
    done = run("ask", "ann", input=None, stdin=subprocess.PIPE)
    assert done.returncode == USAGE
    done = subprocess.run(
        [sys.executable, "-m", "crabtalk", "ask", "ann", "--home", "/nowhere"],
        input=b"\xff",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, b"not UTF-8" in done.stderr) == (USAGE, True)


def test_a_failure_is_json_too(run):
    done = run("ask", "ann", "fail", "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == FAILED
    assert "no way" in answer["error"]
    assert done.stderr == ""


def test_a_session_is_gone_on_with(run, said):
    handle = said("first")
    assert run("ask", "ann", "second", "--session", handle).returncode == DONE
    shown = json.loads(run("sessions", "show", handle, "--json").stdout)
    assert [one["content"] for one in shown["messages"] if one["role"] == "user"] == ["first", "second"]


def test_another_agent_may_answer(run, said):
    handle = said("first")
    assert run("ask", "ann", "and you?", "--session", handle, "--guest", "bob").returncode == DONE


def test_nothing_is_kept_of_an_ephemeral_turn(run):
    before = run("sessions", "ls", "--json").stdout
    assert run("ask", "ann", "hush", "--ephemeral").returncode == DONE
    assert run("sessions", "ls", "--json").stdout == before


def test_control_c_cancels_and_says_so(talker):
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "crabtalk", "ask", "ann", "slow", "--home", str(talker.home)),
            *("--session", "ask:interrupted"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    from crabtalk.client import SyncClient

    with SyncClient.connect(talker.home) as client, client.subscribe_events() as events:
        while not client.list_active_conversations().conversations:
            assert process.poll() is None
            next(events)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (INTERRUPTED, b"")


def test_a_terminal_sees_the_answer_and_is_asked(talker):
    terminal = crabtalk("ask", "ann", "ask me", "--home", str(talker.home))
    try:
        terminal.wait_for("One moment.").wait_for("ann asks:").wait_for("Which?").wait_for("answer")
        terminal.type("this one\n").wait_for("< ask_user took").wait_for("Found out.")
        assert terminal.ended() == DONE
    finally:
        terminal.close()


def test_a_terminal_gets_no_control_characters(talker):
    terminal = crabtalk("ask", "ann", "raw", "--home", str(talker.home))
    assert terminal.wait_for("a\\x1b[2Jb").ended() == DONE
    assert "\x1b" not in terminal.shown


# Sessions


def test_sessions_are_listed_by_agent_and_number(run, said):
    handle = said("a listed one", agent="bob")
    said("another", agent="ann")
    (line,) = run("sessions", "ls", "--agent", "bob", "-n", "1").stdout.splitlines()
    assert line.split("\t")[:2] == [handle, "bob"]
    assert line.endswith("\ta listed one")
    assert run("sessions", "ls", "--sender", "nobody-of-this-name").stdout == ""
    assert run("sessions", "ls", "--active").stdout == ""


def test_a_session_is_shown_by_the_beginning_of_its_handle(run, said):
    handle = said("show me")
    done = run("sessions", "show", handle[:-1])
    assert done.stdout == "show me · ann\n\nuser\nshow me\n\nassistant\nYou said: show me\n"
    assert run("sessions", "show", handle, "-n", "1").stdout.endswith("ann\n\nassistant\nYou said: show me\n")


def test_what_was_said_is_found(run, said):
    handle = said("the zebra crossed")
    done = run("sessions", "search", "zebr*", "--context", "1")
    assert done.returncode == DONE
    assert done.stdout.startswith(f"{handle}  ann  ")
    assert "> user: the zebra crossed\n" in done.stdout
    (hit, *_) = json.loads(run("sessions", "search", "zebra", "--json", "-n", "1").stdout)
    assert hit["session_handle"] == handle
    assert run("sessions", "search", "unheardofword").returncode == HOST_ERROR


def test_a_session_is_exported(run, said, tmp_path):
    handle = said("export me")
    document = run("sessions", "export", handle).stdout
    assert document == (
        f"# export me\n\nann, session `{handle}`\n\n## user\n\nexport me\n\n"
        "## assistant\n\nYou said: export me\n"
    )
    file = tmp_path / "session.json"
    assert run("sessions", "export", handle, "--format", "json", "-o", str(file)).returncode == DONE
    exported = json.loads(file.read_text())
    assert [one["role"] for one in exported["messages"]] == ["user", "assistant"]


def test_what_a_tool_said_cannot_close_its_fence():
    from crabtalk.cli.sessions import _fenced

    assert _fenced("a\n````\nb") == "`````text\na\n````\nb\n`````"


def test_sessions_are_removed_after_a_yes(run, said):
    handle = said("remove me")
    refused = run("sessions", "rm", handle)
    assert (refused.returncode, "Say --yes" in refused.stderr) == (USAGE, True)
    assert run("sessions", "rm", handle, "--yes").returncode == DONE
    gone = run("sessions", "show", handle)
    assert (gone.returncode, gone.stderr) == (HOST_ERROR, f"crabtalk: there is no session '{handle}'\n")


def test_a_beginning_of_several_handles_is_refused(run, said):
    said("one")
    said("two")
    done = run("sessions", "show", "ask:")
    assert (done.returncode, "sessions begin with 'ask:'" in done.stderr) == (USAGE, True)
