"""A RISC-V machine: ELF in, instructions executed, traps out.

Shaped like wasmtime's Python package: `Config → Engine → Module → Linker → Store → Instance → Func`.
"""

from rvcore._call import Call, Caller, Exit, ExitReason
from rvcore._config import Config
from rvcore._engine import Engine, EngineStatistics
from rvcore._errors import Error, LinkError, LoadError
from rvcore._func import Func
from rvcore._instance import Exports, Instance
from rvcore._linker import Linker
from rvcore._module import Module
from rvcore._store import Memory, Store
from rvcore._traps import Frame, Trap, TrapCode

__all__ = [
    "Call",
    "Caller",
    "Config",
    "Engine",
    "EngineStatistics",
    "Error",
    "Exit",
    "ExitReason",
    "Exports",
    "Frame",
    "Func",
    "Instance",
    "LinkError",
    "Linker",
    "LoadError",
    "Memory",
    "Module",
    "Store",
    "Trap",
    "TrapCode",
]
