"""A model that says what a script says: for demos, for tests, and for a daemon that was given no model."""

import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import trio

from crabtalk.conversation.messages import Usage
from crabtalk.conversation.model import (
    ErrorKind,
    Finished,
    ModelError,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStarted,
    UsageReport,
)
from crabtalk.errors import ConfigError
from crabtalk.ids import new_id
from crabtalk.providers.script import Call, Script, Turn, filled, find_turn, load_script, parse_script

_WORD: Final = re.compile(r"\S+\s*|\s+")
_CHARACTERS_OF_A_TOKEN: Final = 4  # about; a script has no tokens
# What is said where no model is configured.
BUILT_IN: Final = {
    "turns": [
        {
            "text": "No model is configured, so a built-in script answers. Put a model into config.toml "
            "(`crabtalk config path` says where it is) and restart the daemon, or send it SIGHUP:\n\n"
            "    [models.main]\n"
            '    provider = "openai"            # or "anthropic"; any base_url that speaks it\n'
            '    base_url = "http://127.0.0.1:11434/v1"\n'
            '    model = "qwen3"\n\n'
            "You said: {user}"
        }
    ]
}


class ScriptedProvider:
    """Answers by a script."""

    def __init__(self, name: str, path: Path | None = None) -> None:
        """Answer by the file at `path`, read again when it has changed; without one, by the built-in one."""
        self.name = name
        self._path = path
        self._script = parse_script(BUILT_IN) if path is None else Script(())
        self._read: tuple[int, int, int] | None = None  # what the file was when it was read
        self._used: Counter[int] = Counter()

    async def models(self) -> list[str]:
        """Return none: a script answers for any."""
        return []

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Answer as the script says.

        Raises:
            ModelError: if it says so, or has no turn for this.
        """
        return self._stream(request)

    @asynccontextmanager
    async def _stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        script = await self._current()
        found = find_turn(script, request, self._used)
        if found is None:
            last = request.messages[-1] if request.messages else None
            what = f"after {last.role} `{last.content[:80]}`" if last else "at the beginning"
            raise self._error(ErrorKind.BAD_REQUEST, f"the script has no turn {what}")
        number, places = found
        self._used[number] += 1
        async with aclosing(self._say(script.turns[number], request, places)) as events:
            yield events

    async def _say(
        self, turn: Turn, request: ModelRequest, places: dict[str, str]
    ) -> AsyncGenerator[ModelEvent]:
        used = 0
        for event in _pieces(turn, places):
            await trio.sleep(turn.delay_s)
            used += len(getattr(event, "text", "") or getattr(event, "arguments", ""))
            yield event
        if turn.error is not None:
            failure = turn.error
            raise ModelError(
                failure.kind,
                f"model `{self.name}`: {failure.message}",
                status=failure.status,
                retry_after_s=failure.retry_after_s,
            )
        if turn.cut:
            raise self._error(ErrorKind.INTERRUPTED, "the stream ended before the answer was complete")
        yield UsageReport(turn.usage or _guess(request, used))
        yield Finished(turn.finish or ("tool_calls" if turn.calls else "stop"))

    async def _current(self) -> Script:
        """Return the script as its file is now.

        Raises:
            ModelError: if it cannot be used.
        """
        if self._path is None:
            return self._script
        try:
            status = await trio.Path(self._path).stat()
            now = (status.st_mtime_ns, status.st_size, status.st_ino)
            if now != self._read:
                self._script = await trio.to_thread.run_sync(load_script, self._path)
                self._read = now
                self._used.clear()
        except OSError as error:
            why = (error.strerror or "cannot read").lower()
            raise self._error(ErrorKind.BAD_REQUEST, f"{self._path}: {why}") from error
        except ConfigError as error:
            raise self._error(ErrorKind.BAD_REQUEST, str(error)) from error
        return self._script

    def _error(self, kind: ErrorKind, what: str) -> ModelError:
        return ModelError(kind, f"model `{self.name}`: {what}")


def _pieces(turn: Turn, places: dict[str, str]) -> Iterator[ModelEvent]:
    for word in _words(filled(turn.thinking, places)):
        yield ThinkingDelta(word)
    said = filled(turn.text, places)
    for piece in _words(said) if isinstance(said, str) else said:
        yield TextDelta(piece)
    for index, call in enumerate(turn.calls):
        yield ToolCallStarted(index, call.id or f"call_{new_id()}", call.name)
        yield ToolCallDelta(index, _arguments(call, places))


def _arguments(call: Call, places: dict[str, str]) -> str:
    arguments: Any = filled(call.arguments, places)
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _guess(request: ModelRequest, written: int) -> Usage:
    read = len(request.system) + sum(len(message.content) for message in request.messages)
    prompt, completion = read // _CHARACTERS_OF_A_TOKEN, written // _CHARACTERS_OF_A_TOKEN
    return Usage(prompt, completion, prompt + completion)
