"""From what a client wrote to what an agent is stored as: pins, peers, tool names, and whether it all works.

Parsing is done by `declarations`; here names become ids and digests, and nothing is accepted that could not
run. A declaration that an update leaves as it was is not tried again, so that a directory which is gone today
does not keep anybody from changing a description.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from berm.manifest import TOOL_NAME
from crabtalk.asked_values import with_value
from crabtalk.builtins import Builtins
from crabtalk.declarations import AgentConfig, HarnessDeclaration, parse_config
from crabtalk.errors import BadRequest, NotFound, TooLarge
from crabtalk.identity import canonical_json
from crabtalk.images import ImageInfo, Images, Unusable
from crabtalk.linking import Linker

MAX_CONFIG_BYTES: Final = 1 << 20

FindAgent = Callable[[str], str | None]  # name or id to id


class Declarer:
    """Resolves and tries configurations."""

    def __init__(self, images: Images, builtins: Builtins, linker: Linker, find_agent: FindAgent) -> None:
        self._images = images
        self._builtins = builtins
        self._linker = linker
        self._find_agent = find_agent

    async def resolve(
        self, agent_id: str, config: Mapping[str, Any], old: AgentConfig
    ) -> tuple[dict[str, Any], AgentConfig]:
        """Return a configuration as it is stored, and as it is used.

        Raises:
            BadRequest: if something in it is wrong, or does not work.
            NotFound: if an image or an agent that it names is not here.
            TooLarge: if it is larger than 1 MiB.
        """
        if len(canonical_json(config)) > MAX_CONFIG_BYTES:
            raise TooLarge(f"configuration is larger than {MAX_CONFIG_BYTES} bytes")
        parsed = parse_config(config)
        stored = copy.deepcopy(dict(config))
        for place, one in enumerate(parsed.harnesses):
            entry = dict(stored["harnesses"][place])
            if not one.builtin:
                entry["sha256"] = self._pin(one, old.harness(one.name), place)
            if one.peers:
                ids = self._ids(one.peers, f"harnesses[{place}].peers")
                entry["peers"] = with_value(entry["peers"], "peers", ids)
            if one.send:
                ids = self._ids(one.send, f"harnesses[{place}].send")
                entry["send"] = with_value(entry["send"], "send", ids)
            stored["harnesses"][place] = entry
        resolved = parse_config(stored)
        await self._check(agent_id, resolved, old)
        return stored, resolved

    def _pin(self, wanted: HarnessDeclaration, old: HarnessDeclaration | None, place: int) -> str:
        if wanted.sha256:
            kept = old is not None and old.sha256 == wanted.sha256
            if not kept and not self._images.has(wanted.sha256):
                raise NotFound(
                    f"no image with sha256 {wanted.sha256} is stored: put it first"
                    f" - at `harnesses[{place}].sha256`"
                )
            return wanted.sha256
        if old is not None and not old.builtin:
            return old.sha256  # only an upgrade, or a digest that somebody wrote, changes what an agent runs
        try:
            return self._images.newest(wanted.name).sha256
        except NotFound as error:
            raise NotFound(
                f"{error}: put it first, or say which bytes by `sha256` - at `harnesses[{place}]`"
            ) from None

    def _ids(self, agents: Sequence[str], place: str) -> list[str]:
        found = []
        for index, agent in enumerate(agents):
            agent_id = agent if agent == "*" else self._find_agent(agent)
            if agent_id is None:
                raise NotFound(f"no agent `{agent}` - at `{place}[{index}]`")
            found.append(agent_id)
        return list(dict.fromkeys(found))

    async def _check(self, agent_id: str, config: AgentConfig, old: AgentConfig) -> None:
        infos = [await self._inspect(place, one, old) for place, one in enumerate(config.harnesses)]
        check_tool_names(config.harnesses, infos, [one["name"] for one in config.mcps])
        for place, one in enumerate(config.harnesses):
            if one.builtin or old.harness(one.name) == one:
                continue
            try:
                await self._linker.link(self._linker.ready(agent_id, one))
            except Unusable as error:
                raise BadRequest(f"harness `{one.name}`: {error} - at `harnesses[{place}]`") from error

    async def _inspect(self, place: int, one: HarnessDeclaration, old: AgentConfig) -> ImageInfo:
        unchanged = old.harness(one.name) == one
        if one.builtin:
            known = self._builtins.info(one.builtin)
            if known.error and not unchanged:
                raise BadRequest(f"{known.error} - at `harnesses[{place}].builtin`")
            return known
        try:
            info = await self._images.inspect(one.sha256)
        except NotFound:
            if not unchanged:
                raise
            return ImageInfo(one.sha256, 0, error="its bytes are gone")
        if info.error and not unchanged:
            raise BadRequest(
                f"harness `{one.name}`: image does not load: {info.error} - at `harnesses[{place}]`"
            )
        return info


def check_tool_names(
    harnesses: Sequence[HarnessDeclaration], infos: Sequence[ImageInfo], servers: Sequence[str] = ()
) -> None:
    """Pass if each tool of an agent has a name of its own that a model can use.

    What MCP servers offer is not known yet, so whatever begins with `SERVER__` is theirs.

    Raises:
        BadRequest: with the tools that are in each other's way.
    """
    taken: dict[str, str] = {}
    for place, (one, info) in enumerate(zip(harnesses, infos, strict=True)):
        for tool in info.tools:
            name = one.wire_name(tool.name)
            if not TOOL_NAME.match(name):
                raise BadRequest(
                    f"tool `{name}` would be longer than the 64 characters that models take: "
                    f"shorten the prefix - at `harnesses[{place}].prefix`"
                )
            if name.partition("__")[0] in servers and "__" in name:
                raise BadRequest(
                    f"tool `{name}` could be one of MCP server `{name.partition('__')[0]}`: "
                    f"give the harness another prefix - at `harnesses[{place}]`"
                )
            if name in taken:
                raise BadRequest(
                    f"tool `{name}` is one of harness `{taken[name]}` and of `{one.name}`: "
                    f'give one of them a prefix, such as `prefix = "{one.name[:8].strip("_-")}"`'
                    f" - at `harnesses[{place}]`"
                )
            taken[name] = one.name
