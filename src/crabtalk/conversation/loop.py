"""The loop of an agent: ask the model, run the tools that it calls, ask again, until it calls none.

Crash-safe by order: an answer is stored before its tools run, each result before the model hears of it. So
what is missing after a crash is the results of tools that may have run, and nobody runs them again. A loop
ends with an answer, or raises: when it was cut short by a limit, a model's error, or its chain's end. Knows
neither sessions nor clients.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import trio

from crabtalk.chains import Chain
from crabtalk.conversation.answer import Answer, Wanted
from crabtalk.conversation.asking import ModelSource, TurnFailed, failure_of, tokens_of
from crabtalk.conversation.history import for_model
from crabtalk.conversation.messages import Message, ToolCall
from crabtalk.conversation.model import ModelError, ModelRequest
from crabtalk.conversation.steps import Step, ToolEnded, ToolsEnded, ToolsStarted
from crabtalk.conversation.transcript import Transcript
from crabtalk.errors import BadRequest
from crabtalk.toolbox import Result
from crabtalk.tools import Tool
from crabtalk.work import Work

logger = logging.getLogger(__name__)

SIDE_BY_SIDE: Final = 16  # calls of one answer that run at once; picked, not measured
CANCELLED: Final = "cancelled: it was stopped before it gave a result; it may have done a part of its work"
NOT_BEGUN: Final = "cancelled: it was not run"
_CLOSING_S: Final = 5.0  # for a listener to hear that text was cut short
_CHOICES: Final = frozenset({"auto", "none", "required"})
_FREE: Final = frozenset({"auto", "none"})  # choices that hold for a whole turn; others for its first answer

Tell = Callable[[Step], Awaitable[None]]


class Tools(Protocol):
    """What the loop needs of a tool box."""

    async def run(self, tools: Mapping[str, Tool], wire_name: str, work: Work) -> Result:
        """Run one call; see `ToolBox.run`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What stays the same in a turn."""

    model: str  # in full
    system: str
    host: str  # the name of the session's agent
    speaker: str = ""  # that of the guest who answers, if one does
    tool_choice: str = ""
    thinking: bool = False
    thinking_budget: int | None = None
    max_tokens: int | None = None
    max_iterations: int = 16


class Loop:
    """One turn's."""

    def __init__(
        self,
        setting: Setting,
        transcript: Transcript,
        models: ModelSource,
        tools: Tools,
        offered: Callable[[], Mapping[str, Tool]],
        work: Work,
        tell: Tell,
    ) -> None:
        """`offered` returns the tools of the moment; `work` is what each call of one is made of."""
        self._setting = setting
        self._transcript = transcript
        self._models = models
        self._tools = tools
        self._offered = offered
        self._work = work
        self._tell = tell

    async def run(self) -> str:
        """Return the agent's answer, when it is stored.

        **Cancellation:** what was said is kept, as cut short; every call gets a result.

        Raises:
            TurnFailed: if there is none, or only a part of one.
            StoreError: if the store does not work.
        """
        for number in range(self._setting.max_iterations):
            self._require_budget()
            offered = self._offered()
            choice = self._choice(offered, first=number == 0)
            answer = await self._ask(offered, choice)
            wanted = self._wanted(answer, choice)
            if wanted or answer.text:  # a message with nothing in it is refused by some endpoints, later
                await self._transcript.add(answer.message(wanted, guest=self._setting.speaker, now_ms=0))
            if not wanted:
                return answer.text
            await self._run_all(offered, wanted)
        raise TurnFailed(
            f"stopped after {self._setting.max_iterations} rounds of tool calls, "
            "which is the agent's `max_iterations`"
        )

    def _chain(self) -> Chain:
        assert isinstance(self._work.chain, Chain)  # noqa: S101 - a turn has joined its chain
        return self._work.chain

    def _require_budget(self) -> None:
        """Go on if the chain may.

        Raises:
            TurnFailed: if it may not.
        """
        chain = self._chain()
        if why := chain.refusal(self._work.depth):
            raise TurnFailed(f"chain {chain.id}: {why}", BadRequest, halted=True)

    def _choice(self, offered: Mapping[str, Tool], *, first: bool) -> str | None:
        """Return what the model is told of choosing: a tool that it has to call, it has to call once.

        Raises:
            TurnFailed: if that is no tool.
        """
        choice = self._setting.tool_choice
        if choice and choice not in _CHOICES and choice not in offered:
            raise TurnFailed(f"tool_choice: there is no tool `{choice[:80]}`", BadRequest)
        if not offered or not choice:
            return None
        return choice if first or choice in _FREE else "auto"

    def _wanted(self, answer: Answer, choice: str | None) -> list[Wanted]:
        """Return the calls of an answer, also those that a model makes where it must not.

        Raises:
            TurnFailed: if a guest, who has no tools, says nothing but calls of tools.
        """
        wanted = answer.wanted()
        if choice == "none":
            return [Wanted(one.call, "not run: no tool may be called now") for one in wanted]
        if not self._setting.speaker:
            return wanted
        if wanted and not answer.text:
            raise TurnFailed("the model called a tool, and a guest has none")
        return []

    # Asking

    async def _ask(self, offered: Mapping[str, Tool], choice: str | None) -> Answer:
        """Return the model's next answer, which has come to its end.

        Raises:
            TurnFailed: if it did not.
        """
        answer = Answer()
        try:
            async with self._models.stream(self._request(offered, choice)) as events:
                async for event in events:
                    for step in answer.take(event):
                        await self._tell(step)
        except ModelError as error:
            await self._keep_part(answer)
            raise failure_of(error) from error
        except BaseException:
            await self._keep_part(answer)
            raise
        self._count(answer)
        if answer.reason in {"stop", "tool_calls"}:
            return answer
        await self._keep_part(answer)
        raise TurnFailed(_why_cut_short(answer))

    def _request(self, offered: Mapping[str, Tool], choice: str | None) -> ModelRequest:
        setting = self._setting
        return ModelRequest(
            model=setting.model,
            system=setting.system,
            messages=for_model(self._transcript.messages, speaker=setting.speaker, host=setting.host),
            tools=tuple(offered.values()),
            tool_choice=choice,
            thinking=setting.thinking,
            thinking_budget=setting.thinking_budget,
            max_tokens=setting.max_tokens,
        )

    def _count(self, answer: Answer) -> None:
        characters = sum(len(one.content) for one in self._transcript.messages) + len(answer.text)
        self._chain().tokens_left -= tokens_of(answer.usage, characters)

    async def _keep_part(self, answer: Answer) -> None:
        """Store what there is of an answer that has no end."""
        with trio.CancelScope(shield=True):
            part = answer.cut_short(guest=self._setting.speaker, now_ms=0)
            if part is not None:
                await self._transcript.add(part)
        with trio.move_on_after(_CLOSING_S) as closing:
            closing.shield = True
            for step in answer.closing():
                await self._tell(step)

    # Tools

    async def _run_all(self, offered: Mapping[str, Tool], wanted: Sequence[Wanted]) -> None:
        """Run the calls of one answer side by side; when it returns, or raises, each has its result."""
        try:
            await self._tell(ToolsStarted(tuple(one.call for one in wanted)))
        except BaseException:
            for one in wanted:
                await self._store(one, Result(NOT_BEGUN, is_error=True))
            raise
        places = trio.CapacityLimiter(SIDE_BY_SIDE)
        async with trio.open_nursery() as nursery:
            for one in wanted:
                nursery.start_soon(self._run_one, offered, one, places)
        await self._tell(ToolsEnded())

    async def _run_one(
        self, offered: Mapping[str, Tool], wanted: Wanted, places: trio.CapacityLimiter
    ) -> None:
        call = wanted.call
        result = Result(NOT_BEGUN, is_error=True)
        started_s = trio.current_time()
        try:
            async with places:
                started_s = trio.current_time()
                if wanted.flaw:
                    result = Result(wanted.flaw, is_error=True)
                else:
                    result = Result(CANCELLED, is_error=True)
                    result = await self._called(offered, call)
        finally:
            await self._store(wanted, result)
            duration_ms = int((trio.current_time() - started_s) * 1000)
        await self._tell(ToolEnded(call.id, result.text, duration_ms, result.is_error))

    async def _called(self, offered: Mapping[str, Tool], call: ToolCall) -> Result:
        try:
            return await self._tools.run(
                offered, call.name, self._work._replace(args=call.arguments.encode())
            )
        except Exception:
            logger.exception("tool `%s` failed inside the daemon", call.name)
            return Result("the tool could not be run: an internal error", is_error=True)

    async def _store(self, wanted: Wanted, result: Result) -> None:
        await self._transcript.add(
            Message("tool", result.text, tool_call_id=wanted.call.id, is_error=result.is_error)
        )


def _why_cut_short(answer: Answer) -> str:
    if answer.reason == "length":
        return "the answer was cut off: it is longer than `max_tokens`, or than the model's context"
    if answer.reason == "refused":
        return "the model does not want to answer this"
    return "the model's answer has no end"


def for_summary(setting: Setting) -> Setting:
    """Return the setting in which a conversation is summed up: nothing is called, nothing thought over."""
    return replace(setting, tool_choice="none", thinking=False, thinking_budget=None, max_iterations=2)
