"""The secrets of the configurations that this process serves, replaced in the reasons that leave it.

A reason is why something failed, died or was refused: guests, the system and peers write into it what they
were given. What is *done* is data and stays as it is. One for the process, as the log is: reasons leave in
several places that share nothing else. Without secrets, and for what is done, there is nothing to do.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from crabtalk.config_values import Secret
from crabtalk.log_text import Redactor
from crabtalk.tools import Done, Failed, Outcome


class KnownSecrets:
    """Which values are never shown; each owner may change its own."""

    def __init__(self) -> None:
        self._of: dict[object, tuple[Secret, ...]] = {}
        self._redactor: Redactor | None = None  # None while there is no secret

    def __bool__(self) -> bool:
        return self._redactor is not None

    def learn(self, owner: object, secrets: Iterable[Secret]) -> None:
        """Know `secrets` besides those that `owner` had before: what was one once is not shown later."""
        self._of[owner] = tuple(dict.fromkeys((*self._of.get(owner, ()), *secrets)))
        self._compile()

    def forget(self, owner: object) -> None:
        """Forget what only `owner` had."""
        self._of.pop(owner, None)
        self._compile()

    def text(self, text: str) -> str:
        """Return `text` without these values."""
        return text if self._redactor is None else self._redactor.known(text)

    def outcome(self, outcome: Outcome) -> Outcome:
        """Return an outcome without these values, unless it is done."""
        if self._redactor is None or isinstance(outcome, Done):
            return outcome
        shown = self._redactor.known
        if isinstance(outcome, Failed):
            return outcome._replace(message=shown(outcome.message))
        return replace(
            outcome,
            message=shown(outcome.message),
            sentence=shown(outcome.sentence),
            frames=tuple(map(shown, outcome.frames)),
            host_calls=tuple(map(shown, outcome.host_calls)),
        )

    def _compile(self) -> None:
        known = [secret for secrets in self._of.values() for secret in secrets]
        self._redactor = Redactor(known) if known else None


KNOWN: Final = KnownSecrets()
