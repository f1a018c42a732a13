"""Writes batches to a store on a disk that fails, or ends it: the program of `test_crash.py`.

    store_trials.py record DIRECTORY LOG         write, and log what the disk was asked for
    store_trials.py die DIRECTORY STEP           for each STEPth operation: a child that dies there
    store_trials.py fail DIRECTORY STEP ERRNO    for each STEPth operation: it fails once
    store_trials.py load PATH                    write from several threads until killed

All but `load` run under `disk.c`. What a batch holds and what must be found of it is in `batch` and
`missing`, which the tests use too.
"""

import ctypes
import json
import os
import shutil
import sys
import threading
from dataclasses import replace
from pathlib import Path

from crabtalk.errors import StoreError
from crabtalk.store.checking import check_records
from crabtalk.store.engine import delete, put
from crabtalk.store.interfaces.wakes import WakeRecord, Wakes
from crabtalk.store.sqlite import SqliteEngine

BATCHES = 18
CHECKPOINT_PAGES = 12  # often enough to be interrupted too


def wake(number):
    return WakeRecord(
        f"W{number:04}", "A", "os", 1000 + number, b"x" * (number * 199 % 3000), key=f"k{number}"
    )


def batch(engine, number):
    """Three values and a wake; the value `latest` is overwritten, and an older wake is gone."""
    name = b"%04d" % number
    writes = [
        put("kv", b"latest", name),
        put("text", b"a/" + name, name * 100),
        put("session", b"local/handle/" + name, b"\x01{}"),
        put("text", b"b/" + name, name * (5 if number % 5 else 5000)),
        *Wakes(engine).insert(wake(number)),
    ]
    if number >= 10:
        writes += Wakes(engine).remove(wake(number - 10))
    if number == 15:
        writes += [delete("text", b"a/%04d" % n) for n in range(5)]
    return writes


def missing(engine, acknowledged, attempted):
    """Say what is not as it must be: whole batches, all acknowledged ones, none that was not written."""
    wrong = engine.check()
    latest = int(engine.get("kv", b"latest") or b"-1")
    if not max(acknowledged, default=-1) <= latest <= attempted:
        wrong.append(f"the latest is {latest}; acknowledged were {acknowledged}, attempted {attempted}")
    found = {int(name[2:]) for name in engine.scan_keys("text", b"b/")}
    gone = {int(name[2:]) for name in engine.scan_keys("text", b"a/")} ^ found
    if gone and gone != set(range(5)) & found:
        wrong.append(f"half of the batches {gone} is there")
    if not set(acknowledged) <= found or {number for number in found if number > attempted}:
        wrong.append(f"found {sorted(found)}, acknowledged were {acknowledged}, attempted {attempted}")
    wakes = {one.id for one in Wakes(engine).all()}
    if wakes != {wake(number).id for number in found if number + 10 not in found}:
        wrong.append(f"wakes {sorted(wakes)} do not go with batches {sorted(found)}")
    return wrong + [one for one in check_records(engine) if "wake" in one]


def write_batches(path, acknowledge, refused=None):
    with SqliteEngine(path) as engine:
        engine._writer._db.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        for number in range(BATCHES):
            try:
                engine.apply(batch(engine, number))
            except StoreError as error:
                if refused is None:
                    raise
                refused(number, str(error))
            else:
                acknowledge(number)


def look(path, acknowledged, attempted):
    with SqliteEngine(path) as engine:
        return missing(engine, acknowledged, attempted)


def library():
    disk = ctypes.CDLL(os.environ["LD_PRELOAD"])
    disk.disk_count.restype = ctypes.c_long
    disk.disk_watch.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_long, ctypes.c_int]
    return disk


def record(directory, log):
    watched = directory / "watched"
    watched.mkdir()
    # Acknowledgements go into the log at the place where they are given.
    acks = os.open(watched / "acks", os.O_WRONLY | os.O_CREAT)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    library().disk_watch(f"{watched}/".encode(), handle, 0, 0)
    write_batches(watched / "store.db", lambda number: os.write(acks, b"%04d" % number))


def die(directory, step):
    disk, report = library(), []
    for at in range(1, 10_000, step):
        place = directory / str(at)
        place.mkdir()
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            disk.disk_watch(f"{place}/".encode(), -1, at, 0)
            write_batches(place / "store.db", lambda number: os.write(writer, bytes([number])))  # noqa: B023
            os._exit(0)
        os.close(writer)
        with open(reader, "rb") as file:  # noqa: PTH123 - a descriptor
            acknowledged = list(file.read())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        attempted = max(acknowledged, default=-1) + 1
        report.append(
            {"at": at, "status": status, "wrong": look(place / "store.db", acknowledged, attempted)}
        )
        shutil.rmtree(place)
        if status == 0:
            break
    return report


def fail(directory, step, error):
    disk, report = library(), []
    for at in range(1, 10_000, step):
        place = directory / str(at)
        place.mkdir()
        acknowledged, refused = [], {}
        disk.disk_watch(f"{place}/".encode(), -1, at, error)
        try:
            write_batches(place / "store.db", acknowledged.append, refused.__setitem__)
        except StoreError as opening:
            refused[-1] = str(opening)
        done = disk.disk_count() < at
        disk.disk_watch(b"", -1, 0, 0)
        wrong = missing_after_failures(place / "store.db", acknowledged)
        report.append({"at": at, "acknowledged": acknowledged, "refused": refused, "wrong": wrong})
        shutil.rmtree(place)
        if done:
            break
    return report


def missing_after_failures(path, acknowledged):
    """As `missing`, where any batch may be missing that was refused."""
    with SqliteEngine(path) as engine:
        wrong = engine.check()
        found = {int(name[2:]) for name in engine.scan_keys("text", b"b/")}
        halves = {int(name[2:]) for name in engine.scan_keys("text", b"a/")} ^ found
        if not set(acknowledged) <= found or halves - set(range(5)):
            wrong.append(f"found {sorted(found)}, half {halves}, acknowledged were {acknowledged}")
        return wrong


def load(path):
    """Say `thread number` on stdout for each batch that was acknowledged; rows are deferred meanwhile."""
    with SqliteEngine(path) as engine:

        def work(thread):
            name = f"{thread}".encode()
            for number in range(int(engine.get("kv", b"last/" + name) or b"-1") + 1, 1_000_000):
                text = b"%08d" % number
                engine.defer([put("audit", name + b"/" + text, b"row")])
                engine.apply(
                    [
                        put("kv", b"last/" + name, text),
                        put("text", b"a/" + name + b"/" + text, text),
                        put("session", b"b/" + name + b"/" + text, bytes(number % 7 * 1000)),
                        *Wakes(engine).insert(replace(wake(number), id=f"{thread}W{number:08}", key=None)),
                    ]
                )
                os.write(1, b"%d %d\n" % (thread, number))

        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def main(command, place, *more):
    if command == "record":
        record(Path(place), more[0])
    elif command == "load":
        load(place)
    elif command == "die":
        print(json.dumps(die(Path(place), int(more[0]))))
    else:
        print(json.dumps(fail(Path(place), *map(int, more))))


if __name__ == "__main__":
    main(*sys.argv[1:])
