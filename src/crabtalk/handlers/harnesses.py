"""Requests about harness images: what is here, what it asks for, and what an agent binds to it."""

import json
from collections.abc import Mapping
from typing import Final

from crabtalk.agents import HarnessView
from crabtalk.dispatch import Handler, Request
from crabtalk.errors import BadRequest
from crabtalk.handlers.fitting import fitting
from crabtalk.image_info import ImageInfo
from crabtalk.runtime import Runtime
from crabtalk.wire.pb import crabtalk_pb2 as pb


async def list_harnesses(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Return what an agent declares, or every stored image if none is named; nothing is linked for it.

    What their manifests say at length is left out if it does not fit a reply.
    """
    if request.body.agent:
        agent = runtime.agents.get(request.body.agent)
        names = [one.name for one in runtime.agents.config(agent).harnesses]
        infos = [_bound(name, await runtime.agents.view(agent, name)) for name in names]
    else:
        records = runtime.images.records()
        infos = [_stored(one.name, await runtime.images.inspect(one.sha256)) for one in records]
    fit = fitting(infos, "`inspect_harness` tells of one by its name", _lighten)
    return pb.ServerMessage(harness_list=pb.HarnessList(harnesses=fit))


async def inspect_harness(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Return the manifest of an image, and what is bound to it where an agent is named."""
    body = request.body
    if body.agent:
        if not body.name:
            raise BadRequest("name: expected the name of a harness of the agent")
        view = await runtime.agents.inspect(runtime.agents.get(body.agent), body.name)
        return _reply(_bound(body.name, view))
    if body.name:
        record = runtime.images.newest(body.name)
        return _reply(_stored(body.name, await runtime.images.inspect(record.sha256)))
    return _reply(await _by_digest(runtime, body.digest))


async def put_harness(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Store an image after it was verified and loaded; no agent uses it for that."""
    body = request.body
    info = await runtime.images.put(body.name, body.elf, body.sha256)
    return _reply(_stored(body.name, info))


async def remove_harness(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Forget an image that no agent declares."""
    await runtime.images.remove(request.body.name)
    return pb.ServerMessage(pong=pb.Pong())


async def upgrade_harness(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Return what a harness of an agent would become; with `confirm`, let it become that.

    Without `confirm` the reply describes the image that would be used, beside what is bound now: whoever
    compares it with `inspect_harness` has the difference.
    """
    body = request.body
    agent = runtime.agents.get(body.agent)
    upgrade = await runtime.agents.upgrade(agent.id, body.name, body.sha256 or None, confirm=body.confirm)
    if upgrade.agent is not None:
        return _reply(_bound(body.name, await runtime.agents.inspect(upgrade.agent, body.name)))
    shown = _stored(body.name, upgrade.after)
    shown.bound.extend((await runtime.agents.inspect(agent, body.name)).bound)
    return _reply(shown)


HANDLERS: Final[Mapping[str, Handler[Runtime]]] = {
    "list_harnesses": list_harnesses,
    "inspect_harness": inspect_harness,
    "put_harness": put_harness,
    "remove_harness": remove_harness,
    "upgrade_harness": upgrade_harness,
}


async def _by_digest(runtime: Runtime, digest: str) -> pb.HarnessInfo:
    """Return an image by the digest of its bytes, or a declared one by that of the image."""
    if not digest:
        raise BadRequest("expected a digest, a name, or an agent and a name")
    for agent in runtime.agents.all():
        for declaration in runtime.agents.config(agent).harnesses:
            if runtime.agents.bounds(agent, declaration.name).digest == digest:
                return _bound(declaration.name, await runtime.agents.inspect(agent, declaration.name))
    info = await runtime.images.inspect(digest)
    name = next((one.name for one in runtime.images.records() if one.sha256 == info.sha256), "")
    return _stored(name, info)


def _lighten(info: pb.HarnessInfo) -> None:
    info.ClearField("usage")
    for tool in info.tools:
        tool.ClearField("description")
        tool.ClearField("parameters")


def _reply(info: pb.HarnessInfo) -> pb.ServerMessage:
    return pb.ServerMessage(harness_info=info)


def _bound(name: str, view: HarnessView) -> pb.HarnessInfo:
    info = _stored(name, view.info)
    info.digest = view.digest
    info.bound.extend(view.bound)
    info.error = view.error
    return info


def _stored(name: str, info: ImageInfo) -> pb.HarnessInfo:
    tools = [
        pb.HarnessTool(
            name=tool.name, description=tool.description, parameters=json.dumps(dict(tool.parameters))
        )
        for tool in info.tools
    ]
    return pb.HarnessInfo(
        name=name,
        usage=info.usage,
        tools=tools,
        requested=info.requested,
        exports_wake=info.exports_wake,
        exports_notify=info.exports_notify,
        size=info.size,
        error=info.error,
        sha256=info.sha256,
    )
