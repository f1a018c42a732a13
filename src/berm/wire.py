"""Fields on the wire between guest and host, and the typed values inside them.

A request is a sequence of fields; text is UTF-8, integers are decimal text, pairs are flattened to key and
value. This file knows no capability and no machine. What does not fit is a `WireError` that names the
parameter.
"""

import re
from collections.abc import Sequence

from berm._wire import pack_fields, unpack_fields
from berm.errors import WireError

__all__ = [
    "WireError",
    "decode_int",
    "decode_pairs",
    "decode_text",
    "encode_int",
    "encode_text",
    "pack_fields",
    "unpack_fields",
]

# Wide enough for every 64-bit integer, signed or not, and far from the cost of converting long decimals.
_INTEGER = re.compile(rb"-?[0-9]{1,20}\Z")


def encode_text(value: str) -> bytes:
    """Encode text for a field; what UTF-8 cannot carry (a lone surrogate) becomes `?`."""
    return value.encode(errors="replace")


def encode_int(value: int) -> bytes:
    """Encode an integer as decimal text."""
    return b"%d" % value


def decode_text(field: bytes, what: str) -> str:
    """Decode a field as UTF-8.

    Raises:
        WireError: if it is not, naming `what`.
    """
    try:
        return field.decode()
    except UnicodeDecodeError as error:
        raise WireError(f"{what}: not UTF-8 at byte {error.start}") from None


def decode_int(field: bytes, what: str) -> int:
    """Decode a field as decimal text.

    Raises:
        WireError: if it is anything else, naming `what`.
    """
    if not _INTEGER.match(field):
        raise WireError(f"{what}: expected a decimal integer, got {field[:24]!r}")
    return int(field)


def decode_pairs(fields: Sequence[bytes], what: str) -> list[tuple[str, str]]:
    """Decode flattened pairs: key, value, key, value.

    Raises:
        WireError: if a key lacks its value or text is not UTF-8, naming `what`.
    """
    if len(fields) % 2:
        raise WireError(f"{what}: {len(fields)} fields are no pairs of key and value")
    text = [decode_text(field, what) for field in fields]
    return list(zip(text[::2], text[1::2], strict=True))
