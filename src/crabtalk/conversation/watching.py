"""Watching turns go by."""

from collections.abc import Callable
from typing import Final, NamedTuple

from crabtalk.conversation.steps import Step
from crabtalk.conversation.turns import Turn
from crabtalk.following import Following

_ROOM: Final = 1024  # steps that a watcher may be behind; picked, not measured


class Seen(NamedTuple):
    """One step of some turn."""

    turn: Turn
    step: Step


class Watcher(Following[Seen]):
    """The steps of all turns from now on."""

    def __init__(self, leave: Callable[["Watcher"], None]) -> None:
        super().__init__(_ROOM, leave)

    def offer(self, turn: Turn, step: Step) -> None:
        """Take a step, if there is room."""
        self.take(Seen(turn, step))
