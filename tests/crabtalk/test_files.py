"""`berm.fs.*`: what is read, written, listed and removed, and what no request gets."""

import errno
import json
import os
import socket
import stat
import threading
import time
from pathlib import Path

import pytest

from berm import Refused
from crabtalk.capabilities import files as module
from crabtalk.capabilities._beneath import Root
from crabtalk.capabilities._failure import Failure
from crabtalk.capabilities.files import Files, files
from descriptors import open_descriptors

FOREVER = float("inf")
pytestmark = pytest.mark.usefixtures("no_leaked_descriptors")


def names(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("secret")
    return root


@pytest.fixture
def bound(root):
    with Root(root) as opened:
        yield Files(opened)


@pytest.fixture
def small(bound):
    return Files(bound.root, max_file_bytes=1000, max_entries=10)


@pytest.fixture
def fs(root, bind):
    with Root(root) as opened:
        yield bind(files(opened))


def test_the_names_and_kinds_of_the_capabilities(root):
    with Root(root) as opened:
        made = files(opened)
    assert [(one.name, one.aliases, one.blocking) for one in made] == [
        ("berm.fs.read", ("crabtalk.fs.read",), True),
        ("berm.fs.write", ("crabtalk.fs.write",), True),
        ("berm.fs.list", (), True),
        ("berm.fs.stat", (), True),
        ("berm.fs.remove", (), True),
    ]


def test_what_was_written_is_read(fs, root):
    assert fs("berm.fs.write", "note", b"a\0b\xff") == b""
    assert fs("berm.fs.read", "note") == b"a\0b\xff"
    assert fs("crabtalk.fs.read", str(root / "note")) == b"a\0b\xff"
    assert (root / "note").read_bytes() == b"a\0b\xff"


def test_stat_and_list_are_json_in_one_raw_field(fs, root):
    (root / "sub").mkdir()
    (root / "ü.txt").write_text("xyz")
    (root / "link").symlink_to("ü.txt")
    os.utime(root / "ü.txt", ns=(0, 1_700_000_000_123_999_999))
    assert json.loads(fs("berm.fs.stat", "ü.txt")) == {"kind": "file", "size": 3, "mtime_ms": 1700000000123}
    assert json.loads(fs("berm.fs.stat", "link"))["kind"] == "file"
    listed = json.loads(fs("berm.fs.list", ""))
    assert [(entry["name"], entry["kind"]) for entry in listed] == [
        ("link", "symlink"),
        ("sub", "directory"),
        ("ü.txt", "file"),
    ]
    assert listed[2]["mtime_ms"] == 1700000000123
    assert fs("berm.fs.list", "sub") == b"[]"


def test_a_time_before_the_epoch_is_negative(bound, root):
    (root / "old").touch()
    os.utime(root / "old", ns=(0, -1_500_000_000))
    assert bound.stat("old")["mtime_ms"] == -1500


@pytest.mark.parametrize("name", ["berm.fs.read", "berm.fs.list", "berm.fs.stat", "berm.fs.remove"])
@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "out", "../root_secret", "out/.."])
def test_nothing_outside_is_reached(fs, root, tmp_path, name, path):
    (root / "out").symlink_to("..")
    if name == "berm.fs.remove" and path == "out":
        fs(name, path)  # the link is inside, and goes; what it points to stays
        assert not (root / "out").is_symlink()
    else:
        with pytest.raises(Refused, match="leaves the root"):
            fs(name, path)
    assert (tmp_path / "secret").read_text() == "secret"


@pytest.mark.parametrize("path", ["../secret", "../new", "/tmp/new", "out/secret", "secretlink", "out/new"])
def test_nothing_outside_is_written(fs, root, tmp_path, path):
    (root / "out").symlink_to("..")
    (root / "secretlink").symlink_to("../secret")
    with pytest.raises(Refused, match="leaves the root"):
        fs("berm.fs.write", path, b"overwritten")
    assert (tmp_path / "secret").read_text() == "secret"
    assert names(tmp_path) == ["root", "secret"]


def test_a_nul_byte_in_any_request_is_an_error(fs):
    for name in ("read", "list", "stat", "remove"):
        with pytest.raises(Failure, match="NUL"):
            fs(f"berm.fs.{name}", "a\0b")
    with pytest.raises(Failure, match="NUL"):
        fs("berm.fs.write", "a\0b", b"")


