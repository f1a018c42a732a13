"""`berm test`: build a harness for this machine and run its tests natively."""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from berm.build.build import complain
from berm.build.errors import BuildError
from berm.build.image import harness_sources
from berm.build.native import build_tests

# A guest never frees, and the stand-ins live as long as the test: leaks are not looked for.
_ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        *("project",),
        nargs="?",
        default=".",
        metavar="DIR",
        help="the project: sources in it, tests in DIR/tests; default: here",
    )
    parser.add_argument("-k", dest="only", metavar="TEXT", help="only tests whose name contains this")
    parser.add_argument("--cc", help="this machine's compiler; default: $CC, else cc")
    parser.add_argument(
        *("-C", "--cflag"), dest="cflags", action="append", default=[], metavar="FLAG", help="pass a flag on"
    )


def _tests(project: Path) -> list[Path]:
    if not project.is_dir():
        raise BuildError(f"no such directory: {project}")
    tests = sorted((*project.glob("tests/*.c"), *project.glob("tests/*.cpp")))
    if not tests:
        raise BuildError(f"no tests: write {project / 'tests'}/*.c with BERM_TEST from berm/test.h")
    return tests


def run(args: argparse.Namespace) -> int:
    """Build and run; 0 when every test passed."""
    project = Path(args.project)
    with tempfile.TemporaryDirectory(prefix="berm-test-") as name:
        program = Path(name) / "tests"
        try:
            tests = _tests(project)
            said = build_tests(harness_sources(project), tests, program, cc=args.cc, cflags=args.cflags)
        except BuildError as error:
            complain(error)
            return 1
        sys.stderr.write(said)
        sys.stdout.flush()
        chosen = [args.only] if args.only else []
        done = subprocess.run([program, *chosen], env={**_ENVIRONMENT, **os.environ}, check=False)
    return 1 if done.returncode else 0
