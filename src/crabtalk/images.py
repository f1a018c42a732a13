"""Harness images: verified, loaded and only then stored; linked when an agent's declaration asks for it.

Owns the bytes in the store and the linked images in memory. A name points at the newest bytes put under it;
older bytes stay as long as an agent is pinned to them. Nothing here grants anything: capabilities come from
whoever links. Work that takes milliseconds runs in threads.
"""

import hashlib
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

import berm
from crabtalk.clock import Clock
from crabtalk.copying import copied
from crabtalk.declarations import check_harness_name
from crabtalk.errors import BadRequest, Conflict, CrabtalkError, NotFound, RequestError, TooLarge
from crabtalk.image_cache import ImageCache, ImageStatistics, LinkedImage, Places, Slot, load
from crabtalk.image_info import Difference, ImageInfo, diff, read_info
from crabtalk.logs import guest_line
from crabtalk.store.engine import Engine, Write
from crabtalk.store.interfaces.harnesses import Harnesses, HarnessRecord

__all__ = ["Difference", "ImageInfo", "ImageStatistics", "Images", "Scanned", "Unusable", "diff"]

logger = logging.getLogger(__name__)

MAX_ELF_BYTES: Final = 16 << 20
BUDGET_BYTES: Final = 256 << 20
_INFO_BYTES: Final = 32 << 20  # of what is remembered about images; picked, not measured
_MAX_MISFITS: Final = 1024
_DIGEST: Final = 64

Pins = Callable[[str], Sequence[str]]
Bind = Callable[[], Iterable[berm.Capability]]


