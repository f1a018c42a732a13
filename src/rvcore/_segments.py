"""The program headers → segments: what is in memory when a guest starts, and who may do what with it.

Owns the checks on where segments lie, in the file and in the guest. Whether they fit an arena is for the
program to say.
"""

from __future__ import annotations

import dataclasses
import itertools
import struct

from rvcore._errors import LoadError
from rvcore._header import STATIC, Header, check_range, name_of

PAGE_BYTES = 4096

_MAX_SEGMENTS = 128  # linkers write fewer than ten; picked, not measured

_PHDR = struct.Struct("<IIQQQQQQ")
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_PF_X, _PF_W, _PF_R = 1, 2, 4


@dataclasses.dataclass(frozen=True, slots=True)
class Segment:
    """One loadable piece of the image: `data` at `vaddr`, then zeroes up to `memsz` bytes."""

    vaddr: int
    memsz: int
    data: bytes
    readable: bool
    writable: bool
    executable: bool

    @property
    def end(self) -> int:
        """Return the first address past the segment."""
        return self.vaddr + self.memsz


def read_segments(data: bytes, header: Header) -> tuple[Segment, ...]:
    """Return the loadable segments by address.

    Raises:
        LoadError: the table is malformed, or a segment lies or overlaps where it must not.
    """
    if header.phnum > _MAX_SEGMENTS:
        raise LoadError(f"e_phnum is {header.phnum}, more than {_MAX_SEGMENTS}", field="e_phnum", offset=56)
    if header.phnum and header.phentsize != _PHDR.size:
        raise LoadError(
            f"expected e_phentsize {_PHDR.size}, got {header.phentsize}", field="e_phentsize", offset=54
        )
    check_range(data, header.phoff, header.phnum * _PHDR.size, "e_phoff", 32)
    segments = []
    file_bytes = 0
    for index in range(header.phnum):
        segment = _read_segment(data, index, header.phoff + index * _PHDR.size)
        if segment is None:
            continue
        file_bytes += len(segment.data)
        if file_bytes > len(data):
            raise LoadError("segments share bytes of the file", field=f"p_filesz[{index}]")
        segments.append(segment)
    if not segments:
        raise LoadError("the image has no loadable segment", field="p_type", offset=header.phoff)
    segments.sort(key=lambda segment: segment.vaddr)
    _check_neighbours(segments)
    return tuple(segments)


def _read_segment(data: bytes, index: int, at: int) -> Segment | None:
    """Read one program header; None where it loads nothing."""
    kind, flags, offset, vaddr, _, filesz, memsz, _ = _PHDR.unpack_from(data, at)
    if kind in {_PT_DYNAMIC, _PT_INTERP}:
        name = name_of("ENUM_P_TYPE_BASE", kind)
        raise LoadError(
            f"the image is linked dynamically ({name})", field=f"p_type[{index}]", offset=at, remedy=STATIC
        )
    if kind != _PT_LOAD or memsz == filesz == 0:
        return None
    check_range(data, offset, filesz, f"p_offset[{index}]", at + 8)
    _check_place(index, at, vaddr, filesz, memsz)
    if flags & _PF_W and flags & _PF_X:
        raise LoadError(
            "a segment is both writable and executable",
            field=f"p_flags[{index}]",
            offset=at + 4,
            address=vaddr,
            remedy="link without -N (--omagic), and keep writable data out of executable sections",
        )
    access = (bool(flags & _PF_R), bool(flags & _PF_W), bool(flags & _PF_X))
    return Segment(vaddr, memsz, data[offset : offset + filesz], *access)


def _check_place(index: int, at: int, vaddr: int, filesz: int, memsz: int) -> None:
    if filesz > memsz:
        raise LoadError(
            f"a segment has {filesz:#x} bytes in the file, but {memsz:#x} in memory",
            field=f"p_memsz[{index}]",
            offset=at + 40,
            address=vaddr,
        )
    if vaddr + memsz > 1 << 64:
        raise LoadError(
            f"a segment of {memsz:#x} bytes wraps around the address space",
            field=f"p_vaddr[{index}]",
            offset=at + 16,
            address=vaddr,
        )
    if vaddr < PAGE_BYTES:
        raise LoadError(
            "a segment covers the null page",
            field=f"p_vaddr[{index}]",
            offset=at + 16,
            address=vaddr,
            remedy="link at 0x10000 or above",
        )


def _check_neighbours(segments: list[Segment]) -> None:
    """Refuse segments that overlap, or that share a page of which one may be written."""
    for low, high in itertools.pairwise(segments):
        if low.end > high.vaddr:
            raise LoadError(
                f"segments overlap: one ends at {low.end:#x}, the next starts before it",
                field="p_vaddr",
                address=high.vaddr,
            )
        if low.writable != high.writable and (low.end - 1) // PAGE_BYTES == high.vaddr // PAGE_BYTES:
            raise LoadError(
                "a writable segment shares a page with one that is not",
                field="p_vaddr",
                address=high.vaddr,
                remedy=f"link without -n (--nmagic), with -z max-page-size={PAGE_BYTES} or a multiple",
            )
