"""Loading an image and binding what it may reach.

A `Harness` is one image with one set of capabilities, checked once when loaded; every call of it is a fresh
guest. This file owns loading and linking; the calls themselves are `_linked.pyx`.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping

from berm._call import Call
from berm._linked import Linked, link_table
from berm.binding import Capability, refusal_to_bind
from berm.errors import DigestError
from berm.fnv import REFUSABLE, call_number
from berm.manifest import Manifest, tool_entries
from rvcore import Engine, LinkError
from rvcore._errors import printable

logger = logging.getLogger("berm.guest")

# Takes the facts of the invocation and one line that its guest logged.
Log = Callable[[Call, str], object]

_DIGEST_CHARACTERS = 64
_HINT = "make one with Capability(name, function) or @capability"


class Harness(Linked):
    """An image whose tools can be called; made by `load`, safe to share between threads."""

    manifest: Manifest
    tools: tuple[str, ...]  # names that the manifest advertises, in its order
    sha256: str

    @classmethod
    def load(
        cls,
        engine: Engine,
        elf: bytes,
        capabilities: Iterable[Capability] = (),
        sha256: str | None = None,
        *,
        log: Log | None = None,
    ) -> "Harness":
        """Check an image and bind capabilities to it; `log` takes the lines that its guests log.

        Raises:
            DigestError: if `sha256` is given and the image is another one.
            LoadError: if the ELF file cannot be loaded.
            ManifestError: if its manifest is missing or wrong.
            LinkError: if a capability's name is unknown, taken twice or not to be bound.
        """
        if sha256 is not None:
            _check_digest(elf, sha256)
        program, digest = engine.load(elf)
        manifest = Manifest.from_image(program.image)
        names = bindings(capabilities)
        table, bound = link_table([(name, one, name in REFUSABLE) for name, one in names.items()])
        harness = cls(program, table, tool_entries(program.exports), bound, log or _log_line)
        harness.manifest = manifest
        harness.tools = tuple(tool.name for tool in manifest.tools)
        harness.sha256 = digest
        return harness

    def __repr__(self) -> str:
        return f"<Harness {self.sha256[:12]}: {', '.join(self.tools)}>"


def bindings(capabilities: Iterable[Capability]) -> Mapping[str, Capability]:
    """Map every name to be registered to its capability.

    Raises:
        LinkError: if a name is unknown, taken twice, or always present.
        TypeError: if something is no capability.
    """
    names: dict[str, Capability] = {}
    numbers: dict[int, str] = {}
    for one in capabilities:
        if not isinstance(one, Capability):
            raise TypeError(f"expected a Capability, got {type(one).__name__}: {_HINT}")
        for name in (one.name, *one.aliases):
            if reason := refusal_to_bind(name):
                raise LinkError(f"capability {reason}", name=name)
            other = numbers.setdefault(call_number(name), name)
            if name in names:
                raise LinkError("capability is bound twice", name=name)
            if other != name:
                raise LinkError(
                    f"capability has the same number as `{other}`", name=name, number=call_number(name)
                )
            names[name] = one
    return names


def _check_digest(elf: bytes, expected: str) -> None:
    wanted = expected.lower()
    if len(wanted) != _DIGEST_CHARACTERS or not set(wanted) <= set("0123456789abcdef"):
        raise ValueError(f"sha256: expected 64 hexadecimal digits, got {expected[:80]!a}")
    found = hashlib.sha256(elf).hexdigest()
    if found != wanted:
        raise DigestError(wanted, found)


def _log_line(call: Call, line: str) -> None:
    logger.info("%s: %s", call.tool, printable(line, 4096))
