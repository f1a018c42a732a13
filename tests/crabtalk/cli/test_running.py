"""What happens over time: wakes, events, the audit, logs, and what runs now."""

import json
import re
import signal
import subprocess
import sys
import time

import pytest

from berm.cli.exits import DONE, HOST_ERROR, INTERRUPTED, USAGE
from crabtalk.cli.instants import show_instant

WITHIN_S = 30


def until(found, within_s=WITHIN_S):
    """Ask again and again, and return the first answer that is one."""
    deadline = time.monotonic() + within_s
    while not (answer := found()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return answer


@pytest.fixture
def rows(run, ask, agent):
    """The agent's rows of the audit."""
    (agent_id,) = [one["id"] for one in ask("agent", "ls") if one["name"] == agent]

    def rows(*arguments):
        status, out, err = run("audit", *arguments, "--json")
        assert (status, err) == (DONE, "")
        return [row for row in map(json.loads, out.splitlines()) if row["agent"] == agent_id]

    return rows


@pytest.fixture
def background(daemon):
    """Start a command beside the test: its process; it does not outlive the test."""
    started = []

    def background(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "crabtalk", *arguments, "--home", str(daemon.home)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield background
    for process in started:
        process.kill()
        process.communicate()


def test_a_wake_runs_and_leaves_a_row(ask, agent, rows):
    made = ask("wake", "in", "1s", agent, "alarm", "get up")
    assert made["state"] == "pending"
    (row,) = until(lambda: [row for row in rows() if row["trigger"] == "wake"])
    assert (row["harness"], row["tool"], row["outcome"]) == ("alarm", "on_wake", "done")
    assert ask("wake", "ls", agent) == []


def test_a_wake_is_listed_until_it_is_removed(run, agent):
    at = "2099-01-31T08:00"
    status, out, err = run("wake", "at", at, agent, "alarm", "--zone", "Europe/Berlin", "--key", "k")
    wake_id, shown = out.decode().strip().split("\t")
    at_ms = 4073526000000
    assert (status, err, shown) == (DONE, "", show_instant(at_ms))
    assert run("wake", "ls", agent)[1].decode() == f"{wake_id}\t{shown}\t{agent}\talarm\tk\tpending\n"
    assert run("wake", "ls", agent, "alarm")[1] == run("wake", "ls", agent)[1]
    assert wake_id.encode() in run("wake", "ls")[1]
    assert run("wake", "rm", wake_id) == (DONE, b"", "")
    assert run("wake", "ls", agent) == (DONE, b"", "")


def test_an_instant_that_has_passed_is_due_at_once_and_the_command_says_so(run, agent, rows):
    status, _, err = run("wake", "at", "2020-01-01T08:00Z", agent, "alarm", "late")
    assert (status, err) == (DONE, f"{show_instant(1577865600000)} has passed, so it is due at once\n")
    until(lambda: [row for row in rows() if row["trigger"] == "wake"])


def test_the_audit_says_that_a_wake_was_late_and_which_it_was(run, ask, agent, rows):
    # With a word on stderr: the instant has passed.
    said = run("wake", "at", "2020-01-01T08:00Z", agent, "alarm", "--key", "k", "--json")[1]
    wake = json.loads(said)
    (row,) = until(lambda: [row for row in rows() if row["trigger"] == "wake"])
    assert (row["reason"], row["subject"], row["key"]) == ("late", wake["id"], "k")
    assert (row["scheduled_at_ms"], row["attempt"]) == (1577865600000, 1)
    assert row["epoch"] > 0
    assert "\twake, late\t" in run("audit", "-n", "1")[1].decode()
    ask("wake", "in", "1s", agent, "alarm")
    (row,) = until(lambda: [row for row in rows() if row["reason"] == "due"])
    assert "key" not in row
    run("call", agent, "alarm", "say", '{"text": "x"}')
    (row,) = until(lambda: [row for row in rows() if row["trigger"] == "tool"])
    assert (row["client"][:9], row["reason"], "subject" in row, "epoch" in row) == (
        "unix:pid ", "", False, False
    )  # fmt: skip


def test_a_wake_may_be_a_turn_of_the_agent_itself(run, ask, agent, rows):
    made = ask("wake", "in", "1d", agent, ".", "look around")
    assert f"{agent}\t.\t\tpending".encode() in run("wake", "ls", agent)[1]
    run("wake", "rm", made["id"])
    ask("wake", "in", "1s", agent, ".", "look around")
    (row,) = until(lambda: [row for row in rows() if row["tool"] == "turn"])
    assert (row["trigger"], row["harness"], row["outcome"]) == ("wake", "", "done")


def test_the_same_key_replaces(ask, agent):
    for year in (2098, 2099):
        ask("wake", "at", f"{year}-01-01T00:00Z", agent, "alarm", "--key", "k")
    (one,) = ask("wake", "ls", agent)
    assert show_instant(one["at_ms"]).startswith(("2099-01-01", "2098-12-31"))


def test_one_wake_that_is_gone_does_not_keep_the_others(run, ask, agent):
    made = ask("wake", "in", "1d", agent, "alarm")
    status, _, err = run("wake", "rm", "01ARZ3NDEKTSV4RRFFQ69G5FAV", made["id"])
    assert (status, len(err.splitlines())) == (HOST_ERROR, 1)
    assert ask("wake", "ls", agent) == []


def test_an_instant_that_is_none_asks_no_daemon(run):
    status, out, err = run("wake", "at", "someday", "nobody", "alarm")
    assert (status, out) == (USAGE, b"")
    assert err.startswith("crabtalk: expected an instant like 2030-01-31T08:00, ")


def test_an_event_is_seen_by_whoever_looks(run, background):
    tail = background("event", "tail", "alarm:*", "-n", "1", "--json")
    deadline = time.monotonic() + WITHIN_S
    while tail.poll() is None:  # whoever looks late sees nothing
        assert run("event", "publish", "alarm:tested", "payload") == (DONE, b"", "")
        assert time.monotonic() < deadline
        time.sleep(0.1)
    event = json.loads(tail.communicate()[0])
    assert (event["source"], event["payload"], tail.returncode) == ("alarm:tested", "payload", DONE)


def test_a_subscription_delivers_to_the_harness(run, ask, agent, rows):
    made = ask("event", "subscribe", "alarm:for-me", agent, "alarm")
    assert f"{made['id']}\talarm:for-me\t{agent}/alarm\t\n".encode() in run("event", "ls")[1]
    run("event", "publish", "alarm:for-me", "hello")
    (row,) = until(lambda: [row for row in rows() if row["trigger"] == "event"])
    assert (row["tool"], row["outcome"]) == ("on_notify", "done")
    assert run("event", "unsubscribe", str(made["id"])) == (DONE, b"", "")
    assert run("event", "unsubscribe", str(made["id"]))[0] == HOST_ERROR


def test_a_subscription_may_be_the_agent_s_own(run, ask, agent, rows):
    made = ask("event", "subscribe", "alarm:for-agents", agent)
    assert f"{made['id']}\talarm:for-agents\t{agent}\t\n".encode() in run("event", "ls")[1]
    run("event", "publish", "alarm:for-agents", "hello")
    (row,) = until(lambda: [row for row in rows() if row["tool"] == "turn"])
    assert (row["trigger"], row["outcome"]) == ("event", "done")
    assert run("event", "unsubscribe", str(made["id"])) == (DONE, b"", "")


def test_once_is_shown_and_kept(run, agent, rows):
    _, out, _ = run("event", "subscribe", "alarm:once", agent, "alarm", "--once")
    assert f"{out.decode().strip()}\talarm:once\t{agent}/alarm\tonce\n".encode() in run("event", "ls")[1]
    run("event", "publish", "alarm:once", "1")
    run("event", "publish", "alarm:once", "2")
    until(lambda: [row for row in rows() if row["trigger"] == "event"])
    assert b"alarm:once" not in run("event", "ls")[1]


def test_a_payload_that_is_no_text_is_refused_here(run, tmp_path):
    (tmp_path / "blob").write_bytes(b"\xff")
    assert run("event", "publish", "alarm:x", f"@{tmp_path}/blob") == (
        USAGE,
        b"",
        "crabtalk: a payload is text, and this is not UTF-8\n",
    )


def test_a_source_that_is_the_daemon_s_is_refused(run):
    status, _, err = run("event", "publish", "wake:missed")
    assert (status, len(err.splitlines())) == (HOST_ERROR, 1)


def test_the_audit_shows_each_call_the_oldest_first(run, agent, rows):
    for tool in ("say", "refuse", "crash"):
        run("call", agent, "alarm", tool, '{"text": "x"}' if tool == "say" else '{"message": "no"}')
    run("call", agent, "alarm", "crash")
    found = until(lambda: rows() if len(rows()) == 4 else None)
    assert [(row["tool"], row["outcome"]) for row in found] == [
        ("say", "done"),
        ("refuse", "failed"),
        ("crash", "failed"),  # no such argument
        ("crash", "trap"),
    ]
    line = run("audit", "-n", "1")[1].decode().rstrip("\n").split("\t")
    assert line[1:6] == ["tool", agent, "alarm", "crash", "trap"]


def test_the_audit_can_be_narrowed(run, agent, rows):
    run("call", agent, "alarm", "say", '{"text": "x"}')
    until(rows)
    assert len(rows("--since", "1h", "--harness", "alarm")) == 1
    assert rows("--harness", "clock") == []
    assert rows("--since", "2099-01-01T00:00") == []


def test_ps_shows_what_runs_and_what_is_next(run, ask, agent, background):
    ask("wake", "in", "1d", agent, "alarm", "--key", "k")
    spinning = background("call", agent, "alarm", "spin", "--deadline", "30")
    now = until(lambda: (found := ask("ps"))["invocations"] and found)
    (one,) = now["invocations"]
    assert (one["harness"], one["tool"], one["trigger"]) == ("alarm", "spin", "tool")
    assert one["outcome"] in {"running", "queued"}
    assert now["next_wakes"][0]["key"] == "k"
    text = run("ps")[1].decode()
    assert re.match(r"\d+ running, \d+ queued; \d+ wakes pending, \d+ spilled\n", text)
    assert "\ninvocations\n" in text
    assert "\nnext wakes\n" in text
    spinning.kill()
    until(lambda: not ask("ps")["invocations"])


def test_a_client_that_goes_away_ends_its_call(run, agent, background, rows):
    spinning = background("call", agent, "alarm", "spin", "--deadline", "60")
    until(lambda: b"spin" in run("ps")[1])
    spinning.kill()
    (row,) = until(lambda: [row for row in rows() if row["tool"] == "spin"])
    assert row["outcome"] == "cancelled"


@pytest.mark.usefixtures("agent")
def test_ctrl_c_ends_a_call_and_its_guest(agent, background, rows, run):
    spinning = background("call", agent, "alarm", "spin", "--deadline", "60")
    until(lambda: b"spin" in run("ps")[1])
    spinning.send_signal(signal.SIGINT)
    assert spinning.communicate(timeout=WITHIN_S)[1] == "crabtalk: interrupted\n"
    assert spinning.returncode == INTERRUPTED
    assert until(lambda: [row["outcome"] for row in rows()]) == ["cancelled"]


def test_logs_show_what_was_kept_and_end(run):
    until(lambda: run("logs")[1])
    status, out, err = run("logs", "-n", "1")
    assert (status, err) == (DONE, "")
    assert len(out.splitlines()) == 1
    assert json.loads(run("logs", "--json", "-n", "1")[1])["level"] in {"debug", "info", "warning", "error"}


def test_logs_follow(background, run, ask, agent):
    tail = background("logs", "-f", "--json")
    ask("event", "subscribe", "alarm:logged", agent, "alarm")
    run("event", "publish", "alarm:logged", "a word")
    for line in tail.stdout:
        if "heard a word from alarm:logged" in json.loads(line)["text"]:
            break
    else:
        pytest.fail("the log ended")


def test_status_says_that_it_runs(run, ask, daemon):
    found = ask("status")
    assert (found["running"], found["home"]) == (True, str(daemon.home))
    assert found["process"] == daemon.process.pid
    status, out, err = run("status")
    assert (status, err) == (DONE, "")
    assert out.decode().splitlines()[1:3] == [f"home\t{daemon.home}", f"process\t{daemon.process.pid}"]


def test_version_names_both_sides(ask):
    from importlib.metadata import version

    assert ask("version") == {"command": version("crabtalk"), "daemon": version("crabtalk")}


def test_another_version_on_the_other_side_is_said(run, monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "0.0.9")
    status, out, err = run("version")
    assert (status, err) == (DONE, "crabtalk: the daemon runs another version: restart it\n")
    assert out.splitlines()[0] == b"command\t0.0.9"


def test_a_message_of_several_lines_is_one_line_of_what_was_found(run, agent, background):
    asking = background("ask", agent, "narwhals\n\n  and whales")
    asking.communicate(timeout=WITHIN_S)
    assert asking.returncode == DONE
    status, out, err = run("sessions", "search", "narwhals", "--agent", agent)
    assert (status, err) == (DONE, "")
    assert "> user: narwhals and whales" in out.decode().splitlines()