class Unusable(CrabtalkError):  # noqa: N818 - what the image is
    """An image that cannot be run as it is declared; `kind` is `load` or `link`."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Scanned:
    """What became of one file of a directory."""

    name: str
    sha256: str = ""
    added: bool = False
    error: str = ""


class Images:
    """The images of a daemon; for the event loop."""

    def __init__(self, store: Engine, clock: Clock, *, budget_bytes: int = BUDGET_BYTES) -> None:
        self.lock = trio.Lock()  # held while bytes or pins change, so that neither changes under the other
        self.pinned: Pins = lambda _sha256: ()  # who is pinned to some bytes, and
        self.declared: Pins = lambda _name: ()  # who declares a name, as `agent/harness`
        self._store = store
        self._clock = clock
        self._harnesses = Harnesses(store)
        self._records = {record.name: record for record in self._harnesses.all()}
        self._digests = set(self._harnesses.digests())
        self._infos: OrderedDict[str, ImageInfo] = OrderedDict()
        self._info_bytes = 0
        self._cache = ImageCache(budget_bytes)
        self._linking: dict[str, trio.Event] = {}
        self._misfits: OrderedDict[tuple[str, int], str] = OrderedDict()  # why bytes do not load

    def records(self) -> list[HarnessRecord]:
        """Return every name that is stored, in order."""
        return [self._records[name] for name in sorted(self._records)]

    def newest(self, name: str) -> HarnessRecord:
        """Return what a name points at.

        Raises:
            NotFound: if no image of that name is stored.
        """
        record = self._records.get(name)
        if record is None:
            raise NotFound(f"no harness named `{name[:80]}` is stored")
        return record

    def has(self, sha256: str) -> bool:
        """Report whether these bytes are stored."""
        return sha256 in self._digests

    def statistics(self) -> ImageStatistics:
        """Count what is linked."""
        return self._cache.statistics()

    def close(self) -> None:
        """Give everything up that was linked."""
        self._cache.close()

    # The bytes

    async def put(self, name: str, elf: bytes | memoryview, sha256: str) -> ImageInfo:
        """Store an image under a name, once its bytes are verified and it loads.

        Raises:
            BadRequest: if the name is none, the bytes are not those of `sha256`, or the image does not load.
            TooLarge: if it is larger than 16 MiB.
        """
        check_harness_name(name)
        if len(elf) > MAX_ELF_BYTES:
            raise TooLarge(f"image is {len(elf)} bytes long, at most {MAX_ELF_BYTES} are taken")
        if len(sha256) != _DIGEST:
            raise BadRequest(f"sha256: expected 64 hexadecimal digits, got {len(sha256)} characters")
        async with self.lock:
            found = await trio.to_thread.run_sync(lambda: hashlib.sha256(elf).hexdigest())
            if found != sha256.lower():
                raise BadRequest(f"image has sha256 {found}, expected {sha256.lower()}")
            data = elf if isinstance(elf, bytes) else await trio.to_thread.run_sync(copied, elf)
            info = await trio.to_thread.run_sync(read_info, data)
            if info.error:
                raise BadRequest(f"image does not load: {info.error}")
            await self._save(name, info, data)
        return info

    async def _save(self, name: str, info: ImageInfo, elf: bytes) -> None:
        old = self._records.get(name)
        if old is not None and old.sha256 == info.sha256:
            old = None  # written all the same: the store may hold damaged bytes, or none
        record = HarnessRecord(name=name, sha256=info.sha256, size=len(elf), added_ms=self._clock.now_ms())
        unused = self._unused(old.sha256, but=name) if old is not None else []
        await self._store.commit([*self._harnesses.save(record, elf), *unused])
        self._records[name] = record
        self._digests.add(info.sha256)
        self._remember(info)
        for misfit in [one for one in self._misfits if one[0] == info.sha256]:
            del self._misfits[misfit]
        if old is not None and unused:
            self._forget(old.sha256)
        logger.info("harness stored", extra={"harness": name, "sha256": info.sha256})

    async def remove(self, name: str) -> None:
        """Forget a name, and its bytes where nothing else needs them.

        Raises:
            NotFound: if no image of that name is stored.
            Conflict: while an agent declares it.
        """
        async with self.lock:
            record = self.newest(name)
            unnamed = self._unnamed(record.sha256, but=name)
            users = sorted({*self.declared(name), *(self.pinned(record.sha256) if unnamed else ())})
            if users:
                raise Conflict(f"harness `{name}` is declared by {', '.join(users[:5])}")
            await self._store.commit([*self._harnesses.remove(name), *unnamed])
            del self._records[name]
            if unnamed:
                self._forget(record.sha256)
        logger.info("harness removed", extra={"harness": name, "sha256": record.sha256})

    def unused(self, sha256s: Iterable[str]) -> list[Write]:
        """Return what removes those of these bytes that no name points at; for who gives up pins.

        The caller holds `lock`, knows that nobody else is pinned to them, and calls `forget` once it is done.
        """
        return [write for sha256 in sorted(set(sha256s)) for write in self._unnamed(sha256, but=None)]

    def forget(self, sha256s: Iterable[str]) -> None:
        """Take note that `unused` was committed."""
        for sha256 in set(sha256s):
            if not any(record.sha256 == sha256 for record in self._records.values()):
                self._forget(sha256)

    def _unused(self, sha256: str, but: str | None) -> list[Write]:
        return [] if self.pinned(sha256) else self._unnamed(sha256, but)

    def _unnamed(self, sha256: str, but: str | None) -> list[Write]:
        named = any(one.sha256 == sha256 and one.name != but for one in self._records.values())
        return [] if named else self._harnesses.remove_elf(sha256)

    def _forget(self, sha256: str) -> None:
        self._digests.discard(sha256)
        info = self._infos.pop(sha256, None)
        self._info_bytes -= info.cost_bytes if info else 0
        self._cache.discard_unused(sha256)

    async def scan_directory(self, directory: Path) -> list[Scanned]:
        """Store what is new among the files `NAME.elf` of a directory; no name is ever removed for it."""
        return [await self._scan(name, path) for name, path in await _files_of(directory)]

    async def _scan(self, name: str, path: Path) -> Scanned:
        try:
            elf, changed_ms = await trio.to_thread.run_sync(_read, path)
            sha256 = hashlib.sha256(elf).hexdigest()
            known = self._records.get(name)
            # A file that was there before the name got newer bytes must not take it back at each start.
            if known is not None and (known.sha256 == sha256 or changed_ms <= known.added_ms):
                return Scanned(name, sha256)
            await self.put(name, elf, sha256)
        except (OSError, RequestError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            logger.warning("harness file not taken: %s", reason, extra={"harness": name})
            return Scanned(name, error=reason)
        return Scanned(name, sha256, added=True)

    # What is known of them

    async def inspect(self, sha256: str) -> ImageInfo:
        """Tell what an image is, without running it.

        Raises:
            NotFound: if its bytes are not stored.
        """
        info = self.known(sha256)
        if info is None:
            info = await trio.to_thread.run_sync(self._read_info, sha256)
            self._remember(info)
        return info

    def known(self, sha256: str) -> ImageInfo | None:
        """Return what `inspect` found, as long as it is remembered."""
        info = self._infos.get(sha256)
        if info is not None:
            self._infos.move_to_end(sha256)
        return info

    def inspect_now(self, sha256: str) -> ImageInfo:
        """Inspect on the event loop: at once if it is remembered, else some milliseconds.

        Raises:
            NotFound: as `inspect`.
        """
        info = self.known(sha256)
        if info is None:
            info = self._read_info(sha256)
            self._remember(info)
        return info

    def _read_info(self, sha256: str) -> ImageInfo:
        info = read_info(self._elf(sha256))
        if info.sha256 == sha256:
            return info
        return ImageInfo(sha256, info.size, error=f"image has sha256 {info.sha256}, expected {sha256}")

    def _elf(self, sha256: str) -> bytes:
        elf = self._harnesses.elf(sha256)
        if elf is None:
            raise NotFound(f"no image with sha256 {sha256} is stored")
        return elf

    def _remember(self, info: ImageInfo) -> None:
        old = self._infos.pop(info.sha256, None)
        self._infos[info.sha256] = info
        self._info_bytes += info.cost_bytes - (old.cost_bytes if old else 0)
        while self._info_bytes > _INFO_BYTES and len(self._infos) > 1:
            _, oldest = self._infos.popitem(last=False)
            self._info_bytes -= oldest.cost_bytes

    # Linked ones

    def linked(self, digest: str) -> LinkedImage | None:
        """Return an image that is linked already."""
        return self._cache.get(digest)

    def discard(self, digest: str) -> None:
        """Link this image anew the next time."""
        self._cache.discard(digest)

    async def link(
        self, digest: str, sha256: str, memory: int, bind: Bind, places: Places = ()
    ) -> LinkedImage:
        """Return a linked image, made by `bind` in a thread unless it is there; two callers make it once.

        Raises:
            Unusable: if the image does not load, or something cannot be bound.
        """
        while digest in self._linking:
            await self._linking[digest].wait()
        image = self._cache.get(digest)
        if image is not None:
            return image
        done = self._linking[digest] = trio.Event()
        try:
            image = await self._link(digest, sha256, memory, bind, places)
        finally:
            del self._linking[digest]
            done.set()
        return image

    async def _link(self, digest: str, sha256: str, memory: int, bind: Bind, places: Places) -> LinkedImage:
        if reason := self._misfits.get((sha256, memory)):
            raise Unusable("load", reason)
        slot = self._cache.claim(memory)
        try:
            harness, program_bytes = await trio.to_thread.run_sync(self._load, slot, sha256, bind)
        except BaseException:
            self._cache.release(memory)
            raise
        image = LinkedImage(digest, sha256, memory, harness, program_bytes, places)
        self._cache.add(image)
        return image

    def _load(self, slot: Slot, sha256: str, bind: Bind) -> tuple[berm.Harness, int]:
        try:
            elf = self._elf(sha256)
        except NotFound as error:
            raise Unusable("load", str(error)) from error
        try:
            capabilities = tuple(bind())
        except (ValueError, OSError) as error:
            raise Unusable("link", str(error)) from error
        try:
            return load(slot, elf, sha256, capabilities, _log)
        except berm.LinkError as error:
            raise Unusable("link", str(error)) from error
        except berm.BermError as error:
            self._misfits[sha256, slot.engine.config.memory_size] = str(error)
            if len(self._misfits) > _MAX_MISFITS:
                self._misfits.popitem(last=False)
            raise Unusable("load", str(error)) from error
        except MemoryError as error:
            raise Unusable("load", "this machine has no memory for it") from error


def _log(call: berm.Call, line: str) -> None:
    context = call.context
    guest_line(line, agent=context.agent.id, harness=context.harness, tool=call.tool)


async def _files_of(directory: Path) -> list[tuple[str, Path]]:
    def listed() -> list[tuple[str, Path]]:
        if not directory.is_dir():
            return []
        return sorted((path.stem, path) for path in directory.iterdir() if path.suffix == ".elf")

    return await trio.to_thread.run_sync(listed)


def _read(path: Path) -> tuple[bytes, int]:
    """Read an image's file, no more of it than an image may have; and when it came here, in Unix ms.

    Raises:
        OSError: if it cannot be read.
        BadRequest: if it is no regular file.
        TooLarge: if it is too large.
    """
    if not path.is_file():
        raise BadRequest("not a regular file")
    with path.open("rb") as file:
        elf = file.read(MAX_ELF_BYTES + 1)
        changed_ms = os.fstat(file.fileno()).st_ctime_ns // 1_000_000
    if len(elf) > MAX_ELF_BYTES:
        raise TooLarge(f"file is larger than {MAX_ELF_BYTES} bytes")
    return elf, changed_ms
