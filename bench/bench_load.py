"""Ask how long a program takes from its bytes to being callable: first, and when its bytes are known.

The program is every kernel of bench/guests/ in one image, linked with symbols and relocations as the harness
toolchain links; for WebAssembly it is the same sources. wasmtime compiles it; pywasm3 only parses, and
compiles later, function by function, at the first call.
"""

# mypy: disable-error-code="import-not-found, import-untyped"
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from build_guests import Target, build_everything
from engines import installed, missing_note
from reporting import Report, main
from timing import in_turns, seconds

Load = Callable[[], object]


def rvcore_load(data: bytes) -> Load:
    """Load into a new engine each time, so nothing is known."""
    import rvcore

    return lambda: rvcore.Module(rvcore.Engine(), data)


def berm_load(data: bytes) -> Load:
    """Load a harness, manifest and all, into a new engine each time."""
    import berm

    return lambda: berm.Harness.load(berm.Engine(berm.Config()), data)


def berm_load_again(data: bytes) -> Load:
    """Load a harness into an engine that has seen the bytes."""
    import berm

    engine = berm.Engine(berm.Config())
    berm.Harness.load(engine, data)
    return lambda: berm.Harness.load(engine, data)


def wasmtime_load(code: bytes) -> Load:
    """Compile with Cranelift, in parallel as it does by default."""
    import wasmtime

    engine = wasmtime.Engine()
    return lambda: wasmtime.Module(engine, code)


def wasm3_load(code: bytes) -> Load:
    """Parse."""
    import wasm3

    environment: Any = wasm3.Environment()
    return lambda: environment.new_runtime(1 << 16).load(environment.parse_module(code))


def sections(data: bytes) -> tuple[int, int]:
    """Count the symbols and relocations of an image."""
    import io

    from elftools.elf.elffile import ELFFile

    elf: Any = ELFFile(io.BytesIO(data))
    sizes = {"SHT_SYMTAB": 0, "SHT_RELA": 0}
    for section in elf.iter_sections():
        if section["sh_type"] in sizes:
            sizes[section["sh_type"]] += section["sh_size"] // section["sh_entsize"]
    return sizes["SHT_SYMTAB"], sizes["SHT_RELA"]


def measure(*, quick: bool) -> Report:
    """Time first and second loads of one program."""
    rounds = 5 if quick else 15
    data = build_everything(Target.RISCV).read_bytes()
    loads: dict[str, Load] = {"rvcore": rvcore_load(data), "berm": berm_load(data)}
    symbols, relocations = sections(data)
    sizes = f"{len(data) / 1024:.0f} KiB of RISC-V with {symbols} symbols and {relocations} relocations"
    code = b""
    if installed("wasmtime") or installed("wasm3"):
        code = build_everything(Target.WASM).read_bytes()
        sizes += f", {len(code) / 1024:.0f} KiB of WebAssembly"
    if installed("wasmtime"):
        loads["wasmtime"] = wasmtime_load(code)
    if installed("wasm3"):
        loads["pywasm3 (parse only)"] = wasm3_load(code)
    again = berm_load_again(data)
    loads["berm, bytes known"] = lambda: [again() for _ in range(20)]
    for load in loads.values():
        seconds(load)
    times = in_turns(loads, rounds)
    times["berm, bytes known"] /= 20
    report = Report("What does loading a program cost?", f"{sizes}; median of {rounds} rounds, in turn")
    _compare(report, times)
    return report


def _compare(report: Report, times: dict[str, float]) -> None:
    for name, value in times.items():
        report.figure(name, value * 1e3, "ms")
    if "wasmtime" in times:
        report.ratio("wasmtime / rvcore, first load", times["wasmtime"] / times["rvcore"], 15.0)
    known = times["berm, bytes known"] / times["berm"]
    report.ratio("berm, second load / first", known, 0.2, at_least=False)
    if (note := missing_note()) is not None:
        report.notes.append(note)


if __name__ == "__main__":
    main(measure, __doc__)
