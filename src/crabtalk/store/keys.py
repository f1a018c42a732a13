"""How keys are built: the realm, then parts with `/` between them, numbers padded so that they sort.

A part that a person or a client chose is escaped, so that no name can reach into another's keys.
"""

from typing import Final

from crabtalk.store.engine import REALM

DIGITS: Final = 20  # of the greatest 64-bit number


def key(*parts: str | int) -> bytes:
    """Return the key of these parts.

    Raises:
        ValueError: if a number is negative or has more than 64 bits.
    """
    return REALM + "/".join(map(_part, parts)).encode()


def prefix(*parts: str | int) -> bytes:
    """Return what the keys below these parts start with."""
    return key(*parts) + b"/" if parts else REALM


def parts_of(raw: bytes) -> list[str]:
    """Return the parts of a key, unescaped, without the realm; the reverse of `key`.

    Raises:
        ValueError: if it is no key of ours.
    """
    if not raw.startswith(REALM):
        raise ValueError("is not in the realm")
    return [unescape(part) for part in raw.removeprefix(REALM).decode().split("/")]


def unescape(part: str) -> str:
    """Return a part as it was before `key` escaped it."""
    return part.replace("%2F", "/").replace("%25", "%")


def _part(part: str | int) -> str:
    if isinstance(part, str):
        return part.replace("%", "%25").replace("/", "%2F")
    if not 0 <= part < 1 << 64:
        raise ValueError(f"expected an unsigned 64-bit number, got {part}")
    return f"{part:0{DIGITS}}"
