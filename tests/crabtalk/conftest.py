"""What the tests of capabilities share: a call's facts, requests in fields, and a count of descriptors."""

import dataclasses
import itertools
from types import SimpleNamespace

import anyio
import pytest

from berm.wire import pack_fields, unpack_fields
from descriptors import open_descriptors

IDS = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class Call:
    """Stands in for the call object that a driver makes; the same attributes, all of them real values."""

    deadline_left: float = 60.0
    tasks: anyio.abc.TaskGroup | None = None
    invocation_id: object = dataclasses.field(default_factory=lambda: next(IDS))
    context: object = None
    depth: int = 0


@pytest.fixture
def call():
    return Call()


@pytest.fixture
def new_call():
    return Call


def request_of(*fields):
    return pack_fields(f if isinstance(f, bytes) else str(f).encode() for f in fields)


class Bound:
    """Capabilities by name, called as a guest calls them: bytes in, bytes out."""

    def __init__(self, capabilities, call):
        self.by_name = {name: one for one in capabilities for name in (one.name, *one.aliases)}
        self.call = call

    def __call__(self, name, *fields):
        return self.by_name[name].function(self.call, request_of(*fields))

    async def wait(self, name, *fields, call=None):
        return await self.by_name[name].function(call or self.call, request_of(*fields))


@pytest.fixture
def bind():
    def bind(capabilities, call=None):
        return Bound(capabilities, call or Call())

    return bind


@pytest.fixture
def wire():
    return SimpleNamespace(pack=pack_fields, unpack=unpack_fields)


@pytest.fixture
def no_leaked_descriptors():
    """Fail a test that leaves a descriptor open."""
    before = open_descriptors()
    yield
    assert {fd: what for fd, what in open_descriptors().items() if fd not in before} == {}


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    """Keep the user's own home of the daemon out of every test."""
    home = tmp_path_factory.mktemp("daemon") / "home"
    monkeypatch.setenv("CRABTALK_HOME", str(home))
    return home


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param
