"""What is known of an image without running it, and how two of them differ.

Reading an image is loading it into an engine of its own, with as much memory as a guest can have: whether it
fits the memory of a declaration is found when that is linked. A failure is a value here, since an image that
does not load is shown wherever its tools would be.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import berm

_LARGEST: Final = 4 << 30
_ROUGH_BYTES: Final = 2048  # what an info costs beside its texts; picked, not measured


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """One image, by its bytes."""

    sha256: str
    size: int  # of the ELF, in bytes
    manifest: berm.Manifest | None = None  # None where `error` says why
    exports_wake: bool = False
    exports_notify: bool = False
    error: str = ""

    @property
    def tools(self) -> tuple[berm.Tool, ...]:
        """The tools that it advertises."""
        return self.manifest.tools if self.manifest else ()

    @property
    def usage(self) -> str:
        """What it says about itself, for a system message."""
        return self.manifest.usage if self.manifest else ""

    @property
    def requested(self) -> tuple[str, ...]:
        """The capabilities that it would like; never a grant."""
        return self.manifest.capabilities if self.manifest else ()

    def exports(self, entry: str) -> bool:
        """Report whether it has `on_wake` or `on_notify`."""
        return {"on_wake": self.exports_wake, "on_notify": self.exports_notify}[entry]

    @property
    def cost_bytes(self) -> int:
        """About how much memory this takes."""
        texts = [self.usage, self.error, *self.requested]
        for tool in self.tools:
            texts += [tool.name, tool.description, json.dumps(dict(tool.parameters))]
        return _ROUGH_BYTES + 2 * sum(map(len, texts))


def read_info(elf: bytes) -> ImageInfo:
    """Load an image and tell what it is; takes milliseconds, and is not for an event loop."""
    sha256 = hashlib.sha256(elf).hexdigest()
    try:
        with berm.Engine(berm.Config(memory_size=_LARGEST, cache_bytes=0)) as engine:
            harness = berm.Harness.load(engine, elf)
            return ImageInfo(sha256, len(elf), harness.manifest, harness.has_wake, harness.has_notify)
    except (berm.BermError, MemoryError) as error:
        return ImageInfo(sha256, len(elf), error=str(error) or type(error).__name__)


@dataclass(frozen=True, slots=True)
class Difference:
    """What an upgrade changes."""

    tools_added: tuple[str, ...] = ()
    tools_removed: tuple[str, ...] = ()
    tools_changed: tuple[str, ...] = ()  # another description or other parameters
    requests_added: tuple[str, ...] = ()  # capabilities that it newly asks for; not granted
    requests_removed: tuple[str, ...] = ()
    entries_added: tuple[str, ...] = ()  # on_wake, on_notify
    entries_removed: tuple[str, ...] = ()
    usage_changed: bool = False

    def lines(self) -> list[str]:
        """Return a sentence for each change, what matters most first."""
        named: Sequence[tuple[str, tuple[str, ...]]] = (
            ("newly requests", self.requests_added),
            ("no longer exports", self.entries_removed),
            ("removes tools", self.tools_removed),
            ("adds tools", self.tools_added),
            ("changes tools", self.tools_changed),
            ("newly exports", self.entries_added),
            ("no longer requests", self.requests_removed),
        )
        lines = [f"{words}: {', '.join(names)}" for words, names in named if names]
        return [*lines, "changes its usage"] if self.usage_changed else lines


def diff(old: ImageInfo, new: ImageInfo) -> Difference:
    """Compare two images by what they say of themselves."""
    before, after = _tools(old), _tools(new)
    entries = ("on_wake", "on_notify")
    return Difference(
        tools_added=_beyond(after, before),
        tools_removed=_beyond(before, after),
        tools_changed=tuple(name for name in after if name in before and after[name] != before[name]),
        requests_added=_beyond(new.requested, old.requested),
        requests_removed=_beyond(old.requested, new.requested),
        entries_added=tuple(one for one in entries if new.exports(one) and not old.exports(one)),
        entries_removed=tuple(one for one in entries if old.exports(one) and not new.exports(one)),
        usage_changed=old.usage != new.usage,
    )


def _tools(info: ImageInfo) -> Mapping[str, tuple[str, str]]:
    return {
        tool.name: (tool.description, json.dumps(dict(tool.parameters), sort_keys=True))
        for tool in info.tools
    }


def _beyond(
    names: Mapping[str, object] | Sequence[str], others: Mapping[str, object] | Sequence[str]
) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(names) if name not in others)
