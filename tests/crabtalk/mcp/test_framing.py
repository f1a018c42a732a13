"""JSON-RPC over lines: what a peer that reads nothing costs, and what it does not."""

import pytest
import trio
import trio.testing
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse

from crabtalk.mcp.framing import framed

pytestmark = pytest.mark.trio

REQUEST = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
SENT = 500


async def answered(*, answering):
    """Answer a peer that sends many requests, and reads nothing at first."""
    taken, answers = [], []
    to_us, from_peer = trio.testing.memory_stream_one_way_pair()
    read_at = trio.Event()

    async def send_all(data):
        await read_at.wait()
        answers.append(data)

    async def answer(streams, nursery):
        incoming, outgoing = streams
        async for one in incoming:
            taken.append(one)
            reply = SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=one.message.id, result={}))
            nursery.start_soon(outgoing.send, reply)

    await to_us.send_all(REQUEST * SENT)
    await to_us.aclose()
    async with (
        framed(from_peer.receive_some, send_all, print, lambda: None, answering=answering) as streams,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(answer, streams, nursery)
        await trio.testing.wait_all_tasks_blocked()
        at_first = len(taken)
        read_at.set()
        await trio.testing.wait_all_tasks_blocked()
    return at_first, len(taken), len(answers)


async def test_who_answers_reads_no_more_from_a_peer_that_leaves_its_answers_unread():
    at_first, taken, answers = await answered(answering=True)
    assert at_first < 100
    assert taken == answers == SENT


async def test_who_asks_reads_on_while_what_it_says_is_not_taken():
    at_first, taken, answers = await answered(answering=False)
    assert at_first == taken == answers == SENT
