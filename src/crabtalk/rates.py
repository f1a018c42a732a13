"""Rates: at most so many starts in so long; after a quiet time that many may come at once."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` starts in `per_s` seconds."""

    count: int
    per_s: float

    def __str__(self) -> str:
        return f"{self.count} in {self.per_s:g} s"


class Bucket:
    """What is left of a rate: tokens, of which each start takes one."""

    __slots__ = ("refilled_s", "tokens")

    def __init__(self) -> None:
        self.forget()

    @property
    def known(self) -> bool:
        """Whether a rate was ever asked for."""
        return self.tokens >= 0

    def forget(self) -> None:
        """Be full again."""
        self.tokens = -1.0
        self.refilled_s = 0.0

    def filled(self, rate: Rate, now_s: float) -> float:
        """Return how many tokens there are now; takes none."""
        if self.tokens < 0:
            return float(rate.count)
        return min(
            float(rate.count), self.tokens + max(0.0, now_s - self.refilled_s) * rate.count / rate.per_s
        )

    def take(self, tokens: float, now_s: float) -> None:
        """Take one of the `tokens` that there are."""
        self.tokens, self.refilled_s = tokens - 1.0, now_s

    def give_back(self) -> None:
        """Return one that was taken."""
        if self.tokens >= 0:
            self.tokens += 1.0
