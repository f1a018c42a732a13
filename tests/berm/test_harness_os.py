"""harness/os in the sandbox, over the real file and command capabilities."""

import fnmatch
import json
import re

import anyio
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import berm
import berm.aio
from crabtalk.capabilities.commands import commands
from crabtalk.capabilities.files import files
from guest_images import image


@pytest.fixture
def root(tmp_path):
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def os_harness(engine, root):
    return berm.Harness.load(engine, image("os"), files(root))


def done(harness, tool, **args):
    outcome = harness.call(tool, json.dumps(args))
    assert isinstance(outcome, berm.Done), outcome
    return outcome.text


def failed(harness, tool, **args):
    outcome = harness.call(tool, json.dumps(args))
    assert isinstance(outcome, berm.Failed), outcome
    return outcome.message


def test_its_tools_and_wishes(os_harness):
    assert set(os_harness.tools) == {"read", "write", "edit", "glob", "grep", "bash"}
    assert set(os_harness.manifest.capabilities) == {
        "berm.fs.read",
        "berm.fs.write",
        "berm.fs.list",
        "berm.fs.stat",
        "berm.exec.run",
    }
    parameters = {tool.name: list(tool.parameters["properties"]) for tool in os_harness.manifest.tools}
    assert parameters == {
        "read": ["path", "offset", "limit"],
        "write": ["path", "content"],
        "edit": ["path", "old", "new"],
        "glob": ["pattern", "path"],
        "grep": ["pattern", "path", "glob"],
        "bash": ["command", "cwd"],
    }


@pytest.mark.core
def test_a_file_is_written_read_and_edited(os_harness, root):
    assert done(os_harness, "write", path="a.txt", content="one\ntwo\nthré\n") == "wrote 14 bytes to a.txt\n"
    assert done(os_harness, "read", path="a.txt") == "     1\tone\n     2\ttwo\n     3\tthré\n"
    assert done(os_harness, "edit", path="a.txt", old="two\n", new="2\n2b\n") == "replaced in a.txt, line 2\n"
    assert (root / "a.txt").read_text() == "one\n2\n2b\nthré\n"
    assert "occurs 2 times" in failed(os_harness, "edit", path="a.txt", old="2", new="x")
    assert (root / "a.txt").read_text() == "one\n2\n2b\nthré\n"


def test_a_large_file_is_read_in_parts(os_harness, root):
    (root / "big").write_text("".join(f"line {n}\n" for n in range(1, 100_001)))
    text = done(os_harness, "read", path="big", offset=99_998, limit=2)
    assert text == " 99998\tline 99998\n 99999\tline 99999\n[1 more lines; go on with offset 100000]\n"
    assert done(os_harness, "read", path="big").endswith("[98000 more lines; go on with offset 2001]\n")


@pytest.mark.core
@pytest.mark.parametrize("path", ["../outside", "a/../../outside", "/etc/passwd", "link", "linked/outside"])
def test_nothing_outside_the_root_is_reached(os_harness, root, path):
    (root.parent / "outside").write_text("secret")
    (root / "a").mkdir()
    (root / "link").symlink_to("../outside")
    (root / "linked").symlink_to("..")
    for tool, args in (
        ("read", {}),
        ("write", {"content": "x"}),
        ("edit", {"old": "secret", "new": "x"}),
        ("grep", {"pattern": "secret"}),
    ):
        outcome = os_harness.call(tool, json.dumps({"path": path, **args}))
        if tool == "write" and path == "link":
            continue  # the link itself is replaced by a file: what it pointed to is not touched
        assert isinstance(outcome, berm.Failed), (tool, outcome)
    assert (root.parent / "outside").read_text() == "secret"
    assert "secret" not in str(os_harness.call("grep", '{"pattern":"secret"}'))


def test_glob_and_grep_do_not_follow_links(os_harness, root):
    (root / "d").mkdir()
    (root / "d" / "f.txt").write_text("needle\n")
    (root / "d" / "loop").symlink_to(".")
    assert done(os_harness, "glob", pattern="**/*.txt") == "d/f.txt\n"
    assert done(os_harness, "grep", pattern="needle") == "d/f.txt:1: needle\n"


