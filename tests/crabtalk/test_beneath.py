"""Where a path may lead: every test runs with the kernel's resolution and with ours."""

import ctypes
import errno
import os
import random
import threading
from pathlib import Path

import pytest

from berm import Refused
from crabtalk.capabilities import _beneath
from crabtalk.capabilities._beneath import Root, explained
from crabtalk.capabilities._failure import Failure

pytestmark = pytest.mark.usefixtures("no_leaked_descriptors")

RESOLVERS = {"kernel": _beneath._open_by_kernel, "steps": _beneath._open_by_steps}


@pytest.fixture(params=RESOLVERS, autouse=True)
def resolver(request, monkeypatch):
    if request.param == "kernel" and not _beneath._kernel_resolves():
        pytest.skip("this kernel has no openat2")
    monkeypatch.setattr(_beneath, "_open_directory", RESOLVERS[request.param])
    return request.param


@pytest.fixture
def tree(tmp_path):
    """A root with neighbours that must stay out of reach."""
    root = tmp_path / "root"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "sub" / "inner.txt").write_text("inner")
    (root / "file.txt").write_text("file")
    (tmp_path / "root_secret").mkdir()
    (tmp_path / "root_secret" / "key").write_text("secret")
    (tmp_path / "secret").write_text("secret")
    return root


def content(root, path, *, follow=True):
    """Read what `path` leads to, in the way every capability does: by handle and leaf, following nothing."""
    with Root(root) as bound, explained(path), bound.locate(path, follow=follow) as place:
        fd = os.open(place.leaf, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=place.dir_fd)
        try:
            return os.read(fd, 100).decode()
        finally:
            os.close(fd)


def is_same_place(root, path, expected):
    with Root(root) as bound, explained(path), bound.locate(path) as place:
        return os.path.samestat(place.status(), expected.stat())


def test_without_openat2_we_walk_ourselves(monkeypatch):
    class OldKernel:
        @staticmethod
        def syscall(*_):
            ctypes.set_errno(errno.ENOSYS)
            return -1

    monkeypatch.setattr(_beneath, "_libc", OldKernel)
    assert _beneath._kernel_resolves() is False


@pytest.mark.parametrize(
    "path", ["file.txt", "./file.txt", "sub/../file.txt", "sub/deep/../../file.txt", "//file.txt"[1:]]
)
def test_a_path_inside_is_found(tree, path):
    if path.startswith("/"):
        path = str(tree) + path
    assert content(tree, path) == "file"


@pytest.mark.parametrize("path", ["", ".", "./", "sub/..", "sub/deep/../.."])
def test_the_root_itself_is_a_place(tree, path):
    assert is_same_place(tree, path, tree)


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../secret",
        "../root_secret/key",
        "../root/file.txt",
        "sub/../../secret",
        "sub/../../root/file.txt",
        "./../secret",
        "sub/deep/../../../secret",
        "/etc/passwd",
        "/",
        "../../../../../../../../../../etc/passwd",
    ],
)
def test_a_path_that_leaves_is_refused(tree, path):
    with pytest.raises(Refused, match="leaves the root"):
        content(tree, path)


@pytest.mark.parametrize("tail", ["_secret/key", "/../secret", "/../root_secret/key", "/../root/file.txt"])
def test_an_absolute_path_is_not_compared_by_prefix(tree, tail):
    with pytest.raises(Refused, match="leaves the root"):
        content(tree, f"{tree}{tail}")


def test_an_absolute_path_is_taken_as_written_and_as_resolved(tree, tmp_path):
    (tmp_path / "alias").symlink_to("root")
    assert content(tmp_path / "alias", f"{tmp_path}/alias/file.txt") == "file"
    assert content(tmp_path / "alias", f"{tree}/file.txt") == "file"
    assert content(tree, f"{tree}/./sub//inner.txt") == "inner"
    with pytest.raises(Refused):  # a name of the root that nobody gave
        content(tree, f"{tmp_path}/alias/file.txt")


