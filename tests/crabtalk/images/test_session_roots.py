"""Roots narrowed inside others: opened from the outer one's handle, and bounds of their own."""

import os

import pytest

from berm import Refused
from crabtalk.capabilities import _beneath
from crabtalk.capabilities._beneath import Root
from crabtalk.capabilities.commands import commands
from crabtalk.capabilities.files import Files

pytestmark = pytest.mark.usefixtures("no_leaked_descriptors")

RESOLVERS = {"kernel": _beneath._open_by_kernel, "steps": _beneath._open_by_steps}


@pytest.fixture(params=RESOLVERS, autouse=True)
def resolver(request, monkeypatch):
    if request.param == "kernel" and not _beneath._kernel_resolves():
        pytest.skip("this kernel has no openat2")
    monkeypatch.setattr(_beneath, "_open_directory", RESOLVERS[request.param])


@pytest.fixture
def outer(tmp_path):
    (tmp_path / "outer" / "one" / "deep").mkdir(parents=True)
    (tmp_path / "outer" / "one" / "a.txt").write_text("a")
    (tmp_path / "outer" / "top.txt").write_text("top")
    (tmp_path / "outer" / "in").symlink_to("one/deep")
    (tmp_path / "outer" / "out").symlink_to("..")
    (tmp_path / "outer" / "home").symlink_to("/")
    with Root(tmp_path / "outer") as root:
        yield root


def read(root, path):
    return Files(root).read(path, float("inf"))


def test_it_is_a_bound_of_its_own(outer, tmp_path):
    with outer.narrowed("one") as root:
        assert read(root, "a.txt") == b"a"
        for path in (tmp_path / "outer" / "one" / "a.txt", "./a.txt"):
            assert read(root, str(path)) == b"a"
        for path in ("../top.txt", str(tmp_path / "outer" / "top.txt"), "/etc/passwd"):
            with pytest.raises(Refused, match="path leaves the root"):
                read(root, path)


@pytest.mark.parametrize("path", ["one/deep", "./one//deep/", "in", "one/../one/deep", "ABSOLUTE"])
def test_ways_to_write_it(outer, tmp_path, path):
    wanted = (tmp_path / "outer" / "one" / "deep").stat()
    with outer.narrowed(str(tmp_path / "outer" / "one" / "deep") if path == "ABSOLUTE" else path) as root:
        assert os.fstat(root.fd).st_ino == wanted.st_ino


def test_the_outer_one_may_be_closed(outer):
    inner = outer.narrowed("one")
    outer.close()
    with inner:
        assert read(inner, "a.txt") == b"a"


def test_it_follows_a_directory_that_is_renamed_and_no_other(outer, tmp_path):
    with outer.narrowed("one") as root:
        (tmp_path / "outer" / "one").rename(tmp_path / "moved")
        (tmp_path / "outer" / "one").mkdir()
        (tmp_path / "outer" / "one" / "a.txt").write_text("another")
        assert read(root, "a.txt") == b"a"


@pytest.mark.parametrize(
    "path", ["..", "out", "home", "home/etc", "../outer_secret", "/", "/etc", "gone", "top.txt", "a\0b"]
)
def test_what_is_refused(outer, tmp_path, path):
    (tmp_path / "outer_secret").mkdir()
    with pytest.raises(ValueError, match=r"^root `"):
        outer.narrowed(path)


def test_the_home_is_not_entered(home):
    home.mkdir(parents=True)
    with Root(home.parent) as outer:
        with pytest.raises(ValueError, match="daemon's own directory"):
            outer.narrowed(home.name)
        with outer.narrowed(".") as root, pytest.raises(Refused, match="daemon's own directory"):
            root.locate(home.name).__enter__()


def test_commands_take_a_root_that_is_open(outer):
    names = [one.name for one in commands(outer.narrowed("one"))]
    assert "berm.exec.run" in names
