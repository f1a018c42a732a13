"""A configuration in the user's editor: written as TOML, read back, sent as a merge patch."""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from berm.cli.exits import CommandError
from berm.cli.output import escape_line
from crabtalk.cli.asking import agrees, can_ask
from crabtalk.cli.complaining import complain
from crabtalk.cli.documents import parsed
from crabtalk.cli.patches import patch_between
from crabtalk.cli.toml import written

T = TypeVar("T")

_HEAD = "# {name}: save and close to change the agent, or leave it as it is to change nothing.\n\n"


def edited(name: str, config: dict[str, Any], send: Callable[[dict[str, Any]], T]) -> T | None:
    """Let the user change `config` and send the merge patch; a refusal leads back to the editor.

    Returns what `send` returned, or None if nothing was changed.

    Raises:
        CommandError: the editor failed, or what it left cannot be used and nobody is there to go on with it;
            the file is kept then.
    """
    handle, file_name = tempfile.mkstemp(prefix="crabtalk-", suffix=".toml")
    file = Path(file_name)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(_HEAD.format(name=escape_line(name)) + written(config))
    while True:
        _run_editor(file)
        try:
            new = parsed(file.read_bytes(), str(file), is_json=False)
            patch = patch_between(config, new)
            result = send(patch) if patch else None
        except Exception as error:
            if not _is_answer(error):
                raise
            _ask_to_go_on(error, file)
            continue
        file.unlink()
        if not patch:
            complain("nothing was changed")
        return result


def _is_answer(error: Exception) -> bool:
    from crabtalk.errors import RequestError

    return isinstance(error, RequestError | CommandError)


def _ask_to_go_on(error: Exception, file: Path) -> None:
    if not can_ask():
        raise CommandError(f"{error}; your text is in {file}") from error
    complain(str(error))
    if not agrees("Edit it again?"):
        raise CommandError(f"nothing was changed; your text is in {file}") from error


def _run_editor(file: Path) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        command = [*shlex.split(editor), str(file)]
        status = subprocess.run(command, check=False).returncode  # noqa: S603 - the user's own choice
    except (OSError, ValueError) as error:
        raise CommandError(f"cannot run the editor {editor!r}: {error}; set EDITOR") from error
    if status != 0:
        raise CommandError(f"the editor ended with {status}; your text is in {file}")