def test_a_root_of_slash_takes_every_absolute_path(tree):
    assert content("/", f"{tree}/file.txt") == "file"
    assert content("/", f"{tree}/file.txt"[1:]) == "file"


def test_links_that_stay_inside_are_followed(tree):
    (tree / "link").symlink_to("sub/inner.txt")
    (tree / "dirlink").symlink_to("sub")
    (tree / "sub" / "up").symlink_to("../file.txt")
    (tree / "sub" / "deep" / "chain").symlink_to("../../dirlink/up")
    assert content(tree, "link") == "inner"
    assert content(tree, "dirlink/inner.txt") == "inner"
    assert content(tree, "dirlink/up") == "file"
    assert content(tree, "sub/deep/chain") == "file"
    assert content(tree, "dirlink/../file.txt") == "file"
    assert content(tree, "dirlink/deep/../inner.txt") == "inner"


@pytest.mark.parametrize(
    "target", ["../secret", "/etc/passwd", "sub/../../secret", "..", "../root_secret/key"]
)
def test_a_link_that_leaves_is_refused_in_every_position(tree, target):
    (tree / "last").symlink_to(target)
    (tree / "sub" / "hop").symlink_to("../last")
    for path in ("last", "last/", "last/x", "sub/hop", "sub/hop/key", "sub/../last"):
        with pytest.raises(Refused, match="leaves the root"):
            content(tree, path)


def test_an_absolute_link_is_refused_even_to_the_inside(tree):
    (tree / "absolute").symlink_to(tree / "file.txt")
    (tree / "absolute_dir").symlink_to(tree / "sub")
    for path in ("absolute", "absolute_dir/inner.txt"):
        with pytest.raises(Refused):
            content(tree, path)


def test_a_link_in_the_last_place_can_be_kept(tree):
    (tree / "link").symlink_to("../secret")
    with Root(tree) as bound, bound.locate("link", follow=False) as place:
        assert place.leaf == b"link"
        assert os.readlink(place.leaf, dir_fd=place.dir_fd) == b"../secret"


def test_a_missing_leaf_has_its_real_directory(tree, tmp_path):
    (tree / "out").symlink_to("..")
    with Root(tree) as bound, bound.locate("sub/new.txt") as place:
        assert place.leaf == b"new.txt"
        assert os.path.samestat(os.fstat(place.dir_fd), (tree / "sub").stat())
    for path in ("out/new.txt", "missing/../../new.txt", "missing/new.txt"):
        with pytest.raises((Refused, Failure)):
            content(tree, path)
    assert not (tmp_path / "new.txt").exists()


def test_a_dangling_link_leads_to_the_missing_leaf_it_names(tree):
    (tree / "dangling").symlink_to("sub/new.txt")
    (tree / "dangling_out").symlink_to("../new.txt")
    with Root(tree) as bound, bound.locate("dangling") as place:
        assert (place.leaf, os.path.samestat(os.fstat(place.dir_fd), (tree / "sub").stat())) == (
            b"new.txt",
            True,
        )
    with pytest.raises(Refused):
        content(tree, "dangling_out")


@pytest.mark.parametrize("links", [("loop", "loop"), ("a", "b")])
def test_links_in_a_circle_end(tree, links):
    first, second = links
    (tree / first).symlink_to(second)
    if first != second:
        (tree / second).symlink_to(first)
    for path in (first, f"{first}/x"):
        with pytest.raises(Failure, match="too many levels of symbolic links"):
            content(tree, path)


def test_a_long_chain_of_links_is_followed_and_a_longer_one_is_not(tree):
    (tree / "0").symlink_to("file.txt")
    for i in range(1, 60):
        (tree / str(i)).symlink_to(str(i - 1))
    assert content(tree, "30") == "file"
    with pytest.raises(Failure, match="too many levels"):
        content(tree, "59")


def test_magic_links_of_proc_lead_nowhere():
    for path in ("proc/self/root/etc/passwd", "proc/self/cwd/x", "proc/self/fd/0/x", "proc/self/root"):
        with pytest.raises((Refused, Failure)):
            content("/", path)


