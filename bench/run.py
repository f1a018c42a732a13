"""Run every benchmark, one question after the other, and write their reports as one table.

Each runs in a process of its own, so that no engine's threads or memory meet another question.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from reporting import TABLE_HEAD, Figure, Ratio, Report, machine

BENCH = Path(__file__).resolve().parent
# In the order of the table of promises.
NAMES = ("calls", "interp", "hostcall", "load", "threads", "suspended", "wakes", "daemon", "search")


def run(name: str, *, quick: bool) -> Report:
    """Run one benchmark in its own process.

    Raises:
        subprocess.CalledProcessError: it failed; its words are on standard error.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "report.json"
        command = [sys.executable, str(BENCH / f"bench_{name}.py"), "--json", str(output)]
        subprocess.run(command + ["--quick"] * quick, check=True, stdout=subprocess.DEVNULL, timeout=3600)
        return report_of(json.loads(output.read_text())["reports"][0])


def report_of(values: dict[str, object]) -> Report:
    """Make a report of its JSON form."""
    found: dict[str, Any] = dict(values)
    found["figures"] = [Figure(**one) for one in found["figures"]]
    found["ratios"] = [
        Ratio(**{name: value for name, value in one.items() if name != "kept"}) for one in found["ratios"]
    ]
    return Report(**found)


def summary(reports: list[Report]) -> str:
    """Lay out what was promised beside what was measured, as one Markdown table."""
    promised = [one for report in reports for one in report.ratios if one.promise is not None]
    return "\n".join([*TABLE_HEAD, *(one.row() for one in promised)])


def main() -> None:
    """Run what was asked for; exit 1 if a promise is missed and --strict was given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"any of {', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="tiny counts: shows that all run, not how fast")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a promise is missed")
    parser.add_argument("--json", type=Path, help="write all reports here")
    parser.add_argument("--markdown", type=Path, help="write tables here")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(NAMES):
        parser.error(f"no benchmark named {', '.join(sorted(unknown))}")
    described, reports = machine(), []
    print(described, flush=True)
    for name in chosen.names or NAMES:
        reports.append(run(name, quick=chosen.quick))
        print(f"\n{reports[-1].text()}", flush=True)
    if chosen.json is not None:
        record = {"machine": described, "reports": [one.as_dict() for one in reports]}
        chosen.json.write_text(json.dumps(record, indent=1) + "\n")
    if chosen.markdown is not None:
        parts = [f"Machine: {described}", summary(reports), *(one.markdown() for one in reports)]
        chosen.markdown.write_text("\n\n".join(parts) + "\n")
    missed = [one.name for report in reports for one in report.ratios if one.kept is False]
    print(f"\npromises missed: {', '.join(missed) if missed else 'none'}")
    if chosen.strict and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
