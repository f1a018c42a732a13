"""Who may connect, by which file, and what is left of it afterwards."""

import contextlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import trio

from crabtalk.errors import ConfigError
from crabtalk.server import Server
from crabtalk.transports.credentials import Credentials, Lineage, Process, credentials_of, process, refusal
from crabtalk.transports.tcp import load_token, open_tcp
from crabtalk.transports.unix import open_unix
from crabtalk.wire.framing import FrameReader, frame
from crabtalk.wire.pb import crabtalk_pb2 as pb
from wire_servers import wire_server
from wire_tables import Record, table

PING = frame(pb.ClientMessage(ping=pb.PingMsg()).SerializeToString())


@pytest.fixture
def run_dir():
    directory = Path(tempfile.mkdtemp(dir="/tmp"))
    yield directory / "run"
    shutil.rmtree(directory)


@pytest.fixture
def path(run_dir):
    return run_dir / "crabtalk.sock"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def ask(sock, data):
    """Send and return the first reply."""
    reader = FrameReader()
    sock.sendall(data)
    while True:
        received = sock.recv(65536)
        if not received:
            return None
        for payload in reader.feed(received):
            return pb.ServerMessage.FromString(payload)


def connect(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(10)
    sock.connect(str(path))
    return sock


def test_the_socket_is_its_owners_alone_whatever_the_umask(path):
    before = os.umask(0)
    try:
        listener = open_unix(path)
        assert os.umask(0) == 0
    finally:
        os.umask(before)
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700
    assert mode(path.with_name("crabtalk.sock.lock")) == 0o600
    listener.close()
    assert not path.exists()


def test_a_directory_that_others_could_enter_is_closed_to_them(path):
    path.parent.mkdir(mode=0o755)
    open_unix(path).close()
    assert mode(path.parent) == 0o700


def test_a_path_that_is_too_long_is_named(tmp_path):
    path = tmp_path / ("x" * 100) / "crabtalk.sock"
    with pytest.raises(ConfigError, match=r"xxx/crabtalk\.sock is longer than the 107 bytes"):
        open_unix(path)


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"not a directory|file exists"):
        open_unix(tmp_path / "file" / "run" / "s")


def test_a_second_daemon_is_refused_and_the_first_keeps_its_socket(path):
    first = open_unix(path)
    inode = path.stat().st_ino
    with pytest.raises(ConfigError, match=r"another daemon is running here: it holds .*crabtalk\.sock\.lock"):
        open_unix(path)
    assert path.stat().st_ino == inode
    first.close()
    open_unix(path).close()


def test_a_socket_that_was_left_behind_is_replaced():
    with wire_server() as server:
        server.process.send_signal(signal.SIGKILL)
        server.process.communicate()
        assert server.socket.is_socket()
        server.start()
        with connect(server.socket) as sock:
            assert ask(sock, PING).HasField("pong")
        assert server.stop() == 0
        assert not server.socket.exists()


def test_what_is_no_socket_is_never_removed(path):
    path.parent.mkdir()
    path.write_text("precious")
    with pytest.raises(ConfigError, match="is there and is no socket"):
        open_unix(path)
    assert path.read_text() == "precious"
    path.unlink()
    open_unix(path).close()  # nobody kept the lock


def test_at_the_end_only_our_own_socket_is_removed(path):
    listener = open_unix(path)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        listener.close()
        assert path.is_socket()


@pytest.mark.usefixtures("no_leaked_descriptors")
def test_closing_twice_is_closing_once(path):
    listener = open_unix(path)
    listener.close()
    listener.close()


def test_the_kernel_says_who_is_at_the_other_end():
    left, right = socket.socketpair()
    with left, right:
        assert credentials_of(left) == Credentials(os.getpid(), os.geteuid())


