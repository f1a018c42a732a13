"""`berm trace`, `profile` and `bench`: figures that add up, and loops that fold."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berm.cli import exits, main
from berm.cli.trace import folded


@pytest.fixture
def run(cli_image, capsys):
    def run(command, tool, *arguments):
        status = main([command, str(cli_image), tool, *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def call_instructions(run, tool, arguments):
    return json.loads(run("run", tool, arguments, "--json")[1])["instructions"]


EVENT = st.tuples(st.integers(0, 3), st.just(1))


@given(st.lists(EVENT, max_size=60))
def test_folding_loses_nothing(events):
    assert [event for times, loop in folded(events) for event in [*loop] * times] == events


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("", []),
        ("abc", [(1, "a"), (1, "b"), (1, "c")]),
        ("aaaa", [(4, "a")]),
        ("xababaz", [(1, "x"), (2, "ab"), (1, "a"), (1, "z")]),
        ("aabaabaab", [(3, "aab")]),
        ("abcdefgh" * 3, [(3, "abcdefgh")]),
        ("ab" * 1000, [(1000, "ab")]),
    ],
)
def test_what_repeats_is_one_loop(events, expected):
    assert list(folded(events)) == expected


def test_a_long_trace_folds_in_a_moment():
    events = ["a"] * 200_000 + ["b", "c"] * 100_000
    assert list(folded(events)) == [(200_000, ["a"]), (100_000, ["b", "c"])]


@pytest.mark.core
def test_trace_shows_blocks_and_host_calls_in_order(run):
    status, out, err = run("trace", "say", '{"text": "hi"}')
    assert (status, err) == (exits.DONE, "")
    rows = [line.split("\t") for line in out.split("\n\n")[0].splitlines()]
    calls = [what.removeprefix("→ ") for _, _, what, _ in rows if what.startswith("→ ")]
    assert rows[0][2] == "berm_tool_say+0x0"
    assert {"berm.args.len", "berm.args.read"} <= set(calls)
    assert sum(int(times) * int(size) for times, _, _, size in rows if size) == call_instructions(
        run, "say", '{"text": "hi"}'
    )


def test_trace_says_how_much_memory_was_used(run):
    facts = json.loads(run("trace", "work", '{"n": 3}', "--json")[1])
    memory = facts["memory"]
    assert 100_000 < memory["heap_bytes"] < 2_000_000
    assert 0 < memory["stack_bytes"] < 65536
    assert memory["written_bytes"] >= 100_000


def test_a_trace_that_is_cut_says_so(run):
    status, out, _ = run("trace", "work", '{"n": 1000}', "--limit", "20")
    assert status == exits.DONE
    assert "more were not kept: raise --limit to see them" in out
    assert "; 20 blocks" in out or "host calls are shown" in out


def test_trace_of_a_crash_ends_with_its_report(run):
    status, out, err = run("trace", "crash")
    assert status == exits.HOST_ERROR
    assert "berm_tool_crash+0x0" in out.splitlines()[0]
    assert err.startswith("trap: load fault")


@pytest.mark.core
def test_profile_counts_each_function(run):
    status, out, err = run("profile", "work", '{"n": 10000}')
    assert (status, err) == (exits.DONE, "")
    rows = {name: (int(own), int(total)) for own, total, _, name in map(str.split, out.splitlines())}
    assert sum(own for own, _ in rows.values()) == call_instructions(run, "work", '{"n": 10000}')
    own, total = rows["square_sum"]
    assert own == total > 30_000
    assert rows["berm_tool_work"][1] == sum(own for own, _ in rows.values())
    assert max(rows.values())[0] == own


def test_profile_writes_stacks_for_flame_graphs(run, tmp_path):
    folded_file = tmp_path / "work.folded"
    status, _, _ = run("profile", "work", '{"n": 100}', "--folded", str(folded_file))
    assert status == exits.DONE
    lines = [line.rsplit(" ", 1) for line in folded_file.read_text().splitlines()]
    assert sum(int(count) for _, count in lines) == call_instructions(run, "work", '{"n": 100}')
    assert any(
        stack.startswith("berm_tool_work;") and stack.endswith(";berm_start_work;square_sum")
        for stack, _ in lines
    )


def test_a_folded_file_that_cannot_be_written_is_one_sentence(run, tmp_path):
    status, _, err = run("profile", "say", '{"text": ""}', "--folded", str(tmp_path / "no" / "file"))
    assert status == exits.HOST_ERROR
    assert err == f"berm: cannot write {tmp_path / 'no' / 'file'}: no such file or directory\n"


def test_bench_measures_loads_and_calls(run):
    arguments = ("bench", "say", '{"text": "hi"}', "--calls", "50")
    status, out, err = run(*arguments, "--json")
    assert (status, err) == (exits.DONE, "")
    facts = json.loads(out)
    assert facts["calls"] == 50
    assert 0 < facts["fastest_ns"] <= facts["p50_ns"] <= facts["p99_ns"] <= facts["slowest_ns"]
    assert facts["instructions"] == call_instructions(run, "say", '{"text": "hi"}')
    assert "p50\t" in run(*arguments)[1]


def test_bench_of_a_tool_that_traps_is_the_trap(run):
    status, out, err = run("bench", "crash")
    assert (status, out) == (exits.HOST_ERROR, "")
    assert err.startswith("trap: load fault")
