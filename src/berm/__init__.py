"""A sandbox for tools: one ELF image in, its tools called, outcomes out.

`Engine(Config) → Harness.load → harness.call → Done | Failed`, everything else is a `BermError`. `berm.aio`
drives calls on asyncio and trio. Names are imported when first used: `berm --help` needs none of them.
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from berm._call import Call, HostCall
    from berm._chain import Chain
    from berm._invocation import Invocation
    from berm._outcome import Done, Failed, Limits
    from berm.binding import Capability
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

_PLACES = {
    "AsyncCapabilityError": "berm.errors",
    "BermError": "berm.errors",
    "Call": "berm._call",
    "Capability": "berm.binding",
    "Chain": "berm._chain",
    "Config": "rvcore",
    "DigestError": "berm.errors",
    "Done": "berm._outcome",
    "Engine": "rvcore",
    "Failed": "berm._outcome",
    "Harness": "berm.harness",
    "HostCall": "berm._call",
    "Invocation": "berm._invocation",
    "Limits": "berm._outcome",
    "LinkError": "rvcore",
    "LoadError": "rvcore",
    "Manifest": "berm.manifest",
    "ManifestError": "berm.errors",
    "NoSuchEntry": "berm.errors",
    "NoSuchTool": "berm.errors",
    "Refused": "berm.errors",
    "Tool": "berm.manifest",
    "Trap": "rvcore",
    "TrapCode": "rvcore",
    "WireError": "berm.errors",
    "calls": "berm.nesting",
    "capability": "berm.framing",
}

if not typing.TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _PLACES:
            raise AttributeError(f"module `berm` has no attribute `{name}`")
        value = globals()[name] = getattr(importlib.import_module(_PLACES[name]), name)
        return value
