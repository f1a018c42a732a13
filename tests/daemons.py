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
from pathlib import Path

from crabtalk.client import SyncClient
from crabtalk.home import Home

START_S = 30.0
PROGRAM = "import sys; from crabtalk.daemon import main; sys.exit(main(sys.argv[1:]))"


class Daemon:
    """One process; start it again in the same home with `start`."""

    def __init__(self, home: Home, environment=None):
        self.home = home
        self.environment = environment or {}
        self.process = None
        self.log = []  # lines of stderr, of every start

    def configure(self, text):
        self.home.config_file.write_text(text)

    def start(self):
        """Return when it says READY; raises with its log if it ends before."""
        notifications = self.home.root / "n"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            notifications.unlink(missing_ok=True)
            manager.bind(str(notifications))
            manager.settimeout(0.05)
            self.process = subprocess.Popen(
                [sys.executable, "-W", "error", "-c", PROGRAM, "--home", str(self.home.root)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, **self.environment, "NOTIFY_SOCKET": str(notifications)},
            )
            self._reader = threading.Thread(target=self._read, args=(self.process.stderr,))
            self._reader.start()
            self._until_ready(manager)
        return self

    def _until_ready(self, manager):
        for _ in range(int(START_S / 0.05)):
            with contextlib.suppress(TimeoutError):
                if manager.recv(4096).startswith(b"READY=1"):
                    return
            if self.process.poll() is not None:
                self._close()
                raise RuntimeError(
                    f"the daemon ended with {self.process.returncode}:\n" + "\n".join(self.log)
                )
        self.kill()
        raise RuntimeError("the daemon did not get ready:\n" + "\n".join(self.log))

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
        self._reader.join()
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
def running_daemon(config="", environment=None):
    """Yield a started daemon in a home of its own; it is gone afterwards."""
    with temporary_home() as home:
        daemon = Daemon(home, environment)
        daemon.configure(config)
        try:
            yield daemon.start()
        finally:
            if daemon.running:
                daemon.kill()
