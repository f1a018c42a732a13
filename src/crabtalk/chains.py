"""Chains: the budget that an invocation shares with all that it starts, and what the store keeps of one.

berm counts (`berm.Chain`); this adds what outlives an invocation: an id that audit rows carry, the chain that
it came from, and a record for wakes and events that run later. Invocations that a stored record starts find
the chain that is still alive again, so that a budget is spent once, however many wakes and events share it.
"""

import time
from collections import OrderedDict
from typing import Final
from weakref import WeakValueDictionary

import berm
from crabtalk.errors import BadRequest
from crabtalk.store.interfaces.wakes import ChainRecord

MAX_DEPTH: Final = 8
MAX_INVOCATIONS: Final = 256
FUEL: Final = 100_000_000_000  # five invocations that use all that one may by default
WALL_S: Final = 3600.0
TOKENS: Final = 2_000_000  # of models, for all turns on a chain, by default; picked, not measured
_LEAST_S: Final = 1e-9
_KEPT: Final = 10_000  # chains remembered for stored wakes and events; picked, not measured


class ChainSpent(BadRequest):
    """A chain that may start nothing more: too deep, too many invocations, no fuel, or over an hour old."""


class Chain:
    """What a chain of invocations may still do."""

    __slots__ = ("__weakref__", "berm", "id", "parent", "recorded", "started_ms", "tokens_left")

    def __init__(
        self,
        id: str,  # noqa: A002 - the word of the audit
        *,
        started_ms: int,
        parent: str | None = None,
        invocations: int = MAX_INVOCATIONS,
        fuel: int = FUEL,
        wall_s: float = WALL_S,
        tokens: int = TOKENS,
    ) -> None:
        """Start its clock: it may go on for `wall_s` from now."""
        self.id = id
        self.parent = parent
        self.started_ms = started_ms  # Unix ms
        self.recorded = False  # whether the store may have a record of it
        self.tokens_left = tokens  # of models
        self.berm = berm.Chain(max_depth=MAX_DEPTH, invocations=invocations, fuel=fuel, deadline=wall_s)

    def __repr__(self) -> str:
        return f"<Chain {self.id}, {self.berm.invocations_left} invocations left>"

    @property
    def wall_left_s(self) -> float:
        """Seconds until its hour is over."""
        return (self.berm.deadline_ns - time.monotonic_ns()) / 1e9  # the clock of berm's chains

    def admit(self, depth: int) -> None:
        """Count one invocation at `depth`.

        Raises:
            ChainSpent: if there must be none; nothing was counted then.
        """
        if reason := self.berm.admit(depth):
            raise ChainSpent(f"chain {self.id}: {reason}")

    def refusal(self, depth: int) -> str | None:
        """Say why an invocation at `depth` would be refused now, None if it would not; counts nothing."""
        budget = self.berm
        if depth > budget.max_depth:
            return f"depth {depth} is beyond the chain's {budget.max_depth}"
        if budget.invocations_left < 1:
            return "the chain has started all the invocations that it may"
        if budget.fuel_left < 1:
            return "the chain has used all its fuel"
        if self.tokens_left < 1:
            return "the chain has used all the tokens that it may"
        return "the chain's deadline has passed" if self.wall_left_s <= 0 else None

    def record(self, depth: int) -> ChainRecord:
        """Return what the store keeps for something that will run at `depth` on this chain."""
        self.recorded = True
        return ChainRecord(
            id=self.id,
            depth=depth,
            started_ms=self.started_ms,
            invocations_left=self.berm.invocations_left,
            fuel_left=self.berm.fuel_left,
            parent=self.parent,
            tokens_left=self.tokens_left,
        )

    @classmethod
    def from_record(cls, record: ChainRecord, now_ms: int, tokens: int = TOKENS) -> "Chain":
        """Make the chain that a record tells of, with what it had left and the rest of its hour.

        One whose record says nothing of tokens has `tokens`.
        """
        # A wall clock that was set back must not make an hour longer than an hour.
        age_s = max(0, now_ms - record.started_ms) / 1000
        # berm has no chain without anything left: one that has nothing is made with the least, and spends it.
        chain = cls(
            record.id,
            started_ms=record.started_ms,
            parent=record.parent,
            invocations=max(1, record.invocations_left),
            fuel=max(1, record.fuel_left),
            wall_s=max(_LEAST_S, WALL_S - age_s),
            tokens=tokens if record.tokens_left is None else record.tokens_left,
        )
        if record.invocations_left < 1:
            chain.berm.admit(0)
        if record.fuel_left < 1:
            chain.berm.charge(1)
        chain.recorded = True
        return chain


class Chains:
    """The chains that records in the store tell of, so that all who restore one share its budget."""

    def __init__(self, tokens: int = TOKENS) -> None:
        """Give `tokens` to chains whose records do not say what was left."""
        self._tokens = tokens
        self._live: WeakValueDictionary[str, Chain] = WeakValueDictionary()
        self._kept: OrderedDict[str, Chain] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def note(self, chain: Chain) -> None:
        """Find this chain for its records, as long as something runs on it."""
        self._live[chain.id] = chain

    def keep(self, chain: Chain) -> None:
        """Remember a chain of which a record may be in the store; the oldest ones are forgotten."""
        self._kept[chain.id] = chain
        self._kept.move_to_end(chain.id)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)

    def restore(self, record: ChainRecord, now_ms: int) -> Chain:
        """Return the chain of a record: the one that is known, else a new one with what was left."""
        chain = self._live.get(record.id) or self._kept.get(record.id)
        if chain is None:
            chain = Chain.from_record(record, now_ms, self._tokens)
            self.keep(chain)
        return chain
