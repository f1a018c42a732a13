"""`berm.exec.run`: in time, bounded, and with nothing left behind; on asyncio and on trio, at every level."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from berm import Refused
from crabtalk.capabilities import _process, _supervisor
from crabtalk.capabilities import commands as module
from crabtalk.capabilities._beneath import Root
from crabtalk.capabilities._failure import Failure
from crabtalk.capabilities._process import HeadAndTail
from crabtalk.capabilities.commands import Commands, commands, isolation_level
from descriptors import open_descriptors
from processes import Marker

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]

BEST = isolation_level()
AVAILABLE = _supervisor.LEVELS[_supervisor.LEVELS.index(BEST) :]


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    return root


# Backends differ in how they wait and cancel, levels in what they kill and cover: no need for all pairs.
at_every_level = pytest.mark.parametrize(
    ("anyio_backend", "level"), [("trio", level) for level in AVAILABLE], ids=AVAILABLE
)
wherever_a_home_can_be_covered = pytest.mark.parametrize(
    ("anyio_backend", "level"), [("trio", level) for level in AVAILABLE if level != _supervisor.NONE]
)


@pytest.fixture
def level():
    return BEST


@pytest.fixture
def bound(root, level):
    with Root(root) as opened:
        yield Commands(opened, level)


@pytest.fixture
def sh(root, bind):
    """Run a command as a guest does, at the level that this machine gives."""
    exec_ = bind(commands(root))

    async def sh(command, cwd="", *env, call=None):
        return json.loads(await exec_.wait("berm.exec.run", command, cwd, *env, call=call))

    return sh


@pytest.fixture
def marker():
    marker = Marker()
    yield marker
    assert marker.gone(), marker.alive()


def our_children():
    return [
        pid for pid in _supervisor.descendants(os.getpid()) if _supervisor._parent(str(pid)) == os.getpid()
    ]


@pytest.fixture(autouse=True)
def nothing_left():
    """Every test ends with the descriptors and the children that it began with; a zombie is a child."""
    before = set(our_children())
    yield
    assert set(our_children()) - before == set()


# What a guest gets


async def test_a_reply_has_output_and_exit_code(sh):
    assert await sh("echo out; echo err >&2; exit 3") == {
        "stdout": "out\n",
        "stderr": "err\n",
        "exit_code": 3,
    }


async def test_a_signal_is_minus_one(sh):
    assert (await sh("kill -9 $$"))["exit_code"] == -1
    assert (await sh("kill -TERM $$"))["exit_code"] == -1


async def test_the_alias_is_the_same_capability(root):
    made = {one.name: one for one in commands(root)}
    assert made["berm.exec.run"].aliases == ("crabtalk.exec.run",)
    assert made["berm.exec.run"].is_async
    assert sorted(made) == [
        "berm.exec.run",
        "berm.fs.list",
        "berm.fs.read",
        "berm.fs.remove",
        "berm.fs.stat",
        "berm.fs.write",
    ]


@pytest.mark.parametrize(
    ("cwd", "expected"), [("", ""), (".", ""), ("sub", "/sub"), ("sub/..", ""), ("./sub/", "/sub")]
)
async def test_it_starts_where_it_is_told(sh, root, cwd, expected):
    assert (await sh("pwd -P", cwd))["stdout"] == f"{root}{expected}\n"


async def test_an_absolute_directory_under_the_root_is_taken(sh, root):
    assert (await sh("pwd -P", str(root / "sub")))["stdout"] == f"{root}/sub\n"


@pytest.mark.parametrize("cwd", ["..", "/", "/etc", "out", "sub/../..", "out/root_secret"])
async def test_it_does_not_start_outside(sh, root, cwd):
    (root / "out").symlink_to("..")
    with pytest.raises(Refused, match="leaves the root"):
        await sh("pwd", cwd)


@pytest.mark.parametrize(
    ("cwd", "why"), [("missing", "no such file"), ("file", "not a directory"), ("a\0b", "NUL")]
)
async def test_a_directory_that_is_none_is_an_error(sh, root, cwd, why):
    (root / "file").touch()
    with pytest.raises(Failure, match=why):
        await sh("pwd", cwd)


async def test_the_environment_is_built_from_nothing(sh, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("LD_PRELOAD_X", "secret")
    reply = await sh("env", "", "EXTRA", "a=b\nc", "LANG", "de_DE.UTF-8")
    names = set(re.findall(r"^(\w+)=", reply["stdout"], re.MULTILINE))
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH", "HOME", "LANG", "TMPDIR", "USER", "EXTRA"}
    assert "EXTRA=a=b\nc\n" in reply["stdout"]
    assert "LANG=de_DE.UTF-8\n" in reply["stdout"]


async def test_no_environment_of_ours_is_found_above(sh, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-" + "secret")
    reply = await sh("cat /proc/$PPID/environ /proc/1/environ 2>/dev/null | tr '\\0' '\\n'")
    assert "sk-secret" not in reply["stdout"]


@pytest.mark.parametrize("key", ["", "A=B", "A\0", "="])
async def test_a_variable_that_is_none_is_an_error(sh, key):
    with pytest.raises(Failure, match="not an environment variable"):
        await sh("true", "", key, "x")


async def test_too_much_environment_or_command_is_an_error(sh):
    with pytest.raises(Failure, match="environment is larger than 262144 bytes"):
        await sh("true", "", *("A", "x" * 70_000, "B", "x" * 70_000, "C", "x" * 70_000, "D", "x" * 70_000))
    with pytest.raises(Failure, match="longer than 131071 bytes"):
        await sh("#" * 131_072)
    with pytest.raises(Failure, match="NUL"):
        await sh("echo a\0b")
    assert (await sh("echo ok #" + "x" * 131_062))["stdout"] == "ok\n"


async def test_what_the_kernel_does_not_take_is_an_error_with_its_reason(sh):
    with pytest.raises(Failure, match="argument list too long"):
        await sh("true", "", "A", "x" * 140_000)  # one string beyond what Linux takes


async def test_standard_input_is_empty(sh):
    assert await sh("cat; echo done") == {"stdout": "done\n", "stderr": "", "exit_code": 0}


async def test_there_is_no_terminal(sh):
    reply = await sh("echo x > /dev/tty; ps -o tty= -p $$; test $(ps -o sid= -p $$) -eq $$ && echo leader")
    assert reply["stdout"].split() == ["?", "leader"]


async def test_bytes_that_are_not_utf8_are_replaced(sh):
    assert (await sh(r"printf 'a\xff\xfeb\0c'"))["stdout"] == "a\ufffd\ufffdb\0c"


async def test_a_closed_pipe_ends_a_writer_silently(sh):
    assert await sh("yes | head -1") == {"stdout": "y\n", "stderr": "", "exit_code": 0}


async def test_no_descriptor_of_ours_is_inherited(sh, root):
    with (root / "file").open("w") as held:
        os.set_inheritable(held.fileno(), True)
        reply = await sh("exec ls /proc/self/fd")  # in place of the shell, which holds a pipe for a moment
    assert reply["stdout"].split() == ["0", "1", "2", "3"]  # the last is the directory that ls reads


async def test_resources_are_bounded(sh):
    reply = await sh("ulimit -c; ulimit -f; ulimit -t; ulimit -u")
    core, file_blocks, cpu_s, processes = reply["stdout"].split()
    assert (core, file_blocks) == ("0", str(16 << 20))
    assert int(cpu_s) == 31 * os.cpu_count()
    assert 2048 < int(processes) < 2048 + 100_000


# Output


async def test_output_is_kept_as_head_and_tail(sh):
    reply = await sh("seq 1 500000; seq 1 400000 >&2")
    whole = "".join(f"{i}\n" for i in range(1, 500_001))
    assert len(reply["stdout"].encode()) <= 1 << 20
    head, mark, tail = re.split(r"\n(\[\d+ bytes dropped\])\n", reply["stdout"])
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(head) == 1 << 19
    assert reply["stdout_dropped"] == len(whole) - len(head) - len(tail)
    assert mark == f"[{reply['stdout_dropped']} bytes dropped]"
    assert reply["stderr"].endswith("400000\n")
    assert reply["stderr_dropped"] > 0


async def test_output_at_the_cap_is_whole(sh):
    reply = await sh(f"head -c {1 << 20} /dev/zero | tr '\\0' x")
    assert reply == {"stdout": "x" * (1 << 20), "stderr": "", "exit_code": 0}


def test_head_and_tail_of_any_chunks():
    rng = random.Random(3)
    for _ in range(400):
        cap = rng.choice([200, 201, 1000])
        data = bytes(
            rng.randrange(256) for _ in range(rng.choice([0, 1, 99, 100, cap - 1, cap, cap + 1, 5 * cap]))
        )
        kept = HeadAndTail(cap)
        at = 0
        while at < len(data):
            size = rng.randint(1, rng.choice([3, 50, 700]))
            kept.write(data[at : at + size])
            at += size
        output = kept.taken()
        if len(data) <= cap:
            assert output == (data, 0)
            continue
        mark = b"\n[%d bytes dropped]\n" % output.dropped
        assert len(output.kept) <= cap
        head, tail = output.kept[: cap // 2], output.kept[cap // 2 + len(mark) :]
        assert output.kept[cap // 2 :].startswith(mark)
        assert data.startswith(head)
        assert data.endswith(tail)
        assert len(head) + len(tail) + output.dropped == len(data)


async def test_a_flood_is_bounded_and_leaves_the_loop_to_others(bound):
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await anyio.sleep(0.01)
            ticks += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        ended = await bound.run("yes & yes >&2; wait", "", (), 1.0)
        tasks.cancel_scope.cancel()
    assert ended.stopped
    assert ended.stdout.dropped > 10_000_000
    assert len(ended.stdout.kept) <= 1 << 20
    assert ticks > 20


# Time


@pytest.mark.parametrize(
    "command", ["sleep {0}", "sleep {0} & wait", "while :; do :; done # {0}", "exec sleep {0}"]
)
@at_every_level
async def test_a_command_is_killed_when_its_time_is_up(bound, marker, command):
    started = time.monotonic()
    ended = await bound.run(command.format(marker.seconds), "", (), 0.3)
    assert ended.stopped
    assert time.monotonic() - started < 3
    assert marker.alive() == []


@at_every_level
async def test_what_ignores_term_is_killed(bound, marker):
    started = time.monotonic()
    command = f"trap '' TERM INT HUP; sleep {marker.seconds}; sleep {marker.seconds}"
    ended = await bound.run(command, "", (), 1.0)
    assert (ended.stopped, ended.exit_code) == (True, -1)
    assert 1.9 < time.monotonic() - started < 5


@at_every_level
async def test_what_heeds_term_can_say_goodbye(bound, marker):
    ended = await bound.run(f"trap 'echo bye; exit 7' TERM; sleep {marker.seconds} & wait", "", (), 1.5)
    assert (ended.stopped, ended.exit_code, ended.stdout.kept) == (True, 7, b"bye\n")


async def test_the_guest_is_told_of_the_time_and_the_last_words(sh, new_call, marker):
    with pytest.raises(Failure) as caught:
        await sh(f"echo working; sleep {marker.seconds}", call=new_call(deadline_left=0.4))
    assert str(caught.value) == "command ran past 0.4 s and was killed; it last wrote:\nworking\n"


async def test_the_callers_deadline_is_the_smaller_of_two(sh, new_call, marker):
    started = time.monotonic()
    with pytest.raises(Failure, match="ran past"):
        await sh(f"sleep {marker.seconds}", call=new_call(deadline_left=-1))
    assert time.monotonic() - started < 3


async def test_the_default_limit_is_half_a_minute():
    assert module.LIMIT_S == 30


@pytest.mark.parametrize(
    "command", ["sleep {0}", "trap '' TERM; sleep {0}; sleep {0}", "setsid sleep {0} & wait", "yes {0}"]
)
async def test_a_cancellation_kills_and_waits(bound, marker, command):
    started = time.monotonic()
    with anyio.move_on_after(0.3) as scope:
        await bound.run(command.format(marker.seconds), "", (), 60)
    assert scope.cancelled_caught
    assert time.monotonic() - started < 5
    assert marker.alive() == []


@pytest.mark.parametrize("delay_s", [0, 0.001, 0.005, 0.02, 0.04, 0.06, 0.08])
async def test_a_cancellation_at_any_moment_leaves_nothing(bound, marker, delay_s):
    with anyio.move_on_after(delay_s):
        await bound.run(f"sleep {marker.seconds}", "", (), 60)
    assert marker.alive() == []


# What is left behind


LEFT = {
    "background": "sleep {0} & echo hi",
    "disowned": "sleep {0} & disown; echo hi",
    "nohup": "nohup sleep {0} >/dev/null 2>&1 & echo hi",
    "session": "setsid sleep {0} & echo hi",
    "double fork": "(setsid sh -c 'sleep {0} & exec sleep {0}' &) ; echo hi",
    "deaf": "(trap '' TERM HUP INT; setsid sh -c 'sleep {0}; sleep {0}') & echo hi",
    "pipe closed": "setsid sleep {0} <&- >&- 2>&- & echo hi",
    "stopped": "setsid sh -c 'kill -STOP $$; sleep {0}' & sleep 0.1; echo hi",
    "coprocess": "coproc sleep {0}; echo hi",
    "crowd": "for i in $(seq 60); do setsid sleep {0} & done; echo hi",
}


@pytest.mark.parametrize("command", LEFT.values(), ids=LEFT.keys())
@at_every_level
async def test_nothing_outlives_its_command(bound, marker, command):
    """Also what holds the pipe does not delay the reply."""
    started = time.monotonic()
    ended = await bound.run(command.format(marker.seconds), "", (), 30)
    assert time.monotonic() - started < 5
    assert (ended.stdout.kept, ended.exit_code, ended.stopped) == (b"hi\n", 0, False)
    assert marker.alive() == []


@at_every_level
async def test_a_runner_that_keeps_forking_is_caught(bound, marker):
    """Each process starts the next in a session of its own and exits at once: always one, never the same."""
    runner = (
        f"export MARK={marker.seconds}; cat > run.sh <<'END'\n"
        f"# {marker.seconds}\nsetsid bash ./run.sh {marker.seconds} & exit\nEND\n"
        f"bash ./run.sh {marker.seconds}; sleep 0.2; echo hi"
    )
    ended = await bound.run(runner, "", (), 30)
    assert ended.stdout.kept == b"hi\n"
    assert marker.alive() == []


@at_every_level
async def test_a_command_that_kills_its_parents_gets_no_further(bound, level, marker):
    command = f"setsid sleep {marker.seconds} & sleep 0.1; kill -9 $PPID; sleep 0.2; echo survived"
    if level == _supervisor.PIDS:  # the first process of a namespace cannot be killed from inside
        assert (await bound.run(command, "", (), 30)).stdout.kept == b"survived\n"
    else:
        with pytest.raises(Failure, match="supervisor of the command was killed"):
            await bound.run(f"sleep {marker.seconds} & kill -9 $PPID; sleep {marker.seconds}", "", (), 30)


async def test_other_processes_are_out_of_reach(root):
    if BEST != _supervisor.PIDS:
        pytest.skip("needs a namespace for processes")
    with Root(root) as opened:
        bound = Commands(opened, BEST)
        ended = await bound.run(
            f"kill -0 {os.getpid()} 2>&1; kill -CONT -1; ps ax | grep -c py[t]est; echo", "", (), 30
        )
    assert b"No such process" in ended.stdout.kept
    assert ended.stdout.kept.endswith(b"0\n\n")


async def test_commands_run_side_by_side(bound):
    outputs = {}

    async def run(i):
        outputs[i] = (await bound.run(f"sleep 0.1; echo {i}; setsid sleep 0.2 &", "", (), 30)).stdout.kept

    async with anyio.create_task_group() as tasks:
        for i in range(6):
            tasks.start_soon(run, i)
    assert outputs == {i: b"%d\n" % i for i in range(6)}


async def test_no_descriptor_is_leaked(bound, marker):
    await bound.run("true", "", (), 30)
    before = open_descriptors()
    for limit_s, command in ((30, "echo"), (0.1, f"sleep {marker.seconds}"), (30, "sleep 0.1 & exit 1")):
        await bound.run(command, "", (), limit_s)
    with anyio.move_on_after(0.05):
        await bound.run(f"sleep {marker.seconds}", "", (), 30)
    with pytest.raises(Failure):
        await bound.run("true", "missing", (), 30)
    with pytest.raises(Failure):
        await bound.run("true", "", [("A", "x" * 140_000)], 30)
    assert open_descriptors() == before


async def test_a_process_that_cannot_be_started_is_an_error(bound, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(Failure, match="cannot start a process: no such file or directory"):
        await bound.run("true", "", (), 30)
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(Failure, match="does not know its own executable"):
        await bound.run("true", "", (), 30)


# Isolation


@wherever_a_home_can_be_covered
async def test_the_home_is_covered(root, level, home):
    (home / "run").mkdir(parents=True)
    (home / "run" / "token").write_text("s3cret")
    with Root(root) as opened:
        bound = Commands(opened, level)
        tries = (
            f"cat {home}/run/token; ls -A {home}/run",
            f"cd {home.parent}/home/run; cat token",
            f"umount {home}; umount -l {home}; cat {home}/run/token",
            f"unshare -Urm sh -c 'umount {home}; umount -l {home}; cat {home}/run/token'",
            f"unshare -Urm sh -c 'mount -R {home.parent} sub; umount -l sub/home; cat sub/home/run/token'",
            f"mv {home} {home}2; cat {home}2/run/token",
            f"rmdir {home}; cat {home}/run/token",
            f"for p in /proc/[0-9]*; do cat $p/root{home}/run/token $p/cwd/../../{home.name}/run/token; done",
            f"for p in /proc/[0-9]*; do nsenter -t ${{p#/proc/}} -U -m cat {home}/run/token; done",
            f"cat ../../{home.parent.name}/home/run/token",
            f"find {home.parent} -name token",
        )
        for command in tries:
            ended = await bound.run(command, "", (), 30)
            assert b"s3cret" not in ended.stdout.kept, command
            assert b"run/token\n" not in ended.stdout.kept, command
    assert (home / "run" / "token").read_text() == "s3cret"


@wherever_a_home_can_be_covered
async def test_a_home_below_the_root_is_covered_too(root, level, monkeypatch):
    (root / "sub" / "home").mkdir()
    (root / "sub" / "home" / "token").write_text("s3cret")
    monkeypatch.setenv("CRABTALK_HOME", str(root / "sub" / "home"))
    with Root(root) as opened:
        bound = Commands(opened, level)
        ended = await bound.run(
            "cat home/token; cat ../sub/home/token; ls -A home; touch home/x", "sub", (), 30
        )
        assert b"s3cret" not in ended.stdout.kept
        assert ended.exit_code != 0
        with pytest.raises(Refused, match="daemon's own directory"):
            await bound.run("cat token", "sub/home", (), 30)
    assert [path.name for path in (root / "sub" / "home").iterdir()] == ["token"]


@at_every_level
async def test_files_outside_of_the_home_are_as_ever(bound, root):
    """Scoped is not sandboxed: a command is this user, and reaches what the user reaches."""
    outside = root.parent / "outside"
    ended = await bound.run("echo written > ../outside; cat ../outside; id -u; cat <(echo fd)", "", (), 30)
    assert outside.read_text() == "written\n"
    assert outside.stat().st_uid == os.geteuid()
    assert ended.stdout.kept.decode().split() == ["written", str(os.geteuid()), "fd"]


async def test_isolation_that_fails_later_is_an_error_and_never_less_of_it(root, tmp_path, monkeypatch):
    """A command that uses up the namespaces of its user must not have the next one run without."""
    broken = tmp_path / "broken.py"
    broken.write_text(
        "import sys, importlib.util, errno, ctypes\n"
        f"spec = importlib.util.spec_from_file_location('supervisor', {_process.SCRIPT!r})\n"
        "module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)\n"
        "class Exhausted:\n"
        "    def unshare(self, flags):\n"
        "        ctypes.set_errno(errno.ENOSPC); return -1\n"
        "module._libc = Exhausted()\n"
        "module.main(int(sys.argv[1]))\n"
    )
    monkeypatch.setattr(_process, "SCRIPT", str(broken))
    with Root(root) as opened:
        for level in (_supervisor.PIDS, _supervisor.MOUNTS):
            with pytest.raises(Failure, match="cannot isolate the command: unshare: no space left"):
                await Commands(opened, level).run("echo ran > ran", "", (), 30)
    assert not (root / "ran").exists()


@at_every_level
async def test_the_daemon_dying_takes_its_commands_along(root, level, marker):
    """What is left without us sees its socket closed."""
    program = (
        "import sys, anyio\n"
        "from crabtalk.capabilities._beneath import Root\n"
        "from crabtalk.capabilities.commands import Commands\n"
        "bound = Commands(Root(sys.argv[1]), sys.argv[2])\n"
        "anyio.run(bound.run, 'setsid sleep ' + sys.argv[3] + ' & sleep ' + sys.argv[3], '', (), 60)\n"
    )
    process = await anyio.open_process(
        [sys.executable, "-c", program, str(root), level, marker.seconds], stdout=None, stderr=None
    )
    with anyio.fail_after(20):
        while marker.sleepers() < 2:  # noqa: ASYNC110 - other processes set no event
            await anyio.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    assert marker.gone(within_s=5)


def test_descendants_are_found_by_parent_whatever_their_name():
    program = (
        "import time; open('/proc/self/comm', 'w').write('a) S 1 (b'); print(flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        assert Path(f"/proc/{child.pid}/comm").read_text() == "a) S 1 (b\n"
        assert child.pid in list(_supervisor.descendants(os.getpid()))
        child.kill()
