"""The engines that every test of the store's contract runs against."""

import pytest

from crabtalk.store.memory import MemoryEngine
from crabtalk.store.sqlite import SqliteEngine


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
def sqlite_engine(path):
    with SqliteEngine(path) as engine:
        yield engine


@pytest.fixture(params=["memory", "sqlite"])
def engine(request):
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_engine")
        return
    engine = MemoryEngine()
    yield engine
    engine.close()
