"""The home: its paths, who may read them, and its lock."""

import os
import stat
import subprocess
import sys

import pytest

from crabtalk.home import Home, HomeError, HomeInUse, find_home

HOLD = """
import sys
from pathlib import Path
from crabtalk.home import Home
with Home(Path(sys.argv[1])).locked():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path / "home")
    home.prepare()
    return home


def test_a_home_is_where_it_was_said_then_the_variable_then_the_default(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CRABTALK_HOME", raising=False)
    assert find_home().root == tmp_path / ".crabtalk"
    monkeypatch.setenv("CRABTALK_HOME", "~/other")
    assert find_home().root == tmp_path / "other"
    monkeypatch.chdir(tmp_path)
    assert find_home("given").root == tmp_path / "given"


def test_directories_are_the_owners_alone(home):
    for directory in (home.root, home.run, home.harnesses):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_home_that_others_can_change_is_refused(home):
    home.root.chmod(0o777)
    with pytest.raises(HomeError, match=f"can be written by others; run: chmod go-w {home.root}"):
        home.prepare()


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HomeError, match="file: file exists"):
        Home(tmp_path / "file").prepare()


def test_the_lock_has_one_holder_and_names_it(home):
    assert home.holder() is None
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, home.root], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        assert home.holder() == other.pid
        for _ in range(2):  # who was refused has changed nothing
            with (
                pytest.raises(HomeInUse, match=f"{home.root} is in use by process {other.pid}"),
                home.locked(),
            ):
                pass
        assert home.holder() == other.pid
        other.stdin.close()
    assert home.holder() is None
    with home.locked():
        assert home.holder() == os.getpid()


def test_the_lock_goes_with_a_holder_that_was_killed(home):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, home.root], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        other.stdout.readline()
        other.kill()
    with home.locked():
        pass


def test_a_lock_file_that_is_a_link_is_not_followed(home, tmp_path):
    target = tmp_path / "victim"
    target.write_text("keep")
    home.lock_file.symlink_to(target)
    with pytest.raises(HomeError), home.locked():
        pass
    assert target.read_text() == "keep"
