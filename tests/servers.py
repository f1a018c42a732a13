"""A real HTTP server on loopback that answers what a test wrote, byte for byte, however wrong that is."""

import contextlib
import queue
import socket
import ssl
import threading

import anyio

NOTHING = b"HTTP/1.1 204 No Content\r\n\r\n"


class Request:
    """What arrived."""

    def __init__(self, head, body):
        self.line, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.split(":", 1) for line in lines)
        self.headers = [(name, value.strip(" ")) for name, value in pairs]
        self.body = body

    def all(self, name):
        return [value for key, value in self.headers if key.lower() == name]


class Server:
    """Accepts on a free port; `answer` is bytes, or a function over (connection, request)."""

    def __init__(self, answer=NOTHING, *, host="127.0.0.1", tls=None, answers_at_once=b""):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.create_server((host, 0), family=family)
        self.port = self.listener.getsockname()[1]
        self.answer = answer
        self.tls = tls
        self.answers_at_once = answers_at_once  # before it has read anything
        self.requests = []
        self.hung_up = queue.Queue()  # one item for each connection that the client closed
        self.connections = 0
        self.threads = []
        self.sockets = []

    def __enter__(self):
        self.start(self.accept)
        return self

    def __exit__(self, *_):
        # Waking `accept` up needs a shutdown where closing alone would leave the thread in it.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.sockets:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(10)
        assert not any(thread.is_alive() for thread in self.threads)

    def start(self, work, *args):
        thread = threading.Thread(target=work, args=args)
        self.threads.append(thread)
        thread.start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            self.sockets.append(connection)
            self.start(self.serve, connection)

    def serve(self, connection):
        with contextlib.suppress(OSError), connection:
            connection.sendall(self.answers_at_once)
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
            with connection:
                request = receive(connection)
                if request is None:
                    return
                self.requests.append(request)
                if callable(self.answer):
                    self.answer(connection, request)
                else:
                    connection.sendall(self.answer)
                self.finish(connection)

    def finish(self, connection):
        """Close our half, and wait for the client to close its own."""
        if self.tls:
            with contextlib.suppress(OSError, ssl.SSLError):
                connection.unwrap()
            return
        connection.shutdown(socket.SHUT_WR)
        self.until_hung_up(connection)

    def until_hung_up(self, connection):
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(65536):
                pass
        self.hung_up.put(True)


def receive(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            return None
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    request = Request(head, body)
    length = int((request.all("content-length") or ["0"])[0])
    while len(request.body) < length:
        request.body += connection.recv(65536)
    return request


def reply(body=b"", *headers, status="200 OK"):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def names_lead_to(monkeypatch, table):
    """Answer DNS from a table, and count the questions; all else is the real thing."""
    asked = []

    async def getaddrinfo(host, port, **_):
        asked.append(host)
        addresses = table[host]
        address = addresses.pop(0) if isinstance(addresses, list) else addresses
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(anyio, "getaddrinfo", getaddrinfo)
    return asked
