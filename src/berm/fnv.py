"""Names of host calls and their numbers: FNV-1a 64 over the name's UTF-8 bytes.

Names are permanent, numbers are derived. This file owns the list of names that the ABI knows, so that a trap
can name a number that nothing was registered for, and so that a misspelt capability is an error when bound.
"""

OFFSET_BASIS = 0xCBF29CE484222325
PRIME = 0x100000001B3
_MASK = (1 << 64) - 1

ALWAYS_PRESENT = (
    "berm.log",
    "berm.args.len",
    "berm.args.read",
    "berm.fail",
    "berm.result.read",
    "berm.heap.start",
    "berm.heap.size",
)

CAPABILITIES = (
    "berm.fs.read",
    "berm.fs.write",
    "berm.fs.list",
    "berm.fs.stat",
    "berm.fs.remove",
    "berm.exec.run",
    "berm.http.fetch",
    "berm.http.start",
    "berm.http.collect",
    "berm.clock.now",
    "berm.clock.offset",
    "berm.get",
    "berm.set",
    "berm.kv.delete",
    "berm.kv.keys",
    "berm.call",
    "crabtalk.wake.schedule",
    "crabtalk.wake.cancel",
    "crabtalk.wake.list",
    "crabtalk.event.publish",
    "crabtalk.event.subscribe",
    "crabtalk.event.unsubscribe",
    "crabtalk.peers.list",
    "crabtalk.agent.send",
    "crabtalk.sessions.search",
    "crabtalk.skills.list",
    "crabtalk.skills.get",
)

# Second names under which images of the public SDK call the same capability.
ALIASES = {
    "crabtalk.fs.read": "berm.fs.read",
    "crabtalk.fs.write": "berm.fs.write",
    "crabtalk.exec.run": "berm.exec.run",
    "crabtalk.http.fetch": "berm.http.fetch",
}

# Names of an older design that are never registered, and what took their place.
RETIRED = {
    "crabtalk.protocol.call": (
        "berm.call",
        "crabtalk.agent.send",
        "crabtalk.wake.*",
        "crabtalk.event.*",
        "crabtalk.peers.list",
        "crabtalk.sessions.search",
        "crabtalk.skills.*",
    ),
}

KNOWN_NAMES = (*ALWAYS_PRESENT, *CAPABILITIES, *ALIASES, *RETIRED)

# Only here does a refusal set bit 62 beside bit 63: older SDKs mask just bit 63 everywhere else.
REFUSABLE = frozenset({"berm.call", "berm.get", "berm.set"})


def _hash(name: str) -> int:
    value = OFFSET_BASIS
    for byte in name.encode():
        value = (value ^ byte) * PRIME & _MASK
    return value


_NUMBERS = {name: _hash(name) for name in KNOWN_NAMES}
_NAMES = {number: name for name, number in _NUMBERS.items()}


def call_number(name: str) -> int:
    """Hash a call's name to the number that a guest puts into `a7`."""
    return _NUMBERS.get(name) or _hash(name)


def call_name(number: int) -> str | None:
    """Return the known name that hashes to `number`."""
    return _NAMES.get(number)


def advice(name: str) -> str:
    """Say what an image that calls `name` should call instead, "" where nothing replaces it."""
    return f"retired, use {', '.join(RETIRED[name])}" if name in RETIRED else ""
