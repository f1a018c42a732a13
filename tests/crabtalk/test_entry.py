"""The options of `berm run` that grant capabilities."""

import importlib.metadata
import inspect
import subprocess
import sys

import pytest

from crabtalk.capabilities import entry

NAMES = {
    "root": [
        "berm.fs.read",
        "berm.fs.write",
        "berm.fs.list",
        "berm.fs.stat",
        "berm.fs.remove",
        "berm.exec.run",
    ],
    "host": ["berm.http.fetch", "berm.http.start", "berm.http.collect"],
    "zone": ["berm.clock.now", "berm.clock.offset"],
    "storage": ["berm.get", "berm.set", "berm.kv.delete", "berm.kv.keys"],
}


@pytest.fixture
def values(tmp_path):
    return {
        "root": [str(tmp_path)],
        "host": ["api.x.org", "http://127.0.0.1:8000"],
        "zone": ["Europe/Berlin", "UTC"],
        "storage": [str(tmp_path / "store")],
    }


@pytest.mark.parametrize("option", NAMES)
def test_an_option_grants_its_capabilities_and_no_other(option, values):
    assert [one.name for one in getattr(entry, option)(values[option])] == NAMES[option]


@pytest.mark.parametrize("option", NAMES)
def test_the_entry_points_of_the_distribution_are_these(option):
    (point,) = importlib.metadata.entry_points(group="berm.capabilities", name=option)
    assert point.value == f"crabtalk.capabilities.entry:{option}"


@pytest.mark.parametrize("option", NAMES)
def test_every_entry_point_has_the_same_signature(option):
    assert str(inspect.signature(getattr(entry, option))).startswith(
        "(values: collections.abc.Sequence[str]) -> tuple["
    )


@pytest.mark.parametrize(
    ("option", "bad", "why"),
    [
        ("root", ["/nonexistent"], "root `/nonexistent`: no such file or directory"),
        ("root", [".", "."], "root: expected one value, got 2"),
        ("host", ["*"], r"host `\*`: expected one like"),
        ("host", ["x.org", "http://x.org/path"], "host `http://x.org/path`"),
        ("zone", ["Mars/Olympus"], "no such time zone: `Mars/Olympus`"),
        ("storage", ["/nonexistent/file"], "storage `/nonexistent/file`: no such file or directory"),
        ("storage", ["a", "b"], "storage: expected one value, got 2"),
    ],
)
def test_a_bad_value_is_a_sentence_for_the_user(option, bad, why):
    with pytest.raises(ValueError, match=why):
        getattr(entry, option)(bad)


def test_what_was_stored_is_there_for_the_next_run(values, bind, wire):
    bind(entry.storage(values["storage"]))("berm.set", "k", b"v")
    assert bind(entry.storage(values["storage"]))("berm.get", "k") == wire.pack([b"v"])


def test_options_that_are_not_used_are_not_imported():
    program = (
        "import sys; from crabtalk.capabilities import entry\n"
        "entry.zone(['UTC'])\n"
        "heavy = {'anyio', 'h11', 'ssl', 'trio', 'asyncio', 'sqlite3', 'subprocess'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
