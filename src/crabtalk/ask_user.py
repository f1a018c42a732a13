"""The built-in harness `ask_user`: a tool by which an agent asks the person, and waits for the answer.

A question is a prompt of the same kind as an approval: any client that can ask a person shows it, and it
waits two minutes, in which the deadline of the call stands still. Nothing of it is stored here.
"""

from typing import Any, Final

import berm
from berm.errors import ManifestError
from berm.strict_json import parse
from crabtalk.capabilities.asking import readable
from crabtalk.errors import Busy, NotFound
from crabtalk.prompts import Answer, Prompt, Prompts
from crabtalk.tools import Context, Done, Failed, Outcome, attended

NAME: Final = "ask_user"
MAX_QUESTION: Final = 4096  # characters
_MAX_ARGS: Final = 32 << 10

MANIFEST: Final = berm.Manifest(
    abi_version=0,
    tools=(
        berm.Tool(
            "ask_user",
            "Ask the person a question, and wait for the answer.",
            {
                "type": "object",
                "properties": {
                    "question": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": MAX_QUESTION,
                        "description": "What to ask, with all that is needed to answer it.",
                    }
                },
                "required": ["question"],
                "additionalProperties": False,
            },
        ),
    ),
    usage=(
        "`ask_user` asks the person who uses you, and returns the answer. Ask where a wrong guess would cost "
        "more than the wait; nobody may be there to answer."
    ),
)


class _WrongError(ValueError):
    """What is wrong with the arguments, for the model."""


class AskUser:
    """The tool, over prompts."""

    name = NAME
    manifest = MANIFEST

    def __init__(self, prompts: Prompts) -> None:
        self._prompts = prompts

    async def call(self, context: Context, tool: str, args: bytes) -> Outcome:
        """Ask.

        **Cancellation:** takes the question back.

        Raises:
            NotFound: if there is no tool of this name.
            Busy: if too many calls wait for something.
        """
        if tool != NAME:
            raise NotFound(f"harness `{context.harness}` has no tool `{tool[:80]}`")
        try:
            question = _question(args)
        except _WrongError as error:
            return Failed(str(error))
        if not attended(context.client):
            return Failed("nobody can be asked: this was started by a wake or an event, not by a person")
        return await self._ask(context, question)

    async def _ask(self, context: Context, question: str) -> Outcome:
        prompt = Prompt(
            kind="question",
            agent_id=context.agent.id,
            harness=context.harness,
            text="\n".join(map(readable, question.split("\n"))),
            session=context.session or "",
        )
        with context.gate.standing_still():
            async with context.gate.suspended():
                try:
                    answer = await self._prompts.ask(prompt)
                except Busy as error:
                    return Failed(error.message)
        return self._outcome(answer)

    def _outcome(self, answer: Answer | None) -> Outcome:
        if answer is None:
            return Failed(f"nobody answered within {self._prompts.limit}")
        if not answer.allow:
            return Failed(f"the person did not answer{f', saying: {answer.text}' if answer.text else ''}")
        return Done(answer.text.encode(errors="replace"))


def _question(args: bytes) -> str:
    if len(args) > _MAX_ARGS:
        raise _WrongError(f"arguments: expected at most {_MAX_ARGS} bytes, got {len(args)}")
    try:
        given: Any = parse(args or b"{}")
    except ManifestError as error:
        raise _WrongError(f"arguments: {error}") from error
    question = given.get("question") if isinstance(given, dict) and len(given) == 1 else None
    if not isinstance(question, str):
        raise _WrongError("arguments: expected an object with `question`, a text, and nothing else")
    if not 1 <= len(question.strip()) <= len(question) <= MAX_QUESTION:
        raise _WrongError(f"question: expected 1 to {MAX_QUESTION} characters")
    return question
