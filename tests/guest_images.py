"""Images of the guests in tests/guests and harness/, built once and kept by what they are built from."""

import functools
import hashlib
from pathlib import Path

from berm.build import build_image
from berm.build.image import SDK, harness_sources

ROOT = Path(__file__).resolve().parent.parent
GUESTS = ROOT / "tests" / "guests"
HARNESSES = ROOT / "harness"
KEPT = ROOT / "build" / "guests"


def sources_of(name: str) -> list[Path]:
    """Find tests/guests/NAME.c or .cpp, else the sources of harness/NAME."""
    for suffix in (".c", ".cpp", ".S"):
        path = GUESTS / f"{name}{suffix}"
        if path.exists():
            return [path]
    if (HARNESSES / name).is_dir():
        return harness_sources(HARNESSES / name)
    raise FileNotFoundError(f"no guest {name!r} in tests/guests or harness")


@functools.cache
def _sdk_digest() -> bytes:
    parts = [path for top in (SDK, Path(SDK).parent / "build") for path in sorted(top.rglob("*"))]
    files = [path for path in parts if path.suffix in {".c", ".h", ".S", ".ld", ".py"}]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).digest()


def _key(sources: list[Path], flags: tuple[object, ...]) -> str:
    near = sorted({path for source in sources for path in source.parent.glob("*.h")})
    digest = hashlib.sha256(_sdk_digest() + repr(flags).encode())
    for path in (*sources, *near):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:24]


def image_path(name: str, *, cc: str = "zig", debug: bool = False, cflags: tuple[str, ...] = ()) -> Path:
    """Build the guest, unless the same was built before, and return where it stands."""
    sources = sources_of(name)
    path = KEPT / f"{name}-{_key(sources, (cc, debug, cflags))}.elf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        build_image(sources, path, cc=cc, debug=debug, cflags=cflags)
    return path


def image(name: str, *, cc: str = "zig", debug: bool = False, cflags: tuple[str, ...] = ()) -> bytes:
    """Build the guest, unless the same was built before, and return its bytes."""
    return image_path(name, cc=cc, debug=debug, cflags=cflags).read_bytes()
