"""What a benchmark answers, and how it is shown: figures, ratios beside what was promised, and the machine.

Knows nothing of engines. A figure drifts with the machine; a ratio of two figures of one run is the point.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

TABLE_HEAD = ("| what | measured | promised |", "|---|---:|---|")


class Measure(Protocol):
    """What each benchmark offers: its report, with tiny counts if `quick`."""

    def __call__(self, *, quick: bool) -> Report:
        """Measure."""


@dataclass(frozen=True)
class Figure:
    """One measured number."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True)
class Ratio:
    """A comparison within one run, and the bound that it is to keep, if one was promised."""

    name: str
    value: float
    promise: float | None = None
    at_least: bool = True
    unit: str = "x"

    @property
    def kept(self) -> bool | None:
        """Say whether the promise holds, None without one."""
        if self.promise is None:
            return None
        return self.value >= self.promise if self.at_least else self.value <= self.promise

    def verdict(self) -> str:
        """Spell the promise and whether it holds."""
        if self.promise is None:
            return ""
        bound = f"{'at least' if self.at_least else 'at most'} {number(self.promise)} {self.unit}"
        return f"{bound}: {'kept' if self.kept else 'MISSED'}"

    def row(self) -> str:
        """Lay the ratio out as a row of a Markdown table."""
        return f"| **{self.name}** | **{number(self.value)} {self.unit}** | {self.verdict()} |"


@dataclass
class Report:
    """The answer of one benchmark to its one question."""

    question: str
    workload: str
    figures: list[Figure] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def figure(self, name: str, value: float, unit: str) -> None:
        """Add a figure."""
        self.figures.append(Figure(name, value, unit))

    def ratio(
        self, name: str, value: float, promise: float | None = None, *, at_least: bool = True, unit: str = "x"
    ) -> None:
        """Add a ratio."""
        self.ratios.append(Ratio(name, value, promise, at_least, unit))

    def value_of(self, name: str) -> float:
        """Return a figure or ratio by its name.

        Raises:
            KeyError: there is none.
        """
        values = {one.name: one.value for one in self.figures} | {one.name: one.value for one in self.ratios}
        return values[name]

    def text(self) -> str:
        """Lay the report out for a terminal."""
        lines = [self.question, f"  workload: {self.workload}"]
        rows = [(f.name, number(f.value), f.unit, "") for f in self.figures]
        rows += [(r.name, number(r.value), r.unit, r.verdict()) for r in self.ratios]
        lines += [f"  {name:<52} {value:>9} {unit:<9} {says}".rstrip() for name, value, unit, says in rows]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def markdown(self) -> str:
        """Lay the report out for a README."""
        lines = [f"### {self.question}", "", self.workload, "", *TABLE_HEAD]
        lines += [f"| {f.name} | {number(f.value)} {f.unit} | |" for f in self.figures]
        lines += [r.row() for r in self.ratios]
        return "\n".join([*lines, "", *(f"{note}\n" for note in self.notes)])

    def as_dict(self) -> dict[str, object]:
        """Give the report as plain values, for JSON."""
        ratios = [{**asdict(one), "kept": one.kept} for one in self.ratios]
        return {**asdict(self), "ratios": ratios}


def number(value: float) -> str:
    """Write a number with about three digits that mean something."""
    if value == 0 or 100 <= abs(value) < 1e7:
        return f"{value:.0f}"
    return f"{value:.3g}"


def machine() -> str:
    """Describe the machine and interpreter in one line."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [line for line in information.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    load = f"load {os.getloadavg()[0]:.1f}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{model}, {os.cpu_count()} CPUs, {load}; {platform.system()} {platform.release()}, {python}"


def main(measure: Measure, description: str | None) -> None:
    """Run one benchmark alone: print its report, or write it as JSON."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="tiny counts: shows that it runs, not how fast")
    parser.add_argument("--json", type=Path, help="also write the report here")
    chosen = parser.parse_args()
    print(machine())
    report = measure(quick=chosen.quick)
    print(report.text())
    if chosen.json is not None:
        record = {"machine": machine(), "reports": [report.as_dict()]}
        chosen.json.write_text(json.dumps(record, indent=1) + "\n")
