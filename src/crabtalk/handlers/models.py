"""Requests about models."""

from collections.abc import Mapping
from typing import Final

from crabtalk.dispatch import Handler, Request
from crabtalk.runtime import Runtime
from crabtalk.wire.pb import crabtalk_pb2 as pb


async def list_models(runtime: Runtime, _request: Request) -> pb.ServerMessage:
    """Return every model that can be named, and which one is active."""
    models = runtime.models
    active = models.active()
    names = dict.fromkeys([*await models.catalogue(), active])
    infos = [pb.ModelInfo(name=name, active=name == active) for name in names]
    return pb.ServerMessage(model_list=pb.ModelList(models=infos))


async def set_active_model(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Let those who name no model have this one; an empty name is what the configuration says."""
    await runtime.models.set_active(request.body.model)
    return pb.ServerMessage(pong=pb.Pong())


HANDLERS: Final[Mapping[str, Handler[Runtime]]] = {
    "list_models": list_models,
    "set_active_model": set_active_model,
}
