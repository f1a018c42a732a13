"""What every test may use: which build is under test, and images built from C once a session."""

import gc
import signal
from pathlib import Path

import pytest

import rvcore._machine

ROOT = Path(__file__).parent.parent

# A shell's background job ignores SIGINT, and so would every child that a test means to interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep the ten thousand tests from every collection of garbage: while they come, and afterwards."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_report_header():
    return f"rvcore: {rvcore._machine.__file__}"


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """Compile C sources with the SDK; the image of one set of sources is built once."""
    from berm.build.image import build_image

    built = {}
    directory = tmp_path_factory.mktemp("images")

    def build(*sources, debug=False):
        paths = [ROOT / source for source in sources]
        key = (*paths, debug)
        if key not in built:
            image = directory / f"{len(built)}-{paths[0].stem}.elf"
            build_image(paths, image, debug=debug)
            built[key] = image
        return built[key]

    return build


@pytest.fixture(scope="session")
def cli_image(build):
    return build("tests/guests/cli.c")
