"""`crabtalk chat` at a terminal, with a real daemon and a model that follows a script."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time

import pytest

from berm.cli.exits import DONE, HOST_ERROR, INTERRUPTED, USAGE
from daemons import running_daemon
from guest_images import image_path
from terminals import QUERY, SEQUENCE, crabtalk, screen

CONFIG = """[models]
default = "demo"
[models.demo]
provider = "scripted"
script = "script.toml"
[models.other]
provider = "scripted"
"""
SCRIPT = r"""
[[turns]]
expect = {user = "Sum up this conversation"}
text = "It was about tests."

[[turns]]
expect = {matches = "read (\\S+)", step = 0}
text = "Let me **look**."
calls = [{name = "read", arguments = {path = "{1}"}}, {name = "read", arguments = {path = "missing"}}]

[[turns]]
expect = {after = "read"}
text = ["## Found\n\n", "- one\n", "- two\n\n```text\n", "code\n", "```\n"]

[[turns]]
expect = {user = "ask me", step = 0}
calls = [{name = "ask_user", arguments = {question = "Which colour?\u001b[2J"}}]

[[turns]]
expect = {after = "ask_user"}
text = "You like {result}."

[[turns]]
expect = {user = "slow"}
delay = "0.1s"
text = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"

[[turns]]
expect = {user = "fail"}
error = {kind = "bad_request", message = "no \u001b]0;title\u0007 way"}

[[turns]]
expect = {user = "think"}
thinking = "Hm."
text = "Thought."

[[turns]]
expect = {user = "nasty"}
text = "a\u001b[2Jb\u202ec &#x202e; [link](http://x.test/y)"

