"""Requests about skills."""

from collections.abc import Mapping
from typing import Final

from crabtalk.dispatch import Handler, Request
from crabtalk.errors import NotFound
from crabtalk.runtime import Runtime
from crabtalk.wire.pb import crabtalk_pb2 as pb

MAX_NAME_BYTES: Final = 256


def list_skills(runtime: Runtime, _request: Request) -> pb.ServerMessage:
    """Return every skill, by name."""
    infos = [pb.SkillInfo(name=one.name, description=one.description) for one in runtime.skills.all()]
    return pb.ServerMessage(skill_list=pb.SkillList(skills=infos))


def get_skill(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Return the text of a skill."""
    name = request.body.name
    record = runtime.skills.get(name) if 0 < len(name.encode()) <= MAX_NAME_BYTES else None
    if record is None:
        raise NotFound(f"there is no skill `{name[:80]}`")
    return pb.ServerMessage(skill_body=pb.SkillBody(name=record.name, body=record.body))


HANDLERS: Final[Mapping[str, Handler[Runtime]]] = {"list_skills": list_skills, "get_skill": get_skill}