def test_without_a_root_every_tool_is_a_trap_that_names_the_capability(engine):
    harness = berm.Harness.load(engine, image("os"))
    for tool, args, name in (
        ("read", {"path": "a"}, "berm.fs.read"),
        ("glob", {"pattern": "*"}, "berm.fs.list"),
        ("bash", {"command": "true"}, "berm.exec.run"),
    ):
        with pytest.raises(berm.Trap) as caught:
            harness.call(tool, json.dumps(args))
        assert caught.value.code.name == "UNKNOWN_HOST_CALL"
        assert name in str(caught.value)


def test_with_files_alone_there_is_no_shell(os_harness):
    with pytest.raises(berm.Trap) as caught:
        os_harness.call("bash", '{"command":"true"}')
    assert "berm.exec.run" in str(caught.value)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_bash_runs_commands_in_the_root(engine, root, backend):
    (root / "sub").mkdir()
    harness = berm.Harness.load(engine, image("os"), commands(root))

    def bash(**args):
        return anyio.run(berm.aio.call, harness, "bash", json.dumps(args), backend=backend)

    assert bash(command="pwd").text == f"{root.resolve()}\n"
    assert bash(command="pwd", cwd="sub").text == f"{(root / 'sub').resolve()}\n"
    assert bash(command="echo out; echo err >&2; exit 3").text == "out\n[stderr]\nerr\n[exit code 3]\n"
    assert bash(command="kill -9 $$").text == "[ended by a signal]\n"
    assert bash(command="true").text == "[no output]\n"
    flood = bash(command="yes | head -c 3000000").text
    assert re.search(r"\n\[\d+ bytes were dropped in the middle\]\n\Z", flood)
    assert len(flood) < 2 << 20


# ---- patterns, against Python's ----


def any_regex():
    atoms = st.sampled_from(
        [
            "a",
            "b",
            "é",
            ".",
            "\\d",
            "\\w",
            "\\W",
            "[ab]",
            "[^a]",
            "[a-cé]",
            "1",
            "_",
            " ",
            "\\b",
            "^",
            "$",
            "\\.",
        ]
    )

    def extend(inner):
        return st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map("|".join).map("(?:{})".format),
            st.tuples(inner.map("({})".format), st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "*?"])).map(
                "".join
            ),
        )

    return st.recursive(atoms, extend, max_leaves=8)


@given(any_regex(), st.lists(st.text("ab1_é. ", max_size=8), min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_regular_expressions_match_as_in_python(engine, tmp_path_factory, pattern, lines):
    # In ASCII, as the harness has it; there `é` is no word character.
    wanted = re.compile(pattern, re.ASCII)
    assume(lines != [""])
    root = tmp_path_factory.mktemp("grep")
    (root / "f").write_text("\n".join(lines) + "\n", encoding="utf-8")
    harness = berm.Harness.load(engine, image("os"), files(root))
    found = [f"f:{n}: {line}\n" for n, line in enumerate(lines, 1) if wanted.search(line)]
    text = done(harness, "grep", pattern=pattern, path="f")
    assert text == ("".join(found) or "[no line matches]\n")


names = st.text("ab.é", min_size=1, max_size=4).filter(lambda name: name not in {".", ".."})
parts = st.lists(st.sampled_from(["a", "b", "é", ".", "*", "?", "[ab]", "[!a]"]), min_size=1, max_size=4).map(
    "".join
)


@given(parts, st.sets(names, min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_file_patterns_match_as_in_python(engine, tmp_path_factory, pattern, entries):
    assume(pattern not in {".", ".."})
    root = tmp_path_factory.mktemp("glob")
    for name in entries:
        (root / name).touch()
    harness = berm.Harness.load(engine, image("os"), files(root))
    found = [
        f"{name}\n"
        for name in sorted(entries, key=str.encode)
        if fnmatch.fnmatchcase(name, pattern) and (name[0] != "." or pattern[0] == ".")
    ]
    assert done(harness, "glob", pattern=pattern) == ("".join(found) or "[nothing matches]\n")


@pytest.mark.core
def test_a_pattern_that_back_tracks_elsewhere_takes_little_fuel(engine, root):
    (root / "f").write_text("a" * 20_000 + "\n")
    harness = berm.Harness.load(engine, image("os"), files(root))
    outcome = harness.call("grep", '{"pattern":"^(a+)+$b|(a*)*c"}', limits=berm.Limits(fuel=20_000_000))
    assert outcome.text == "[no line matches]\n"
