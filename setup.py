"""Extensions and build knobs; everything else is in pyproject.toml.

RVCORE_DEBUG=1 builds with -O0, checks and live-object counts; RVCORE_SANITIZE=1 with ASan and UBSan;
RVCORE_COVERAGE=1 so that `coverage` sees the lines of Cython modules. RVCORE_EXTENSIONS=0 builds none: for an
editable install whose extensions are compiled beside their sources afterwards.
"""

import os
import platform
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

ROOT = Path(__file__).parent
DEBUG = os.environ.get("RVCORE_DEBUG") == "1"
SANITIZE = os.environ.get("RVCORE_SANITIZE") == "1"
COVERAGE = os.environ.get("RVCORE_COVERAGE") == "1"
EXTENSIONS = os.environ.get("RVCORE_EXTENSIONS") != "0"

DIRECTIVES = {
    "language_level": 3,
    # Hot code uses pointers, which have neither; a list must behave as in Python.
    "boundscheck": True,
    "wraparound": True,
    "cdivision": True,
    "initializedcheck": False,
    "embedsignature": True,
    "linetrace": COVERAGE,
}
COMPILE = ["-fno-strict-aliasing", "-fwrapv", "-Wno-unused-function"]
if platform.machine() in {"x86_64", "AMD64"}:
    COMPILE.append("-fcf-protection=none")  # else every handler would start with an endbr64
LINK: list[str] = []
if DEBUG:
    COMPILE += ["-O0", "-g", "-DRVCORE_DEBUG=1", "-UNDEBUG"]
elif SANITIZE:
    LINK += ["-fsanitize=address,undefined"]
    COMPILE += ["-O1", "-g1", *LINK, "-fno-sanitize-recover=undefined", "-DRVCORE_DEBUG=1"]
elif COVERAGE:
    COMPILE += ["-O1", "-g0", "-DCYTHON_TRACE=1"]
else:
    COMPILE += ["-O2", "-g0", "-fno-semantic-interposition", "-falign-functions=32"]


def extensions() -> list[Extension]:
    """List one extension per .pyx file under src/."""
    sources = sorted((ROOT / "src").glob("*/*.pyx"))
    return [
        Extension(
            ".".join(source.relative_to(ROOT / "src").with_suffix("").parts),
            [str(source.relative_to(ROOT))],
            depends=[str(path.relative_to(ROOT)) for path in source.parent.glob("*.h")],
            extra_compile_args=COMPILE,
            extra_link_args=LINK,
        )
        for source in sources
    ]


def generate() -> None:
    """Write the interpreter's handlers from the statements in src/rvcore/_ops.py."""
    sys.path.insert(0, str(ROOT / "src" / "rvcore"))
    try:
        import _generate

        _generate.write(ROOT / "src" / "rvcore" / "_handlers.pyx", trampoline=DEBUG or SANITIZE or COVERAGE)
    finally:
        sys.path.pop(0)


def compiled() -> list[Extension]:
    """Turn the sources into C."""
    generate()
    return cythonize(
        extensions(), include_path=["src"], compiler_directives=DIRECTIVES, show_all_warnings=False
    )


setup(ext_modules=compiled() if EXTENSIONS else [])
