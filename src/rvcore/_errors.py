"""The exceptions of rvcore that are not traps.

Owns the one root that callers catch, and how a refused image or a refused link is worded: facts are
attributes, and the message is made from them here and nowhere else. Text that came out of a file is
escaped, since messages end on terminals.
"""

from __future__ import annotations

_LONGEST_QUOTE = 200  # characters of file-supplied text that a message repeats; picked, not measured


def printable(text: str, limit: int = _LONGEST_QUOTE) -> str:
    """Return text with control characters escaped and anything past limit characters cut."""
    if len(text) > limit:
        text = text[:limit] + "…"
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


class Error(Exception):
    """The root of everything that rvcore and berm raise for what an image, a guest or a link did."""


class LoadError(Error):
    """An image that cannot be loaded: what is wrong with it, where, and how to build one that can.

    `field` names a header field or a section, `offset` is a position in the file, `address` one in the
    guest, `symbol` and `mnemonic` the function and the instruction at fault; each is None where it does
    not apply.
    """

    def __init__(
        self,
        problem: str,
        *,
        field: str | None = None,
        offset: int | None = None,
        address: int | None = None,
        symbol: str | None = None,
        mnemonic: str | None = None,
        remedy: str | None = None,
    ) -> None:
        self.problem = problem
        self.field = field
        self.offset = offset
        self.address = address
        self.symbol = symbol
        self.mnemonic = mnemonic
        self.remedy = remedy
        super().__init__(self._message())

    def _message(self) -> str:
        places = []
        if self.symbol is not None:
            places.append(f"symbol `{printable(self.symbol)}`")
        if self.field is not None:
            places.append(f"`{printable(self.field)}`")
        if self.address is not None:
            places.append(f"address {self.address:#x}")
        if self.offset is not None:
            places.append(f"file offset {self.offset:#x}")
        where = f" - at {', '.join(places)}" if places else ""
        how = f"; {self.remedy}" if self.remedy else ""
        return f"{printable(self.problem, 1000)}{where}{how}"


class LinkError(Error):
    """A host function that is missing, defined twice, or does not fit: `name` and `number` say which."""

    def __init__(self, problem: str, *, name: str | None = None, number: int | None = None) -> None:
        self.problem = problem
        self.name = name
        self.number = number
        known = [f"`{printable(name)}`"] if name else []
        known += [f"number {number:#x}"] if number is not None else []
        where = f" - at {', '.join(known)}" if known else ""
        super().__init__(f"{printable(problem, 1000)}{where}")
