"""The argument parser of every command: its exit code, and options that cost time to find."""

import argparse
from collections.abc import Callable, Sequence
from typing import NoReturn

from berm.cli import exits


class Parser(argparse.ArgumentParser):
    """An argument parser that exits with 64 for a command line it cannot read.

    `add_more` declares options that cost time to find; it is called when one of them may be meant.
    """

    add_more: Callable[[], None] | None = None

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse `arguments`; positional ones and options may stand in any order."""
        arguments = self._join_flags(arguments)
        options = {word.partition("=")[0] for word in arguments if word.startswith("-")}
        if self.add_more is not None and not all(map(self._is_known, options)):
            self.add_more()
        return self.parse_intermixed_args(arguments)

    def _join_flags(self, arguments: Sequence[str]) -> list[str]:
        """Join a compiler's flag to the option that passes it on, as in `-C -O3`: it looks like an option."""
        joined: list[str] = []
        words = iter(arguments)
        for word in words:
            following = next(words, None) if word in {"-C", "--cflag"} and self.has_option(word) else None
            joined.append(word if following is None else f"--cflag={following}")
        return joined

    def _is_known(self, name: str) -> bool:
        return name not in {"-h", "--help"} and self.has_option(name)

    def has_option(self, name: str) -> bool:
        """Say whether an option is declared."""
        return name in self._option_string_actions

    def error(self, message: str) -> NoReturn:
        """Print one line that says what is wrong and where help is, and exit."""
        self.exit(exits.USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")
