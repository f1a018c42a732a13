"""From a declaration of an agent to a linked image: which one it is, and whether it still is the right one.

A directory that is bound is held open by the linked image, so one that was replaced since, or that a symbolic
link points elsewhere for, has to be bound anew: before each use the path is asked what it is now.
"""

import os
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from berm import Limits
from crabtalk.binding import Owner, Peers, Services, capabilities_of
from crabtalk.declarations import HarnessDeclaration
from crabtalk.identity import depends_on_session, image_digest
from crabtalk.image_cache import Identity, LinkedImage, Places
from crabtalk.images import Images, Unusable

_NEVER_S: Final = 7200.0  # more than the hour that any chain has
_KEPT: Final = 16_384  # of declarations that were looked up; picked, not measured


@dataclass(slots=True)
class Ready:
    """A declaration whose image has a name."""

    declaration: HarnessDeclaration
    owner: Owner
    session_root: str | None
    digest: str
    places: Places
    movable: bool  # whether its deadline may stand still: a person is asked, for it or for one that it calls
    limits: Limits  # of a guest that has all of the declared time
    failure: str = ""  # why it could not be linked the last time

    @property
    def known_failure(self) -> str:
        """Why it cannot be linked, as far as that is known without trying."""
        gone = (f"root `{path}`: no such file or directory" for path, found in self.places if found is None)
        return self.failure or next(gone, "")


class Linker:
    """Finds and makes the linked images of declarations; for the event loop."""

    def __init__(self, images: Images, services: Services, peers: Peers) -> None:
        self._images = images
        self._services = services
        self._peers = peers
        self._ready: OrderedDict[tuple[str, str, str | None], Ready] = OrderedDict()

    def ready(self, agent_id: str, declaration: HarnessDeclaration, session_root: str | None = None) -> Ready:
        """Return what a declaration stands for now."""
        if session_root is not None and not depends_on_session(declaration):
            session_root = None
        key = (agent_id, declaration.name, session_root)
        known = self._ready.get(key)
        if (
            known is not None
            and known.declaration is declaration
            and (not known.places or all(_identity(path) == found for path, found in known.places))
        ):
            return known
        places = tuple((path, _identity(path)) for path in _paths(declaration, session_root))
        digest = image_digest(declaration, agent_id, session_root)
        owner = Owner(agent_id, declaration.name)
        movable = bool(declaration.ask or declaration.calls or declaration.send)
        # berm's deadlines cannot move, so the driver sees to such a one.
        limits = Limits(fuel=declaration.fuel, deadline=_NEVER_S if movable else declaration.deadline)
        fresh = Ready(declaration, owner, session_root, digest, places, movable, limits)
        self._ready[key] = fresh
        self._ready.move_to_end(key)
        if len(self._ready) > _KEPT:
            self._ready.popitem(last=False)
        return fresh

    def linked(self, ready: Ready) -> LinkedImage | None:
        """Return the image of a declaration, if it is linked and holds the directories that are there now."""
        image = self._images.linked(ready.digest)
        if image is not None and image.places != ready.places:
            self._images.discard(ready.digest)
            return None
        return image

    async def link(self, ready: Ready) -> LinkedImage:
        """Return the image of a declaration.

        Raises:
            Unusable: if it does not load, or something cannot be bound.
        """
        declaration = ready.declaration
        if (linked := self.linked(ready)) is not None:
            return linked
        try:
            image = await self._images.link(
                ready.digest,
                declaration.sha256,
                declaration.memory,
                lambda: capabilities_of(
                    declaration, ready.owner, self._services, self._peers, ready.session_root
                ),
                ready.places,
            )
        except Unusable as error:
            ready.failure = str(error)
            raise
        ready.failure = ""
        return image

    def failure(self, agent_id: str, harness: str) -> str:
        """Return why a harness could not be linked the last time that it was tried outside of a session."""
        ready = self._ready.get((agent_id, harness, None))
        return ready.failure if ready is not None else ""

    def forget(self, agent_id: str) -> None:
        """Forget what was looked up for an agent; its linked images go when others need their place."""
        for key in [key for key in self._ready if key[0] == agent_id]:
            del self._ready[key]


def _paths(declaration: HarnessDeclaration, session_root: str | None) -> list[str]:
    paths = [declaration.files] if declaration.files is not None else []
    if declaration.root is not None:
        paths.append(declaration.root.path)
        if declaration.root.per_session and session_root is not None:
            paths.append(os.path.join(declaration.root.path, session_root))  # noqa: PTH118 - text for stat
    return paths


def _identity(path: str) -> Identity:
    try:
        status = os.stat(path)  # noqa: PTH116 - on the way of every call
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino
