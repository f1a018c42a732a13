"""Prompts by themselves: time, order, slow readers, and answers in the last moment."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from crabtalk.clock import SystemClock
from crabtalk.errors import BadRequest, Busy, NotFound
from crabtalk.prompts import MAX_PENDING, Answer, Prompt, Prompts

pytestmark = pytest.mark.trio

APPROVAL = Prompt(kind="approval", agent_id="A", harness="h", text="t", scopes=("once", "always"))
QUESTION = Prompt(kind="question", agent_id="A", harness="h", text="t")


@pytest.fixture
def prompts():
    return Prompts(SystemClock())


async def asked(prompts, nursery, prompt=APPROVAL, keep=None):
    """Ask, and return the prompt and a list that gets the answer."""
    answers = []

    async def ask():
        answers.append(await prompts.ask(prompt, keep))

    nursery.start_soon(ask)
    await wait_all_tasks_blocked()
    return prompts.pending[-1], answers


async def test_a_prompt_waits_two_minutes(prompts, autojump_clock):
    began_s = trio.current_time()
    with prompts.subscribe() as inbox:
        assert await prompts.ask(APPROVAL) is None
        shown, over = await anext(inbox), await anext(inbox)
    assert trio.current_time() - began_s == pytest.approx(120.0)
    assert (shown.id, shown.scopes) == (over.id, ("once", "always"))
    assert over.expires_ms == 0 < shown.expires_ms
    assert prompts.limit == "2 minutes"
    assert autojump_clock.rate == 0
    with pytest.raises(NotFound):
        await prompts.answer(shown.id, Answer(allow=True))


async def test_an_answer_that_is_being_stored_when_time_is_up_counts(prompts, nursery, autojump_clock):
    stored = []

    async def keep(answer):
        await trio.sleep(10)
        stored.append(answer.scope)

    prompt, answers = await asked(prompts, nursery, keep=keep)
    await trio.sleep(115)
    await prompts.answer(prompt.id, Answer(allow=True, scope="always", client="c"))
    await wait_all_tasks_blocked()
    assert stored == ["always"]
    assert answers == [Answer(allow=True, scope="always", client="c")]
    assert autojump_clock.rate == 0


async def test_an_answer_is_stored_although_whoever_gave_it_goes(prompts, nursery):
    begun, stored = trio.Event(), []

    async def keep(answer):
        begun.set()
        await trio.sleep(0.01)
        stored.append(answer.scope)

    prompt, answers = await asked(prompts, nursery, keep=keep)
    with trio.CancelScope() as scope:
        nursery.start_soon(_cancel_when, begun, scope)
        await prompts.answer(prompt.id, Answer(allow=True))
    await wait_all_tasks_blocked()
    assert (stored, [one.allow for one in answers]) == (["once"], [True])


async def _cancel_when(event, scope):
    await event.wait()
    scope.cancel()


async def test_whoever_asked_is_refused_when_it_cannot_be_stored(prompts, nursery):
    async def keep(_answer):
        raise BadRequest("no")

    prompt, answers = await asked(prompts, nursery, keep=keep)
    with pytest.raises(BadRequest):
        await prompts.answer(prompt.id, Answer(allow=True))
    await wait_all_tasks_blocked()
    assert answers == [Answer(allow=False, text="the approval could not be stored")]


async def test_a_refusal_is_not_stored(prompts, nursery):
    prompt, answers = await asked(prompts, nursery, keep=None)
    await prompts.answer(prompt.id, Answer(allow=False, scope="always", text="no"))
    await wait_all_tasks_blocked()
    assert answers == [Answer(allow=False, text="no")]


async def test_nobody_can_answer_while_an_answer_is_being_stored(prompts, nursery):
    going_on = trio.Event()

    async def keep(_answer):
        await going_on.wait()

    prompt, _ = await asked(prompts, nursery, keep=keep)
    nursery.start_soon(prompts.answer, prompt.id, Answer(allow=True))
    await wait_all_tasks_blocked()
    prompts.settle(lambda _prompt: True)
    with pytest.raises(NotFound):
        await prompts.answer(prompt.id, Answer(allow=False))
    going_on.set()


async def test_who_does_not_read_is_told_how_many_were_lost(prompts):
    with prompts.subscribe() as slow, prompts.subscribe() as other:
        for _ in range(600):
            with trio.move_on_after(0):
                await prompts.ask(QUESTION)
            if other.lost == 0:
                await anext(other), await anext(other)
        assert slow.lost == 2 * 600 - 4 * MAX_PENDING
        assert other.lost == 0


async def test_there_are_so_many_at_most(prompts, nursery):
    for number in range(MAX_PENDING):
        await_agent = Prompt(kind="question", agent_id=str(number), harness="h", text="t")
        nursery.start_soon(prompts.ask, await_agent)
    await wait_all_tasks_blocked()
    with pytest.raises(Busy, match=f"{MAX_PENDING} questions wait for a person already"):
        await prompts.ask(QUESTION)
    with prompts.subscribe() as inbox:
        assert [(await anext(inbox)).id for _ in range(MAX_PENDING)] == [one.id for one in prompts.pending]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("prompt_id", ["", "x", "x" * 10_000])
async def test_an_unknown_prompt_is_not_found(prompts, prompt_id):
    with pytest.raises(NotFound) as caught:
        await prompts.answer(prompt_id, Answer(allow=True))
    assert len(caught.value.message) < 200
