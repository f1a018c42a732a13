"""What a guest says cannot drive the terminal of who runs it."""

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berm.cli import output


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("größe ✓ 日本", "größe ✓ 日本"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("over\rwritten", "over\\x0dwritten"),
        ("\x9b31m", "\\x9b31m"),
        ("evil\u202etxt.exe", "evil\\u202etxt.exe"),
        ("a\u2028b", "a\\u2028b"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_controls_are_shown_and_not_sent(text, shown):
    assert output.escape(text) == shown


def test_a_line_stays_one_line():
    assert output.escape_line("a\nb\tc") == "a\\x0ab\\x09c"


@given(st.text())
def test_escaped_text_has_no_controls_left(text):
    assert all(char.isprintable() or char == " " or ord(char) > 127 for char in output.escape_line(text))
    assert "\x9b" not in output.escape(text)


def test_text_for_a_pipe_is_unchanged():
    assert output.for_stream("\x1b[1m", io.StringIO()) == "\x1b[1m"
    assert output.for_stream("\x1b[1m", Terminal()) == "\\x1b[1m"


def test_colour_needs_a_terminal_that_wants_it(terminal, monkeypatch):
    assert output.paint("x", output.BOLD, terminal) == "\x1b[1mx\x1b[0m"
    assert output.paint("x", output.BOLD, io.StringIO()) == "x"
    monkeypatch.setenv("NO_COLOR", "")
    assert output.paint("x", output.BOLD, terminal) == "x"


def test_a_table_on_a_terminal_is_aligned(terminal, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    with contextlib.redirect_stdout(terminal):
        output.print_table(["function", "instructions"], [["main", 1234567], ["a\x1b[2J", 5]])
    assert terminal.getvalue().splitlines() == [
        "function  instructions",
        "main         1,234,567",
        "a\\x1b[2J             5",
    ]


def test_a_table_in_a_pipe_is_tab_separated(capsys):
    output.print_table(["function", "instructions"], [["main", 1234567], ["a\tb", 5]])
    assert capsys.readouterr().out == "main\t1234567\na\\x09b\t5\n"


def test_an_empty_table_shows_its_head(terminal, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    with contextlib.redirect_stdout(terminal):
        output.print_table(["function", "instructions"], [])
    assert terminal.getvalue() == "function  instructions\n"
