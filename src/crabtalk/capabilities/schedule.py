"""The capability over a harness's own wakes: `crabtalk.wake.schedule`, `.cancel`, `.list`.

Whose wakes they are is the caller's agent and declaration; how many may be pending is the declaration's
argument. The rest is `WakeService`'s.
"""

from berm import Capability, capability
from crabtalk.capabilities._caller import Call, caller_of, explained
from crabtalk.scheduling.wakes import WakeService


def schedule(wakes: WakeService, limit: int) -> tuple[Capability, ...]:
    """Grant up to `limit` pending wakes.

    Raises:
        ValueError: if it is less than one.
    """
    if limit < 1:
        raise ValueError(f"schedule: expected how many wakes may be pending, got {limit}")

    @capability("crabtalk.wake.schedule")
    async def schedule_wake(call: Call, at_ms: int, payload: bytes, key: str) -> str:
        who = caller_of(call)
        with explained():
            record = await wakes.schedule(
                who.agent.id,
                who.harness,
                at_ms,
                payload,
                key or None,
                chain=who.chain,
                depth=who.depth,
                limit=limit,
            )
        return record.id

    @capability("crabtalk.wake.cancel")
    async def cancel_wake(call: Call, wake_id: str) -> int:
        who = caller_of(call)
        with explained():
            return int(await wakes.cancel(wake_id, (who.agent.id, who.harness)))

    @capability("crabtalk.wake.list")
    async def list_wakes(call: Call) -> bytes:
        who = caller_of(call)
        with explained():
            return await wakes.pending_of((who.agent.id, who.harness))

    return (schedule_wake, cancel_wake, list_wakes)
