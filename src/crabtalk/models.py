"""Which models there are, which one is meant, and the way to ask one.

A model is called by the name that the configuration gives it, or `NAME/ID` for another model of the same
endpoint. Who names none gets the active one: what `set_active_model` stored, else the configuration's, else
the built-in script. The configuration may change while answers are read: those go on as they began.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import trio

from crabtalk.clock import Clock
from crabtalk.conversation.model import ModelError, ModelEvent, ModelRequest, Provider
from crabtalk.errors import NotFound
from crabtalk.model_config import SCRIPTED, ModelConfig, ModelsConfig
from crabtalk.providers.http import HttpProvider
from crabtalk.providers.retrying import Retry, RetryPolicy, retrying
from crabtalk.providers.scripted import ScriptedProvider
from crabtalk.store.engine import Engine
from crabtalk.store.interfaces.config import Values
from crabtalk.units import nearest, shown

logger = logging.getLogger(__name__)

_ACTIVE: Final = "active_model"  # the name of the stored value
_LISTING_S: Final = 5.0  # for every endpoint to say which models it has
_MAX_ID: Final = 200


@dataclass(frozen=True, slots=True)
class Model:
    """A model that was found by its name."""

    name: str  # as it was meant: of the configuration, or `NAME/ID`
    id: str  # as its provider calls it
    provider: Provider
    context_window: int  # tokens; 0: not known


class Models:
    """The models of one daemon."""

    def __init__(self, config: ModelsConfig, home: Path, store: Engine, clock: Clock) -> None:
        """Know what `config` says; scripts are found from `home`. Nothing is opened yet."""
        self._home = home
        self._store = store
        self._values = Values(store)
        self._clock = clock
        self._config = config
        self._providers: dict[str, tuple[ModelConfig, Provider]] = {}
        self._built_in = ScriptedProvider(SCRIPTED)
        self._load(config)

    def names(self) -> list[str]:
        """Return the names of the configuration's models, in its order; the built-in one's, without any."""
        return list(self._providers) or [SCRIPTED]

    def active(self) -> str:
        """Return the name of the model for those who name none.

        Raises:
            StoreError: if what is stored is damaged.
        """
        stored = self._values.get(_ACTIVE)
        if isinstance(stored, str) and stored and self._maybe_find(stored) is not None:
            return stored
        return self._config.default or SCRIPTED

    async def set_active(self, name: str) -> None:
        """Store which model is active; an empty name is what the configuration says.

        Raises:
            NotFound: if there is no such model.
        """
        if name:
            self.find(name)
        await self._store.commit(self._values.save(_ACTIVE, name) if name else self._values.remove(_ACTIVE))

    def resolve(self, name: str) -> str:
        """Return the full name of what `name` means: that of the active model, if it is empty.

        Raises:
            NotFound: if there is none; says which ones there are.
        """
        return self.find(name).name

    def find(self, name: str) -> Model:
        """Return the model that `name` means; the active one, if it is empty.

        Raises:
            NotFound: if there is none; says which ones there are.
        """
        name = name or self.active()
        found = self._maybe_find(name)
        if found is None:
            known = self.names()
            meant = nearest(name.partition("/")[0], known)
            raise NotFound(f"there is no model {shown(name)}; there is {', '.join(known[:20])}{meant}")
        return found

    async def catalogue(self) -> list[str]:
        """Return every model that can be named: the configuration's, then `NAME/ID` of what endpoints list.

        An endpoint that does not say in time has none to add.
        """
        listed: dict[str, list[str]] = {}

        async def ask(name: str, provider: Provider) -> None:
            try:
                listed[name] = await provider.models()
            except ModelError as error:
                logger.info("no list of models: %s", error)

        with trio.move_on_after(_LISTING_S):
            async with trio.open_nursery() as nursery:
                for name, provider in self._endpoints():
                    nursery.start_soon(ask, name, provider)
        configured = self.names()
        own = {(name, config.model) for name, (config, _) in self._providers.items()}
        return [
            *configured,
            *(
                f"{name}/{one}"
                for name in configured
                for one in listed.get(name, ())
                if (name, one) not in own
            ),
        ]

    def stream(
        self, request: ModelRequest, *, retry: RetryPolicy | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Ask the model that `request.model` names, by the configuration's name; try again where that helps.

        **Cancellation:** the connection is dropped.

        Raises:
            NotFound: at once, if there is no such model.
            ModelError: on entry, or from the iterator.
        """
        model = self.find(request.model)
        return self._stream(model, replace(request, model=model.id), retry or RetryPolicy())

    async def configure(self, config: ModelsConfig) -> None:
        """Take another configuration; answers that are being read go on by the old one."""
        before = {id(provider): provider for _, provider in self._providers.values()}
        self._load(config)
        kept = {id(provider) for _, provider in self._providers.values()}
        for number, provider in before.items():
            if number not in kept and isinstance(provider, HttpProvider):
                await provider.retire()

    async def close(self) -> None:
        """Close every connection."""
        for _, provider in self._providers.values():
            if isinstance(provider, HttpProvider):
                await provider.close()

    @asynccontextmanager
    async def _stream(
        self, model: Model, request: ModelRequest, policy: RetryPolicy
    ) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        def tell(retry: Retry) -> None:
            logger.warning(
                "%s; trying again in %.1f s", retry.error, retry.wait_s, extra={"attempt": retry.attempt}
            )
            if policy.on_retry is not None:
                policy.on_retry(retry)

        async with retrying(lambda: model.provider.stream(request), replace(policy, on_retry=tell)) as events:
            yield events

    def _load(self, config: ModelsConfig) -> None:
        old = self._providers
        self._config = config
        self._providers = {
            name: old[name] if name in old and old[name][0] == one else (one, self._provider(name, one))
            for name, one in config.endpoints.items()
        }

    def _provider(self, name: str, config: ModelConfig) -> Provider:
        if config.provider == SCRIPTED:
            return ScriptedProvider(name, self._home / config.script if config.script else None)
        return HttpProvider(name, config, self._clock)

    def _maybe_find(self, name: str) -> Model | None:
        if not self._providers and name == SCRIPTED:
            return Model(name, SCRIPTED, self._built_in, 0)
        configured, slash, wanted = name.partition("/")
        if configured not in self._providers or (slash and not 0 < len(wanted) <= _MAX_ID):
            return None
        config, provider = self._providers[configured]
        if slash and config.provider != SCRIPTED:
            return Model(name, wanted, provider, 0)
        return Model(name, wanted or config.model or SCRIPTED, provider, config.context_window)

    def _endpoints(self) -> list[tuple[str, Provider]]:
        """Return each endpoint once, by the first name that it has."""
        found: dict[object, tuple[str, Provider]] = {}
        for name, (config, provider) in self._providers.items():
            if config.provider != SCRIPTED:
                where = (config.provider, config.base_url, config.api_key, tuple(config.headers.items()))
                found.setdefault(where, (name, provider))
        return list(found.values())
