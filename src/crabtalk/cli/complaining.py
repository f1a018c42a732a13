"""What goes wrong, one line each on stderr, as everything of this command says it."""

import sys
from collections.abc import Callable

from berm.cli.output import escape_line


def complain(message: str) -> None:
    """Say it."""
    for line in message.split("\n"):
        print(f"crabtalk: {escape_line(line)}", file=sys.stderr)


def tried(request: Callable[[], object]) -> bool:
    """Ask for one of several things; complain and return False if it is refused."""
    from crabtalk.errors import RequestError

    try:
        request()
    except RequestError as error:
        complain(str(error))
        return False
    return True
