"""Clients that mean no good, against a server of its own process: others are served, memory stays bounded."""

import contextlib
import random
import resource
import select
import socket
import threading
import time

import pytest

from crabtalk.client import SyncClient
from crabtalk.wire.framing import FrameReader, frame
from crabtalk.wire.pb import crabtalk_pb2 as pb
from wire_servers import wire_server

MIB = 1 << 20
# A ping on a machine that is busy with other tests as well; without hostile clients it takes a tenth of a ms.
ANSWER_S = 2.0


@pytest.fixture
def server():
    with wire_server() as server:
        yield server


def open_socket(server):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(10)
    sock.connect(str(server.socket))
    return sock


@contextlib.contextmanager
def many(server, count):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(open_socket(server)) for _ in range(count)]


@contextlib.contextmanager
def descriptors(count):
    """Let this process have as many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        pytest.skip(f"this process may have {hard} descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def encoded(**request):
    return frame(pb.ClientMessage(**request).SerializeToString())


def answers(server, times=20):
    """Check that a client that behaves is answered, each time soon."""
    with SyncClient.connect(server.home, timeout_s=ANSWER_S) as client:
        for _ in range(times):
            client.ping()


def send_what_fits(sock, data):
    """Send until the other end takes no more for a moment; return how much it took."""
    sock.setblocking(False)
    sent = 0
    while sent < len(data):
        _, writable, _ = select.select([], [sock], [], 0.2)
        if not writable:
            break
        with contextlib.suppress(BlockingIOError):
            try:
                sent += sock.send(data[sent : sent + (1 << 16)])
            except (BrokenPipeError, ConnectionResetError):
                break
    return sent


def test_a_thousand_clients_are_served(server):
    with descriptors(2000), many(server, 1000) as socks:
        for number, sock in enumerate(socks):
            sock.sendall(encoded(request_id=number, ping=pb.PingMsg()))
        for number, sock in enumerate(socks):
            (payload,) = FrameReader().feed(sock.recv(1000))
            assert pb.ServerMessage.FromString(payload).request_id == number
        answers(server)
    assert server.stop() == 0


def test_a_thousand_idle_clients_cost_little(server):
    answers(server)
    before = server.resident_bytes()
    with descriptors(2000), many(server, 1000):
        answers(server)
        assert server.resident_bytes() - before < 40 * MIB
    assert server.stop() == 0


def test_more_clients_than_allowed_hear_so_and_the_others_are_served(server):
    with descriptors(2500), many(server, 1024) as socks:
        socks[0].sendall(encoded(ping=pb.PingMsg()))
        assert socks[0].recv(100)
        with open_socket(server) as late:
            (payload,) = FrameReader().feed(late.recv(1000))
            assert pb.ServerMessage.FromString(payload).error.code == 429
        socks[5].close()
        time.sleep(0.2)
        answers(server)


def test_half_frames_hold_little_memory_and_nobody_up(server):
    half = (MIB).to_bytes(4, "big") + bytes(MIB // 2)
    before = server.resident_bytes()
    with descriptors(1000), many(server, 400) as socks:
        taken = [send_what_fits(sock, half) for sock in socks]
        assert sum(taken) > 50 * MIB  # it was tried
        answers(server)
        # The budget of what is being received is 128 MiB; the rest was refused.
        assert server.resident_bytes() - before < 200 * MIB
    assert server.stop() == 0


def test_large_frames_are_bounded_together(server):
    elf = bytes(15 * MIB)
    whole = encoded(put_harness=pb.PutHarnessMsg(elf=elf))
    before = server.resident_bytes()
    with many(server, 30) as socks:
        for sock in socks:
            send_what_fits(sock, whole[: 12 * MIB])
        answers(server)
        assert server.resident_bytes() - before < 250 * MIB
        refused = [sock for sock in socks if select.select([sock], [], [], 0)[0]]
        assert len(refused) == 22  # eight of 15 MiB are within 128
        assert read_to_end(refused[0])[0].error.code == 429
    answers(server)
    with SyncClient.connect(server.home) as client:
        assert client.put_harness(elf=elf).size == len(elf)


@pytest.mark.parametrize("size", [16 * MIB + 1, (1 << 32) - 1])
def test_a_length_beyond_the_bound_is_answered_even_while_it_is_sent(server, size):
    with open_socket(server) as sock:
        sock.sendall(encoded(ping=pb.PingMsg()) + size.to_bytes(4, "big"))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(200):
                sock.sendall(bytes(MIB))
        replies = read_to_end(sock)
    assert [reply.WhichOneof("msg") for reply in replies] == ["pong", "error"]
    assert replies[1].error.code == 413
    answers(server)


def read_to_end(sock):
    reader, replies = FrameReader(), []
    sock.setblocking(True)
    while data := sock.recv(1 << 16):
        replies += map(pb.ServerMessage.FromString, reader.feed(data))
    return replies


def test_a_client_that_never_reads_is_not_read_from(server):
    call = encoded(call_tool=pb.CallToolMsg(tool="large", harness="100000"))
    before = server.resident_bytes()
    with many(server, 20) as socks:
        taken = [send_what_fits(sock, call * 20_000) for sock in socks]
        assert all(size < len(call) * 20_000 for size in taken)
        answers(server)
        assert server.resident_bytes() - before < 20 * 5 * MIB
    assert server.stop() == 0


def test_subscribers_that_never_read_hold_nobody_up(server):
    before = server.resident_bytes()
    count = 10_000
    with many(server, 5) as socks:
        for sock in socks:
            sock.sendall(encoded(request_id=1, tail_events=pb.TailEventsMsg(source=str(count))))
        answers(server)
        until_nothing_runs(server)
        assert server.resident_bytes() - before < 5 * 4 * MIB
        for sock in socks:
            reader, replies = FrameReader(), []
            while not (replies and replies[-1].HasField("error")):
                replies += map(pb.ServerMessage.FromString, reader.feed(sock.recv(1 << 16)))
            lost = int(replies[-1].error.message.split()[0])
            assert lost > 0
            assert len(replies) - 1 + lost == count
    assert server.stop() == 0


def until_nothing_runs(server):
    with SyncClient.connect(server.home) as client:
        until = time.monotonic() + 20
        while client.get_stats().running and time.monotonic() < until:
            time.sleep(0.01)
        assert client.get_stats().running == 0


def test_garbage_is_answered_or_closed_and_never_ends_the_server(server):
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    good = encoded(request_id=1, call_tool=pb.CallToolMsg(tool="echo", args=b"abc"))
    for _ in range(150):
        data = bytearray(good * chance.randrange(1, 4))
        for _ in range(chance.randrange(1, 8)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.3:
            data = bytearray(chance.randbytes(chance.randrange(200)))
        with open_socket(server) as sock, contextlib.suppress(ConnectionError):
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            for reply in read_to_end(sock):
                assert reply.WhichOneof("msg") in {"error", "tool_outcome", "pong", "stats"}, seed
    answers(server)
    assert server.stop() == 0, seed


def test_clients_that_come_and_go_leave_nothing(server):
    answers(server)
    descriptors_before = server.descriptors()
    for number in range(500):
        with open_socket(server) as sock:
            if number % 3:
                sock.sendall(encoded(request_id=1, call_tool=pb.CallToolMsg(tool="forever"))[: number % 40])
            if number % 5:
                sock.sendall(encoded(tail_events=pb.TailEventsMsg(source="flood")))
    until_nothing_runs(server)
    time.sleep(0.1)
    assert server.descriptors() <= descriptors_before
    assert server.stop() == 0


def test_a_flood_on_one_connection_leaves_others_their_turn(server):
    stop = threading.Event()

    def flood():
        data = encoded(call_tool=pb.CallToolMsg(tool="echo", args=b"x")) * 500
        with open_socket(server) as sock:
            while not stop.is_set():
                sock.sendall(data)
                got = 0
                reader = FrameReader()
                while got < 500:
                    got += len(reader.feed(sock.recv(1 << 16)))

    threads = [threading.Thread(target=flood) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        answers(server, times=100)
    finally:
        stop.set()
        for thread in threads:
            thread.join(20)
    assert server.stop() == 0


def test_no_reply_is_lost_however_slowly_a_client_reads(server):
    count = 3000
    data = b"".join(
        encoded(
            request_id=n, call_tool=pb.CallToolMsg(tool="soon" if n % 2 else "echo", args=bytes(n % 2000))
        )
        for n in range(count)
    )
    with open_socket(server) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        threading.Thread(target=sock.sendall, args=(data,), daemon=True).start()
        reader, sizes = FrameReader(), {}
        while len(sizes) < count:
            for payload in reader.feed(sock.recv(777)):
                reply = pb.ServerMessage.FromString(payload)
                if reply.HasField("error"):
                    assert reply.error.code == 429  # more in flight than allowed; an answer all the same
                    sizes[reply.request_id] = None
                else:
                    sizes[reply.request_id] = len(reply.tool_outcome.done)
    assert all(size in {None, n % 2000} for n, size in sizes.items())
    assert sum(size is not None for size in sizes.values()) >= count // 2


def test_guesses_of_the_token_do_not_keep_others_out():
    with wire_server(tcp=True) as server:
        address = ("127.0.0.1", int((server.run_dir / "crabtalk.port").read_text()))
        with contextlib.ExitStack() as stack:
            idle = [stack.enter_context(socket.create_connection(address, 10)) for _ in range(64)]
            # All places for those without a token are taken; for 5 seconds, not longer.
            with socket.create_connection(address, 10) as late:
                assert read_to_end(late)[0].error.code == 429
            for sock in idle:
                assert read_to_end(sock)[0].error.code == 504
        for _ in range(50):
            with socket.create_connection(address, 10) as sock:
                sock.sendall(encoded(auth=pb.AuthMsg(token="guess")))
                assert read_to_end(sock)[0].error.code == 401
        with SyncClient.connect(server.home, timeout_s=10) as client:
            client.ping()
