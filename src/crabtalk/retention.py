"""What is kept only for a while: rows of the audit."""

import logging
from typing import Final

import trio

from crabtalk.clock import Clock
from crabtalk.config import AuditConfig
from crabtalk.store.engine import Engine
from crabtalk.store.interfaces.audit import Audit

logger = logging.getLogger(__name__)

_PAUSE_S: Final = 0.05  # between two batches, for others who write


async def expire(audit: Audit, store: Engine, config: AuditConfig, clock: Clock) -> int:
    """Remove the rows that are older or more than `config` keeps; return how many there were.

    Raises:
        StoreError: if the store does not work.
    """
    before_ms = clock.now_ms() - int(config.keep * 1000)
    removed = 0
    while writes := await trio.to_thread.run_sync(audit.expire, config.keep_rows, before_ms):
        await store.commit(writes)
        removed += len(writes)
        await trio.sleep(_PAUSE_S)
    if removed:
        logger.info("%d rows of the audit expired", removed)
    return removed
