"""The daemon as a process: starting, stopping, reloading, and losing power."""

import contextlib
import hashlib
import json
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from crabtalk.client import NotRunning, SyncClient
from crabtalk.errors import CrabtalkError, RequestError
from crabtalk.store.opening import open_store
from daemons import PROGRAM, Daemon, running_daemon, temporary_home
from guest_images import image, image_path

OPERATING = Path(__file__).parents[3] / "docs" / "operating.md"
HOUR_MS = 3_600_000


@pytest.fixture
def daemon():
    with running_daemon() as daemon:
        yield daemon


def put(client, name, elf):
    return client.put_harness(name=name, elf=elf, sha256=hashlib.sha256(elf).hexdigest())


def declare(client, name="ann", **harness):
    put(client, "alarm", image("alarm"))
    return client.create_agent(name=name, config=json.dumps({"harnesses": [{"name": "alarm", **harness}]})).id


def until(condition, timeout_s=20):
    ends = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < ends
        time.sleep(0.01)
    return found


class Calling:
    """A tool call in a thread."""

    def __init__(self, daemon, **call):
        self.outcome = self.error = None
        self._client = daemon.client()
        self._thread = threading.Thread(target=self._run, args=(call,))
        self._thread.start()

    def _run(self, call):
        with self._client as client:
            try:
                self.outcome = client.call_tool(**call)
            except CrabtalkError as error:
                self.error = error

    def join(self):
        self._thread.join(30)
        return self.outcome


def spinning(daemon, agent, **options):
    call = Calling(daemon, agent=agent, harness="alarm", tool="spin", args=b"{}", **options)
    with daemon.client() as client:
        until(lambda: client.get_stats().running)
    return call


def run(*arguments, environment=None):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **(environment or {})},
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_and_it_leaves_nothing_behind(daemon, number):
    with daemon.client() as client:
        client.ping()
    assert daemon.stop(number) == 0
    assert daemon.output == ""
    assert [path.name for path in daemon.home.run.iterdir() if path.is_socket()] == []
    assert daemon.home.holder() is None
    with pytest.raises(NotRunning):
        SyncClient.connect(daemon.home.root)


def test_everything_in_its_home_is_the_owners_alone(daemon):
    modes = {
        path.relative_to(daemon.home.root).as_posix(): stat.S_IMODE(path.lstat().st_mode)
        for path in daemon.home.root.rglob("*")
        if path.name not in {"config.toml", "n"}  # the test made these
    }
    assert {"store.db", "lock", "run/crabtalk.sock", "run/metrics.sock"} <= modes.keys()
    assert {mode & 0o077 for mode in modes.values()} == {0}


def test_the_documentation_lists_everything_in_a_home(daemon):
    listed = re.findall(r"`([^`]+)`", OPERATING.read_text().partition("## The home")[2].partition("\n## ")[0])
    there = {
        path.relative_to(daemon.home.root).as_posix()
        for path in daemon.home.root.rglob("*")
        # The test made `n`; SQLite has a journal for a moment, until its file is in WAL mode.
        if not path.is_dir() and path.name != "n" and path.suffix != ".db-journal"
    }
    assert "run/mcp.sock" in there
    assert there - set(listed) == set()
    assert {path.name for path in daemon.home.root.iterdir() if path.is_dir()} <= {
        one.partition("/")[0] for one in listed
    }


def test_a_home_is_served_once_and_the_second_says_by_whom(daemon):
    second = run("--home", daemon.home.root)
    assert second.returncode == 1
    assert second.stderr == (f"crabtalkd: {daemon.home.root} is in use by process {daemon.process.pid}\n")
    with daemon.client() as client:
        client.ping()


def test_two_homes_share_nothing(daemon):
    with running_daemon() as other, daemon.client() as here, other.client() as there:
        declare(here)
        assert [one.name for one in here.list_agents().agents] == ["ann"]
        assert list(there.list_agents().agents) == []
        assert list(there.list_harnesses().harnesses) == []
        assert other.stop() == 0
        here.ping()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("tpc = true\n", "config.toml: unknown key `tpc`; did you mean `tcp`?"),
        ("[secrets]\nkey = '${NOT_SET_ANYWHERE}'\n", "secrets.key: ${NOT_SET_ANYWHERE} is not set"),
    ],
)
def test_a_mistake_in_the_configuration_is_said_before_anything_is_opened(config, message):
    with temporary_home() as home:
        home.config_file.write_text(config)
        ended = run("--home", home.root)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert message in ended.stderr
        assert not home.store_file.exists()


