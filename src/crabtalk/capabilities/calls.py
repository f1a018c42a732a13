"""The capability that the argument `calls` grants: `berm.call`, a sibling's tool.

The caller is suspended and the callee goes through the executor, on the same chain and one deeper: its
outcome has a row of its own. Which names are siblings is the bound; a harness cannot name anything else.
"""

from collections.abc import Awaitable, Collection
from typing import Protocol

from berm import Call, Capability, Refused
from berm.errors import WireError
from berm.wire import decode_text, unpack_fields
from crabtalk.capabilities._failure import Failure
from crabtalk.errors import RequestError
from crabtalk.tools import Context, Done, Failed, Outcome, Trigger, attended
from crabtalk.work import Work

__all__ = ["Runner", "calls"]

_FIELDS = 3  # harness, tool, args


class Runner(Protocol):
    """What runs a callee: the executor."""

    def run(self, work: Work, /) -> Awaitable[Outcome]:
        """Run work and return its outcome; see `Executor.run`."""


def calls(executor: Runner, names: Collection[str]) -> tuple[Capability, ...]:
    """Grant the tools of the siblings `names`, as the calling agent declares them."""
    siblings = frozenset(names)

    async def call_tool(call: Call, request: bytes) -> bytes:
        context: Context = call.context
        fields = unpack_fields(request)
        if len(fields) != _FIELDS:
            raise WireError(f"expected harness, tool and args, got {len(fields)} fields")
        harness, tool = decode_text(fields[0], "harness"), decode_text(fields[1], "tool")
        if harness not in siblings:
            raise Refused(f"no such harness: {harness[:80]}")
        work = Work(
            trigger=Trigger.CALL,
            agent=context.agent,
            harness=harness,
            entry=tool,
            args=fields[2],
            chain=context.chain,
            depth=context.depth + 1,
            session=context.session,
            session_root=context.session_root,
            client=context.client,
            deadline_s=call.deadline_left,
            interactive=attended(context.client),
            caller=context.gate,
        )
        try:
            return _answer(tool, await executor.run(work))
        except RequestError as error:
            raise Refused(error.message) from error

    return (Capability("berm.call", call_tool),)


def _answer(tool: str, outcome: Outcome) -> bytes:
    """Return a result as the caller gets it.

    Raises:
        Failure: if there is none; the caller reads why, without what only operators should see.
    """
    if isinstance(outcome, Done):
        return outcome.data
    if isinstance(outcome, Failed):
        raise Failure(outcome.message)
    raise Failure(f"`{tool}` died: {outcome.kind.replace('_', ' ')}")