def test_missing_files_are_named_as_the_guest_named_them(fs):
    with pytest.raises(Failure) as caught:
        fs("berm.fs.read", "sub/missing")
    assert str(caught.value) == "no such file or directory: `sub/missing`"


# What is no regular file


@pytest.fixture
def fifo(root):
    os.mkfifo(root / "fifo")
    return "fifo"


@pytest.mark.parametrize("operation", ["read", "write"])
def test_a_fifo_is_refused_and_does_not_hang(bound, fifo, operation):
    started = time.monotonic()
    with pytest.raises(Failure, match="not a regular file"):
        bound.read(fifo, FOREVER) if operation == "read" else bound.write(fifo, b"x", FOREVER)
    assert time.monotonic() - started < 2
    assert bound.stat(fifo)["kind"] == "other"


def test_a_fifo_swapped_in_after_the_question_does_not_hang(bound, root, fifo, monkeypatch):
    swapped_in = root / fifo
    (root / "file").write_text("x")
    asked = module._refuse_irregular

    def swap_after(status, path):
        asked(status, path)
        if swapped_in.exists():
            swapped_in.rename(root / "file")

    monkeypatch.setattr(module, "_refuse_irregular", swap_after)
    with pytest.raises(Failure, match="not a regular file"):
        bound.read("file", FOREVER)


def test_a_socket_is_refused(bound, root):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "sock"))
        with pytest.raises(Failure, match="not a regular file"):
            bound.read("sock", FOREVER)
        with pytest.raises(Failure, match="not a regular file"):
            bound.write("sock", b"", FOREVER)
    bound.remove("sock")


@pytest.mark.parametrize("device", ["null", "zero", "tty", "full"])
def test_devices_are_refused(device):
    with Root("/dev") as opened:
        bound = Files(opened)
        with pytest.raises(Failure, match="not a regular file"):
            bound.read(device, FOREVER)
        with pytest.raises(Failure, match="not a regular file"):
            bound.write(device, b"x", FOREVER)
    assert stat.S_ISCHR(Path(f"/dev/{device}").stat().st_mode)


def test_a_directory_is_no_file_and_a_file_no_directory(bound, root):
    (root / "sub").mkdir()
    (root / "file").touch()
    for path in ("sub", "", "."):
        with pytest.raises(Failure, match="is a directory"):
            bound.read(path, FOREVER)
        with pytest.raises(Failure, match="is a directory"):
            bound.write(path, b"", FOREVER)
    with pytest.raises(Failure, match="not a directory"):
        bound.entries("file", FOREVER)


# Bounds


def test_the_cap_is_exact(small, root):
    (root / "fits").write_bytes(b"x" * 1000)
    (root / "over").write_bytes(b"x" * 1001)
    assert len(small.read("fits", FOREVER)) == 1000
    with pytest.raises(Failure, match="larger than 1000 bytes: `over`"):
        small.read("over", FOREVER)
    small.write("fits", b"y" * 1000, FOREVER)
    with pytest.raises(Failure, match="larger than 1000 bytes: `over`"):
        small.write("over", b"y" * 1001, FOREVER)
    assert (root / "over").read_bytes() == b"x" * 1001


def test_the_default_bounds_are_those_of_the_table():
    assert (module.MAX_FILE_BYTES, module.MAX_ENTRIES) == (50 << 20, 10_000)


def test_a_sparse_giant_is_not_believed_nor_read(bound, root):
    with (root / "giant").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Failure, match="larger than 52428800 bytes"):
        bound.read("giant", FOREVER)


def test_a_file_that_claims_no_size_is_read_to_its_end():
    with Root("/proc/self") as opened:
        status = Files(opened).read("status", FOREVER)
    assert Path("/proc/self/status").stat().st_size == 0
    assert b"\nPid:" in status


def test_a_file_that_grows_while_it_is_read_ends_at_the_cap(small, root, monkeypatch):
    path = root / "grows"
    path.write_bytes(b"x" * 100)
    read = os.read

    def grow_then_read(fd, count):
        with path.open("ab") as file:
            file.write(b"x" * 100)
        return read(fd, min(count, 100))

    monkeypatch.setattr(os, "read", grow_then_read)
    with pytest.raises(Failure, match="larger than 1000 bytes"):
        small.read("grows", FOREVER)
    assert path.stat().st_size < 2000


def test_a_listing_has_a_bound(small, root):
    for i in range(10):
        (root / str(i)).touch()
    assert len(small.entries(".", FOREVER)) == 10
    (root / "10").touch()
    with pytest.raises(Failure, match="more than 10 entries"):
        small.entries(".", FOREVER)


