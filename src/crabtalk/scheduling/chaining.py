"""Which chain a wake or an event runs on: the one it came from, or a new one that remembers it."""

from crabtalk.chains import Chain, ChainSpent
from crabtalk.store.interfaces.wakes import ChainRecord, WakeRecord

NEW_CHAIN_MS = 60_000  # a wake this far ahead starts a chain of its own
_SECOND_MS = 1000


def inherited(chain: Chain, depth: int) -> ChainRecord:
    """Return what is stored for something that an invocation at `depth` of `chain` set off.

    Raises:
        ChainSpent: if it could not be started now, so that whoever asks hears of it.
    """
    if why := chain.refusal(depth + 1):
        raise ChainSpent(f"chain {chain.id}: {why}")
    return chain.record(depth + 1)


def starts_chain(at_ms: int, created_ms: int) -> bool:
    """Report whether a wake is far enough ahead to start a chain of its own.

    Counted in whole seconds, as wakes are: what comes once a minute schedules the next minute a few
    milliseconds into this one.
    """
    return at_ms - (created_ms - created_ms % _SECOND_MS) >= NEW_CHAIN_MS


def chain_of(record: WakeRecord) -> tuple[ChainRecord | None, str | None]:
    """Return the chain that a wake goes on with, and the parent of the one that it starts."""
    if record.chain is None:
        return None, None
    if starts_chain(record.at_ms, record.created_ms):
        return None, record.chain.id
    return record.chain, None
