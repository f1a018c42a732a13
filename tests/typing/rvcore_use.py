"""What mypy must say about rvcore's public API; read by `make lint`, never run.

A wrong use carries a `type: ignore`, which strict mypy reports when the use is not wrong after all.
"""

from collections.abc import Mapping
from typing import assert_type

import rvcore
from rvcore._recorder import Recorder


def configure() -> rvcore.Engine:
    config = rvcore.Config(memory_size=1 << 20, stack_size=1 << 16, fuel=None, cfi=True)
    assert_type(config.memory_size, int)
    config.memory_size = 5  # type: ignore[misc]
    rvcore.Config(1 << 20)  # type: ignore[call-arg]
    rvcore.Config(memory="64MiB")  # type: ignore[call-arg]
    return rvcore.Engine(config)


def load(engine: rvcore.Engine, elf: bytes) -> rvcore.Module:
    module = rvcore.Module(engine, elf)
    assert_type(module.exports, Mapping[str, int])
    assert_type(module.sha256, str)
    assert_type(list(module.disassemble("main")), list[tuple[int, bytes, str]])
    rvcore.Module(engine, "main.elf")  # type: ignore[arg-type]
    return module


def ten(caller: rvcore.Caller, a0: int, *_: int) -> int:
    assert_type(caller.read(a0, 8), bytes)
    caller.write(a0, b"x")
    caller.write(a0, "x")  # type: ignore[arg-type]
    return 10


def link(engine: rvcore.Engine, module: rvcore.Module) -> None:
    linker = rvcore.Linker(engine)
    linker.define_func(77, ten, name="test.ten")
    linker.define_deferred(78, name="test.later")
    linker.define_func("test.ten", ten)  # type: ignore[arg-type]
    with rvcore.Store(engine, data=5) as store:
        instance = linker.instantiate(store, module)
        assert_type(instance, rvcore.Instance)
        function = instance.exports(store)["main"]
        assert_type(function, rvcore.Func)
        call(function, store, instance.memory)


def call(function: rvcore.Func, store: rvcore.Store, memory: rvcore.Memory) -> None:
    function(store, 1, 2)
    function(store, "1")  # type: ignore[arg-type]
    started = function.start(store, 1)
    assert_type(started, rvcore.Call)
    ended = started.run(fuel=1000)
    assert_type(ended.reason, rvcore.ExitReason)
    assert_type(ended.trap, rvcore.Trap | None)
    assert_type(memory.read(store, 0, 8), bytes)
    assert_type(store.get_fuel(), int | None)
    store.set_fuel(1.5)  # type: ignore[arg-type]


def explain(trap: rvcore.Trap) -> None:
    assert_type(trap.code, rvcore.TrapCode)
    assert_type(trap.pc, int | None)
    assert_type(trap.frames, tuple[rvcore.Frame, ...])
    assert_type(trap.report(), str)
    error: rvcore.Error = trap
    print(error)


def record(store: rvcore.Store) -> None:
    recorder = Recorder(store.machine.program, max_events=10)
    Recorder(store.machine.program, 10)  # type: ignore[call-arg]
    store.machine.hook = recorder
    assert_type(recorder.counts(), dict[int, int])
    for place, what in recorder.events():
        assert_type(place, int)
        assert_type(what, int | str)
