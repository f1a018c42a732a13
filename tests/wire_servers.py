"""Serves the table of wire_tables.py from a process of its own, in a short-lived directory."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = Path(__file__).with_name("wire_tables.py")


class WireServer:
    """One server; `home` is what clients are given."""

    def __init__(self, *, tcp=False):
        # Short: the path of a socket has room for a hundred bytes.
        self.home = Path(tempfile.mkdtemp(dir="/tmp"))
        self.run_dir = self.home / "run"
        self.socket = self.run_dir / "crabtalk.sock"
        self.arguments = [str(self.run_dir), *(["--tcp"] if tcp else [])]
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", str(PROGRAM), *self.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert self.process.stdout.readline() == "ready\n"
        return self

    def stop(self):
        """Stop in order; return how many connections were left, which is none."""
        left, _ = self.process.communicate(timeout=20)
        assert self.process.returncode == 0
        return int(left)

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def resident_bytes(self):
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self):
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))


@contextlib.contextmanager
def wire_server(*, tcp=False):
    server = WireServer(tcp=tcp)
    try:
        yield server.start()
    finally:
        if server.process is not None and server.process.returncode is None:
            server.kill()
        shutil.rmtree(server.home)
