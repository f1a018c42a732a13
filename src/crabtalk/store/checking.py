"""Whether what is in the store makes sense: every value is a record, and every index leads to one.

The engine's own check looks at the file; this one at what the interfaces keep in it. It reads everything,
through one snapshot, and holds little of it at a time.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final

from crabtalk.capabilities._keyvalue import cost_bytes
from crabtalk.errors import StoreError
from crabtalk.store.engine import REALM, Reader, entries, keys
from crabtalk.store.interfaces import audit, keyvalue
from crabtalk.store.interfaces.agents import Agents
from crabtalk.store.interfaces.approvals import Approvals
from crabtalk.store.interfaces.config import Values
from crabtalk.store.interfaces.harnesses import Harnesses
from crabtalk.store.interfaces.memories import Memories
from crabtalk.store.interfaces.sessions import Sessions
from crabtalk.store.interfaces.skills import Skills
from crabtalk.store.interfaces.subscriptions import Subscriptions
from crabtalk.store.interfaces.wakes import Wakes, index_keys
from crabtalk.store.keys import key, parts_of, prefix
from crabtalk.store.records import decode_json

_MOST: Final = 100  # sentences; who has so many restores a backup
_KINDS: Final = {  # what a key of each column may start with
    "agent": ("id", "approval"),
    "session": ("handle", "agent", "message", "event"),
    "memory": ("note", "archive"),
    "skill": ("name",),
    "harness": ("name", "elf"),
    "config": ("value",),
    "wake": ("id", "due", "owner", "made", "key"),
    "sub": ("id", "last", "event"),
    "kv": ("value", "used"),
    "audit": ("row",),
}

Problems = Iterator[str]


def check_records(reader: Reader) -> list[str]:
    """Return what is wrong with the records, in sentences, at most 100; empty when nothing is."""
    return list(islice((one for check in _CHECKS for one in _guarded(check, reader)), _MOST))


def _guarded(check: Callable[[Reader], Problems], reader: Reader) -> Problems:
    """Go on with the next check where one cannot."""
    try:
        yield from check(reader)
    except StoreError as error:
        yield str(error)


def _unknown_keys(reader: Reader) -> Problems:
    for column, kinds in _KINDS.items():
        known = tuple(start for kind in kinds for start in (prefix(kind), prefix(kind)[:-1]))
        for at in keys(reader, column, b""):
            if not at.startswith(known):
                yield f"column {column} has a key of no known kind: {_shown(at)}"


def _decodable(reader: Reader) -> Problems:
    """Read what is small and has no more to check."""
    for read in (Agents(reader).all, Approvals(reader).all, Skills(reader).all, Memories(reader).all):
        with _noting() as found:
            read()
        yield from found
    values = Values(reader)
    for name in values.names():
        with _noting() as found:
            values.get(name)
        yield from found
    for at, raw in entries(reader, audit.COLUMN, prefix("row")):
        with _noting() as found:
            audit.decode(at, raw)
        yield from found


def _harnesses(reader: Reader) -> Problems:
    harnesses = Harnesses(reader)
    digests = harnesses.digests()
    for digest in digests:
        if hashlib.sha256(harnesses.elf(digest) or b"").hexdigest() != digest:
            yield f"the image {digest} has other bytes than its digest says"
    for record in harnesses.all():
        if record.sha256 not in digests:
            yield f"harness {record.name} means {record.sha256}, which is not there"


def _wakes(reader: Reader) -> Problems:
    wakes = Wakes(reader)
    expected = found = 0
    for record in wakes.all():
        expected += sum(map(hash, index_keys(record)))
        if record.key is not None and record.state == "pending":
            expected += hash((key("key", record.agent_id, record.harness, record.key), record.id.encode()))
    for kind in ("due", "owner", "made"):
        found += sum(map(hash, keys(reader, "wake", prefix(kind))))
    found += sum(map(hash, entries(reader, "wake", prefix("key"))))
    # Sums of hashes agree unless something is missing or too much; which, is looked up only then.
    if expected != found:
        yield from _wakes_not_found(reader, wakes)
        yield from _keys_of_no_wake(reader, wakes)


def _wakes_not_found(reader: Reader, wakes: Wakes) -> Problems:
    for record in wakes.all():
        for at in index_keys(record):
            if reader.get("wake", at) is None:
                yield f"wake {record.id} is not found by {_shown(at)}"
        if record.key is not None and record.state == "pending":
            # A wake that was running when the daemon died may be pending beside the next of its key.
            holder = wakes.by_key(record.agent_id, record.harness, record.key)
            if holder is None or holder.state != "pending":
                yield f"wake {record.id} is pending and its key does not lead to a pending wake"


def _keys_of_no_wake(reader: Reader, wakes: Wakes) -> Problems:
    for kind in ("due", "owner", "made"):
        for at in keys(reader, "wake", prefix(kind)):
            leads_to = wakes.get(parts_of(at)[-1])
            if leads_to is None or at not in index_keys(leads_to):
                yield f"{_shown(at)} leads to no such wake"
    for at, raw in entries(reader, "wake", prefix("key")):
        holder = wakes.get(raw.decode(errors="replace"))
        if holder is None or holder.state != "pending":
            yield f"{_shown(at)} leads to no pending wake"


def _subscriptions(reader: Reader) -> Problems:
    subscriptions = Subscriptions(reader)
    ids = {record.id for record in subscriptions.all()}
    if ids and max(ids) > subscriptions.last_id():
        yield f"the last subscription was {subscriptions.last_id()}, and there is {max(ids)}"
    for delivery in subscriptions.all_deliveries():
        if delivery.subscription_id not in ids:
            gone = delivery.subscription_id
            yield f"event {delivery.event_id} waits for subscription {gone}, which is not there"


def _values_of_harnesses(reader: Reader) -> Problems:
    used: dict[bytes, int] = {}
    for at, raw in entries(reader, keyvalue.COLUMN, prefix("value"), page=16):
        _, _, agent_id, harness, own_key = at.split(b"/", 4)
        owner = agent_id + b"/" + harness
        used[owner] = used.get(owner, 0) + cost_bytes(own_key, raw)
    said = {
        at.removeprefix(prefix("used")): decode_json(keyvalue.COLUMN, at, raw)
        for at, raw in entries(reader, keyvalue.COLUMN, prefix("used"))
    }
    for owner in used.keys() | said.keys():
        if used.get(owner, 0) != said.get(owner, 0):
            yield f"the values of {_shown(owner)} are {used.get(owner, 0)} bytes, not {said.get(owner, 0)}"


def _sessions(reader: Reader) -> Problems:
    sessions = Sessions(reader)
    for record in sessions.all():
        for what, count in (("message", record.message_count), ("event", record.event_count)):
            found = sum(1 for _ in keys(reader, "session", prefix(what, record.handle)))
            if found != count:
                yield f"session {record.handle} has {found} {what}s, not {count}"
        if reader.get("session", key("agent", record.agent_id, record.handle)) is None:
            yield f"session {record.handle} is not found by its agent"


_CHECKS: Final = (
    _unknown_keys,
    _decodable,
    _harnesses,
    _wakes,
    _subscriptions,
    _values_of_harnesses,
    _sessions,
)


@contextmanager
def _noting() -> Iterator[list[str]]:
    found: list[str] = []
    try:
        yield found
    except StoreError as error:
        found.append(str(error))


def _shown(raw: bytes) -> str:
    return f"`{raw.removeprefix(REALM).decode(errors='backslashreplace')}`"
