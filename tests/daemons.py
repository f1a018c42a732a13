"""Starts the real daemon as a process in a temporary home, for tests of any part.

with running_daemon() as daemon:
    with daemon.client() as client:
        client.ping()
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from crabtalk.client import SyncClient
from crabtalk.home import Home

START_S = 30.0
PROGRAM = "import sys; from crabtalk.daemon import main; sys.exit(main(sys.argv[1:]))"


class Daemon:
    """One process; start it again in the same home with `start`."""

    def __init__(self, home: Home, environment=None, prefix=()):
        self.home = home
        self.prefix = prefix  # a command that runs it, such as strace -D: the process must be the daemon's
        self.environment = environment or {}
        self.process = None
        self.log = []  # lines of stderr, of every start
        self.output = ""  # stdout, of every start that has ended

    def configure(self, text):
        self.home.config_file.write_text(text)

    def start(self):
        """Return when it says READY; raises with its log if it ends before."""
        path = self.home.root / "n"
        path.unlink(missing_ok=True)
        self._manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._manager.bind(str(path))
        self.process = subprocess.Popen(
            [*self.prefix, sys.executable, "-W", "error", "-c", PROGRAM, "--home", str(self.home.root)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NOTIFY_SOCKET": str(path), **self.environment},
        )
        self._reader = threading.Thread(target=self._read, args=(self.process.stderr,))
        self._reader.start()
        try:
            self.notified("READY=1", START_S)
        except BaseException:
            self.kill()
            raise
        return self

    def notified(self, start, timeout_s=10.0):
        """Wait for a notification that starts so, and return its lines; others before it are dropped."""
        ends = time.monotonic() + timeout_s
        self._manager.settimeout(0.05)
        while time.monotonic() < ends:
            with contextlib.suppress(TimeoutError):
                text = self._manager.recv(4096).decode()
                if text.startswith(start):
                    return text.split("\n")
            if self.process.poll() is not None:
                raise RuntimeError(
                    f"the daemon ended with {self.process.returncode}:\n" + "\n".join(self.log)
                )
        raise RuntimeError(f"no `{start}` from the daemon:\n" + "\n".join(self.log))

    def logged(self, text, timeout_s=10.0):
        """Wait for a line of the log that contains `text`, and return it."""
        ends = time.monotonic() + timeout_s
        while time.monotonic() < ends:
            if found := [line for line in self.log if text in line]:
                return found[0]
            time.sleep(0.01)
        raise RuntimeError(f"no `{text}` in the log:\n" + "\n".join(self.log))

    def _read(self, stream):
        for line in stream:
            self.log.append(line.rstrip("\n"))

    def client(self):
        """Return a client, for `with`."""
        return SyncClient.connect(self.home.root)

    def stop(self, number=signal.SIGTERM):
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self, timeout=30):
        status = self.process.wait(timeout)
        self._close()
        return status

    def kill(self):
        """Pull the plug."""
        self.process.kill()
        self.process.wait()
        self._close()

    def _close(self):
        self._manager.close()
        self._reader.join()
        self.output += self.process.stdout.read()
        self.process.stdout.close()
        self.process.stderr.close()

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None


@contextlib.contextmanager
def temporary_home():
    """Yield a home whose paths are short enough for sockets."""
    directory = Path(tempfile.mkdtemp(prefix="ct-", dir="/tmp"))
    try:
        home = Home(directory / "h")
        home.prepare()
        yield home
    finally:
        shutil.rmtree(directory)


@contextlib.contextmanager
def running_daemon(config="", environment=None, prefix=()):
    """Yield a started daemon in a home of its own; it is gone afterwards."""
    with temporary_home() as home:
        daemon = Daemon(home, environment, prefix)
        daemon.configure(config)
        try:
            yield daemon.start()
        finally:
            if daemon.running:
                daemon.kill()