def test_a_nul_byte_is_refused(tree):
    with pytest.raises(Failure, match="NUL"):
        content(tree, "file.txt\0.png")


def test_long_paths_and_names_are_errors(tree):
    with pytest.raises(Failure, match="at most 4095"):
        content(tree, "x/" * 2048)
    with pytest.raises(Failure, match="file name too long"):
        content(tree, "x" * 256)
    with pytest.raises(Failure, match="file name too long"):
        content(tree, "x" * 256 + "/y")


def test_the_longest_path_is_taken(tree):
    assert content(tree, "./" * 2043 + "file.txt") == "file"
    assert content(tree, "sub/../" * 583 + "file.txt") == "file"


def test_names_of_odd_characters_are_names(tree):
    for name in ("…", " ", "a\nb", "-rf", "%2e%2e", "\\..\\x", "C:", "~", "$HOME", "ﬁ", "é", "é"):
        (tree / name).write_text(name)
        assert content(tree, name) == name


def test_lone_surrogates_are_no_crash(tree):
    with pytest.raises(Failure):
        content(tree, "\udcff")


def test_a_file_on_the_way_is_no_directory(tree):
    with pytest.raises(Failure, match="not a directory"):
        content(tree, "file.txt/x")
    with pytest.raises(Failure, match="not a directory"):
        content(tree, "file.txt/..")


def test_a_root_must_be_a_directory(tree):
    with pytest.raises(ValueError, match="no such file or directory"):
        Root(tree / "missing")
    with pytest.raises(ValueError, match="not a directory"):
        Root(tree / "file.txt")
    with pytest.raises(ValueError, match="null byte"):
        Root("a\0b")


def test_the_root_is_held_and_not_looked_up_again(tree, tmp_path):
    with Root(tree) as bound:
        tree.rename(tmp_path / "moved")
        tree.mkdir()
        (tree / "file.txt").write_text("impostor")
        with bound.locate("file.txt") as place:
            assert os.path.samestat(place.status(), (tmp_path / "moved" / "file.txt").stat())


def test_the_home_of_the_daemon_is_not_entered(tree, home):
    inside = tree / "sub" / "home"
    (inside / "run").mkdir(parents=True)
    (inside / "token").write_text("secret")
    (tree / "link").symlink_to("sub/home")
    (tree / "filelink").symlink_to("sub/home/token")
    home.symlink_to(inside)  # found by device and inode, not by name
    paths = [
        "sub/home",
        "sub/home/token",
        "sub/home/run/x",
        "link",
        "link/token",
        "filelink",
        "sub/deep/../home",
    ]
    for path in (*paths, f"{tree}/sub/home/token"):
        with pytest.raises(Refused, match="daemon's own directory"):
            content(tree, path)
    assert content(tree, "sub/home/../inner.txt") == "inner"


def test_a_home_that_is_made_later_is_not_entered(tree, monkeypatch):
    monkeypatch.setenv("CRABTALK_HOME", str(tree / "later"))
    with Root(tree) as bound:
        (tree / "later").mkdir()
        with pytest.raises(Refused), bound.locate("later/token"):
            pass


def test_a_root_that_is_the_home_or_inside_it_is_an_error(home):
    (home / "run").mkdir(parents=True)
    for root in (home, home / "run"):
        with pytest.raises(ValueError, match="no tool may enter"):
            Root(root)
    Root(home.parent).close()


def test_a_directory_that_moved_out_meanwhile_is_refused(tree, tmp_path, home, monkeypatch):
    """The climb towards the root finds that it is not there any more."""
    home.mkdir()
    opened = _beneath._open_directory

    def move_after_opening(root_fd, names):
        fd = opened(root_fd, names)
        (tree / "sub" / "deep").rename(tmp_path / "deep")
        return fd

    monkeypatch.setattr(_beneath, "_open_directory", move_after_opening)
    with pytest.raises(Refused, match="leaves the root"):
        content(tree, "sub/deep/x")


