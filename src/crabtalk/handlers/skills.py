"""Requests about skills."""

from collections.abc import Mapping
from typing import Final

import trio

from crabtalk.dispatch import Handler, Request
from crabtalk.handlers.fitting import fitting
from crabtalk.runtime import Runtime
from crabtalk.wire.pb import crabtalk_pb2 as pb


async def list_skills(runtime: Runtime, _request: Request) -> pb.ServerMessage:
    """Return every skill, by name."""
    found = await trio.to_thread.run_sync(runtime.skills.all)  # which may read files
    infos = fitting(
        (pb.SkillInfo(name=one.name, description=one.description) for one in found),
        "`get_skill` reads one by its name",
        lambda info: info.ClearField("description"),
    )
    return pb.ServerMessage(skill_list=pb.SkillList(skills=infos))


async def get_skill(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Return the text of a skill."""
    skill = await trio.to_thread.run_sync(runtime.skills.get, request.body.name)
    return pb.ServerMessage(skill_body=pb.SkillBody(name=skill.name, body=skill.body))


HANDLERS: Final[Mapping[str, Handler[Runtime]]] = {"list_skills": list_skills, "get_skill": get_skill}
