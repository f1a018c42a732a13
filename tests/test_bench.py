"""Each benchmark runs, answers its question, and is not ten times worse than what was promised.

They run as a user runs them, with tiny counts. Times on a busy machine say little, so the promises themselves
are bench output (bench/README.md) and not tests.
"""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ziglang", reason="the guests of the benchmarks are built by zig")

BENCH = Path(__file__).parent.parent / "bench"
LOOSE = 10

# The ratios that each must report whatever else is installed.
ALWAYS = {
    "calls": {"berm, p99 / p50", "slowest / fastest size up to 1 GiB"},
    "interp": {"rvcore / unicorn"},
    "hostcall": {"a native host call", "a Python callable"},
    "load": {"berm, second load / first"},
    "threads": {"work per second, two threads / one"},
    "suspended": {"ours"},
    "daemon": {"p99 beside idle clients / alone"},
    "wakes": {"time of an add, among all of them / among few"},
}


@pytest.fixture
def bench_module(monkeypatch):
    """Import a module of bench/ and forget it, and what it imported from there, afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCH))
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == BENCH:
            del sys.modules[name]


def run_quick(name, folder):
    output = folder / "report.json"
    done = subprocess.run(
        [sys.executable, str(BENCH / f"bench_{name}.py"), "--quick", "--json", str(output)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(output.read_text())


def within(ratio, looser):
    if ratio["promise"] is None:
        return True
    if ratio["at_least"]:
        return ratio["value"] * looser >= ratio["promise"]
    return ratio["value"] <= ratio["promise"] * looser


@pytest.mark.parametrize("name", ALWAYS)
def test_benchmark_answers_within_ten_times_its_promise(name, tmp_path):
    text, record = run_quick(name, tmp_path)
    report = record["reports"][0]
    ratios = {ratio["name"]: ratio for ratio in report["ratios"]}
    assert set(ratios) >= ALWAYS[name]
    assert [ratio for ratio in ratios.values() if not within(ratio, LOOSE)] == []
    # Machine and workload stand with the numbers.
    assert text.startswith(record["machine"].partition(", load")[0])
    assert report["workload"] in text
    assert [ratio for ratio in ratios if ratio not in text] == []


def test_fresh_invocation_takes_microseconds(tmp_path):
    """2.6 µs is a twentieth of the best peer's call on the machine that the promise was made on."""
    _, record = run_quick("calls", tmp_path)
    figures = {figure["name"]: figure["value"] for figure in record["reports"][0]["figures"]}
    assert figures["berm, p50"] <= 2.6 * LOOSE


def test_engines_that_disagree_are_an_error(bench_module):
    interp = bench_module("bench_interp")
    engines = bench_module("engines")

    class Liar:
        def call(self, n):
            return ours.call(n) ^ 1

    ours = engines.Rvcore("quoted/sha256")
    with pytest.raises(interp.DisagreementError, match="checksums differ"):
        interp.check("quoted/sha256", {"rvcore": ours, "liar": Liar()}, ours, 2)


def test_no_quoted_kernel_is_a_tuning_guest(bench_module):
    kernels = bench_module("build_guests").kernels
    quoted, tuning = ({name.partition("/")[2] for name in kernels(group)} for group in ("quoted", "tuning"))
    assert len(quoted) == 5
    assert len(tuning) >= 12
    assert quoted & tuning == set()


def test_missed_promise_is_said(bench_module):
    reporting = bench_module("reporting")
    report = reporting.Report("Does it hold?", "nothing")
    report.ratio("held", 2.0, 1.5)
    report.ratio("broken", 20.0, 15.0, at_least=False, unit="ns")
    assert "at least 1.5 x: kept" in report.text()
    assert "at most 15 ns: MISSED" in report.text()
    assert bench_module("run").summary([report]).splitlines()[2:] == [
        "| **held** | **2 x** | at least 1.5 x: kept |",
        "| **broken** | **20 ns** | at most 15 ns: MISSED |",
    ]


def test_make_bench_builds_the_images_that_benchmarks_read():
    reading = [path.name for path in BENCH.glob("bench_*.py") if '"harness"' in path.read_text()]
    assert reading == ["bench_daemon.py"]
    makefile = (BENCH.parent / "Makefile").read_text()
    (target,) = [line for line in makefile.splitlines() if line.startswith("bench:")]
    assert "harnesses" in target.split()
