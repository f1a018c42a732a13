"""The built-in harness `memory`: the tools `remember`, `recall` and `forget`.

Owns the form of arguments and answers. Memories belong to the agent that the executor runs, whatever the
arguments say; how they are kept and ranked is the service's.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import berm
from berm.errors import ManifestError
from berm.strict_json import parse
from crabtalk.errors import NotFound, TooLarge
from crabtalk.memory.service import MAX_NAME, MemoryService, Recalled, instant
from crabtalk.search.excerpts import excerpt
from crabtalk.search.words import MAX_QUERY_CHARACTERS, Term, words
from crabtalk.tools import Context, Done, Failed, Outcome

MAX_ALIASES: Final = 16
MAX_CONTENT_BYTES: Final = 8192
MAX_RECALLED: Final = 20
RECALLED: Final = 5
_MAX_ARGS: Final = 64 << 10
_ARCHIVE_BYTES: Final = 4096  # of an archive that are shown

_TEXT: Final = {"type": "string"}
_NAME: Final = {"type": "string", "minLength": 1, "maxLength": MAX_NAME}


def _object(required: list[str], **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


MANIFEST: Final = berm.Manifest(
    abi_version=0,
    tools=(
        berm.Tool(
            "remember",
            "Keep a note under a name, for later conversations. A note of the same name is replaced.",
            _object(
                ["name", "content"],
                name={**_NAME, "description": "What the note is about, in a few words."},
                content={**_TEXT, "description": f"The note, at most {MAX_CONTENT_BYTES} bytes."},
                aliases={
                    "type": "array",
                    "items": _NAME,
                    "maxItems": MAX_ALIASES,
                    "description": "Other words that it should be found by.",
                },
            ),
        ),
        berm.Tool(
            "recall",
            "Find notes, and archives of earlier conversations, by words. The best come first.",
            _object(
                ["query"],
                query={**_TEXT, "description": "Words to look for; without any, the latest are returned."},
                limit={
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_RECALLED,
                    "description": f"How many are returned at most; {RECALLED} by default.",
                },
            ),
        ),
        berm.Tool(
            "forget",
            "Remove a note, or an archive, by its name.",
            _object(["name"], name={**_NAME, "description": "The name, as `recall` returns it."}),
        ),
    ),
    usage=(
        "`remember` keeps a note under a name, and a later conversation finds it with `recall`, by words of "
        "its name, its aliases and its text. `recall` also finds archives of conversations that were summed "
        "up. `forget` removes what is not true any more."
    ),
)


class _WrongError(ValueError):
    """What is wrong with the arguments, for the model."""


class MemoryHarness:
    """The tools, over a service."""

    name = "memory"
    manifest = MANIFEST

    def __init__(self, memory: MemoryService) -> None:
        self._memory = memory

    async def call(self, context: Context, tool: str, args: bytes) -> Outcome:
        """Run a tool.

        Raises:
            NotFound: if there is none of this name.
            StoreError: if the store does not work.
        """
        agent_id = context.agent.id
        try:
            given = _parsed(args)
            if tool == "remember":
                return await self._remember(agent_id, given)
            if tool == "recall":
                return await self._recall(agent_id, given)
            if tool == "forget":
                return await self._forget(agent_id, given)
        except (_WrongError, TooLarge) as error:
            return Failed(str(error))
        raise NotFound(f"harness `{context.harness}` has no tool `{tool[:80]}`")

    async def _remember(self, agent_id: str, given: Mapping[str, Any]) -> Outcome:
        checked = _checked(
            given, {"name": _name, "content": _content, "aliases": _aliases}, {"name", "content"}
        )
        name = checked["name"]
        replaced = await self._memory.remember(agent_id, name, checked["content"], checked.get("aliases", ()))
        return _said(f"replaced what was remembered as `{name}`" if replaced else f"remembered `{name}`")

    async def _recall(self, agent_id: str, given: Mapping[str, Any]) -> Outcome:
        checked = _checked(given, {"query": _query, "limit": _limit}, {"query"})
        query = checked["query"]
        found = await self._memory.recall(agent_id, query, checked.get("limit", RECALLED))
        if not found:
            return _said("nothing is remembered about it")
        terms = tuple(Term((word,)) for word in dict.fromkeys(words(query)))
        return _said(json.dumps([_shown(one, terms) for one in found], ensure_ascii=False))

    async def _forget(self, agent_id: str, given: Mapping[str, Any]) -> Outcome:
        name = _checked(given, {"name": _name}, {"name"})["name"]
        try:
            await self._memory.forget(agent_id, name)
        except NotFound as error:
            return Failed(error.message)
        return _said(f"forgot `{name}`")


def _said(text: str) -> Done:
    return Done(text.encode(errors="replace"))


def _shown(one: Recalled, terms: tuple[Term, ...]) -> dict[str, Any]:
    record = one.record
    shown: dict[str, Any] = {"name": record.name, "kind": record.kind, "updated": instant(record.updated_ms)}
    content, cut = record.content, False
    if record.kind == "archive":
        content, cut = excerpt(content, terms, _ARCHIVE_BYTES)
    return shown | {"content": content} | ({"truncated": True} if cut else {})


def _parsed(args: bytes) -> Mapping[str, Any]:
    if len(args) > _MAX_ARGS:
        raise _WrongError(f"arguments: expected at most {_MAX_ARGS} bytes, got {len(args)}")
    try:
        given = parse(args or b"{}")
    except ManifestError as error:
        raise _WrongError(f"arguments: {error}") from error
    if not isinstance(given, dict):
        raise _WrongError("arguments: expected an object")
    return given


def _checked(
    given: Mapping[str, Any], readers: Mapping[str, Callable[[object], Any]], required: set[str]
) -> dict[str, Any]:
    for key in given:
        if key not in readers:
            raise _WrongError(f"unknown argument `{key[:80]}`: expected {', '.join(readers)}")
    for key in readers:
        if key in required and key not in given:
            raise _WrongError(f"`{key}` is missing")
    found = {}
    for key, value in given.items():
        try:
            found[key] = readers[key](value)
        except _WrongError as error:
            raise _WrongError(f"{key}: {error}") from error
    return found


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _WrongError("expected text")
    return value


def _name(value: object) -> str:
    name = " ".join(_text(value).split())
    if not 1 <= len(name) <= MAX_NAME:
        raise _WrongError(f"expected 1 to {MAX_NAME} characters, got {len(name)}")
    if not name.isprintable():
        raise _WrongError("expected text without control characters")
    return name


def _content(value: object) -> str:
    content = _text(value)
    size = len(content.encode())
    if not 1 <= size <= MAX_CONTENT_BYTES:
        raise _WrongError(f"expected 1 to {MAX_CONTENT_BYTES} bytes, got {size}")
    return content


def _aliases(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MAX_ALIASES:
        raise _WrongError(f"expected a list of at most {MAX_ALIASES} texts")
    return tuple(dict.fromkeys(map(_name, value)))


def _query(value: object) -> str:
    query = _text(value)
    if len(query) > MAX_QUERY_CHARACTERS:
        raise _WrongError(f"expected at most {MAX_QUERY_CHARACTERS} characters, got {len(query)}")
    return query


def _limit(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_RECALLED:
        raise _WrongError(f"expected 1 to {MAX_RECALLED}")
    return value
