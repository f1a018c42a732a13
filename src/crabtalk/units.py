"""Values that people write with a unit, and the names that they may have meant.

Both `config.toml` and declarations read these. Every function takes what TOML or JSON gave and raises a
`ValueError` that says what was wanted, so that the caller only has to add where.
"""

import difflib
import re
from collections.abc import Iterable
from typing import Final

_SIZES: Final = {
    "": 1,
    "b": 1,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
}
_SECONDS: Final = {"ms": 0.001, "": 1.0, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_AMOUNT: Final = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]*)", re.ASCII)


def size_bytes(value: object) -> int:
    """Return the bytes of `16777216`, `"16MiB"`, `"1.5 GB"`.

    Raises:
        ValueError: for anything else.
    """
    amount = _amount(value, _SIZES)
    if amount is None or amount != int(amount):
        raise ValueError(f"expected a size such as 65536 or `16MiB`, got {shown(value)}")
    return int(amount)


def duration_s(value: object) -> float:
    """Return the seconds of `90`, `1.5`, `"90s"`, `"5min"`, `"2h"`, `"30d"`, `"250ms"`.

    Raises:
        ValueError: for anything else.
    """
    amount = _amount(value, _SECONDS)
    if amount is None:
        raise ValueError(f"expected seconds, or a duration such as `90s` or `5min`, got {shown(value)}")
    return amount


def rate_per_s(value: object) -> tuple[int, float]:
    """Return (count, seconds) of `"60/min"`, `"5/s"`, `"1000/h"`.

    Raises:
        ValueError: for anything else.
    """
    count, slash, unit = value.partition("/") if isinstance(value, str) else ("", "", "")
    seconds = _SECONDS.get(unit.strip().lower()) if unit.strip() else None
    if not slash or seconds is None or re.fullmatch(r"[1-9]\d{0,8}", count.strip()) is None:
        raise ValueError(f"expected a rate such as `60/min`, got {shown(value)}")
    return int(count), seconds


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean `x`?"`` for the known name that is most like `name`, or nothing."""
    close = difflib.get_close_matches(name[:100], list(known), n=1, cutoff=0.6)
    return f"; did you mean `{close[0]}`?" if close else ""


def shown(value: object) -> str:
    """Return a value as an error shows it: short, on one line."""
    text = f"`{value}`" if isinstance(value, str | int | float) else f"`{type(value).__name__}`"
    text = text.encode("unicode_escape").decode("ascii")
    return text if len(text) <= 80 else f"{text[:76]}…`"  # noqa: PLR2004 - a line of a terminal


def _amount(value: object, units: dict[str, float] | dict[str, int]) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value if 0 <= value < 1e18 else None  # noqa: PLR2004 - what a float still counts; NaN is neither
    matched = _AMOUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    if matched is None or matched[2].lower() not in units:
        return None
    return float(matched[1]) * units[matched[2].lower()]
