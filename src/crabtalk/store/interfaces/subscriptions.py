"""Subscriptions to events, and the events that were accepted for them and are still to be delivered."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from crabtalk.store.engine import Reader, Write, delete, entries, keys, put
from crabtalk.store.interfaces.wakes import ChainRecord
from crabtalk.store.keys import key, prefix
from crabtalk.store.records import Codec, decode_json, encode_json, refuse

COLUMN: Final = "sub"


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    """Who gets the events of a source."""

    id: int
    source: str  # exact, or a prefix that ends in `:*`
    target_agent: str | None  # an id
    target_harness: tuple[str, str] | None  # an agent's id, a declaration's name
    once: bool
    created_ms: int
    by: Literal["client", "harness"]


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """One event on its way to one subscription."""

    subscription_id: int
    seq: int  # grows with each event of the subscription
    event_id: str  # a ULID
    source: str
    payload: str
    published_at_ms: int
    attempt: int = 1  # grows when a crash made it start again
    chain: ChainRecord | None = None


_SUBSCRIPTION: Final = Codec(SubscriptionRecord)
_DELIVERY: Final = Codec(DeliveryRecord)


class Subscriptions:
    """Reads subscriptions and deliveries, and says what to write for them."""

    def __init__(self, engine: Reader) -> None:
        self._engine = engine

    def all(self) -> list[SubscriptionRecord]:
        """Return every subscription, by id.

        Raises:
            StoreError: if one is damaged; every reading method may.
        """
        rows = entries(self._engine, COLUMN, prefix("id"))
        return [_SUBSCRIPTION.decode(COLUMN, at, raw) for at, raw in rows]

    def get(self, subscription_id: int) -> SubscriptionRecord | None:
        """Return one subscription, None if there is none."""
        at = key("id", subscription_id)
        raw = self._engine.get(COLUMN, at)
        return None if raw is None else _SUBSCRIPTION.decode(COLUMN, at, raw)

    def last_id(self) -> int:
        """Return the greatest id that was ever given, 0 at first; an id is never given again."""
        at = key("last")
        raw = self._engine.get(COLUMN, at)
        last = 0 if raw is None else decode_json(COLUMN, at, raw)
        if not isinstance(last, int):
            refuse(COLUMN, at, "expected an id")
        return last

    def save(self, record: SubscriptionRecord) -> list[Write]:
        """Return what stores a subscription, whose id is `last_id() + 1` if it is new."""
        writes = [put(COLUMN, key("id", record.id), _SUBSCRIPTION.encode(record))]
        if record.id > self.last_id():
            writes.append(put(COLUMN, key("last"), encode_json(record.id)))
        return writes

    def remove(self, subscription_id: int) -> list[Write]:
        """Return what removes a subscription and what was still to be delivered to it."""
        pending = keys(self._engine, COLUMN, prefix("event", subscription_id))
        return [delete(COLUMN, key("id", subscription_id)), *(delete(COLUMN, at) for at in pending)]

    def deliveries(
        self, subscription_id: int, after_seq: int = -1, limit: int = 1000
    ) -> list[DeliveryRecord]:
        """Return the next events that are still to be delivered to a subscription, in order."""
        beyond = key("event", subscription_id, after_seq) if after_seq >= 0 else None
        rows = self._engine.scan(COLUMN, prefix("event", subscription_id), beyond, limit)
        return [_DELIVERY.decode(COLUMN, at, raw) for at, raw in rows]

    def all_deliveries(self) -> Iterator[DeliveryRecord]:
        """Walk everything that is still to be delivered, by subscription, in order."""
        for at, raw in entries(self._engine, COLUMN, prefix("event"), page=100):
            yield _DELIVERY.decode(COLUMN, at, raw)

    def save_delivery(self, record: DeliveryRecord) -> list[Write]:
        """Return what stores an event for a subscription, new or with another attempt."""
        return [put(COLUMN, key("event", record.subscription_id, record.seq), _DELIVERY.encode(record))]

    def remove_delivery(self, subscription_id: int, seq: int) -> list[Write]:
        """Return what forgets an event that was delivered, or never will be."""
        return [delete(COLUMN, key("event", subscription_id, seq))]
