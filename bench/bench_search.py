"""Ask what a search in 100,000 messages costs, as a client waits for it: index, excerpts and windows.

The messages are made of words as often as words are in languages (the n-th most often 1/n as often as the
first), so that some words are in nearly every message and most in a few. Queries are taken from the messages:
what somebody who remembers one would type. Beside it, what it would cost on the store's own primitive: only
reading the entries of the words that are asked for and scoring them, from an index that is there already.
"""

from __future__ import annotations

import itertools
import math
import os
import random
import statistics
import tempfile
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING

import trio
from reporting import Report, main
from timing import percentile

from crabtalk.search.service import SearchService
from crabtalk.store.engine import put
from crabtalk.store.interfaces.sessions import SessionRecord, Sessions
from crabtalk.store.sqlite import SqliteEngine

if TYPE_CHECKING:
    from collections.abc import Callable

MESSAGES = 100_000
OF_SESSION = 50
WORDS = 30_000
AGENTS = 10
QUERIES = 300
SEED = 20_261_130
PROMISE_MS = 10


class Texts:
    """Makes messages and queries, the same at every run."""

    def __init__(self) -> None:
        self.random = random.Random(SEED)
        letters = "abcdefghijklmnopqrstuvwxyz"
        every = ("".join(one) for one in itertools.product(letters, repeat=4))
        self.words = self.random.sample(list(every), WORDS)
        self.often = list(itertools.accumulate(1 / (n + 2) for n in range(WORDS)))

    def message(self, index: int) -> dict[str, object]:
        """Return the body of a message: people write less than models answer, every tenth calls a tool."""
        user = index % 2 == 0
        count = self.random.randint(5, 60) if user else self.random.randint(10, 120)
        text = " ".join(self.random.choices(self.words, cum_weights=self.often, k=count))
        body: dict[str, object] = {"role": "user" if user else "assistant", "content": text}
        if index % 10 == 9:
            body["tool_calls"] = [{"id": "c", "name": "os__read_file", "arguments": "{}"}]
        return body


