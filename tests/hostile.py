"""Clients that mean no good, in processes of their own: `hostile.py HOME AGENT SECONDS SEED`.

Each kind of attack has a thread that goes on until the time is over; three of them share a process. At the
end it prints, as JSON, how often each was made. Whatever the daemon does to them is right, as long as others
are served.
"""

import contextlib
import json
import multiprocessing
import random
import select
import socket
import struct
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from crabtalk.wire.framing import frame
from crabtalk.wire.pb import crabtalk_pb2 as pb
from proving import connect, encoded, tool_request

MIB = 1 << 20
IDLE = 1000
PROCESSES = 4
KINDS = (
    "idle",
    "slow_reader",
    "no_reader",
    "deaf_subscriber",
    "half_frames",
    "large_frames",
    "endless_frame",
    "garbage",
    "guesses",
    "silent_guesses",
    "hang_up",
    "floods",
)


class Attacker:
    """Knows where the daemon is, and until when to go on."""

    def __init__(self, home, agent, seconds, seed):
        self.home = Path(home)
        self.agent = agent
        self.ends = time.monotonic() + seconds
        self.seed = seed
        self.made = Counter()

    @property
    def is_over(self):
        return time.monotonic() >= self.ends

    def connect(self):
        return connect(self.home)

    def connect_patiently(self):
        """Wait until there is room in the line of those who connect."""
        while True:
            try:
                return self.connect()
            except BlockingIOError:
                time.sleep(0.01)

    def tool(self, name, request_id=None, **args):
        return tool_request(self.agent, name, request_id, **args)

    def run(self, kinds):
        threads = [threading.Thread(target=self.repeat, args=(getattr(self, kind),)) for kind in kinds]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.made

    def repeat(self, attack):
        chance = random.Random(f"{self.seed}/{attack.__name__}")
        while not self.is_over:
            try:
                attack(chance)
            except OSError:  # it was closed, or there was no room for it
                self.made[f"{attack.__name__} refused"] += 1
                time.sleep(0.05)
            else:
                self.made[attack.__name__] += 1

    def idle(self, _chance):
        """A thousand connections that say nothing; then there is room for the other attacks."""
        with contextlib.ExitStack() as stack:
            for _ in range(IDLE):
                stack.enter_context(self.connect_patiently())
            time.sleep(0.5)
        time.sleep(1.5)

    def slow_reader(self, _chance):
        """Large replies, read a few bytes at a time."""
        with self.connect() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.sendall(self.tool("say", 1, text="x" * 500_000) * 2)
            for _ in range(50):
                sock.recv(500)
                time.sleep(0.01)

    def no_reader(self, _chance):
        """Requests, and their replies left lying."""
        calls = self.tool("say", text="x" * 5000) * 200
        with self.connect() as sock:
            self.push(sock, calls * 10)

    def deaf_subscriber(self, _chance):
        """Events, and none of them read while others publish."""
        with self.connect() as deaf, self.connect() as loud:
            deaf.sendall(encoded(1, tail_events=pb.TailEventsMsg(source="")))
            deaf.sendall(encoded(2, tail_logs=pb.TailLogsMsg(level="debug")))
            loud.setblocking(True)
            for _ in range(20):
                self.push(loud, encoded(publish_event=pb.PublishEventMsg(source="x:y", payload="e" * 60_000)))
            time.sleep(0.05)

    def half_frames(self, chance):
        """Lengths that are promised and do not come."""
        with contextlib.ExitStack() as stack:
            for _ in range(50):
                size = chance.randrange(100, MIB)
                sock = stack.enter_context(self.connect())
                self.push(sock, struct.pack(">I", size) + bytes(size // 2), wait_s=0.01)
            time.sleep(0.2)

    def large_frames(self, chance):
        """Sixteen MiB of nothing: a harness that is none, or a request that may not be so large."""
        if chance.random() < 0.5:
            data = encoded(
                put_harness=pb.PutHarnessMsg(name="big", elf=bytes(16 * MIB - 100), sha256="0" * 64)
            )
        else:
            data = encoded(publish_event=pb.PublishEventMsg(source="x:y", payload="e" * (16 * MIB - 100)))
        with self.connect() as sock:
            sock.sendall(data)
            sock.recv(1000)

    def endless_frame(self, _chance):
        """A length beyond all bounds."""
        with self.connect() as sock:
            sock.sendall(b"\xff\xff\xff\xff")
            for _ in range(10):
                sock.sendall(bytes(MIB))

    def garbage(self, chance):
        """Frames with some bytes wrong, and bytes that are no frames."""
        good = self.tool("say", 1, text="ok") * chance.randrange(1, 4)
        data = bytearray(good if chance.random() < 0.7 else chance.randbytes(chance.randrange(1, 5000)))
        for _ in range(chance.randrange(1, 8)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with self.connect() as sock:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(1 << 16):
                pass

    def tcp(self):
        port = int((self.home / "run/crabtalk.port").read_text())
        return socket.create_connection(("127.0.0.1", port), 2)

    def guesses(self, chance):
        """Tokens that are not the one."""
        with self.tcp() as sock:
            sock.sendall(encoded(auth=pb.AuthMsg(token=chance.randbytes(16).hex())))
            reply = sock.recv(1000)
            assert b"pong" not in reply
            if pb.ServerMessage.FromString(reply[4:]).error.code == 0:
                self.made["guesses that were let in"] += 1

    def silent_guesses(self, _chance):
        """As many as may be there without a token, and more."""
        with contextlib.ExitStack() as stack:
            for _ in range(100):
                stack.enter_context(self.tcp())
            time.sleep(0.5)

    def hang_up(self, chance):
        """Work that is begun and left."""
        with self.connect() as sock:
            sock.sendall(self.tool("spin", 1))
            if chance.random() < 0.5:
                time.sleep(0.02)

    def floods(self, _chance):
        """Requests as fast as they are answered."""
        data = encoded(ping=pb.PingMsg()) * 500
        with self.connect() as sock:
            for _ in range(20):
                sock.sendall(data)
                left = 500 * len(frame(pb.ServerMessage(pong=pb.Pong()).SerializeToString()))
                while left > 0 and (got := len(sock.recv(1 << 16))):
                    left -= got

    def push(self, sock, data, wait_s=0.2):
        """Send until the other end takes no more for a moment."""
        sock.setblocking(False)
        sent = 0
        while sent < len(data) and not self.is_over:
            poll = select.poll()  # takes descriptors of any size
            poll.register(sock, select.POLLOUT)
            if not poll.poll(wait_s * 1000):
                break
            with contextlib.suppress(BlockingIOError):
                sent += sock.send(data[sent : sent + (1 << 16)])
        sock.settimeout(2)


def main(home, agent, seconds, seed):
    attacker = Attacker(home, agent, float(seconds), seed)
    groups = [KINDS[first::PROCESSES] for first in range(PROCESSES)]
    with multiprocessing.get_context("fork").Pool(PROCESSES) as pool:
        made = sum(pool.map(attacker.run, groups, chunksize=1), Counter())
    print(json.dumps(made))


if __name__ == "__main__":
    main(*sys.argv[1:])