def test_a_step_up_from_a_moved_directory_is_no_way_out(tree, tmp_path, monkeypatch):
    """Our own walk checks that `..` arrives where it came from."""
    down = _beneath._step_down

    def move_after_step(here, name, trail):
        there = down(here, name, trail)
        if name == b"deep":
            (tree / "sub" / "deep").rename(tmp_path / "deep")
        return there

    monkeypatch.setattr(_beneath, "_step_down", move_after_step)
    fd = os.open(tree, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="busy") as caught:
            _beneath._open_by_steps(fd, [b"sub", b"deep", b"..", b"secret"])
        assert caught.value.errno == errno.EBUSY
    finally:
        os.close(fd)


class Swapper:
    """A thread that turns a directory into a link out of the root and back, as fast as it can."""

    def __init__(self, tree, name, target):
        self.path, self.target = tree / name, target
        self.spare = tree / f"{name}.spare"
        self.link = tree / f"{name}.link"
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.swaps = 0

    def run(self):
        self.link.symlink_to(self.target)
        while not self.stop.is_set():
            self.path.rename(self.spare)
            self.link.rename(self.path)
            self.path.rename(self.link)
            self.spare.rename(self.path)
            self.swaps += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


@pytest.mark.parametrize(
    ("name", "path"), [("race", "race/key"), ("key", "key"), ("race", "race/deep/../key")]
)
def test_a_racing_swap_to_a_link_never_shows_the_outside(tree, tmp_path, name, path):
    outside = tmp_path / "root_secret"
    (outside / "deep").mkdir()
    if name == "race":
        (tree / "race" / "deep").mkdir(parents=True)
        (tree / "race" / "key").write_text("public")
        target = "../root_secret"
    else:
        (tree / "key").write_text("public")
        target = "../root_secret/key"
    seen = {"public": 0, "error": 0}
    with Swapper(tree, name, target) as swapper:
        while swapper.swaps < 300 or seen["public"] < 50:
            try:
                seen[content(tree, path)] += 1  # a KeyError here is an escape
            except (Refused, Failure):
                seen["error"] += 1
    assert seen["error"] > 0


def test_random_paths_agree_with_the_real_ones(tree):
    """Whatever is found is what the operating system finds there, and it is inside."""
    (tree / "sub" / "a").symlink_to("..")
    (tree / "b").symlink_to("sub/deep")
    (tree / "c").symlink_to("sub/a/../..")
    (tree / "sub" / "deep" / "d").symlink_to("../../..")
    rng = random.Random(7)
    names = ["sub", "deep", "..", ".", "", "file.txt", "inner.txt", "a", "b", "c", "d", "missing"]
    real_root = os.path.realpath(tree)
    found = 0
    for _ in range(1500):
        path = "/".join(rng.choices(names, k=rng.randint(1, 7))).lstrip("/")
        real = os.path.realpath(tree / path)
        try:
            with Root(tree) as bound, explained(path), bound.locate(path) as place:
                status = place.status()
        except (Refused, Failure):
            continue
        found += 1
        assert real == real_root or real.startswith(real_root + "/"), path
        assert os.path.samestat(status, Path(real).stat()), path
    assert found > 100


def test_both_resolvers_give_the_same_answers(tree, monkeypatch):
    (tree / "a").symlink_to("sub/deep/../..")
    (tree / "b").symlink_to("a/../secret")
    (tree / "sub" / "c").symlink_to("../a/sub/inner.txt")
    rng = random.Random(8)
    names = ["sub", "deep", "..", "a", "b", "c", "file.txt", "inner.txt", "missing"]

    def answer(path):
        try:
            return content(tree, path)
        except (Refused, Failure) as error:
            return type(error).__name__, str(error)

    for _ in range(500):
        path = "/".join(rng.choices(names, k=rng.randint(1, 6)))
        answers = set()
        for resolve in RESOLVERS.values():
            monkeypatch.setattr(_beneath, "_open_directory", resolve)
            answers.add(answer(path))
        assert len(answers) == 1, (path, answers)
