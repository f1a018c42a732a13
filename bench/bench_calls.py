"""Ask what one fresh invocation costs from Python: 256 bytes in, the same bytes out, in memory of its own.

Every engine has its program loaded or compiled beforehand; what is timed is a new sandbox, the bytes in, the
call, and the bytes out. The same is then timed for memory sizes from 16 MiB to 4 GiB, which must not matter.
"""

# mypy: disable-error-code="import-not-found, import-untyped"
from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from build_guests import BuildError, Target, build, native_compiler
from engines import installed, missing_note
from reporting import Report, main
from timing import calls_in_turns, percentile

BLOB = b"".join(b"%04d " % i for i in range(52))[:256]
MIB = 1 << 20
GIB = 1 << 30
SIZES = {"16 MiB": 16 * MIB, "64 MiB": 64 * MIB, "256 MiB": 256 * MIB, "1 GiB": GIB, "4 GiB": 4 * GIB}
FLAT_TO = "1 GiB"
Echo = Callable[[], bytes | bytearray]


def berm_echo(memory_size: int = 64 * MIB) -> Echo:
    """Make the invocation of our engine."""
    import berm

    engine = berm.Engine(berm.Config(memory_size=memory_size))
    harness = berm.Harness.load(engine, build("calls/tools", Target.RISCV).read_bytes())

    def echo() -> bytes:
        outcome = harness.call("echo", BLOB)
        if not isinstance(outcome, berm.Done):
            raise TypeError(f"the echo answered {outcome!r}")
        return outcome.data

    return echo


def wasmtime_echo(*, pooled: bool) -> Echo:
    """Make the invocation of wasmtime-py: everything that can be prepared once is."""
    import wasmtime

    config = wasmtime.Config()
    if pooled:
        _use_pool(config)
    engine = wasmtime.Engine(config)
    module = wasmtime.Module(engine, build("calls/echo", Target.WASM).read_bytes())
    prepared = wasmtime.Linker(engine).instantiate_pre(module)
    where = _wasm_input(engine, prepared)
    blob = bytearray(BLOB)  # what its memory takes without another copy

    def echo() -> bytearray:
        store = wasmtime.Store(engine)
        exports = prepared.instantiate(store).exports(store)
        memory: Any = exports["memory"]
        kernel: Any = exports["kernel"]
        memory.write(store, blob, where)
        at = kernel(store, len(blob))
        found: bytearray = memory.read(store, at, at + len(blob))
        store.close()
        return found

    return echo


def _wasm_input(engine: Any, prepared: Any) -> int:
    import wasmtime

    store = wasmtime.Store(engine)
    kernel: Any = prepared.instantiate(store).exports(store)["kernel"]
    return int(kernel(store, 0))


def _use_pool(config: Any) -> None:
    """Choose wasmtime's pooling allocator; its Python package has it in the C bindings only."""
    from wasmtime import _bindings as c

    pool = c.wasmtime_pooling_allocation_config_new()
    c.wasmtime_pooling_allocation_config_total_memories_set(pool, 16)
    c.wasmtime_pooling_allocation_config_total_tables_set(pool, 16)
    c.wasmtime_pooling_allocation_config_total_core_instances_set(pool, 16)
    c.wasmtime_pooling_allocation_config_max_unused_warm_slots_set(pool, 16)
    c.wasmtime_pooling_allocation_config_linear_memory_keep_resident_set(pool, 1 << 20)
    c.wasmtime_pooling_allocation_config_table_keep_resident_set(pool, 1 << 16)
    c.wasmtime_pooling_allocation_strategy_set(config.ptr(), pool)
    c.wasmtime_pooling_allocation_config_delete(pool)


