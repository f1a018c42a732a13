"""The capability over skills: `crabtalk.skills.list` and `.get`, of those that the declaration names.

What its agent does not see is not there for a harness of it either.
"""

from collections.abc import Callable, Iterable
from typing import TypedDict

from berm import Capability, capability
from crabtalk.capabilities._call import Call
from crabtalk.capabilities._failure import Failure
from crabtalk.skills import Skill


class ShownSkill(TypedDict):
    """What a guest learns of a skill before it reads it."""

    name: str
    description: str


def skills(visible: Callable[[], Iterable[Skill]]) -> tuple[Capability, ...]:
    """Grant the skills of `visible`, as they are at the time of the call."""

    @capability("crabtalk.skills.list", blocking=True)
    def listing(_call: Call) -> list[ShownSkill]:
        return [ShownSkill(name=one.name, description=one.description) for one in visible()]

    @capability("crabtalk.skills.get", blocking=True)
    def get(_call: Call, name: str) -> str:
        for one in visible():
            if one.name == name:
                return one.body
        raise Failure(f"no skill `{name[:80]}`")

    return (listing, get)