def test_a_store_that_is_none_is_named():
    with temporary_home() as home:
        home.store_file.write_bytes(b"this is not a database, and longer than a header of one" * 100)
        ended = run("--home", home.root)
        assert ended.returncode == 1
        assert str(home.store_file) in ended.stderr
        assert "Traceback" not in ended.stderr


def test_a_port_of_metrics_that_is_taken_is_named():
    with socket.socket() as taken, temporary_home() as home:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        home.config_file.write_text(f"[metrics]\nlisten = '127.0.0.1:{port}'\n")
        ended = run("--home", home.root)
        assert ended.returncode == 1
        assert f"metrics.listen: 127.0.0.1:{port}: address already in use" in ended.stderr
        assert "Traceback" not in ended.stderr


def test_usage_is_64_and_help_is_0():
    assert run("--hme", "/tmp").returncode == 64
    assert run("--help").returncode == 0
    assert run("--version").stdout.startswith("crabtalkd ")


def test_what_runs_is_let_finish_and_answered():
    with running_daemon("[shutdown]\ndrain = '20s'\n") as daemon:
        with daemon.client() as client:
            agent = declare(client)
        call = spinning(daemon, agent, deadline_ms=1500)
        started = time.monotonic()
        daemon.process.terminate()
        assert daemon.notified("STOPPING=1")[1] == "EXTEND_TIMEOUT_USEC=50000000"
        with pytest.raises(NotRunning):
            daemon.client()
        assert daemon.wait() == 0
        assert call.join().trap.kind == "deadline"
        assert time.monotonic() - started < 10


def test_new_work_is_refused_while_it_stops():
    with running_daemon("[shutdown]\ndrain = '20s'\n") as daemon:
        with daemon.client() as client:
            agent = declare(client)
            call = spinning(daemon, agent, deadline_ms=1500)
            daemon.process.terminate()
            daemon.notified("STOPPING=1")
            with pytest.raises(RequestError) as caught:
                client.call_tool(agent=agent, harness="alarm", tool="say", args=b'{"text": ""}')
            assert caught.value.code == 503
            client.ping()
        assert daemon.wait() == 0
        assert call.join().trap.kind == "deadline"


def test_what_does_not_finish_in_time_is_interrupted_and_its_client_is_told():
    with running_daemon("[shutdown]\ndrain = 0.2\n") as daemon:
        with daemon.client() as client:
            agent = declare(client)
        call = spinning(daemon, agent)
        started = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - started < 10
        assert (call.join().trap.kind, call.outcome.trap.message) == ("cancelled", "the daemon is stopping")
        daemon.start()
        with daemon.client() as client:
            (row,) = client.list_invocations().invocations
        assert (row.tool, row.outcome) == ("spin", "cancelled")


def test_a_second_signal_does_not_wait():
    with running_daemon("[shutdown]\ndrain = '1h'\n") as daemon:
        with daemon.client() as client:
            agent = declare(client)
        call = spinning(daemon, agent)
        daemon.process.terminate()
        daemon.notified("STOPPING=1")
        started = time.monotonic()
        assert daemon.stop() == 1
        assert time.monotonic() - started < 8
        call.join()


def test_a_command_that_a_tool_started_ends_with_the_daemon(tmp_path):
    with running_daemon("[shutdown]\ndrain = 0\n") as daemon:
        with daemon.client() as client:
            put(client, "os", image("os"))
            declared = {"harnesses": [{"name": "os", "root": str(tmp_path)}]}
            agent = client.create_agent(name="ann", config=json.dumps(declared)).id
        script = {"command": "echo $$ > pid; exec sleep 600"}
        call = Calling(daemon, agent=agent, harness="os", tool="bash", args=json.dumps(script).encode())
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        assert commands_in(tmp_path)
        assert daemon.stop() == 0
        call.join()
        until(lambda: not commands_in(tmp_path))