def test_ten_thousand_entries_are_listed_and_one_more_is_not(bound, root):
    for i in range(10_000):
        os.mknod(root / f"{i:05}")
    listed = bound.entries("", FOREVER)
    assert [entry["name"] for entry in listed] == [f"{i:05}" for i in range(10_000)]
    (root / "more").touch()
    with pytest.raises(Failure, match="more than 10000 entries"):
        bound.entries("", FOREVER)


def test_names_that_are_not_utf8_are_listed_with_replacement_characters(fs, root):
    os.mknod(os.fsencode(root) + b"/bad\xff\xfe")
    listed = json.loads(fs("berm.fs.list", "."))
    assert [entry["name"] for entry in listed] == ["bad\ufffd\ufffd"]


def test_an_entry_that_vanishes_while_listing_is_left_out(bound, root, monkeypatch):
    (root / "stays").touch()
    (root / "vanishes").touch()
    checked = module._check_time

    def remove_first(deadline):
        (root / "vanishes").unlink(missing_ok=True)
        checked(deadline)

    monkeypatch.setattr(module, "_check_time", remove_first)
    assert "stays" in [entry["name"] for entry in bound.entries("", FOREVER)]


def test_a_passed_deadline_ends_every_long_loop(root, bind, new_call, bound):
    (root / "file").write_bytes(b"x")
    late = bind(files(bound.root), new_call(deadline_left=-1.0))
    time.sleep(0.001)
    for request in (("berm.fs.read", "file"), ("berm.fs.list", ""), ("berm.fs.write", "file", b"new")):
        with pytest.raises(Failure, match="deadline"):
            late(*request)
    assert (root / "file").read_bytes() == b"x"
    assert names(root) == ["file"]


# Replacing


def test_a_write_replaces_the_file_and_leaves_open_readers_the_old_one(bound, root):
    (root / "file").write_text("old")
    with (root / "file").open() as reader:
        bound.write("file", b"new", FOREVER)
        assert reader.read() == "old"
    assert (root / "file").read_text() == "new"
    assert names(root) == ["file"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o666])
def test_the_mode_is_kept(bound, root, mode):
    (root / "file").touch()
    (root / "file").chmod(mode)
    bound.write("file", b"x", FOREVER)
    assert stat.S_IMODE((root / "file").stat().st_mode) == mode


def test_setuid_does_not_survive_new_content(bound, root):
    (root / "file").touch()
    (root / "file").chmod(0o4755)
    bound.write("file", b"x", FOREVER)
    assert stat.S_IMODE((root / "file").stat().st_mode) == 0o755


