"""The capability over the web: `berm.http.fetch`, `.start` and `.collect`, to the hosts of the declaration.

Owns the limits of a request and the requests that an invocation has in flight. Where a request may go is in
`_hosts`, what may be asked for in `_request`, and how it gets there in `_http`. A request runs in the task
group of its invocation, and ends with it.
"""

import ssl
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import anyio
import anyio.abc

from berm import Capability, Refused, capability
from crabtalk.capabilities._call import Call
from crabtalk.capabilities._failure import Failure
from crabtalk.capabilities._hosts import Hosts, parse_url
from crabtalk.capabilities._request import Pairs, Request, Response, build

LIMIT_S: Final = 30.0
MAX_IN_FLIGHT: Final = 16  # of an invocation, until they are collected

Reply = tuple[int, str, bytes]  # status, headers, body


@dataclass(frozen=True)
class Web:
    """The bound: what may be reached, and within what limit."""

    hosts: Hosts
    tls: ssl.SSLContext | None = None  # None: what the system and certifi trust
    limit_s: float = LIMIT_S

    def request(self, method: str, url: str, body: bytes, headers: Pairs) -> Request:
        """Check a request.

        Raises:
            Refused: if its host or method is not granted.
            Failure: if it is malformed or too large.
        """
        parsed = parse_url(url)
        self.hosts.require(parsed.origin)
        return build(method, parsed, body, headers)

    async def send(self, request: Request, limit_s: float) -> Response:
        """Send a request and read the whole answer.

        Raises:
            Refused, Failure: in the guest's terms.
        """
        from crabtalk.capabilities import _http  # noqa: PLC0415 - slow to load

        return await _http.send(request, self.hosts, self.tls, min(self.limit_s, limit_s))


@dataclass
class Flights:
    """The requests of one invocation that were started and not collected."""

    last_id: int = 0
    pending: set[int] = field(default_factory=set)
    landed: dict[int, Reply] = field(default_factory=dict)
    order: deque[int] = field(default_factory=deque)  # of what landed, the first one first
    changed: anyio.Event = field(default_factory=anyio.Event)

    def start(self) -> int:
        """Count one more, and return its id.

        Raises:
            Failure: if there are too many.
        """
        if len(self.pending) + len(self.landed) >= MAX_IN_FLIGHT:
            raise Failure(f"{MAX_IN_FLIGHT} requests are in flight: collect one first")
        self.last_id += 1
        self.pending.add(self.last_id)
        return self.last_id

    def land(self, flight: int, reply: Reply) -> None:
        """Keep a reply until it is collected."""
        self.pending.discard(flight)
        self.landed[flight] = reply
        self.order.append(flight)
        self.changed.set()
        self.changed = anyio.Event()

    def pick(self, flight: int | None) -> int | None:
        """Return the id to collect, None while it is still pending.

        Raises:
            Failure: if there is no such request, or none at all.
        """
        if flight is None:
            if not self.pending and not self.landed:
                raise Failure("no request is in flight")
            return self.order[0] if self.order else None
        if flight in self.landed:
            return flight
        if flight not in self.pending:
            raise Failure(f"no such request: {flight}")
        return None

    async def collect(self, flight: int | None) -> tuple[int, int, str, bytes]:
        """Wait for one request, or for the first to land, and hand its reply over.

        Raises:
            Failure: as `pick`.
        """
        while (picked := self.pick(flight)) is None:
            await self.changed.wait()
        self.order.remove(picked)
        return (picked, *self.landed.pop(picked))


class Airspace:
    """The flights of every invocation alive, by its id."""

    def __init__(self, web: Web) -> None:
        self._web = web
        self._flights: dict[object, Flights] = {}

    def flights(self, call: Call) -> Flights:
        """Return the caller's, without keeping any."""
        return self._flights.get(call.invocation_id) or Flights()

    def start(self, call: Call, request: Request) -> int:
        """Send a request in the background, and return its id.

        Raises:
            Failure: if there are too many, or nothing to run it.
        """
        if call.tasks is None:
            raise Failure("this host holds no requests open between two calls")
        flights = self._flights.get(call.invocation_id)
        if flights is None:
            flights = self._flights[call.invocation_id] = Flights()
            call.tasks.start_soon(self._forget_at_the_end, call.invocation_id)
        flight = flights.start()
        call.tasks.start_soon(self._fly, flights, flight, request, call.deadline_left)
        return flight

    async def _fly(self, flights: Flights, flight: int, request: Request, limit_s: float) -> None:
        try:
            response = await self._web.send(request, limit_s)
        except (Failure, Refused) as error:
            flights.land(flight, (0, "", str(error).encode()))
        except Exception as error:  # noqa: BLE001 - an error of ours is the guest's answer, not the group's end
            flights.land(flight, (0, "", f"{type(error).__name__}: {error}".encode()))
        else:
            flights.land(flight, (response.status, response.headers, response.body))

    async def _forget_at_the_end(self, invocation_id: object) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            del self._flights[invocation_id]


def web(hosts: Iterable[str], *, tls: ssl.SSLContext | None = None) -> tuple[Capability, ...]:
    """Grant requests to `hosts`; `tls` says which authorities are trusted, in place of the usual ones.

    Raises:
        ValueError: for an entry that is none.
    """
    bound = Web(Hosts.parse(hosts), tls)
    airspace = Airspace(bound)

    @capability("berm.http.fetch", aliases=("crabtalk.http.fetch",))
    async def fetch(call: Call, method: str, url: str, body: bytes, headers: list[tuple[str, str]]) -> Reply:
        response = await bound.send(bound.request(method, url, body, headers), call.deadline_left)
        return response.status, response.headers, response.body

    @capability("berm.http.start")
    async def start(call: Call, method: str, url: str, body: bytes, headers: list[tuple[str, str]]) -> int:
        return airspace.start(call, bound.request(method, url, body, headers))

    @capability("berm.http.collect")
    async def collect(call: Call, flight: str) -> tuple[int, int, str, bytes]:
        return await airspace.flights(call).collect(_flight_id(flight))

    return (fetch, start, collect)


def _flight_id(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):  # noqa: PLR2004 - fits 64 bits
        raise Failure(f"no such request: {text[:80]}")
    return int(text)
