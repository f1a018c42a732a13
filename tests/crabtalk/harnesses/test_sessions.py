"""harness/sessions in the daemon: an agent finds what was said to it, and nothing of others."""

import pytest

from conversing import Hands, calls, conversing, says, sent
from guest_images import image_path

pytestmark = pytest.mark.trio


async def search(client, agent, args):
    return await client.call(agent, "sessions", "search_sessions", args)


async def test_what_was_said_is_found_with_what_was_around_it():
    hands = Hands(read_menu=lambda _context, _given: "tomato dumplings")
    answers = [calls(("read_menu", {"day": "monday"})), says("Soup today."), says("Glad to help.")]
    async with conversing(*answers, hands=hands) as daemon:
        client = daemon.client
        await client.put("sessions", image_path("sessions"))
        ann = await client.declare("ann", {"name": "sessions", "sessions": "own"})
        await sent(client, ann, "what is for lunch?", "s1")
        await sent(client, ann, "thanks", "s1")
        assert (await search(client, ann, '{"query": "sou*"}')).done.decode() == (
            'session s1, "what is for lunch?"\n'
            "  2 tool: [read_menu]\n> 3 assistant: Soup today.\n  4 user: thanks\n"
        )
        assert (await search(client, ann, '{"query": "lunch", "around": 0}')).done.decode() == (
            'session s1, "what is for lunch?"\n> 0 user: what is for lunch?\n'
        )
        for never in ("dumplings", "monday"):  # what a tool returned, and what it was given
            assert (await search(client, ann, f'{{"query": "{never}"}}')).done == b"nothing was found\n"
        assert "[read_menu]" in (await search(client, ann, '{"query": "read_menu"}')).done.decode()


async def test_what_was_said_to_others_is_not_found():
    async with conversing(says("the vault is open")) as daemon:
        client = daemon.client
        await client.put("sessions", image_path("sessions"))
        ann = await client.declare("ann", {"name": "sessions", "sessions": "own"})
        bob = await client.declare("bob", {"name": "sessions", "sessions": "own"})
        await sent(client, bob, "is the vault open?")
        assert (await search(client, ann, '{"query": "vault"}')).done == b"nothing was found\n"
        assert b"the vault is open" in (await search(client, bob, '{"query": "vault"}')).done


async def test_a_query_without_words_fails_and_without_a_grant_there_is_no_search():
    async with conversing() as daemon:
        client = daemon.client
        await client.put("sessions", image_path("sessions"))
        ann = await client.declare("ann", {"name": "sessions", "sessions": "own"})
        assert (await search(client, ann, '{"query": "!?"}')).failed == "query: expected words to look for"
        bob = await client.declare("bob", "sessions")
        assert "crabtalk.sessions.search" in (await search(client, bob, '{"query": "x"}')).trap.message