def test_only_the_own_user_and_root_may_connect():
    assert refusal(Credentials(os.getpid(), os.geteuid())) == ""
    assert refusal(Credentials(os.getppid(), 0)) == ""
    assert refusal(Credentials(os.getppid(), 54321)) == "this daemon serves its own user, not uid 54321"


def test_a_process_descends_from_those_that_started_it_and_from_no_other():
    program = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout.readline() == b"1\n"
        (grandchild,) = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        assert Lineage(os.getpid()).includes(int(grandchild))
        assert Lineage(child.pid).includes(int(grandchild))
        assert not Lineage(child.pid).includes(os.getpid())
        child.communicate(b"\n")
    assert not Lineage(os.getpid()).includes(os.getpid())
    assert Lineage(os.getpid()).includes(child.pid), "who is gone cannot be told apart"


def test_the_name_of_a_process_does_not_hide_its_parent(tmp_path):
    evil = tmp_path / "x) S 1 (y"
    evil.symlink_to(sys.executable)
    with subprocess.Popen([evil, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert Lineage(os.getpid()).includes(child.pid)
        child.communicate(b"\n")


def test_who_is_known_for_a_stranger_is_looked_at_once_more_and_its_ancestors_are_not():
    looked = []

    def look(pid):
        looked.append(pid)
        return process(pid)

    lineage = Lineage(-1, look)
    assert not lineage.includes(os.getpid())
    assert looked[:2] == [os.getpid(), os.getppid()]
    assert process(looked[-1]).parent == 0
    looked.clear()
    assert not lineage.includes(os.getpid())
    assert looked == [os.getpid()]
    looked.clear()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert not lineage.includes(child.pid)
        assert looked == [child.pid, os.getpid()]
        child.communicate(b"\n")


def test_an_id_that_a_stranger_had_is_no_pass_for_the_next_process_that_has_it():
    table = {5: Process(5, b"100", 1), 1: Process(1, b"0", 0)}
    lineage = Lineage(7, table.get)
    assert not lineage.includes(5)
    table[5] = Process(5, b"200", 7)
    assert lineage.includes(5)
    del table[5]
    assert lineage.includes(5), "who is gone cannot be told apart"
    table[5] = Process(5, b"300", 6)
    table[6] = Process(6, b"250", 7)
    assert lineage.includes(5)


def test_strangers_are_forgotten_when_there_are_many_and_their_common_ancestors_last():
    looked = []

    def look(pid):
        looked.append(pid)
        return Process(pid, b"%d" % pid, {1: 0, 2: 1}.get(pid, 2))

    lineage = Lineage(-1, look)
    for pid in range(10, 10_010):
        assert not lineage.includes(pid)
    assert len(looked) == 10_000 * 2 + 1
    looked.clear()
    assert not lineage.includes(10)
    assert looked == [10, 2]
    looked.clear()
    assert not lineage.includes(10_000)
    assert looked == [10_000]


CLIENT = """
import socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
sock.settimeout(10)
sock.sendall(bytes.fromhex(sys.argv[2]))
print(sock.recv(1000).hex())
"""


@pytest.mark.trio
@pytest.mark.parametrize("depth", [0, 1, 2])
async def test_what_the_daemon_started_is_no_client(path, depth):
    """The server is this process, so what it starts is its descendant, however indirectly."""
    command = [sys.executable, "-c", CLIENT, str(path), PING.hex()]
    for _ in range(depth):
        command = ["/bin/sh", "-c", '"$0" "$@"; exit 0', *command]
    listener = open_unix(path)
    async with trio.open_nursery() as nursery:
        await nursery.start(Server(table(), Record()).serve, listener)
        done = await trio.run_process(command, capture_stdout=True, stdin=subprocess.DEVNULL)
        nursery.cancel_scope.cancel()
    reply = pb.ServerMessage.FromString(bytes.fromhex(done.stdout.decode())[4:])
    assert (reply.error.code, reply.error.message) == (401, "what the daemon started may not connect to it")


def test_who_is_no_descendant_is_served():
    with wire_server() as server, connect(server.socket) as sock:
        call = pb.ClientMessage(call_tool=pb.CallToolMsg(tool="who"))
        reply = ask(sock, frame(call.SerializeToString()))
        assert reply.tool_outcome.done == f"unix:pid {os.getpid()}".encode()


def test_the_port_is_the_next_free_one_and_stands_in_its_file(run_dir):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        if port > 65000:
            pytest.skip("no ports above it")
        listener = open_tcp(run_dir, port=port)
        assert port < listener.port < port + 100
        assert (run_dir / "crabtalk.port").read_text() == f"{listener.port}\n"
        assert mode(run_dir / "crabtalk.port") == 0o600
        listener.close()
        assert not (run_dir / "crabtalk.port").exists()


def test_the_port_file_of_another_daemon_is_left_alone(run_dir):
    listener = open_tcp(run_dir, port=0)
    (run_dir / "crabtalk.port").write_text("1\n")
    listener.close()
    assert (run_dir / "crabtalk.port").read_text() == "1\n"


def test_a_port_that_cannot_be_had_is_an_error(run_dir):
    with contextlib.ExitStack() as stack:
        taken = stack.enter_context(socket.create_server(("127.0.0.1", 65535)))
        assert taken
        with pytest.raises(ConfigError, match=r"cannot listen on 127\.0\.0\.1 port 65535: address already"):
            open_tcp(run_dir, port=65535)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])
