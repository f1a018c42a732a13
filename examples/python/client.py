# ruff: noqa: INP001 - a program
"""A client of the daemon in plain Python: a socket, and the messages generated from proto/crabtalk.proto.

    PYTHONPATH=src/crabtalk/wire/pb python examples/python/client.py HOME AGENT HARNESS TOOL ARGS

`crabtalk_pb2` lies there; elsewhere, `protoc --python_out=. -I proto proto/crabtalk.proto` makes it.

Calls a tool and prints its result. Nothing of crabtalk is imported; `crabtalk.client` does all this and more.
"""

import socket
import sys
from pathlib import Path

import crabtalk_pb2 as pb


def connect(home: Path) -> socket.socket:
    """Connect to the unix socket of `home`, or by TCP if there is none."""
    path = home / "run" / "crabtalk.sock"
    if path.is_socket():
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(path))
        return sock
    if not (home / "run" / "crabtalk.port").is_file():
        sys.exit(f"no daemon runs in {home}")
    port = int((home / "run" / "crabtalk.port").read_text())
    token = (home / "run" / "crabtalk.token").read_text().strip()
    sock = socket.create_connection(("127.0.0.1", port))
    ask(sock, pb.ClientMessage(auth=pb.AuthMsg(token=token)))
    return sock


def ask(sock: socket.socket, request: pb.ClientMessage) -> pb.ServerMessage:
    """Send a request and return its reply."""
    payload = request.SerializeToString()
    sock.sendall(len(payload).to_bytes(4, "big") + payload)
    size = int.from_bytes(receive(sock, 4), "big")
    reply = pb.ServerMessage.FromString(receive(sock, size))
    if reply.HasField("error"):
        sys.exit(f"error {reply.error.code}: {reply.error.message}")
    return reply


def receive(sock: socket.socket, count: int) -> bytes:
    """Return the next `count` bytes."""
    data = b""
    while len(data) < count:
        chunk = sock.recv(count - len(data))
        if not chunk:
            sys.exit("the daemon closed the connection")
        data += chunk
    return data


def main(home: str, agent: str, harness: str, tool: str, args: str) -> None:
    """Call a tool of an agent that is given by its name."""
    with connect(Path(home)) as sock:
        info = ask(sock, pb.ClientMessage(get_agent=pb.GetAgentMsg(name=agent))).agent_info
        call = pb.CallToolMsg(agent=info.id, harness=harness, tool=tool, args=args.encode())
        outcome = ask(sock, pb.ClientMessage(call_tool=call)).tool_outcome
    match outcome.WhichOneof("outcome"):
        case "done":
            sys.stdout.write(outcome.done.decode() + "\n")
        case "failed":
            sys.exit(f"failed: {outcome.failed}")
        case _:
            sys.exit(f"trap: {outcome.trap.message}")


if __name__ == "__main__":
    if len(sys.argv) != 6:  # noqa: PLR2004 - the program and what main takes
        sys.exit("usage: client.py HOME AGENT HARNESS TOOL ARGS")
    main(*sys.argv[1:])
