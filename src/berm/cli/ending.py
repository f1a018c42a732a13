"""How a call ended, for people, for programs, and as an exit code: done, failed, or a trap."""

import base64
import sys
from typing import TYPE_CHECKING, Any

from berm.cli import exits
from berm.cli.granting import option_for
from berm.cli.output import for_stream

if TYPE_CHECKING:
    from berm import Done, Failed, Trap

    Ending = Done | Failed | Trap


def exit_code(ending: "Ending") -> int:
    """Return what a command that called a tool exits with."""
    from berm import Done, Failed

    if isinstance(ending, Done):
        return exits.DONE
    return exits.FAILED if isinstance(ending, Failed) else exits.HOST_ERROR


def complain(ending: "Failed | Trap") -> None:
    """Say on stderr why there is no result."""
    from berm import Failed

    text = ending.message if isinstance(ending, Failed) else ending.report()
    print(for_stream(text, sys.stderr), file=sys.stderr)
    if not isinstance(ending, Failed) and (hint := _grant_hint(ending)):
        print(hint, file=sys.stderr)


def _grant_hint(trap: "Trap") -> str | None:
    """Say how to grant what the guest called and was not given."""
    from berm import TrapCode

    if trap.code is not TrapCode.UNKNOWN_HOST_CALL or not trap.name:
        return None
    option = option_for(trap.name)
    return f"hint: {option} grants `{trap.name}`" if option else None


def facts(ending: "Ending") -> dict[str, Any]:
    """Return everything that is known about the ending, ready for JSON."""
    from berm import Done, Trap

    if isinstance(ending, Trap):
        return _trap(ending)
    if isinstance(ending, Done):
        found: dict[str, Any] = {"outcome": "done", **_result(ending.data)}
    else:
        found = {"outcome": "failed", "message": ending.message}
    return {**found, "instructions": ending.instructions, "duration_ns": ending.duration_ns}


def _result(data: bytes) -> dict[str, str]:
    try:
        return {"result": data.decode()}
    except UnicodeDecodeError:
        return {"result_base64": base64.b64encode(data).decode("ascii")}


def _trap(trap: "Trap") -> dict[str, Any]:
    return {
        "outcome": "trap",
        "code": trap.code.name,
        "message": str(trap),
        "pc": trap.pc,
        "address": trap.address,
        "symbol": trap.symbol,
        "location": trap.location,
        "frames": [str(frame) for frame in trap.frames],
        "host_calls": list(trap.host_calls),
        "report": trap.report(),
    }
