"""kill -9 while the index is written: what was committed is found after the next start."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest
import trio

from crabtalk.search.service import SearchService
from crabtalk.store.interfaces.sessions import Sessions
from crabtalk.store.sqlite import SqliteEngine

pytestmark = pytest.mark.trio

TALKING = textwrap.dedent(
    """
    import sys
    from pathlib import Path

    import trio

    from crabtalk.search.service import SearchService
    from crabtalk.store.interfaces.sessions import SessionRecord, Sessions
    from crabtalk.store.sqlite import SqliteEngine


    async def talk(folder, first):
        engine = SqliteEngine(folder / "store.db")
        sessions, search = Sessions(engine), SearchService(engine, folder / "search.db")
        async with trio.open_nursery() as nursery:
            await nursery.start(search.serve)
            for number in range(first, first + 10_000):
                handle = f"s{number % 7}"
                record = sessions.get(handle) or SessionRecord(handle, "A", "me", None, "", 1, 1)
                said = [{"role": "user", "content": f"message number{number}"}]
                await engine.commit(sessions.append(record, said, 1)[1])
                search.touched(handle)
                print(number, flush=True)


    trio.run(talk, Path(sys.argv[1]), int(sys.argv[2]))
    """
)


def talk_until_killed(folder, first, count):
    """Let a process commit and index messages, kill it, and return the last number that it committed."""
    process = subprocess.Popen(
        [sys.executable, "-c", TALKING, str(folder), str(first)], stdout=subprocess.PIPE, text=True
    )
    try:
        for line in process.stdout:
            last = int(line)
            if last >= first + count:
                break
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.stdout.close()
        process.wait()
    return last


async def test_what_was_committed_is_found_after_a_kill(tmp_path):
    first = 0
    for count in (3, 40, 17, 1):
        first = talk_until_killed(tmp_path, first, count) + 100
    with SqliteEngine(tmp_path / "store.db") as engine:
        search = SearchService(engine, tmp_path / "search.db")
        async with trio.open_nursery() as nursery:
            await nursery.start(search.serve)
            sessions = Sessions(engine)
            for record in sessions.all():
                for message in sessions.messages(record.handle):
                    word = message.body["content"].split()[1]
                    found = [(one.session.handle, one.index) for one in await search.search(word)]
                    assert found == [(record.handle, message.index)]
            search.stop()
            nursery.cancel_scope.cancel()