def fill(engine: SqliteEngine, texts: Texts, messages: int) -> list[list[str]]:
    """Store sessions, and return the words of some messages."""
    sessions, samples = Sessions(engine), []
    for number in range(messages // OF_SESSION):
        bodies = [texts.message(index) for index in range(OF_SESSION)]
        samples.append(str(bodies[texts.random.randrange(OF_SESSION)]["content"]).split())
        record = SessionRecord(f"s{number}", f"agent{number % AGENTS}", "me", None, "", 1, 1)
        engine.apply(sessions.append(record, bodies, 1)[1])
    return samples


def queries(texts: Texts, samples: list[list[str]]) -> dict[str, list[str]]:
    """Return what is asked, by its kind."""
    chosen = [texts.random.choice(samples) for _ in range(QUERIES)]
    rarest = {word: place for place, word in enumerate(texts.words)}
    return {
        "the rarest word of a message": [max(words, key=rarest.__getitem__) for words in chosen],
        "two words of a message": [" ".join(texts.random.sample(words, 2)) for words in chosen],
        "five words of a message": [" ".join(texts.random.sample(words, 5)) for words in chosen],
        "a phrase of two words": [
            f'"{words[at]} {words[at + 1]}"' for words in chosen for at in [texts.random.randrange(4)]
        ],
        "the beginning of a word": [f"{texts.random.choice(words)[:3]}*" for words in chosen],
        "one of the ten most common words": [texts.random.choice(texts.words[:10]) for _ in chosen],
    }


async def timed(search: SearchService, asked: list[str], **filters: str) -> list[int]:
    """Return how long each query took, in nanoseconds, sorted."""
    times = []
    for query in asked:
        start = perf_counter_ns()
        await search.search(query, **filters)
        times.append(perf_counter_ns() - start)
    return sorted(times)


def postings(
    engine: SqliteEngine, texts: Texts, asked: list[str], messages: int
) -> Callable[[str], list[float]]:
    """Put an index of the words that are asked for into the store, and return what asks it."""
    wanted = {word for query in asked for word in query.split()}
    for start in range(0, messages, 5000):
        batch = []
        for number in range(start, min(start + 5000, messages)):
            count = texts.random.randint(5, 90)
            found = set(texts.random.choices(texts.words, cum_weights=texts.often, k=count)) & wanted
            batch += [put("text", f"local/word/{word}/{number:010}".encode(), b"\x01") for word in found]
        engine.apply(batch)

    def ask(query: str) -> list[float]:
        scores: dict[bytes, float] = {}
        for word in query.split():
            rows: list[tuple[bytes, bytes]] = []
            prefix, after = f"local/word/{word}/".encode(), None
            while page := engine.scan("text", prefix, after, 10_000):
                rows += page
                after = page[-1][0]
            rarity = math.log(1 + messages / (1 + len(rows)))
            for key, value in rows:
                scores[key[-10:]] = scores.get(key[-10:], 0.0) + rarity * value[0]
        return sorted(scores.values(), reverse=True)[:10]

    return ask


async def search_all(report: Report, engine: SqliteEngine, path: Path, asked: dict[str, list[str]]) -> None:
    """Build the index, and ask."""
    search = SearchService(engine, path)
    async with trio.open_nursery() as nursery:
        start = perf_counter()
        await nursery.start(search.serve)
        await search.settled()
        report.figure("making the index anew", perf_counter() - start, "s")
        report.figure("the index", os.path.getsize(path) / 1e6, "MB")  # noqa: PTH202, ASYNC240
        everything: list[int] = []
        for kind, some in asked.items():
            times = await timed(search, some)
            everything += times
            report.figure(f"{kind}: p50", percentile(times, 50) / 1e6, "ms")
            report.figure(f"{kind}: p99", percentile(times, 99) / 1e6, "ms")
        own = await timed(search, asked["five words of a message"], agent_id="agent3")
        report.figure("five words, one agent's sessions: p50", percentile(own, 50) / 1e6, "ms")
        everything.sort()
        report.figure("all of them: p99", percentile(everything, 99) / 1e6, "ms")
        report.ratio(
            "all of them: p50", percentile(everything, 50) / 1e6, PROMISE_MS, at_least=False, unit="ms"
        )
        nursery.cancel_scope.cancel()


async def look_again(report: Report, engine: SqliteEngine, path: Path) -> None:
    """Start with an index that is up to date."""
    search = SearchService(engine, path)
    async with trio.open_nursery() as nursery:
        start = perf_counter()
        await nursery.start(search.serve)
        await search.settled()
        report.figure("comparing it with the store, at a start", perf_counter() - start, "s")
        nursery.cancel_scope.cancel()


def measure(*, quick: bool) -> Report:
    """Fill a store, index it, and ask."""
    messages = MESSAGES // 50 if quick else MESSAGES
    texts = Texts()
    with tempfile.TemporaryDirectory() as folder, SqliteEngine(Path(folder) / "store.db") as engine:
        report = Report(
            f"How long does a search in {messages:,} messages take?",
            f"sessions of {OF_SESSION} messages of 5 to 120 words; {QUERIES} queries of each kind, "
            "10 hits each with the messages around it",
        )
        asked = queries(texts, fill(engine, texts, messages))
        path = Path(folder) / "search.db"
        trio.run(search_all, report, engine, path, asked)
        trio.run(look_again, report, engine, path)
        some = asked["five words of a message"][: 3 if quick else 30]
        ask = postings(engine, texts, some, messages)
        times = []
        for query in some:
            start = perf_counter()
            ask(query)
            times.append(perf_counter() - start)
        report.figure(
            "five words, read from the store's primitive: p50", statistics.median(times) * 1e3, "ms"
        )
        return report


if __name__ == "__main__":
    main(measure, __doc__)
