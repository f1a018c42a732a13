"""A configuration in an editor: a real one, that a script plays."""

import sys
from pathlib import Path

import pytest

from berm.cli.exits import CommandError
from crabtalk.cli.editing import edited
from crabtalk.errors import BadRequest

CONFIG = {"description": "You help.\nBriefly.", "max_iterations": 16, "harnesses": [{"name": "os"}]}


@pytest.fixture
def editor(tmp_path, monkeypatch):
    """Make a Python expression, of the file's text, the editor; temporary files stay in `tmp_path`."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.delenv("VISUAL", raising=False)

    def editor(expression):
        script = tmp_path / "editor.py"
        script.write_text(
            "import sys, pathlib\n"
            "file = pathlib.Path(sys.argv[1])\n"
            f"text = file.read_text()\nfile.write_text({expression})\n"
        )
        monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")

    return editor


@pytest.fixture
def sent():
    return []


def left(tmp_path):
    return sorted(path.name for path in tmp_path.glob("crabtalk-*.toml"))


def test_what_the_user_changes_is_sent_as_a_patch(editor, sent, tmp_path):
    editor("text.replace('16', '8').replace('Briefly', 'At length')")
    edited("me", CONFIG, sent.append)
    assert sent == [{"description": "You help.\nAt length.", "max_iterations": 8}]
    assert left(tmp_path) == []


def test_what_the_user_deletes_becomes_null(editor, sent):
    editor("text.replace('max_iterations = 16', '')")
    edited("me", CONFIG, sent.append)
    assert sent == [{"max_iterations": None}]


def test_without_a_change_nothing_is_sent(editor, sent, capfd, tmp_path):
    editor("text")
    assert edited("me", CONFIG, sent.append) is None
    assert (sent, left(tmp_path)) == ([], [])
    assert capfd.readouterr().err == "crabtalk: nothing was changed\n"


def test_the_file_is_its_owner_s_alone(editor, sent):
    editor("text.replace('16', str(file.stat().st_mode & 0o777))")
    edited("me", CONFIG, sent.append)
    assert sent == [{"max_iterations": 0o600}]


def test_text_that_is_no_toml_is_kept(editor, sent, tmp_path):
    editor("text + '[[['")
    with pytest.raises(CommandError, match=r"is not TOML: .*; your text is in ") as caught:
        edited("me", CONFIG, sent.append)
    (name,) = left(tmp_path)
    assert str(caught.value).endswith(name)
    assert (tmp_path / name).read_text().endswith("[[[")
    assert sent == []


def test_text_that_the_daemon_refuses_is_kept(editor, tmp_path):
    editor("text.replace('16', '-1')")

    def send(_patch):
        raise BadRequest("max_iterations: expected a whole number from 1")

    with pytest.raises(
        CommandError, match="max_iterations: expected a whole number from 1; your text is in "
    ):
        edited("me", CONFIG, send)
    assert len(left(tmp_path)) == 1


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("false", "the editor ended with 1; your text is in "),
        ("/nonexistent/editor", "cannot run the editor '/nonexistent/editor': "),
        ("'unbalanced", "cannot run the editor "),
    ],
)
def test_an_editor_that_fails_changes_nothing(editor, sent, monkeypatch, command, message):
    editor("text")
    monkeypatch.setenv("EDITOR", command)
    with pytest.raises(CommandError, match=message):
        edited("me", CONFIG, sent.append)
    assert sent == []


def test_the_user_may_go_on_after_a_refusal(editor, sent, tmp_path, monkeypatch):
    """The editor's second run mends what the first broke."""
    monkeypatch.setattr("crabtalk.cli.editing.can_ask", lambda: True)
    monkeypatch.setattr("crabtalk.cli.editing.agrees", lambda _question: True)
    editor("text.replace('16', '0') if '= 16' in text else text.replace('= 0', '= 4')")

    def send(patch):
        sent.append(patch)
        if patch["max_iterations"] < 1:
            raise BadRequest("too few")

    edited("me", CONFIG, send)
    assert sent == [{"max_iterations": 0}, {"max_iterations": 4}]
    assert left(tmp_path) == []


def test_the_temporary_file_is_where_it_is_expected(editor, tmp_path, sent):
    editor("text.replace('16', repr(str(file.parent)))")
    edited("me", CONFIG, sent.append)
    assert Path(sent[0]["max_iterations"]) == tmp_path
