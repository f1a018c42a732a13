"""The engines that run a kernel, each behind the same two words: made from a name, called with a count.

Peers are optional: `kernel_engines` gives those that are installed, ours first.
"""

# mypy: disable-error-code="import-not-found, import-untyped"
from __future__ import annotations

import ctypes
import importlib
import importlib.util
from typing import Any, Protocol

from build_guests import Target, build, native_compiler
from timing import seconds

MASK = (1 << 64) - 1


class KernelEngine(Protocol):
    """One kernel, loaded and ready."""

    def __init__(self, kernel: str) -> None:
        """Load the kernel, `group/name`."""

    def call(self, n: int) -> int:
        """Run `kernel(n)` and return its checksum."""


class Rvcore:
    """This project's machine."""

    def __init__(self, kernel: str) -> None:
        import rvcore

        engine = rvcore.Engine()
        self._store = rvcore.Store(engine)
        module = rvcore.Module(engine, build(kernel, Target.RISCV).read_bytes())
        instance = rvcore.Linker(engine).instantiate(self._store, module)
        self._kernel = instance.exports(self._store)["kernel"]
        self.instructions = 0  # of the last call

    def call(self, n: int) -> int:
        """Run `kernel(n)`, counting instructions."""
        run = self._kernel.start(self._store, n)
        checksum = run.finish()[0]
        self.instructions = run.instructions
        return int(checksum)


class Wasmtime:
    """wasmtime-py with its optimising compiler, Cranelift."""

    def __init__(self, kernel: str) -> None:
        import wasmtime

        engine = wasmtime.Engine()
        self._store = wasmtime.Store(engine)
        module = wasmtime.Module(engine, build(kernel, Target.WASM).read_bytes())
        instance = wasmtime.Instance(self._store, module, [])
        self._kernel: Any = instance.exports(self._store)["kernel"]

    def call(self, n: int) -> int:
        """Run `kernel(n)`."""
        return int(self._kernel(self._store, n)) & MASK


class Wasm3:
    """pywasm3, an interpreter of WebAssembly."""

    def __init__(self, kernel: str) -> None:
        import wasm3

        environment: Any = wasm3.Environment()
        self._runtime: Any = environment.new_runtime(1 << 16)
        self._runtime.load(environment.parse_module(build(kernel, Target.WASM).read_bytes()))
        self._kernel: Any = self._runtime.find_function("kernel")

    def call(self, n: int) -> int:
        """Run `kernel(n)`."""
        return int(self._kernel(n)) & MASK


class Unicorn:
    """unicorn, which translates blocks to machine code as qemu does, in the better of its two TLB modes."""

    def __init__(self, kernel: str) -> None:
        from unicorn_guest import UnicornGuest

        path = build(kernel, Target.RISCV)
        guests = [UnicornGuest(path, own_tlb=own_tlb) for own_tlb in (False, True)]
        for guest in guests:
            guest.call(2)  # translates
        self._guest = min(guests, key=lambda guest: seconds(lambda: guest.call(8)))

    def call(self, n: int) -> int:
        """Run `kernel(n)`."""
        return self._guest.call(n)


class Native:
    """The same source, compiled by gcc -O2 for this machine."""

    def __init__(self, kernel: str) -> None:
        library = ctypes.CDLL(str(build(kernel, Target.NATIVE)))
        self._kernel = library.kernel
        self._kernel.restype = ctypes.c_uint64
        self._kernel.argtypes = [ctypes.c_uint64]

    def call(self, n: int) -> int:
        """Run `kernel(n)`."""
        return int(self._kernel(n))


def installed(package: str) -> bool:
    """Tell whether a peer's package can be imported."""
    return importlib.util.find_spec(package) is not None


def kernel_engines() -> dict[str, type[KernelEngine]]:
    """Map the names of all engines that are here to their classes, ours first."""
    peers: dict[str, tuple[str, type[KernelEngine]]] = {
        "pywasm3": ("wasm3", Wasm3),
        "unicorn": ("unicorn", Unicorn),
        "wasmtime": ("wasmtime", Wasmtime),
    }
    found: dict[str, type[KernelEngine]] = {"rvcore": Rvcore}
    found |= {name: engine for name, (package, engine) in peers.items() if installed(package)}
    if native_compiler() is not None:
        found["native"] = Native
    return found


def missing_note() -> str | None:
    """Say which peers are not installed, None when all are."""
    missing = [package for package in ("wasmtime", "wasm3", "unicorn") if not installed(package)]
    return f"not installed, so not measured: {', '.join(missing)}" if missing else None
