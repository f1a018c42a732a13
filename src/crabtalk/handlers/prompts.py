"""Requests about prompts, which ask a person, and about what was approved."""

from collections.abc import Mapping
from typing import Final

from crabtalk.dispatch import Handler, Request, Send, StreamHandler
from crabtalk.errors import Busy
from crabtalk.handlers.fitting import fitting
from crabtalk.prompts import Answer, Prompt
from crabtalk.runtime import Runtime
from crabtalk.store.interfaces.approvals import ApprovalRecord
from crabtalk.wire.pb import crabtalk_pb2 as pb


async def subscribe_prompts(runtime: Runtime, _request: Request, send: Send) -> None:
    """Send every prompt that waits, those that come, and of each that it is over."""
    with runtime.prompts.subscribe() as inbox:
        async for prompt in inbox:
            if inbox.lost:
                raise Busy(f"{inbox.lost} prompts were lost: they were not read in time")
            await send(pb.ServerMessage(prompt=_prompt(prompt)))


async def answer_prompt(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Answer a prompt; the reply says that what was allowed is stored."""
    body = request.body
    answer = Answer(body.allow, body.scope, body.text, request.connection.name)
    await runtime.prompts.answer(body.id, answer)
    return pb.ServerMessage(pong=pb.Pong())


def list_approvals(runtime: Runtime, _request: Request) -> pb.ServerMessage:
    """Return every approval, the oldest first."""
    infos = fitting(map(_approval, runtime.approvals.all()), "delete agents or sessions that have many")
    return pb.ServerMessage(approval_list=pb.ApprovalList(approvals=infos))


async def revoke_approval(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Take an approval back."""
    await runtime.approvals.revoke(request.body.id)
    return pb.ServerMessage(pong=pb.Pong())


HANDLERS: Final[Mapping[str, Handler[Runtime]]] = {
    "answer_prompt": answer_prompt,
    "list_approvals": list_approvals,
    "revoke_approval": revoke_approval,
}
STREAMS: Final[Mapping[str, StreamHandler[Runtime]]] = {"subscribe_prompts": subscribe_prompts}


def _prompt(prompt: Prompt) -> pb.Prompt:
    return pb.Prompt(
        id=prompt.id,
        kind=prompt.kind,
        agent=prompt.agent_id,
        harness=prompt.harness,
        capability=prompt.capability,
        argument=prompt.argument,
        text=prompt.text,
        session=prompt.session,
        expires_ms=prompt.expires_ms,
        scopes=prompt.scopes,
    )


def _approval(record: ApprovalRecord) -> pb.Approval:
    return pb.Approval(
        id=record.id,
        agent=record.agent_id,
        harness=record.harness,
        sha256=record.sha256,
        capability=record.capability,
        argument=record.argument,
        scope=record.scope,
        at_ms=record.at_ms,
        client=record.client,
    )
