"""Opens the store of a home; that only one daemon has it is the business of the lock on the home."""

from pathlib import Path

from crabtalk.store.sqlite import SqliteEngine


def open_store(path: Path | str, *, create: bool = True, read_only: bool = False) -> SqliteEngine:
    """Open the store's file, bring it up to date, and with `create` make it if it is not there.

    With `read_only` nothing is changed, and a daemon may have it open meanwhile.

    Raises:
        StoreError: if it cannot be used; says why and what to do.
    """
    return SqliteEngine(path, create=create, read_only=read_only)
