"""What a disk may hold after the power went: worked out from a log that `disk.c` wrote.

What was written before a file's last fsync is there. Of what was written after it, any part may be: each
sector of each write on its own, since disks write sectors and in any order.
"""

import random
import struct
from dataclasses import dataclass, field
from typing import NamedTuple

SECTOR = 512


class Operation(NamedTuple):
    kind: str  # W, T, S, U
    name: str
    offset: int
    data: bytes


def read_log(raw):
    found, at = [], 0
    while at < len(raw):
        kind, size, offset, length = struct.unpack_from("<cBQQ", raw, at)
        at += 18
        name, data = raw[at : at + size], raw[at + size : at + size + length]
        at += size + length
        found.append(Operation(kind.decode(), name.decode(), offset, data))
    return found


@dataclass
class File:
    synced: bytes = b""
    is_named: bool = False  # its directory was synced since it was made
    since: list[Operation] = field(default_factory=list)


def apply(content, operation):
    if operation.kind == "T":
        return content[: operation.offset].ljust(operation.offset, b"\0")
    end = operation.offset + len(operation.data)
    padded = content.ljust(operation.offset, b"\0")
    return padded[: operation.offset] + operation.data + padded[end:]


def sectors(operation):
    """Cut a write where a disk does."""
    at = operation.offset
    end = at + len(operation.data)
    while at < end:
        stop = min((at // SECTOR + 1) * SECTOR, end)
        start = at - operation.offset
        yield operation._replace(offset=at, data=operation.data[start : start + stop - at])
        at = stop


def nothing(_operations, _random):
    return []


def everything(operations, _random):
    return operations


def some_sectors(operations, rng):
    pieces = [
        piece
        for one in operations
        for piece in (sectors(one) if one.kind == "W" else [one])
        if rng.random() < 0.5
    ]
    rng.shuffle(pieces)
    return pieces


def a_torn_end(operations, rng):
    """Everything up to somewhere inside one write."""
    pieces = [piece for one in operations for piece in (sectors(one) if one.kind == "W" else [one])]
    return pieces[: rng.randint(0, len(pieces))]


WAYS = (nothing, everything, some_sectors, a_torn_end)


class Disk:
    """Follows a log, and says what each file may be if the power went now."""

    def __init__(self):
        self.files = {}
        self.unlinked = {}  # names whose removal no fsync has confirmed
        self.acknowledged = []

    def follow(self, operation):
        name = operation.name
        if name == "acks":
            self.acknowledged.append(int(operation.data))
        elif operation.kind == "U":
            self.unlinked[name] = self.files.pop(name, File())
        elif operation.kind == "S":
            self._sync(name)
        else:
            if name in self.unlinked:
                del self.unlinked[name]
            self.files.setdefault(name, File()).since.append(operation)

    def _sync(self, name):
        if not name:  # the directory: its names are as they are
            self.unlinked.clear()
            for file in self.files.values():
                file.is_named = True
            return
        file = self.files.setdefault(name, File())
        for one in file.since:
            file.synced = apply(file.synced, one)
        file.since = []

    def after_power_loss(self, way, rng):
        """Return the content of each file that is there, by name."""
        left = {name: file for name, file in self.files.items() if file.is_named or rng.random() < 0.5}
        for name, file in self.unlinked.items():
            if rng.random() < 0.5:
                left.setdefault(name, file)
        return {name: self._content(file, way, rng) for name, file in left.items()}

    def _content(self, file, way, rng):
        content = file.synced
        for one in way(file.since, rng):
            content = apply(content, one)
        return content


def seeded(*facts):
    return random.Random(repr(facts))
