"""Ask what one call from a guest to its host costs: native, to a Python callable, to a capability.

A guest loop makes n calls; the time of a call is the time of n calls less that of none, divided by n. It
holds the loop itself (about three instructions), which is how peers' figures are quoted as well.
"""

# mypy: disable-error-code="import-not-found, import-untyped"
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from build_guests import Target, build
from engines import installed, missing_note
from reporting import Report, main
from timing import in_turns

Loop = Callable[[int], object]


def berm_loops() -> dict[str, Loop]:
    """Make the loops of the sandbox: native calls, inline capability calls, and the bare loop."""
    import berm

    clock = berm.Capability("berm.clock.now", lambda _call, _request: b"1700000000")
    harness = berm.Harness.load(
        berm.Engine(berm.Config()), build("calls/tools", Target.RISCV).read_bytes(), [clock]
    )
    limits = berm.Limits(fuel=1 << 40)

    def loop(tool: str, n: int) -> None:
        harness.call(tool, n.to_bytes(8, "little"), limits=limits)

    return {
        "berm, native": partial(loop, "native_calls"),
        "berm, capability": partial(loop, "capability_calls"),
        "berm, no call": partial(loop, "no_calls"),
    }


def rvcore_loop() -> Loop:
    """Make the loop that calls a Python callable from the bare machine."""
    import rvcore

    engine = rvcore.Engine()
    linker = rvcore.Linker(engine)
    linker.define_func(1, lambda _caller, a0, _a1, _a2, _a3, _a4, _a5: a0, name="bench.nop")
    store = rvcore.Store(engine)
    module = rvcore.Module(engine, build("calls/host_loop", Target.RISCV).read_bytes())
    kernel = linker.instantiate(store, module).exports(store)["kernel"]
    return lambda n: _checked(kernel(store, n), n)


def wasmtime_loop() -> Loop:
    """Make the loop of wasmtime-py."""
    import wasmtime

    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    number = wasmtime.ValType.i64()
    linker = wasmtime.Linker(engine)
    linker.define_func("bench", "nop", wasmtime.FuncType([number], [number]), lambda value: value)
    module = wasmtime.Module(engine, build("calls/host_loop", Target.WASM).read_bytes())
    kernel: Any = linker.instantiate(store, module).exports(store)["kernel"]
    return lambda n: _checked(kernel(store, n), n)


def wasm3_loop() -> Loop:
    """Make the loop of pywasm3."""
    import wasm3

    environment: Any = wasm3.Environment()
    runtime = environment.new_runtime(1 << 16)
    module = environment.parse_module(build("calls/host_loop", Target.WASM).read_bytes())
    runtime.load(module)
    module.link_function("bench", "nop", "I(I)", lambda value: value)
    kernel = runtime.find_function("kernel")
    return lambda n: _checked(kernel(n), n)


def unicorn_loop() -> Loop:
    """Make the loop of unicorn: a hook on the environment call."""
    import unicorn
    from unicorn_guest import UnicornGuest

    guest = UnicornGuest(build("calls/host_loop", Target.RISCV))
    guest.engine.hook_add(unicorn.UC_HOOK_INTR, lambda *_: None)
    return lambda n: _checked(guest.call(n), n)


def _checked(found: int | tuple[int, int] | None, n: int) -> None:
    if found != n * (n + 1) // 2:
        raise ValueError(f"{n} calls gave {found}")


def measure(*, quick: bool) -> Report:
    """Time a call of every kind."""
    scale, rounds = (50, 5) if quick else (1, 7)
    loops: dict[str, tuple[Loop, int]] = {
        name: (loop, (500_000 if "capability" in name else 10_000_000) // scale)
        for name, loop in berm_loops().items()
    }
    loops["rvcore, Python callable"] = rvcore_loop(), 500_000 // scale
    for name, package, make, n in (
        ("wasmtime callback", "wasmtime", wasmtime_loop, 20_000),
        ("pywasm3 callback", "wasm3", wasm3_loop, 300_000),
        ("unicorn hook", "unicorn", unicorn_loop, 20_000),
    ):
        if installed(package):
            loops[name] = make(), n // scale
    times = _per_call(loops, rounds)
    counts = ", ".join(f"{n} ({name})" for name, (_, n) in loops.items())
    workload = f"guest loops of {counts}; median of {rounds} rounds, in turn"
    report = Report("What does a host call cost?", workload)
    for name, value in times.items():
        report.figure(name, value, "ns")
    _compare(report, times)
    return report


def _per_call(loops: dict[str, tuple[Loop, int]], rounds: int) -> dict[str, float]:
    work: dict[str, Callable[[], object]] = {}
    for name, (loop, n) in loops.items():
        work[name] = partial(loop, n)
        work[f"{name}, none"] = partial(loop, 0)
    times = in_turns(work, rounds)
    return {name: (times[name] - times[f"{name}, none"]) / n * 1e9 for name, (_, n) in loops.items()}


def _compare(report: Report, times: dict[str, float]) -> None:
    mine = times["rvcore, Python callable"]
    report.ratio("a native host call", times["berm, native"], 15.0, at_least=False, unit="ns")
    report.ratio("a Python callable", mine, 250.0, at_least=False, unit="ns")
    for peer in ("wasmtime callback", "pywasm3 callback", "unicorn hook"):
        if peer in times:
            promise = 20.0 if peer == "wasmtime callback" else None
            report.ratio(f"{peer} / rvcore, Python callable", times[peer] / mine, promise)
    if (note := missing_note()) is not None:
        report.notes.append(note)


if __name__ == "__main__":
    main(measure, __doc__)
