"""What was acknowledged is there, and nothing is half there: after a kill, a failing disk, a power loss."""

import errno
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import power_loss
import store_trials
from crabtalk.store.sqlite import SqliteEngine

TESTS = Path(store_trials.__file__).parent
STEP = 7  # every so many operations of the disk; all of them in `make soak`
POINTS = 60
KILLS = 6

every_operation = pytest.mark.parametrize("step", [STEP, pytest.param(1, marks=pytest.mark.soak)])


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """The library that stands between a process and its disk."""
    compiler = shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("needs LD_PRELOAD and a C compiler")
    built = tmp_path_factory.mktemp("disk") / "disk.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", built, TESTS / "disk.c"]
    subprocess.run(command, check=True)
    return built


def trials(disk, *arguments):
    done = subprocess.run(
        [sys.executable, TESTS / "store_trials.py", *map(str, arguments)],
        env={**os.environ, "LD_PRELOAD": str(disk)},
        capture_output=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@every_operation
def test_a_process_that_dies_at_any_operation_loses_nothing(disk, tmp_path, step):
    report = json.loads(trials(disk, "die", tmp_path, step))
    assert len(report) > 400 / step
    assert [one["status"] for one in report[:-1]] == [-9] * (len(report) - 1)
    assert report[-1]["status"] == 0
    assert [one for one in report if one["wrong"]] == []


@every_operation
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_fails_at_any_operation_loses_nothing(disk, tmp_path, step, code):
    report = json.loads(trials(disk, "fail", tmp_path, step, code))
    assert len(report) > 400 / step
    assert [one for one in report if one["wrong"]] == []
    everything = list(range(store_trials.BATCHES))
    for one in report:
        refused = {int(number) for number in one["refused"]}
        assert refused == {-1} or sorted({*one["acknowledged"], *refused}) == everything
        for text in one["refused"].values():
            assert text.startswith("store `")
            assert "disk" in text
    # Some operations are the store's own housekeeping, and it can do without.
    assert any(one["acknowledged"] == everything for one in report)
    assert any(one["refused"] for one in report)


@pytest.fixture(scope="module")
def log(disk, tmp_path_factory):
    place = tmp_path_factory.mktemp("recorded")
    trials(disk, "record", place, place / "log")
    return power_loss.read_log((place / "log").read_bytes())


def points(log, way, number):
    """Replay a log, and stop at so many places for what the disk holds then."""
    chosen = set(random.Random(way.__name__).sample(range(len(log)), min(number, len(log))))
    simulated = power_loss.Disk()
    for at, operation in enumerate(log):
        simulated.follow(operation)
        if at in chosen:
            files = simulated.after_power_loss(way, power_loss.seeded(way.__name__, at))
            yield at, files, list(simulated.acknowledged)


def look(directory, files, acknowledged):
    directory.mkdir()
    for name, content in files.items():
        (directory / name).write_bytes(content)
    attempted = max(acknowledged, default=-1) + 1
    with SqliteEngine(directory / "store.db") as engine:
        wrong = store_trials.missing(engine, acknowledged, attempted)
        engine.apply(store_trials.batch(engine, attempted))
    shutil.rmtree(directory)
    return wrong


@pytest.mark.parametrize("number", [POINTS, pytest.param(10_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("way", power_loss.WAYS, ids=lambda way: way.__name__)
def test_a_loss_of_power_loses_nothing(log, tmp_path, way, number):
    wrong = {
        at: found
        for at, files, acknowledged in points(log, way, number)
        if (found := look(tmp_path / "found", files, acknowledged))
    }
    assert wrong == {}


def test_the_log_has_what_the_simulation_needs(log):
    kinds = {(one.kind, one.name) for one in log}
    for name in ("store.db", "store.db-wal"):
        assert {("W", name), ("S", name)} <= kinds
    assert {("U", "store.db-wal"), ("S", ""), ("W", "acks")} <= kinds
    simulated = power_loss.Disk()
    for operation in log:
        simulated.follow(operation)
    assert simulated.acknowledged == list(range(store_trials.BATCHES))


def test_every_acknowledgement_follows_an_fsync(log):
    """Between two acknowledgements something was written, and synced after the last write to the log."""
    is_synced, syncs = False, 0
    for operation in log:
        if operation.name == "acks":
            assert is_synced
            assert syncs > 0
            syncs = 0
        elif operation.name == "store.db-wal" and operation.kind == "W":
            is_synced = False
        elif operation.name == "store.db-wal" and operation.kind == "S":
            is_synced = True
            syncs += 1


def test_the_simulation_finds_a_store_that_does_not_wait(disk, tmp_path):
    """Without the fsyncs the same log must show losses, else the test above shows nothing."""
    trials(disk, "record", tmp_path, tmp_path / "log")
    log = power_loss.read_log((tmp_path / "log").read_bytes())
    careless = [one for one in log if (one.kind, one.name) != ("S", "store.db-wal")]
    wrong = []
    for _, files, acknowledged in points(careless, power_loss.nothing, 40):
        wrong += look(tmp_path / "found", files, acknowledged)
    assert wrong != []


@pytest.mark.parametrize("kills", [KILLS, pytest.param(200, marks=pytest.mark.soak)])
def test_a_process_that_is_killed_under_load_loses_nothing(path, kills):
    rng = random.Random(kills)
    acknowledged = {}
    for _ in range(kills):
        acknowledged |= run_until_killed(path, rng.randint(1, 150))
        with SqliteEngine(path) as engine:
            assert engine.check() == []
            for thread, number in acknowledged.items():
                assert number <= last_of(engine, thread) <= number + 1
                acknowledged[thread] = last_of(engine, thread)
    assert len(acknowledged) == 4


def run_until_killed(path, lines):
    """Return the last number that each thread of a writer had acknowledged when it was killed."""
    command = [sys.executable, str(TESTS / "store_trials.py"), "load", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        said = [writer.stdout.readline() for _ in range(lines)]
        writer.kill()
        said += writer.stdout.read().splitlines()
    return dict(tuple(map(int, line.split())) for line in said)


def last_of(engine, thread):
    """Return the number of a thread's last batch, of which all must be there, as of those before."""
    name = b"%d" % thread
    last = int(engine.get("kv", b"last/" + name))
    expected = [name + b"/%08d" % number for number in range(last + 1)]
    for column, start in (("text", b"a/"), ("session", b"b/")):
        found = engine.scan_keys(column, start + name + b"/", limit=1_000_000)
        assert found == [start + one for one in expected]
    prefix = b"local/id/%dW" % thread
    assert len(engine.scan_keys("wake", prefix, limit=1_000_000)) == last + 1
    assert len(engine.scan_keys("audit", name + b"/", limit=1_000_000)) <= last + 2
    return last
