"""A sandbox for tools: one ELF image in, its tools called, outcomes out.

`Engine(Config) → Harness.load → harness.call → Done | Failed`, everything else is a `BermError`. `berm.aio`
drives calls on asyncio and trio.
"""

from berm._invocation import Call, HostCall, Invocation
from berm._outcome import Done, Failed, Limits
from berm.binding import Capability
from berm.chain import Chain
from berm.errors import (
    AsyncCapabilityError,
    BermError,
    DigestError,
    ManifestError,
    NoSuchEntry,
    NoSuchTool,
    Refused,
    WireError,
)
from berm.framing import capability
from berm.harness import Harness
from berm.manifest import Manifest, Tool
from berm.nesting import calls
from rvcore import Config, Engine, LinkError, LoadError, Trap, TrapCode

__all__ = [
    "AsyncCapabilityError",
    "BermError",
    "Call",
    "Capability",
    "Chain",
    "Config",
    "DigestError",
    "Done",
    "Engine",
    "Failed",
    "Harness",
    "HostCall",
    "Invocation",
    "Limits",
    "LinkError",
    "LoadError",
    "Manifest",
    "ManifestError",
    "NoSuchEntry",
    "NoSuchTool",
    "Refused",
    "Tool",
    "Trap",
    "TrapCode",
    "WireError",
    "calls",
    "capability",
]
