"""Questions of the daemon to a person: whether something is allowed, and what an agent wants to know.

What is shown is what the daemon sent, all of it, escaped; what is sent back is one of the scopes it offered.
"""

from typing import TYPE_CHECKING, Final

from crabtalk.cli.chat.attention import Attention
from crabtalk.cli.chat.input import Input, Interrupted, Withdrawn
from crabtalk.cli.chat.view import View
from crabtalk.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from crabtalk.client.asynchronous import Client
    from crabtalk.wire.pb import crabtalk_pb2 as pb

_WORDS: Final = {
    "once": ("y", "once"),
    "session": ("s", "for this session"),
    "always": ("a", "always"),
}
_TAKEN_BACK: Final = "(it was answered elsewhere, or waits no longer)"


class Questions:
    """Asks them, one at a time."""

    def __init__(
        self,
        client: "Client",
        attention: Attention,
        entry: Input,
        view: View,
        name_of: "Callable[[str], str]",
    ) -> None:
        """`name_of` gives the name of an agent's id."""
        self._client = client
        self._attention = attention
        self._entry = entry
        self._view = view
        self._name_of = name_of

    async def ask(self, prompt: "pb.Prompt") -> None:
        """Ask one, and send the answer.

        Raises:
            EOFError: there is nobody any more.
            ConnectionLost: the daemon has gone.
        """
        self._view.pause()
        try:
            await self._ask(prompt)
        finally:
            self._view.resume()

    async def _ask(self, prompt: "pb.Prompt") -> None:
        self._view.note(self._described(prompt))
        try:
            answer = await self._answer(prompt)
        except Withdrawn:
            self._view.note(_TAKEN_BACK)
            return
        except Interrupted:
            answer = {"allow": False}
        except EOFError:
            await self._send(prompt, {"allow": False})
            raise
        finally:
            self._attention.questions.pop(prompt.id, None)
        await self._send(prompt, answer)

    async def _answer(self, prompt: "pb.Prompt") -> "Mapping[str, bool | str]":
        if prompt.kind == "question":
            text = await self._read(prompt, "answer (empty: none): ")
            return {"allow": bool(text.strip()), "text": text.strip()}
        choices = _choices(list(prompt.scopes))
        while True:
            said = (await self._read(prompt, _question(choices))).strip().lower()
            if said in {"", "n", "no"}:
                return {"allow": False}
            for scope, (key, _) in choices.items():
                if said in {key, scope} or (said == "yes" and key == "y"):
                    return {"allow": True, "scope": scope}
            self._view.note(f"{said!r} is none of them")

    async def _read(self, prompt: "pb.Prompt", text: str) -> str:
        attention = self._attention
        if prompt.id not in attention.questions:
            raise Withdrawn
        attention.reading, attention.answering = "answer", prompt.id
        try:
            return await self._entry.ask(text)
        finally:
            attention.reading, attention.answering = "", ""

    async def _send(self, prompt: "pb.Prompt", answer: "Mapping[str, bool | str]") -> None:
        fields: dict[str, str] = {key: value for key, value in answer.items() if isinstance(value, str)}
        try:
            await self._client.answer_prompt(id=prompt.id, allow=bool(answer["allow"]), **fields)
        except RequestError as error:
            self._view.complain(str(error))

    def _described(self, prompt: "pb.Prompt") -> str:
        who = self._name_of(prompt.agent)
        if prompt.kind == "question":
            return f"{who} asks:\n{prompt.text}"
        lines = [f"{who}/{prompt.harness} wants to use {prompt.capability}, by {prompt.argument}:"]
        return "\n".join([*lines, *(f"  {line}" for line in prompt.text.splitlines())])


def _choices(scopes: list[str]) -> dict[str, tuple[str, str]]:
    """Return the key and the words for each scope; one that is not known is its own key."""
    return {scope: _WORDS.get(scope, (scope, scope)) for scope in scopes or ["once"]}


def _question(choices: dict[str, tuple[str, str]]) -> str:
    offered = [f"[{key}] {words}" for key, words in choices.values()]
    return f"Allow it? {', '.join(offered)}, [n] no: "
