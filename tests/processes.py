"""Processes that a test may look for after they should be gone."""

import random
import time
from pathlib import Path


class Marker:
    """An argument that tells the processes of one test from all others."""

    def __init__(self):
        self.seconds = f"{random.randrange(10**8, 10**9)}"

    def alive(self):
        """List what carries the mark; no process of the sandbox can hide from its parent's namespace."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = path.read_bytes()
            except OSError:
                continue
            if self.seconds.encode() in line:
                found.append(line)
        return found

    def sleepers(self):
        return sum(line.startswith(b"sleep") for line in self.alive())

    def gone(self, within_s=2.0):
        deadline = time.monotonic() + within_s
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True