def test_other_machines_are_let_in_only_when_that_is_said(run_dir, host):
    with pytest.raises(ConfigError, match="has to be allowed explicitly"):
        open_tcp(run_dir, host=host, port=0)


def test_all_addresses_can_be_allowed(run_dir):
    open_tcp(run_dir, host="0.0.0.0", port=0, allow_remote=True).close()


def test_a_name_is_no_address(run_dir):
    with pytest.raises(ConfigError, match="`localhost` is no IP address"):
        open_tcp(run_dir, host="localhost")


def test_the_token_is_made_once_and_its_owners_alone(run_dir):
    token = load_token(run_dir)
    assert len(token) >= 40
    assert load_token(run_dir) == token
    assert mode(run_dir / "crabtalk.token") == 0o600


def test_a_token_that_others_can_read_is_refused(run_dir):
    load_token(run_dir)
    (run_dir / "crabtalk.token").chmod(0o644)
    with pytest.raises(ConfigError, match=r"crabtalk\.token can be read by others"):
        load_token(run_dir)


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\n"])
def test_a_token_that_is_none_is_refused(run_dir, content):
    run_dir.mkdir()
    path = run_dir / "crabtalk.token"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=r"crabtalk\.token"):
        load_token(run_dir)


def test_a_link_is_no_token(run_dir):
    token = load_token(run_dir)
    (run_dir / "elsewhere").write_text(token)
    (run_dir / "crabtalk.token").unlink()
    (run_dir / "crabtalk.token").symlink_to(run_dir / "elsewhere")
    with pytest.raises(ConfigError, match="cannot read the token"):
        load_token(run_dir)


def auth(token):
    return frame(pb.ClientMessage(auth=pb.AuthMsg(token=token)).SerializeToString())


def test_over_tcp_the_token_opens_and_nothing_else_does():
    with wire_server(tcp=True) as server:
        address = ("127.0.0.1", int((server.run_dir / "crabtalk.port").read_text()))
        token = (server.run_dir / "crabtalk.token").read_text().strip()
        with socket.create_connection(address, 10) as sock:
            assert ask(sock, auth(token)).HasField("pong")
            assert ask(sock, PING).HasField("pong")
        for first in (PING, auth(""), auth(token[:-1]), auth(token + "x"), b"GET / HTTP/1.1\r\n\r\n"):
            with socket.create_connection(address, 10) as sock:
                assert ask(sock, first).error.code == 401
                assert sock.recv(100) == b""
        assert server.stop() == 0
