"""A capability: a name under which a guest may call one host function over bytes.

Binding one is the whole permission: a harness that was not given it has nothing to call. This file says what
a capability is; `framing.py` derives one from a typed signature, an `Invocation` calls it.
"""

import inspect
import re
from collections.abc import Callable
from typing import Any

from berm.fnv import ALIASES, ALWAYS_PRESENT, CAPABILITIES, RETIRED

__all__ = ["Capability"]

# Takes the call's facts and the request; gives the reply, or an awaitable of it.
Function = Callable[..., Any]

_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)+\Z")
_MAX_NAME = 128
_OURS = frozenset((*CAPABILITIES, *ALIASES))


class Capability:
    """One name (and its aliases) and the function `function(call, request: bytes) -> bytes` behind it.

    An `async def` function is awaited by the driver with the guest suspended; `blocking=True` says that the
    function may wait, so that a driver on an event loop runs it in a thread. Immutable.
    """

    __slots__ = ("_aliases", "_blocking", "_function", "_is_async", "_name")

    def __init__(
        self, name: str, function: Function, *, blocking: bool = False, aliases: tuple[str, ...] = ()
    ) -> None:
        """Check the names and note whether `function` is async.

        Raises:
            TypeError: if `function` cannot be called or a name is no text.
            ValueError: if a name is malformed, or `function` is both blocking and async.
        """
        if not callable(function):
            raise TypeError(f"capability `{name}`: expected a function, got {type(function).__name__}")
        for one in (name, *aliases):
            _check_name(one)
        self._name = name
        self._function = function
        self._blocking = bool(blocking)
        self._aliases = tuple(aliases)
        self._is_async = _is_async(function)
        if self._blocking and self._is_async:
            raise ValueError(f"capability `{name}`: an async function cannot be blocking")

    @property
    def name(self) -> str:
        """The name that reports use."""
        return self._name

    @property
    def function(self) -> Function:
        """What runs when the guest calls."""
        return self._function

    @property
    def blocking(self) -> bool:
        """Whether the function may wait."""
        return self._blocking

    @property
    def aliases(self) -> tuple[str, ...]:
        """Further names for the same function."""
        return self._aliases

    @property
    def is_async(self) -> bool:
        """Whether the function's result has to be awaited."""
        return self._is_async

    def __repr__(self) -> str:
        kind = "async " if self._is_async else "blocking " if self._blocking else ""
        return f"<{kind}capability {self._name}>"


def refusal_to_bind(name: str) -> str | None:
    """Say why `name` must not be registered, or None.

    The namespaces `berm.` and `crabtalk.` hold exactly the names of the ABI, so that a misspelt name is found
    when it is bound and not by a guest; embedders' own capabilities live under other names.
    """
    if name in ALWAYS_PRESENT:
        return "is always present and cannot be replaced"
    if name in RETIRED:
        return f"is retired and never registered, bind {', '.join(RETIRED[name])}"
    if name.startswith(("berm.", "crabtalk.")) and name not in _OURS:
        return "is no name of the ABI"
    return None


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"expected a capability's name, got {type(name).__name__}")
    if len(name) > _MAX_NAME or not _NAME.match(name):
        raise ValueError(f"capability name {name[:_MAX_NAME]!a} is not lower-case words joined by dots")


def _is_async(function: Function) -> bool:
    # An object whose class says `async def __call__` counts as well.
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
