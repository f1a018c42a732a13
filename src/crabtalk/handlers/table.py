"""Every request of the protocol and who serves it."""

from typing import Final

from crabtalk.dispatch import Table
from crabtalk.handlers import (
    agents,
    calls,
    daemon,
    events,
    harnesses,
    mcps,
    models,
    prompts,
    search,
    sessions,
    skills,
    turns,
    wakes,
)
from crabtalk.runtime import Runtime

NOT_BUILT: Final = frozenset({"extension"})  # for embedders; the daemon itself has none

_MODULES: Final = (
    agents,
    calls,
    daemon,
    events,
    harnesses,
    mcps,
    models,
    prompts,
    search,
    sessions,
    skills,
    turns,
    wakes,
)


def request_table() -> Table[Runtime]:
    """Return the complete table."""
    return Table(
        handlers={field: handler for module in _MODULES for field, handler in module.HANDLERS.items()},
        streams={**daemon.STREAMS, **events.STREAMS, **mcps.STREAMS, **prompts.STREAMS, **turns.STREAMS},
        not_built=NOT_BUILT,
        batched=calls.BATCHED,
    )