[[turns]]
text = "You said: {user}"
"""
SKILL = "---\nname: shouting\ndescription: How to shout.\n---\nUse capitals.\n"


@pytest.fixture(scope="module")
def talker(another_daemon, tmp_path_factory):
    """A daemon whose agents talk: `ann` has files, `bob` has to be allowed them."""
    from crabtalk.client import SyncClient

    daemon = another_daemon(config_toml=CONFIG, script_toml=SCRIPT)
    files = tmp_path_factory.mktemp("files")
    (files / "a.txt").write_text("AAA\n")
    skill = daemon.home / "skills" / "shouting"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL)
    ask_user = {"name": "ask_user", "builtin": "ask_user"}
    with SyncClient.connect(daemon.home) as client:
        elf = image_path("os").read_bytes()
        import hashlib

        client.put_harness(name="os", elf=elf, sha256=hashlib.sha256(elf).hexdigest())
        for name, argument in (("ann", str(files)), ("bob", {"path": str(files), "ask": True})):
            config = {"model": "", "harnesses": [{"name": "os", "files": argument}, ask_user]}
            client.create_agent(name=name, config=json.dumps(config))
    return daemon


@pytest.fixture
def client(talker):
    from crabtalk.client import SyncClient

    with SyncClient.connect(talker.home) as client:
        yield client


@pytest.fixture
def chat(talker):
    """Begin a chat in a terminal."""
    begun = []

    def chat(*arguments, **options):
        begun.append(crabtalk("chat", *arguments, "--home", str(talker.home), **options))
        return begun[-1]

    yield chat
    for terminal in begun:
        terminal.close()


def newest(client):
    return client.list_conversations().conversations[0]


def test_a_turn_is_drawn_with_its_calls(chat):
    terminal = chat("ann").wait_for("ann>").say("read a.txt").wait_for("Let me look.")
    terminal.wait_for("Found").wait_for(" • one").wait_for(" • two").wait_for("code")
    assert "**" not in terminal.text.partition("Let me")[2]
    assert terminal.wait_for("ann>").type("\x04").ended() == DONE
    # Both run side by side.
    assert re.search(r'✓ read {"path": "a.txt"}  \d+ ms\n', terminal.text)
    assert re.search(r'✗ read {"path": "missing"}  \d+ ms\n    no such file or directory', terminal.text)
    assert "goes on with it" in terminal.text


def test_control_c_cancels_the_turn_and_keeps_the_session(chat, client):
    terminal = chat("ann").wait_for("ann>").say("slow please").wait_for("one two three").type("\x03")
    terminal.wait_for("cancelled").wait_for("ann>").say("and now").wait_for("You said: and now")
    assert terminal.wait_for("ann>").type("\x04").ended() == DONE
    history = client.get_conversation_history(file_path=newest(client).file_path).messages
    assert [one.content for one in history if one.role == "user"] == ["slow please", "and now"]


@pytest.fixture
def restartable():
    """A daemon whose agent ann talks, and a terminal that chats with her."""
    with running_daemon(CONFIG) as daemon:
        (daemon.home.root / "script.toml").write_text(SCRIPT)
        with daemon.client() as client:
            client.create_agent(name="ann", config="{}")
        terminal = crabtalk("chat", "ann", "--home", str(daemon.home.root))
        yield daemon, terminal.wait_for("ann>")
        terminal.close()


def test_a_chat_goes_on_when_the_daemon_was_restarted(restartable):
    daemon, terminal = restartable
    terminal.say("one").wait_for("You said: one").wait_for("ann>")
    assert daemon.stop() == 0
    terminal.say("two").wait_for("connection")
    daemon.start()
    terminal.wait_for("the daemon was away; this is the same session").wait_for("ann> two")
    terminal.say("").wait_for("You said: two").wait_for("ann>")
    assert terminal.type("\x04").ended() == DONE
    with daemon.client() as client:
        (only,) = client.list_conversations().conversations
        said = client.get_conversation_history(file_path=only.file_path).messages
    assert [one.content for one in said if one.role == "user"] == ["one", "two"]


def test_a_daemon_that_is_killed_in_a_turn_is_waited_for_and_nothing_is_said_twice(restartable):
    daemon, terminal = restartable
    terminal.say("slow please").wait_for("one two")
    daemon.kill()
    daemon.start()
    terminal.wait_for("the daemon was away; this is the same session").wait_for("you: slow please")
    terminal.wait_for("ann>").say("next").wait_for("You said: next").wait_for("ann>")
    assert terminal.type("\x04").ended() == DONE
    with daemon.client() as client:
        (only,) = client.list_conversations().conversations
        said = client.get_conversation_history(file_path=only.file_path).messages
    assert [one.content for one in said if one.role == "user"] == ["slow please", "next"]


def test_a_daemon_that_is_waited_for_can_be_given_up(restartable):
    daemon, terminal = restartable
    daemon.stop()
    terminal.say("hello").wait_for("waiting for the daemon to come back").type("\x03")
    assert terminal.ended() == INTERRUPTED


def test_a_second_control_c_leaves(chat):
    terminal = chat("ann").wait_for("ann>").type("\x03").wait_for("Ctrl-C again").wait_for("ann>")
    assert terminal.type("\x03").ended() == DONE


def test_control_c_clears_what_was_typed(chat):
    terminal = chat("ann").wait_for("ann>").type("never mind").wait_for("never mind").type("\x03")
    terminal.wait_for("never mind").wait_for("ann>").say("this").wait_for("You said: this").wait_for("ann>")
    assert terminal.type("\x03").wait_for("Ctrl-C again").wait_for("ann>").type("\x04").ended() == DONE


def test_a_signal_does_as_control_c_does(chat):
    terminal = chat("ann").wait_for("ann>").say("slow please").wait_for("one two")
    os.kill(terminal.pid, signal.SIGINT)
    terminal.wait_for("cancelled").wait_for("ann>")
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.ended() == DONE


def test_what_is_typed_during_a_turn_is_not_shown_in_it_and_read_after_it(chat):
    terminal = chat("ann").wait_for("ann>").say("slow please").wait_for("one two")
    assert not terminal.echoes()
    terminal.type("early").wait_for("sixteen").wait_for("ann>").wait_for("early").say(" bird")
    terminal.wait_for("You said: early bird")


@pytest.mark.parametrize("keys", ["\x1b\r", "\n", "\\\r"], ids=["alt-enter", "ctrl-j", "backslash"])
def test_a_message_may_have_several_lines(chat, client, keys):
    terminal = chat("ann").wait_for("ann>").type(f"first{keys}").wait_for("…").say("second")
    terminal.wait_for("You said").wait_for("ann>")
    assert client.get_conversation_history(file_path=newest(client).file_path).messages[0].content == (
        "first\nsecond"
    )


def test_what_is_pasted_is_one_message(chat, client):
    terminal = chat("ann").wait_for("ann>").type("\x1b[200~one\ntwo\n/quit\x1b[201~").wait_for("/quit")
    terminal.say("").wait_for("You said").wait_for("ann>")
    message = client.get_conversation_history(file_path=newest(client).file_path).messages[0]
    assert message.content == "one\ntwo\n/quit"


def test_control_characters_are_shown_and_not_sent(chat):
    terminal = chat("ann").wait_for("ann>").say("nasty")
    terminal.wait_for(r"a\x1b[2Jb\u202ec \u202e link (http://x.test/y)").wait_for("ann>")
    terminal.say("fail").wait_for(r"no \x1b]0;title\x07 way")
    assert "\x1b]" not in terminal.shown
    assert "\u202e" not in terminal.shown


def test_nothing_is_asked_of_the_terminal(chat):
    terminal = chat("ann").wait_for("ann>").say("think").wait_for("Thought.").wait_for("ann>").type("\x04")
    assert terminal.ended() == DONE
    assert QUERY.findall(terminal.shown) == []


def test_a_dumb_terminal_gets_lines(chat):
    terminal = chat("ann", TERM="dumb").wait_for("ann>").type("read a.txt\n").wait_for("> read ")
    terminal.wait_for("< read took").wait_for("## Found").wait_for("ann>").type("slow\n")
    terminal.wait_for("one two").type("\x03").wait_for("cancelled").wait_for("ann>").type("\x03")
    terminal.wait_for("Ctrl-C again").wait_for("ann>").type("\x04")
    assert terminal.ended() == DONE
    assert "\x1b" not in terminal.shown


def test_a_small_vt100_shows_everything_once(chat):
    terminal = chat("ann", TERM="vt100", columns=30, lines=6).wait_for("ann>").say("slow please")
    terminal.wait_for("sixteen").wait_for("ann>").say("read a.txt").wait_for("Found").wait_for("code")
    terminal.wait_for("ann>").type("/q").wait_for("/quit").say("uit")
    assert terminal.ended() == DONE
    shown = screen(terminal.shown, columns=30, lines=6)
    assert [one for one in shown if re.search("one|seven|twelve|sixteen|look|Found|two", one)] == [
        "one two three four five six",
        "seven eight nine ten eleven",
        "twelve thirteen fourteen",
        "fifteen sixteen",
        "Let me look.",
        "Found",
        " • one",
        " • two",
    ]
    assert sorted(one[:8] for one in shown if " read {" in one) == ["  ✓ read", "  ✗ read"]
    # It stays in the terminal's own scrollback, and nothing is sent that a VT100 takes for something else.
    sent = set(SEQUENCE.findall(terminal.shown))
    assert not {"\x1b[?1049h", "\x1b[?47h", "\x1b[2J", "\x1b[H"} & sent
    assert not [one for one in sent if "38;" in one or "48;" in one]
    assert "\x1b]" not in terminal.shown


def test_when_the_terminal_goes_away_the_turn_goes_on(chat, client):
    terminal = chat("ann").wait_for("ann>").say("slow please").wait_for("one two")
    terminal.close()
    assert os.waitstatus_to_exitcode(terminal.status) in {DONE, -signal.SIGHUP}  # and not on an error
    handle = newest(client).file_path
    ends = time.monotonic() + 15
    while len(told := client.get_conversation_history(file_path=handle).messages) < 2:
        assert time.monotonic() < ends
        time.sleep(0.05)
    assert [one.role for one in told] == ["user", "assistant"]
    assert told[1].content.endswith("sixteen")


def test_no_colour_is_used_where_none_is_wanted(chat):
    terminal = chat("ann", NO_COLOR="1").wait_for("ann>").say("read a.txt").wait_for("Found").wait_for("ann>")
    assert "\x1b[31m" not in terminal.shown
    assert "\x1b[1m" not in terminal.shown


def test_a_long_answer_scrolls(chat):
    long = " ".join(f"w{number}" for number in range(400))
    terminal = chat("ann", columns=40, lines=10).wait_for("ann>").type(f"\x1b[200~{long}\x1b[201~")
    terminal.wait_for("w399").say("").wait_for("You said").wait_for("w399").wait_for("ann>")
    answer = terminal.text.rpartition("You said")[2]
    assert all(f"w{number}" in answer for number in range(400))


def test_the_history_is_for_its_owner_alone(chat, talker):
    chat("ann").wait_for("ann>").say("remember this").wait_for("You said").wait_for("ann>")
    file = talker.home / "chat_history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    chat("ann").wait_for("ann>").type("\x1b[A").wait_for("remember this")


def test_a_history_that_others_could_read_is_closed(chat, talker):
    file = talker.home / "chat_history"
    file.touch()
    file.chmod(0o644)
    chat("ann").wait_for("ann>")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_last_session_is_gone_on_with(chat, client):
    chat("ann").wait_for("ann>").say("the first thing").wait_for("You said").wait_for("ann>").type("\x04")
    terminal = chat("ann", "--continue").wait_for("you: the first thing").wait_for("ann>")
    terminal.say("the next").wait_for("You said: the next").wait_for("ann>").type("\x04")
    assert terminal.ended() == DONE
    session = newest(client)
    assert session.message_count == 4
    chat("--resume", session.file_path).wait_for("you: the next").wait_for("ann>")


# Commands


def test_help_names_every_command(chat):
    from crabtalk.cli.chat.commands import COMMANDS

    terminal = chat("ann").wait_for("ann>").say("/help")
    for name in COMMANDS:
        terminal.wait_for(f"/{name}")
    assert terminal.wait_for("ann>").say("/quit").ended() == DONE


def test_sessions_are_begun_listed_and_resumed(chat):
    terminal = chat("ann").wait_for("ann>").say("alpha").wait_for("You said: alpha").wait_for("ann>")
    terminal.say("/new").wait_for("a new session").wait_for("ann>")
    terminal.say("beta").wait_for("You said: beta").wait_for("ann>")
    terminal.say("/sessions").wait_for("*  1").wait_for("beta").wait_for("2").wait_for("alpha").wait_for(
        "ann>"
    )
    terminal.say("/resume").wait_for("you: alpha").wait_for("ann>")
    terminal.say("/title").wait_for("alpha").wait_for("chat:").wait_for("ann>")
    terminal.say("/resume 99").wait_for("error: there is no such session").wait_for("ann>")


def test_another_agent_can_be_talked_to(chat):
    terminal = chat("ann").wait_for("ann>").say("/agent").wait_for("* ann").wait_for("  bob").wait_for("ann>")
    terminal.say("/agent bob").wait_for("bob>").say("hello").wait_for("You said: hello").wait_for("bob>")
    terminal.say("/agent nobody").wait_for("error: there is no agent nobody").wait_for("bob>")


def test_another_model_can_be_chosen(chat, client):
    terminal = chat("ann").wait_for("ann>")
    try:
        terminal.say("/model other").wait_for("have other from now on").wait_for("ann>")
        terminal.say("/model").wait_for("* other").wait_for("ann>")
        terminal.say("/model nonsense").wait_for("error: ").wait_for("ann>")
    finally:
        client.set_active_model(model="demo")


def test_a_skill_is_a_command(chat, client):
    terminal = (
        chat("ann").wait_for("ann>").say("/skills").wait_for("/shouting  How to shout.").wait_for("ann>")
    )
    terminal.say("/shouting say hello").wait_for("You said: Use capitals.").wait_for("ann>")
    message = client.get_conversation_history(file_path=newest(client).file_path).messages[0]
    assert message.content == "Use capitals.\n\nsay hello"
    terminal.say("/whispering").wait_for("error: there is no command or skill /whispering").wait_for("ann>")
    terminal.say("//etc").wait_for("You said: /etc")


def test_a_summary_stands_for_what_was_said(chat, client):
    terminal = (
        chat("ann").wait_for("ann>").say("/compact").wait_for("error: nothing was said").wait_for("ann>")
    )
    terminal.say("hello").wait_for("You said: hello").wait_for("ann>")
    terminal.say("/compact").wait_for("It was about tests.").wait_for("ann>")
    history = client.get_conversation_history(file_path=newest(client).file_path).messages
    assert (history[-1].role, history[-1].content) == ("system", "It was about tests.")
    terminal.say("/compact slow").wait_for("waiting").type("\x03").wait_for("error: ").wait_for("ann>")


def test_commands_are_completed(chat):
    chat("ann").wait_for("ann>").type("/sess").wait_for("list the sessions")


# Questions


def test_a_question_is_answered(chat):
    terminal = chat("ann").wait_for("ann>").say("ask me").wait_for("ann asks:")
    terminal.wait_for(r"Which colour?\u001b[2J").wait_for("answer").say("green").wait_for("✓ ask_user ")
    terminal.wait_for("You like green.").wait_for("ann>")
    assert "\x1b[2J" not in terminal.shown


def test_no_answer_is_an_answer(chat):
    terminal = chat("ann").wait_for("ann>").say("ask me").wait_for("answer").say("")
    terminal.wait_for("the person did not answer").wait_for("ann>")


@pytest.mark.parametrize(("answer", "scope"), [("y", "once"), ("a", "always")])
def test_an_approval_is_given(chat, client, answer, scope):
    terminal = chat("bob").wait_for("bob>").say("read a.txt").wait_for("bob/os wants to use berm.fs.")
    terminal.wait_for("files = ").wait_for("path: ").wait_for("Allow it?").wait_for("[n] no:")
    terminal.say("perhaps").wait_for("is none of them").wait_for("[n] no:").say(answer)
    while terminal.wait_for_one("path: ", "Found") != "Found":  # both calls may ask
        terminal.wait_for("[n] no:").say(answer)
    terminal.wait_for("bob>")
    assert scope in {one.scope for one in client.list_approvals().approvals}
    for one in client.list_approvals().approvals:
        client.revoke_approval(id=one.id)


def test_an_approval_that_is_not_given_is_a_tools_error(chat):
    terminal = chat("bob").wait_for("bob>").say("read a.txt").wait_for("path: ").wait_for("[n] no:").say("n")
    terminal.wait_for("path: ").wait_for("[n] no:").type("\x03")
    terminal.wait_for("✗ read").wait_for("✗ read").wait_for("bob>")


def test_a_question_that_is_answered_elsewhere_is_taken_back(chat):
    first = chat("ann").wait_for("ann>").type("half a thought").wait_for("half a thought")
    second = chat("ann").wait_for("ann>").say("ask me").wait_for("answer").type("gre")
    first.wait_for("ann asks:").wait_for("answer").say("blue")
    second.wait_for("answered elsewhere").wait_for("You like blue.").wait_for("ann>")
    first.wait_for("ann>").wait_for("half a thought").say("").wait_for("You said: half a thought")


# How it begins


def run(talker, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "crabtalk", *arguments, "--home", str(talker.home)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


def test_a_pipe_is_read_line_by_line(talker):
    done = run(talker, "chat", "ann", input="hello\nmany\\\nlines\n/nothing\nfail\n")
    assert (done.returncode, done.stderr) == (DONE, "")
    lines = done.stdout.splitlines()
    assert lines[1:6] == [
        "You said: hello",
        "You said: many",
        "lines",
        "error: there is no command or skill /nothing; /help says what there is",
        r"error: the model did not answer: model `demo`: no \x1b]0;title\x07 way",
    ]


def test_a_file_is_read_as_a_pipe_is(talker, tmp_path):
    file = tmp_path / "lines"
    file.write_text("hello")
    with file.open() as stdin:
        done = run(talker, "chat", "ann", stdin=stdin)
    assert "You said: hello\n" in done.stdout


def test_a_session_may_have_a_root(talker):
    assert run(talker, "chat", "ann", "--root", "sub", input="hello\n").returncode == DONE
    done = run(talker, "chat", "--continue", "--root", "sub", input="")
    assert (done.returncode, done.stderr) == (
        USAGE,
        "crabtalk: --root: a session has the root that it was begun with\n",
    )


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["nobody"], HOST_ERROR, "there is no agent nobody"),
        (["--resume", "chat:none"], HOST_ERROR, "there is no session `chat:none`"),
    ],
)
def test_what_is_not_there_is_said(talker, arguments, status, message):
    done = run(talker, "chat", *arguments, input="")
    assert (done.returncode, done.stderr) == (status, f"crabtalk: {message}\n")


def test_without_a_daemon_it_says_how_to_start_one(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "crabtalk", "chat", "--home", str(tmp_path)],
        input="",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == HOST_ERROR
    assert "start it with `crabtalk up`" in done.stderr
