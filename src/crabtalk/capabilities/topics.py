"""The capability over events: `crabtalk.event.publish`, `.subscribe`, `.unsubscribe`, to the declared topics.

A topic is a source, or a prefix that ends in `:*`. What it selects may be published and subscribed to; what
only the daemon publishes may be subscribed to as it stands in the declaration, word for word. A harness
subscribes itself and nobody else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from berm import Capability, Refused, capability
from crabtalk.capabilities._caller import Call, caller_of, explained
from crabtalk.capabilities._failure import Failure
from crabtalk.events.bus import Bus
from crabtalk.events.matching import check_pattern, check_source, covers, is_reserved, matches


@dataclass(frozen=True)
class Topics:
    """The bound: patterns, checked."""

    patterns: tuple[str, ...]

    def require_source(self, source: str) -> None:
        """Return if events of `source` may be published.

        Raises:
            Refused: if they may not.
            Failure: if it is no source.
        """
        _check(check_source, source)
        if is_reserved(source) or not any(matches(one, source) for one in self.patterns):
            raise Refused(f"source is not granted: {source}")

    def require_pattern(self, pattern: str) -> None:
        """Return if `pattern` may be subscribed to.

        Raises:
            Refused: if it may not.
            Failure: if it is no pattern.
        """
        _check(check_pattern, pattern)
        if pattern in self.patterns:
            return
        if is_reserved(pattern) or not any(covers(one, pattern) for one in self.patterns):
            raise Refused(f"source is not granted: {pattern}")


def _check(check: Callable[[str], str], text: str) -> None:
    try:
        check(text)
    except ValueError as error:
        raise Failure(str(error)) from error


def topics(bus: Bus, patterns: Sequence[str]) -> tuple[Capability, ...]:
    """Grant publishing and subscribing to what `patterns` select.

    Raises:
        ValueError: if one is no pattern.
    """
    bound = Topics(tuple(check_pattern(one) for one in patterns))

    @capability("crabtalk.event.publish")
    async def publish(call: Call, source: str, payload: str) -> None:
        who = caller_of(call)
        bound.require_source(source)
        with explained():
            await bus.publish(source, payload, chain=who.chain, depth=who.depth)

    @capability("crabtalk.event.subscribe")
    async def subscribe(call: Call, source: str, once: int) -> int:
        who = caller_of(call)
        bound.require_pattern(source)
        if once not in (0, 1):
            raise Failure(f"once: expected 0 or 1, got {once}")
        with explained():
            made = await bus.subscribe(
                source, target_harness=(who.agent.id, who.harness), once=bool(once), by="harness"
            )
        return made.id

    @capability("crabtalk.event.unsubscribe")
    async def unsubscribe(call: Call, subscription: int) -> int:
        who = caller_of(call)
        with explained():
            return int(await bus.unsubscribe(subscription, (who.agent.id, who.harness)))

    return (publish, subscribe, unsubscribe)
