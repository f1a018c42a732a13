"""What wants a person's attention while a chat goes on: steps of the turn, questions, Ctrl-C.

All of it comes together here, in the order in which it came, whoever it comes from; the chat takes one thing
after the other, so that only one of them writes to the terminal. Questions are kept apart: they may also be
over before anybody has answered, and they end the reading of what somebody types.
"""

from collections import deque
from typing import TYPE_CHECKING, Literal

import anyio

from crabtalk.cli.chat.input import Input
from crabtalk.errors import CrabtalkError

if TYPE_CHECKING:
    from crabtalk.client.asynchronous import Client
    from crabtalk.client.asynchronous_base import AsyncStream
    from crabtalk.wire.pb import crabtalk_pb2 as pb

Interrupt = Literal["interrupt", "gone"]


class Attention:
    """Gathers what has come."""

    def __init__(self) -> None:
        self.questions: dict[str, pb.Prompt] = {}  # by id, the oldest first
        self.reading: Literal["", "line", "answer"] = ""
        self.answering = ""  # the id of the question that is being answered
        self.entry: Input | None = None  # where it is read
        self._steps: deque[pb.StreamEvent | pb.CompactResponse | CrabtalkError | None] = deque()
        self._interrupts = 0
        self.is_gone = False  # the person
        self._arrived = anyio.Event()

    # What comes

    def interrupted(self) -> None:
        """Take a Ctrl-C."""
        if self.reading and self.entry is not None:
            self.entry.interrupt()
        else:
            self._interrupts += 1
            self._arrived.set()

    def gone(self) -> None:
        """Take that nobody is there any more."""
        self.is_gone = True
        if self.reading and self.entry is not None:
            self.entry.end()
        self._arrived.set()

    def asked(self, prompt: "pb.Prompt") -> None:
        """Take a question, or that it is over."""
        if prompt.expires_ms:
            self.questions[prompt.id] = prompt
            in_the_way = self.reading == "line"
        else:
            in_the_way = self.questions.pop(prompt.id, None) is not None and self.answering == prompt.id
        if in_the_way and self.entry is not None:
            self.entry.withdraw()
        self._arrived.set()

    async def follow_prompts(self, client: "Client") -> None:
        """Take questions as they come, until the connection ends or the daemon has none to ask."""
        try:
            async with client.subscribe_prompts() as prompts:
                async for prompt in prompts:
                    self.asked(prompt)
        except CrabtalkError:
            return  # whoever asks next hears why

    async def follow(self, stream: "AsyncStream[pb.StreamEvent]") -> None:
        """Take the steps of a turn, and why there are no more of them."""
        try:
            async with stream as steps:
                async for step in steps:
                    self.take(step)
        except CrabtalkError as error:
            self.take(error)
        else:
            self.take(None)

    def take(self, step: "pb.StreamEvent | pb.CompactResponse | CrabtalkError | None") -> None:
        """Take a step, or what ends the steps."""
        self._steps.append(step)
        self._arrived.set()

    # What is taken

    def begin(self) -> None:
        """Forget what was left of another turn."""
        self._steps.clear()
        self._interrupts = 0

    def take_interrupt(self) -> bool:
        """Take a Ctrl-C that came while nothing was read; say whether there was one."""
        found, self._interrupts = self._interrupts > 0, 0
        return found

    async def next(
        self,
    ) -> "pb.StreamEvent | pb.CompactResponse | pb.Prompt | Interrupt | CrabtalkError | None":
        """Wait for what comes next: a Ctrl-C, a question, or a step; None and errors end the steps."""
        while True:
            if self.is_gone:
                return "gone"
            if self._interrupts:
                self._interrupts -= 1
                return "interrupt"
            for prompt in self.questions.values():
                return prompt
            if self._steps:
                return self._steps.popleft()
            self._arrived = anyio.Event()
            await self._arrived.wait()
