"""Linked images in memory, by digest: a budget in bytes, the least recently used ones given up first.

An image that a guest runs on is never given up, so that a second call finds it and its memory is counted.
Images that share their bytes share one decoded program, which is counted once. There is one engine for each
size of guest memory, made for the first image of that size and closed with the last. Not for several threads,
but for `load`, which may run in any.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import berm

_LINK_BYTES: Final = 16 << 10  # of a link beside its program: tables, closures; picked, not measured
_STACK_BYTES: Final = 1 << 20

Identity = tuple[int, int] | None  # device and inode of a directory, None where there is none
Places = tuple[tuple[str, Identity], ...]  # the directories that are bound, as they were then


@dataclass(slots=True)
class LinkedImage:
    """One image with its capabilities bound."""

    digest: str
    sha256: str
    memory: int
    harness: berm.Harness
    program_bytes: int
    places: Places = ()
    running: int = 0  # invocations that are on it now


@dataclass(frozen=True, slots=True)
class ImageStatistics:
    """What the cache holds at one moment; sizes in bytes."""

    linked: int
    running: int
    bytes: int
    budget_bytes: int
    engines: int
    arenas_live: int
    arenas_free: int
    arena_bytes_free: int
    links: int  # made since the start
    evictions: int


class Slot:
    """An engine, and how many linked images use it."""

    def __init__(self, memory: int, cache_bytes: int) -> None:
        stack = min(_STACK_BYTES, memory // 4)
        self.engine = berm.Engine(berm.Config(memory_size=memory, stack_size=stack, cache_bytes=cache_bytes))
        self.users = 0


class ImageCache:
    """The linked images of a daemon."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._images: OrderedDict[str, LinkedImage] = OrderedDict()
        self._programs: dict[tuple[int, str], int] = {}  # users of each program that is counted
        self._slots: dict[int, Slot] = {}
        self._bytes = 0
        self._links = 0
        self._evictions = 0

    def get(self, digest: str) -> LinkedImage | None:
        """Return an image that is linked, and count this as a use."""
        image = self._images.get(digest)
        if image is not None:
            self._images.move_to_end(digest)
        return image

    def claim(self, memory: int) -> Slot:
        """Return the engine for a size of memory, which stays until it is `release`d."""
        slot = self._slots.get(memory)
        if slot is None:
            slot = self._slots[memory] = Slot(memory, self.budget_bytes // 2)
        slot.users += 1
        return slot

    def release(self, memory: int) -> None:
        """Give an engine back."""
        slot = self._slots[memory]
        slot.users -= 1
        if not slot.users:
            del self._slots[memory]
            slot.engine.close()

    def add(self, image: LinkedImage) -> None:
        """Keep an image, which holds a claim on its engine, and give up others beyond the budget."""
        self.discard(image.digest)
        program = (image.memory, image.sha256)
        if program not in self._programs:
            self._bytes += image.program_bytes
        self._programs[program] = self._programs.get(program, 0) + 1
        self._bytes += _LINK_BYTES
        self._images[image.digest] = image
        self._links += 1
        self._shrink(keep=image.digest)

    def discard(self, digest: str) -> None:
        """Give up an image, if it is there; what runs on it goes on."""
        image = self._images.pop(digest, None)
        if image is None:
            return
        program = (image.memory, image.sha256)
        self._programs[program] -= 1
        self._bytes -= _LINK_BYTES
        if not self._programs[program]:
            del self._programs[program]
            self._bytes -= image.program_bytes
        self.release(image.memory)

    def discard_unused(self, sha256: str) -> None:
        """Give up what was made of some bytes and does not run."""
        for image in list(self._images.values()):
            if image.sha256 == sha256 and not image.running:
                self.discard(image.digest)

    def close(self) -> None:
        """Give up everything."""
        for digest in list(self._images):
            self.discard(digest)

    def statistics(self) -> ImageStatistics:
        """Count what there is."""
        engines = [slot.engine.statistics() for slot in self._slots.values()]
        return ImageStatistics(
            linked=len(self._images),
            running=sum(image.running for image in self._images.values()),
            bytes=self._bytes,
            budget_bytes=self.budget_bytes,
            engines=len(engines),
            arenas_live=sum(one.arenas_live for one in engines),
            arenas_free=sum(one.arenas_free for one in engines),
            arena_bytes_free=sum(one.arena_bytes_free for one in engines),
            links=self._links,
            evictions=self._evictions,
        )

    def _shrink(self, keep: str) -> None:
        candidates = list(self._images.values()) if self._bytes > self.budget_bytes else []
        for image in candidates:
            if self._bytes <= self.budget_bytes:
                return
            if not image.running and image.digest != keep:
                self.discard(image.digest)
                self._evictions += 1


def load(
    slot: Slot,
    elf: bytes,
    sha256: str,
    capabilities: Iterable[berm.Capability],
    log: Callable[[berm.Call, str], object],
) -> tuple[berm.Harness, int]:
    """Link an image, and return it with the bytes that its program takes; for a worker thread.

    Raises:
        BermError: if it does not load, or a capability cannot be bound.
    """
    program, _ = slot.engine.load(elf)
    return berm.Harness.load(slot.engine, elf, capabilities, sha256, log=log), program.size_bytes