def commands_in(directory):
    """Return the processes that work in a directory."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (entry / "cwd").readlink() == directory:
                found.append(int(entry.name))
    return found


def test_what_was_acknowledged_is_there_after_the_plug_was_pulled(daemon):
    with daemon.client() as client:
        agent = declare(client, schedule=9)
        at_ms = int(time.time() * 1000) + HOUR_MS
        wake = client.schedule_wake(agent=agent, harness="alarm", at_ms=at_ms, payload=b"p", key="k")
        subscribed = client.subscribe_event(source="news", target_harness=f"{agent}/alarm")
        client.create_session(session_handle="s", agent=agent)
        sha256 = client.inspect_harness(name="alarm").sha256
        daemon.kill()
    daemon.start()
    with daemon.client() as client:
        assert [one.id for one in client.list_agents().agents] == [agent]
        assert list(client.list_wakes(agent=agent).wakes) == [wake]
        assert list(client.list_subscriptions().subscriptions) == [subscribed]
        assert [one.file_path for one in client.list_conversations().conversations] == ["s"]
        assert client.inspect_harness(name="alarm").sha256 == sha256
        done = client.call_tool(agent=agent, harness="alarm", tool="say", args=b'{"text": "hello"}')
        assert done.done == b"hello"
    assert daemon.stop() == 0
    with open_store(daemon.home.store_file) as store:
        assert store.check() == []
    assert "boot=2" in daemon.logged("boot=2")


def test_a_wake_that_was_due_while_nobody_was_there_runs_late(daemon):
    with daemon.client() as client:
        agent = declare(client, schedule=9)
        client.schedule_wake(agent=agent, harness="alarm", at_ms=int(time.time() * 1000) + 1500)
        daemon.kill()
    time.sleep(3)
    daemon.start()
    with daemon.client() as client:
        (row,) = until(lambda: client.list_invocations().invocations)
        assert (row.trigger, row.tool, row.agent) == ("wake", "on_wake", agent)
        assert not client.list_wakes(agent=agent).wakes


def test_hangup_reads_the_configuration_again(daemon):
    daemon.configure("[log]\nlevel = 'debug'\nformat = 'json'\nkeep_lines = 5\n")
    daemon.process.send_signal(signal.SIGHUP)
    assert daemon.notified("RELOADING=1")
    assert daemon.notified("READY=1")
    read = json.loads(daemon.logged("configuration read again"))
    assert (read["level"], read["logger"]) == ("info", "crabtalk.daemon")
    assert "log.keep_lines changes with the next start" in daemon.logged("keep_lines")
    with daemon.client() as client:
        config = json.loads(client.get_config().config)
        assert (config["log"]["level"], config["log"]["keep_lines"]) == ("debug", 1000)
    daemon.configure("[log]\nlevle = 'info'\n")
    daemon.process.send_signal(signal.SIGHUP)
    assert "unknown key `log.levle`" in daemon.logged("the configuration was not taken")
    with daemon.client() as client:
        assert json.loads(client.get_config().config) == config
    assert daemon.stop() == 0


def test_files_in_the_home_add_bytes_at_the_start_and_at_a_reload():
    with temporary_home() as home:
        (home.harnesses / "alarm.elf").write_bytes(image("alarm"))
        (home.harnesses / "broken.elf").write_bytes(b"\x7fELF and nothing more")
        daemon = Daemon(home)
        try:
            daemon.start()
            with daemon.client() as client:
                assert [one.name for one in client.list_harnesses().harnesses] == ["alarm"]
                assert "harness=broken" in daemon.logged("harness file not taken")
                (home.harnesses / "os.elf").write_bytes(image("os"))
                daemon.process.send_signal(signal.SIGHUP)
                until(lambda: [one.name for one in client.list_harnesses().harnesses] == ["alarm", "os"])
            assert daemon.stop() == 0
        finally:
            if daemon.running:
                daemon.kill()


def test_tcp_is_for_who_has_the_token():
    with running_daemon("tcp = {enabled = true, port = 0}\n") as daemon:
        port = int((daemon.home.run / "crabtalk.port").read_text())
        assert port > 0
        token = daemon.home.token_file
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        daemon.home.socket.unlink()  # so that the client has no other way
        with daemon.client() as client:
            client.ping()
        token.write_text("another\n")
        with pytest.raises(RequestError) as caught:
            daemon.client()
        assert caught.value.code == 401
        assert daemon.stop() == 0
        assert not (daemon.home.run / "crabtalk.port").exists()


def ask_page(daemon, path):
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(str(daemon.home.metrics_socket))
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        answer = b""
        while part := stream.recv(1 << 16):
            answer += part
    return answer.decode()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of another process are Linux's")
def test_a_store_that_cannot_be_written_is_bad_health_until_it_can():
    with running_daemon(environment={"WATCHDOG_USEC": "300000"}) as daemon, daemon.client() as client:
        assert "\r\n\r\nok\n" in ask_page(daemon, "/healthz")
        _, most = resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (1, most))
        with pytest.raises(RequestError):
            client.create_agent(name="ann", config="{}")
        answer = ask_page(daemon, "/healthz")
        assert answer.startswith("HTTP/1.1 503 ")
        assert "store.db`: " in answer
        assert "crabtalk_store_trouble 1.0" in ask_page(daemon, "/metrics")
        assert "store.db" in daemon.notified("STATUS=store")[0]
        daemon.notified("WATCHDOG=1")  # a restart would change nothing
        resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (most, most))
        client.create_agent(name="ann", config="{}")
        assert "\r\n\r\nok\n" in ask_page(daemon, "/healthz")
        assert "crabtalk_store_trouble 0.0" in ask_page(daemon, "/metrics")
        daemon.notified("STATUS=serving")


def test_metrics_and_health_are_served(daemon):
    with daemon.client() as client:
        agent = declare(client)
        client.call_tool(agent=agent, harness="alarm", tool="say", args=b'{"text": ""}')
        for _ in range(2):
            with pytest.raises(RequestError):
                client.get_agent(name="nobody")
        assert ask_page(daemon, "/healthz").endswith("\r\n\r\nok\n")
        text = ask_page(daemon, "/metrics")
    for line in (
        'crabtalk_invocations_total{outcome="done",trigger="tool"} 1.0',
        "crabtalk_agents 1.0",
        'crabtalk_errors_total{code="404"} 2.0',
        "crabtalk_connections 1.0",
        "crabtalk_images_linked 1.0",
        "crabtalk_arenas_live 0.0",
        "crabtalk_wakes_late_total 0.0",
    ):
        assert line in text.splitlines()


def test_the_watchdog_hears_of_it():
    with running_daemon(environment={"WATCHDOG_USEC": "300000"}) as daemon:
        for _ in range(3):
            daemon.notified("WATCHDOG=1", 1.0)


def test_a_secret_is_not_in_the_log_of_a_guest_that_knows_it():
    environment = {"API": "sk-very-secret"}
    with running_daemon("[secrets]\nopenai = '${API}'\n", environment) as daemon, daemon.client() as client:
        agent = declare(client)
        client.subscribe_event(source="news", target_harness=f"{agent}/alarm")
        client.publish_event(source="news", payload="sk-very-secret")
        assert "heard [redacted] from news" in daemon.logged("from news")
        assert "sk-very-secret" not in client.get_config().config
        with client.tail_logs(level="info") as lines:
            texts = [lines.next_within(5).text for _ in range(4)]
        assert "sk-very-secret" not in "".join(texts)


def test_a_secret_that_a_reload_brings_is_in_no_reason_from_then_on():
    with running_daemon("[secrets]\nold = 'sk-the-old-one'\n") as daemon, daemon.client() as client:
        agent = declare(client)

        def failing(text):
            args = json.dumps({"message": text}).encode()
            return client.call_tool(agent=agent, harness="alarm", tool="refuse", args=args).failed

        assert failing("sk-the-old-one sk-the-new-one") == "[redacted] sk-the-new-one"
        daemon.configure("[secrets]\nnew = 'sk-the-new-one'\n")
        daemon.process.send_signal(signal.SIGHUP)
        daemon.logged("configuration read again")
        assert failing("sk-the-old-one sk-the-new-one") == "[redacted] [redacted]"


def test_looping_guests_on_all_workers_leave_others_their_answers():
    with running_daemon("[executor]\nworkers = 2\n[shutdown]\ndrain = 0\n") as daemon:
        with daemon.client() as client:
            looping, quick = declare(client, "ann"), declare(client, "bob")
            calls = [spinning(daemon, looping) for _ in range(4)]
            slowest = 0.0
            for _ in range(50):
                started = time.monotonic()
                done = client.call_tool(agent=quick, harness="alarm", tool="say", args=b'{"text": "x"}')
                slowest = max(slowest, time.monotonic() - started)
                assert done.done == b"x"
            assert slowest < 1.0
        assert daemon.stop() == 0
        assert {call.join().trap.kind for call in calls} == {"cancelled"}


def test_the_program_needs_no_warning_to_be_silenced(daemon):
    """It was started with every warning as an error."""
    assert daemon.stop() == 0
    assert [line for line in daemon.log if "Warning" in line or "ERROR" in line] == []
    assert image_path("alarm").exists()
