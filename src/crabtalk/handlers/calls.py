"""Requests about invocations: calling a tool, what runs, and what ran."""

import logging
from collections.abc import Awaitable, Mapping, Sequence
from typing import Final

import trio

from crabtalk.dispatch import BatchHandler, Handler, Reply, Request
from crabtalk.errors import BadRequest, Internal, RequestError
from crabtalk.handlers.fitting import fitting
from crabtalk.journal import End
from crabtalk.runtime import Runtime
from crabtalk.store.interfaces.audit import AuditRow
from crabtalk.tools import TOOL, Done, Failed, Outcome, Trapped
from crabtalk.wire.pb import crabtalk_pb2 as pb
from crabtalk.work import Running, Work

LOG: Final = logging.getLogger(__name__)
MAX_DEADLINE_MS: Final = 3_600_000
LISTED: Final = 100  # rows, where the request names no number
MAX_LISTED: Final = 10_000


def call_tool(runtime: Runtime, request: Request) -> Reply:
    """Run a tool; most end at once, and cost no task."""
    (answer,) = call_tools(runtime, (request,))
    if isinstance(answer, RequestError):
        raise answer
    return answer


def call_tools(runtime: Runtime, requests: Sequence[Request]) -> list[Reply | RequestError]:
    """Run the tools of some requests in their order, each step for all of them: that is cheaper by a third.

    Ends early, after at least one, when the results are large or something unforeseen is raised for the next.
    """
    started_s = runtime.clock.monotonic()
    answers: list[Reply | RequestError] = []
    works: list[Work] = []
    for request in requests:
        try:
            works.append(_work(runtime, request))
        except RequestError as error:
            if works:
                break  # it is the next one's turn to be the first
            return [error]
        except Exception:
            if works:
                break  # whatever it is, it is not theirs
            raise
    for answer in runtime.executor.start_all(works):
        if isinstance(answer, End):
            try:
                answers.append(_reply(answer.outcome, answer.duration_us))
            except Exception:
                # All of them have run: none is to be asked for again.
                LOG.exception("the outcome of invocation %s cannot be told", answer.run.id)
                answers.append(
                    Internal("it ran, but its outcome cannot be told; the log of the daemon has more")
                )
        elif isinstance(answer, RequestError):
            answers.append(answer)
        else:
            answers.append(_later(runtime, answer, started_s))
    return answers


def list_running(runtime: Runtime, _request: Request) -> pb.ServerMessage:
    """Return what has not ended; `outcome` says whether it is queued, running or suspended."""
    now_ms = runtime.clock.now_ms()
    running = [_running(one, now_ms) for one in runtime.executor.running()]
    return pb.ServerMessage(running_list=pb.RunningList(invocations=running))


async def list_invocations(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Return rows of the audit, newest first; `harness` may be `AGENT-ID/NAME`."""
    body = request.body
    limit = body.limit or LISTED
    if limit > MAX_LISTED:
        raise BadRequest(f"limit: expected at most {MAX_LISTED}, got {limit}")
    agent_id, _, harness = body.harness.rpartition("/")

    def read() -> list[AuditRow]:
        runtime.store.flush()  # a call that has been answered has its row here
        return runtime.audit.since(body.since_ms, limit, harness, agent_id)

    # A harness that ran long ago is looked for among all rows, so not on the loop.
    rows = await trio.to_thread.run_sync(read)
    infos = fitting(map(_invocation, rows), "ask for fewer with `limit`")
    return pb.ServerMessage(invocation_list=pb.InvocationList(invocations=infos))


HANDLERS: Final[Mapping[str, Handler[Runtime]]] = {
    "call_tool": call_tool,
    "list_running": list_running,
    "list_invocations": list_invocations,
}
BATCHED: Final[Mapping[str, BatchHandler[Runtime]]] = {"call_tool": call_tools}


async def _later(runtime: Runtime, outcome: Awaitable[Outcome], started_s: float) -> pb.ServerMessage:
    ended = await outcome
    return _reply(ended, int((runtime.clock.monotonic() - started_s) * 1_000_000))


def _work(runtime: Runtime, request: Request) -> Work:
    body = request.body
    agent = runtime.agents.get(body.agent)
    session = runtime.sessions.of(agent, body.session_handle) if body.HasField("session_handle") else None
    return Work(
        TOOL,
        agent,
        body.harness,
        body.tool,
        body.args,
        session=session.handle if session else None,
        session_root=session.root if session else None,
        client=request.connection.name,
        deadline_s=_deadline_s(body.deadline_ms) if body.HasField("deadline_ms") else None,
    )


def _deadline_s(deadline_ms: int) -> float:
    if not 1 <= deadline_ms <= MAX_DEADLINE_MS:
        raise BadRequest(f"deadline_ms: expected 1 to {MAX_DEADLINE_MS}, got {deadline_ms}")
    return deadline_ms / 1000


def _reply(outcome: Outcome, duration_us: int) -> pb.ServerMessage:
    reply = pb.ServerMessage()
    told = reply.tool_outcome
    if type(outcome) is Done:
        told.done = outcome.data
    elif type(outcome) is Failed:
        told.failed = outcome.message
    elif type(outcome) is Trapped:
        told.trap.CopyFrom(_trap(outcome))
    told.duration_us = duration_us
    told.instructions = outcome.instructions
    return reply


def _trap(outcome: Trapped) -> pb.Trap:
    return pb.Trap(
        kind=outcome.kind,
        message=outcome.message,
        symbol=outcome.symbol,
        location=outcome.location,
        frames=outcome.frames,
        pc=outcome.pc,
        address=outcome.address,
        host_calls=outcome.host_calls,
    )


def _running(one: Running, now_ms: int) -> pb.Invocation:
    return pb.Invocation(
        id=one.id,
        trigger=one.trigger,
        agent=one.agent.id,
        harness=one.harness,
        tool=one.tool,
        started_ms=one.started_ms,
        duration_us=max(0, now_ms - one.started_ms) * 1000,
        outcome=one.state,
        depth=one.depth,
        chain=one.chain,
    )


def _invocation(row: AuditRow) -> pb.Invocation:
    return pb.Invocation(
        id=row.id,
        trigger=row.trigger,
        agent=row.agent_id,
        harness=row.harness,
        tool=row.tool,
        digest=row.digest,
        started_ms=row.started_ms,
        duration_us=row.duration_us,
        instructions=row.instructions,
        outcome=row.outcome,
        message=row.message,
        depth=row.depth,
        chain=row.chain,
        reason=row.reason,
        scheduled_at_ms=row.scheduled_at_ms,
        attempt=row.attempt,
        key=row.key,
        subject=row.subject,
        epoch=row.epoch,
        parent_chain=row.parent_chain,
        client=row.client,
    )
