"""Which descriptors this process has open."""

import os
from pathlib import Path


def open_descriptors():
    """List them with what they are, but for the one that the listing itself used."""
    found = {}
    for path in list(Path("/dev/fd").iterdir()):
        try:
            os.fstat(int(path.name))
            found[int(path.name)] = str(path.readlink())
        except OSError:
            continue
    return found
