"""`berm.call`: a harness calls a tool of another, as a capability that an embedder binds to a resolver.

The capability returns an invocation that has not started; the driver of the caller runs it in the caller's
place, so that nesting is a list in memory and never the C stack. What a guest may reach is what the resolver
gives it.
"""

from collections.abc import Callable

from berm._call import Call
from berm._invocation import Invocation
from berm._outcome import Limits
from berm.binding import Capability
from berm.errors import NoSuchTool, Refused, WireError
from berm.harness import Harness
from berm.wire import decode_text, unpack_fields

# Takes the caller's facts and the name it asked for; None: the caller has no such harness.
Resolver = Callable[[Call, str], Harness | None]

_FIELDS = 3  # harness, tool, args


def calls(resolve: Resolver, *, limits: Limits | None = None) -> Capability:
    """Make the capability `berm.call` that reaches what `resolve` returns, each callee within `limits`."""

    def call_tool(call: Call, request: bytes) -> Invocation:
        fields = unpack_fields(request)
        if len(fields) != _FIELDS:
            raise WireError(f"expected harness, tool and args, got {len(fields)} fields")
        name, tool = decode_text(fields[0], "harness"), decode_text(fields[1], "tool")
        harness = resolve(call, name)
        if harness is None:
            raise Refused(f"no such harness: {name[:80]}")
        if tool not in harness:
            raise Refused(str(NoSuchTool(tool, harness.tools)))
        if reason := call.chain.admit(call.depth + 1):
            raise Refused(reason)
        return harness.start(
            tool,
            fields[2],
            limits=limits,
            context=call.context,
            raw=True,
            chain=call.chain,
            depth=call.depth + 1,
        )

    return Capability("berm.call", call_tool)