def wasm3_echo() -> Echo:
    """Make the invocation of pywasm3; its modules belong to one runtime, so each call parses anew."""
    import wasm3

    code = build("calls/echo", Target.WASM).read_bytes()
    environment: Any = wasm3.Environment()

    def fresh() -> tuple[Any, Any]:
        runtime = environment.new_runtime(1 << 14)
        runtime.load(environment.parse_module(code))
        return runtime, runtime.find_function("kernel")

    where = fresh()[1](0)

    def echo() -> bytes:
        runtime, kernel = fresh()
        memory = runtime.get_memory(0)
        memory[where : where + len(BLOB)] = BLOB
        at = kernel(len(BLOB))
        return bytes(memory[at : at + len(BLOB)])

    return echo


def unicorn_echo() -> Echo:
    """Make the invocation of unicorn: a new machine each time."""
    from unicorn_guest import UnicornGuest

    path = build("calls/echo", Target.RISCV)
    where = UnicornGuest(path).call(0)
    template = UnicornGuest(path)

    def echo() -> bytes:
        guest = template.fresh()
        guest.engine.mem_write(where, BLOB)
        at = guest.call(len(BLOB))
        return bytes(guest.engine.mem_read(at, len(BLOB)))

    return echo


def process_echo(program: Path) -> Echo:
    """Make the invocation that has no sandbox: a statically linked process."""
    command = [str(program)]
    return lambda: subprocess.run(command, input=BLOB, capture_output=True, check=True).stdout


def peers() -> dict[str, Echo]:
    """Make the invocations of all peers that are installed."""
    found: dict[str, Echo] = {}
    if installed("wasmtime"):
        found["wasmtime"] = wasmtime_echo(pooled=False)
        found["wasmtime, pooled"] = wasmtime_echo(pooled=True)
    if installed("wasm3"):
        found["pywasm3"] = wasm3_echo()
    if installed("unicorn"):
        found["unicorn"] = unicorn_echo()
    if native_compiler() is not None:
        with contextlib.suppress(BuildError):  # systems without a static libc have no such binary
            found["static process"] = process_echo(build("calls/echo", Target.PROGRAM))
    return found


def measure(*, quick: bool) -> Report:
    """Time fresh invocations of every engine, then of every memory size."""
    rounds, ours, theirs = (2, 200, 5) if quick else (10, 5000, 100)
    report = Report(
        "What does a fresh invocation cost from Python?",
        f"{len(BLOB)}-byte blob in, echo, bytes out; {rounds} rounds of {ours} calls (peers: {theirs})",
    )
    echoes: dict[str, Echo] = {"berm": berm_echo(), **peers()}
    for name, echo in echoes.items():
        if echo() != BLOB:
            raise ValueError(f"{name} does not echo")
    counts = {name: (echo, ours if name == "berm" else theirs) for name, echo in echoes.items()}
    times = calls_in_turns(counts, rounds)
    for name, found in times.items():
        report.figure(f"{name}, p50", percentile(found, 50) / 1e3, "us")
        report.figure(f"{name}, p99", percentile(found, 99) / 1e3, "us")
    _compare(report, times)
    _measure_sizes(report, rounds, ours)
    return report


def _compare(report: Report, times: dict[str, list[int]]) -> None:
    mine = percentile(times["berm"], 50)
    for name, found in times.items():
        if name != "berm":
            promise = 20.0 if name == "wasmtime, pooled" else None
            report.ratio(f"{name} / berm, p50", percentile(found, 50) / mine, promise)
    report.ratio("berm, p99 / p50", percentile(times["berm"], 99) / mine, 3.0, at_least=False)
    if (note := missing_note()) is not None:
        report.notes.append(note)


def _measure_sizes(report: Report, rounds: int, count: int) -> None:
    times = calls_in_turns({name: (berm_echo(size), count) for name, size in SIZES.items()}, rounds)
    medians = {name: percentile(found, 50) for name, found in times.items()}
    for name, value in medians.items():
        report.figure(f"berm, {name} of memory, p50", value / 1e3, "us")
    flat = [medians[name] for name, size in SIZES.items() if size <= SIZES[FLAT_TO]]
    report.ratio(f"slowest / fastest size up to {FLAT_TO}", max(flat) / min(flat), 1.1, at_least=False)


if __name__ == "__main__":
    main(measure, __doc__)
