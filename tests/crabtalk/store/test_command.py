"""`crabtalk store`: the commands, on a home with and without a daemon that has its store open."""

import json
import sqlite3

import pytest

from berm.cli.exits import DONE, FAILED, HOST_ERROR, USAGE
from crabtalk.cli import main
from crabtalk.home import find_home
from crabtalk.store.engine import put
from crabtalk.store.interfaces.config import Values
from crabtalk.store.opening import open_store


@pytest.fixture
def store(home):
    place = find_home(home)
    place.prepare()
    with open_store(place.store_file) as engine:
        engine.apply(Values(engine).save("boots", 1))
    return place.store_file


@pytest.fixture
def run(capfd):
    def run(*arguments):
        try:
            status = main(["store", *map(str, arguments)])
        except SystemExit as ended:
            status = ended.code
        printed = capfd.readouterr()
        return status, printed.out, printed.err

    return run


def test_a_store_that_is_fine(run, store):
    assert run("check") == (DONE, "", f"{store} is fine\n")
    status, out, err = run("check", "--json")
    assert (status, json.loads(out), err) == (DONE, {"store": str(store), "problems": []}, "")


def test_a_store_that_a_daemon_has_open(run, store):
    with open_store(store) as engine:
        engine.apply(Values(engine).save("boots", 2))
        assert run("check")[0] == DONE
        assert run("stats")[0] == DONE
        assert run("backup", store.with_name("b.db"))[0] == DONE
        engine.apply(Values(engine).save("boots", 3))
    with open_store(store.with_name("b.db")) as engine:
        assert Values(engine).number("boots") == 2


def test_a_damaged_record_is_said(run, store):
    with open_store(store) as engine:
        engine.apply([put("agent", b"local/id/\x1b[31m", b"\x02")])
    status, out, err = run("check")
    assert (status, err) == (FAILED, f"{store} is damaged; restore a backup\n")
    assert out.startswith("the store's value at agent `local/id/\\x1b[31m` is damaged: ")
    status, out, _ = run("check", "--json")
    assert (status, len(json.loads(out)["problems"])) == (FAILED, 1)


def test_a_damaged_file_is_said(run, store):
    with open_store(store) as engine:
        engine.apply([put("text", b"%05d" % n, b"x" * 500) for n in range(500)])
    raw = bytearray(store.read_bytes())
    raw[25 * 4096 :] = b"\x99" * (len(raw) - 25 * 4096)
    store.write_bytes(raw)
    status, out, _ = run("check")
    assert status == FAILED
    assert out != ""


def test_statistics(run, store):
    status, out, err = run("stats")
    assert status == DONE
    assert "config\t1\t2\n" in out
    assert err.endswith(" bytes on the disk, format 1\n")
    status, out, _ = run("stats", "--json")
    found = json.loads(out)
    assert (found["format_version"], found["keys"]["config"], found["bytes"]["config"]) == (1, 1, 2)
    assert found["size_bytes"] == store.stat().st_size


def test_a_backup_and_the_way_back(run, store):
    copied = store.with_name("copy.db")
    assert run("backup", copied) == (DONE, "", f"{copied} holds {store} as of now\n")
    with open_store(store) as engine:
        engine.apply(Values(engine).save("boots", 5))
    before = store.with_name("store.db.before-1")
    assert run("restore", copied) == (DONE, "", f"{store} is what {copied} is; what was there is {before}\n")
    with open_store(store) as engine:
        assert Values(engine).number("boots") == 1
    status, _, err = run("backup", copied)
    assert (status, err) == (HOST_ERROR, f"crabtalk: `{copied}` is there already\n")


def test_a_restore_into_a_new_home(run, store, tmp_path):
    copied, home = store.with_name("copy.db"), tmp_path / "new"
    run("backup", copied)
    status, _, err = run("restore", copied, "--home", home)
    assert (status, err) == (DONE, f"{home / 'store.db'} is what {copied} is\n")


def test_a_home_in_use_is_not_restored(run, store, home):
    copied = store.with_name("copy.db")
    run("backup", copied)
    with find_home(home).locked():
        status, _, err = run("restore", copied)
    assert (status, "is in use by process" in err) == (HOST_ERROR, True)


@pytest.mark.parametrize("arguments", [["check"], ["stats"], ["backup", "x.db"]])
def test_a_home_without_a_store(run, home, arguments):
    status, out, err = run(*arguments)
    expected = f"crabtalk: store `{home}/store.db`: is not there yet; the daemon makes it, or a restore\n"
    assert (status, out, err) == (HOST_ERROR, "", expected)
    assert not home.exists()


def test_a_newer_store_is_refused(run, store):
    with sqlite3.connect(store) as db:
        db.execute("PRAGMA user_version = 2")
    db.close()
    status, _, err = run("check")
    assert status == HOST_ERROR
    assert "has format 2, and this program knows formats up to 1" in err


@pytest.mark.parametrize("arguments", [["backup"], ["restore"], ["check", "x"], ["frobnicate"]])
def test_a_command_line_that_makes_no_sense(run, arguments):
    assert run(*arguments)[0] == USAGE