def test_a_new_file_gets_what_the_umask_leaves(bound, root):
    old = os.umask(0o027)
    try:
        bound.write("new", b"x", FOREVER)
    finally:
        os.umask(old)
    assert stat.S_IMODE((root / "new").stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_is_kept(bound, root):
    (root / "file").touch()
    os.chown(root / "file", 12345, 54321)
    bound.write("file", b"x", FOREVER)
    status = (root / "file").stat()
    assert (status.st_uid, status.st_gid) == (12345, 54321)


def test_a_file_that_the_user_cannot_write_stays(bound, root, monkeypatch):
    (root / "file").write_text("old")
    (root / "file").chmod(0o444)
    if os.geteuid() == 0:  # whom no mode stops
        monkeypatch.setattr(os, "access", lambda *_, **__: False)
    with pytest.raises(Failure, match="permission denied"):
        bound.write("file", b"new", FOREVER)
    assert (root / "file").read_text() == "old"


def test_a_write_through_a_link_replaces_what_it_points_to(bound, root):
    (root / "sub").mkdir()
    (root / "sub" / "real").write_text("old")
    (root / "link").symlink_to("sub/real")
    bound.write("link", b"new", FOREVER)
    assert (root / "link").is_symlink()
    assert (root / "sub" / "real").read_text() == "new"
    assert names(root / "sub") == ["real"]


def test_a_write_through_a_dangling_link_makes_the_file(bound, root):
    (root / "link").symlink_to("real")
    bound.write("link", b"new", FOREVER)
    assert (root / "real").read_text() == "new"
    assert (root / "link").is_symlink()


def test_a_link_swapped_in_before_the_rename_is_replaced_and_not_followed(bound, root, tmp_path, monkeypatch):
    rename = os.rename

    def swap_then_rename(*args, **kwargs):
        (root / "file").unlink()
        (root / "file").symlink_to("../secret")
        rename(*args, **kwargs)

    (root / "file").write_text("old")
    monkeypatch.setattr(os, "rename", swap_then_rename)
    bound.write("file", b"new", FOREVER)
    assert (tmp_path / "secret").read_text() == "secret"
    assert (root / "file").read_text() == "new"
    assert not (root / "file").is_symlink()


@pytest.mark.parametrize("failing", ["write", "fsync", "rename"])
def test_a_failed_write_leaves_the_old_file_and_no_temporary(bound, root, monkeypatch, failing):
    (root / "file").write_text("old")

    def fail(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, fail)
        with pytest.raises(Failure, match="no space left on device: `file`"):
            bound.write("file", b"new", FOREVER)
    assert (root / "file").read_text() == "old"
    assert names(root) == ["file"]


def test_the_new_content_is_on_disk_before_the_rename(bound, monkeypatch):
    steps = []
    for name in ("fsync", "rename"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *a, _name=name, _real=real, **k: (steps.append(_name), _real(*a, **k))[1]
        )
    bound.write("file", b"new", FOREVER)
    assert steps == ["fsync", "rename", "fsync"]


def test_a_missing_directory_is_not_made(bound, root):
    with pytest.raises(Failure, match="no such file or directory: `missing/file`"):
        bound.write("missing/file", b"x", FOREVER)
    assert names(root) == []


def test_a_name_of_full_length_can_be_written(bound, root):
    bound.write("x" * 255, b"y", FOREVER)
    assert bound.read("x" * 255, FOREVER) == b"y"
    with pytest.raises(Failure, match="file name too long"):
        bound.write("x" * 256, b"y", FOREVER)
    assert names(root) == ["x" * 255]


def test_readers_never_see_half_a_write(bound):
    bound.write("file", b"a" * 300_000, FOREVER)
    stop = threading.Event()
    seen = set()

    def look():
        while not stop.is_set():
            content = bound.read("file", FOREVER)
            seen.add((len(content), len(set(content))))

    reader = threading.Thread(target=look)
    reader.start()
    for i in range(30):
        bound.write("file", b"ab"[i % 2 : i % 2 + 1] * 300_000, FOREVER)
    stop.set()
    reader.join()
    assert seen == {(300_000, 1)}


# Removing


def test_files_links_and_empty_directories_are_removed(bound, root):
    (root / "file").touch()
    (root / "empty").mkdir()
    (root / "kept").mkdir()
    (root / "kept" / "inner").touch()
    (root / "link").symlink_to("kept")
    os.mkfifo(root / "fifo")
    for path in ("file", "empty", "link", "fifo"):
        bound.remove(path)
    assert names(root) == ["kept"]
    with pytest.raises(Failure, match="directory not empty"):
        bound.remove("kept")
    with pytest.raises(Failure, match="no such file"):
        bound.remove("file")


@pytest.mark.parametrize("path", ["", ".", "sub/..", "sub/.", "./"])
def test_the_root_is_not_removed(bound, root, path):
    (root / "sub").mkdir()
    if path == "sub/.":  # names the directory itself
        bound.remove(path)
        assert names(root) == []
        return
    with pytest.raises(Refused, match="has to be a name"):
        bound.remove(path)
    assert root.is_dir()


def test_the_home_is_neither_read_listed_written_nor_removed(fs, root, monkeypatch):
    home = root / "home"
    home.mkdir()
    (home / "token").write_text("secret")
    monkeypatch.setenv("CRABTALK_HOME", str(home))
    guarded = type(fs)(files(root), fs.call)
    for request in (
        ("berm.fs.read", "home/token"),
        ("berm.fs.list", "home"),
        ("berm.fs.stat", "home/token"),
        ("berm.fs.write", "home/token", b"x"),
        ("berm.fs.write", "home/new", b"x"),
        ("berm.fs.remove", "home/token"),
        ("berm.fs.remove", "home"),
    ):
        with pytest.raises(Refused, match="daemon's own directory"):
            guarded(*request)
    assert names(home) == ["token"]
    assert [entry["name"] for entry in json.loads(guarded("berm.fs.list", ""))] == ["home"]


def test_the_root_handle_is_given_back_with_the_capabilities(root):
    before = len(open_descriptors())
    made = files(root)
    assert len(open_descriptors()) == before + 1
    del made
    assert len(open_descriptors()) == before
