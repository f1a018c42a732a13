"""Requests about the daemon itself."""

import json
from collections.abc import Mapping
from typing import Final

from crabtalk.dispatch import Handler, Request, Send, StreamHandler
from crabtalk.errors import BadRequest, Busy
from crabtalk.handlers.sessions import active
from crabtalk.logs import LEVELS
from crabtalk.runtime import Runtime
from crabtalk.units import nearest, shown
from crabtalk.wire.pb import crabtalk_pb2 as pb

_PONG: Final = pb.Pong()


def ping(_runtime: Runtime, _request: Request) -> pb.ServerMessage:
    """Answer."""
    return pb.ServerMessage(pong=_PONG)


def get_config(runtime: Runtime, _request: Request) -> pb.ServerMessage:
    """Return the configuration as JSON, without secrets."""
    text = json.dumps(runtime.settings.config.redacted(), ensure_ascii=False, separators=(",", ":"))
    return pb.ServerMessage(config=pb.ConfigMsg(config=text))


def get_stats(runtime: Runtime, _request: Request) -> pb.ServerMessage:
    """Return what there is, in numbers."""
    executor = runtime.executor.statistics()
    wakes, loop = runtime.wakes.statistics(), runtime.loop.statistics()
    return pb.ServerMessage(
        stats=pb.Stats(
            uptime_secs=int(runtime.clock.monotonic() - runtime.boot.started_s),
            active_conversations=len(active(runtime)),
            registered_agents=len(runtime.agents.all()),
            active_model=runtime.models.active(),
            version=runtime.version,
            queue_depth=executor.queue.queued,
            running=executor.queue.running,
            pending_wakes=wakes.stored - wakes.running,
            spilled=loop.spilled,
            blocked_wakes=loop.blocked,
        )
    )


async def tail_logs(runtime: Runtime, request: Request, send: Send) -> None:
    """Send the newest lines of the log, then every new one."""
    level = request.body.level or "debug"
    if level not in LEVELS:
        known = ", ".join(LEVELS)
        raise BadRequest(f"level: expected one of {known}, got {shown(level)}{nearest(level, LEVELS)}")
    with runtime.logs.followed(level) as lines:
        async for line in lines:
            if lines.lost:
                raise Busy(f"{lines.lost} log lines were lost: they were not read in time")
            told = pb.LogLine(
                time_ms=line.time_ms, level=line.level, text=line.text, harness=line.harness, agent=line.agent
            )
            await send(pb.ServerMessage(log_line=told))


HANDLERS: Final[Mapping[str, Handler[Runtime]]] = {
    "ping": ping,
    "get_config": get_config,
    "get_stats": get_stats,
}
STREAMS: Final[Mapping[str, StreamHandler[Runtime]]] = {"tail_logs": tail_logs}
