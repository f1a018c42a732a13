"""Fixtures of berm's tests: an engine for the session, and the raw guests as images and as harnesses."""

import gc

import pytest

import berm
import rawguests


@pytest.fixture(scope="session")
def engine():
    with berm.Engine(berm.Config()) as engine:
        yield engine


@pytest.fixture(scope="session")
def plain_image():
    return rawguests.build("plain")


@pytest.fixture(scope="session")
def attacks_image():
    return rawguests.build("attacks")


@pytest.fixture
def plain(engine, plain_image):
    return berm.Harness.load(engine, plain_image)


@pytest.fixture
def attacks(engine, attacks_image):
    return berm.Harness.load(
        engine, attacks_image, [berm.Capability("test.ask", lambda _call, _request: b"reply")]
    )


@pytest.fixture
def loaded(engine, plain_image):
    """Return a function that loads the plain image with capabilities."""

    def load(*capabilities, **options):
        return berm.Harness.load(engine, plain_image, capabilities, **options)

    return load


@pytest.fixture
def no_guest_left(engine):
    """Check that no guest of the test still holds memory."""
    before = engine.statistics().arenas_live
    yield
    if engine.statistics().arenas_live != before:
        gc.collect()
    assert engine.statistics().arenas_live == before
