"""What the documents show is what happens: every command, program and link in them is tried here."""

import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from documents import LANGUAGES, Block, Step, blocks, matches, steps
from guest_images import image_path

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    path
    for glob in ("README.md", "docs/*.md", "harness/*/README.md", "bench/README.md")
    for path in ROOT.glob(glob)
]
# Its commands take long and print this machine's figures.
NOT_RUN = {"bench/README.md"}
MARK = "-- step ended with "
TIMEOUT_S = 120

document = pytest.mark.parametrize("path", sorted(DOCUMENTS), ids=lambda path: str(path.relative_to(ROOT)))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """A copy of what a reader has in front of them, with the images built."""
    copy = tmp_path_factory.mktemp("reader") / "crabtalk"
    copy.mkdir()
    for name in ("harness", "docs"):
        shutil.copytree(
            ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "build", "*.elf")
        )
    for path in copy.glob("harness/*/"):
        shutil.copy(image_path(path.name), path / f"{path.name}.elf")
    for name in ("README.md", "LICENSE", "Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, copy)
    return copy


@pytest.fixture
def reader(workspace, tmp_path):
    """A workspace of one's own: documents write files."""
    return shutil.copytree(workspace, tmp_path / "crabtalk")


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONWARNINGS": "error",
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": "100",
        "LC_ALL": "C.UTF-8",
    }


def write_file(block: Block, directory: Path) -> None:
    target = directory / block.file_name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(block.body, encoding="utf-8")


class Shell:
    """One bash for a whole document, so that `cd`, variables and `$?` carry on."""

    def __init__(self, directory: Path, temporary: Path) -> None:
        self.process = subprocess.Popen(
            ["bash", "--norc", "-s"],
            cwd=directory,
            env={**environment(), "TMPDIR": str(temporary)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="backslashreplace",
            start_new_session=True,
        )

    def run(self, steps: list[Step]) -> list[str]:
        """Run all steps and return what each printed."""
        # Each command reads an empty stdin, not the script.
        after = f"s=$?; printf '\\n{MARK}%d\\n' $s; (exit $s)\n"
        script = "".join(f"{{ {step.command}\n}} </dev/null\n{after}" for step in steps)
        try:
            printed, _ = self.process.communicate(script, timeout=TIMEOUT_S)
        finally:
            with contextlib.suppress(ProcessLookupError):  # a daemon that a command has left running
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout):
                with contextlib.suppress(OSError):
                    stream.close()
        return re.split(rf"\n{MARK}\d+\n", printed)[:-1]


def is_make(step: Step) -> bool:
    return step.command.split()[0] == "make"


@document
def test_every_block_says_what_it_is(path):
    unknown = [(block.line, block.language) for block in blocks(path) if block.language not in LANGUAGES]
    assert unknown == []


@document
def test_commands_print_what_the_document_says(path, reader):
    if str(path.relative_to(ROOT)) in NOT_RUN:
        return
    run = []
    for block in blocks(path):
        if block.file_name:
            write_file(block, reader)
        elif block.language == "console":
            run += [step for step in steps(block) if not is_make(step)]
    # Short, since a home may be made in it, whose sockets have a bound on their paths.
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        printed = Shell(reader, Path(temporary)).run(run)
    differences = [
        f"line {step.line}: $ {step.command}\n{step.expected}\n--- printed\n{actual.rstrip()}\n"
        for step, actual in zip(run, printed, strict=True)
        if not matches(step.expected, actual)
    ]
    assert not differences, "\n".join(differences)


@document
def test_programs_print_what_the_document_says(path, reader):
    found = blocks(path)
    for block, following in itertools.zip_longest(found, found[1:]):
        if block.file_name:
            write_file(block, reader)
        elif block.language == "python":
            done = subprocess.run(
                [sys.executable, "-c", block.body],
                cwd=reader,
                env=environment(),
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
            assert done.returncode == 0, f"line {block.line}: {done.stderr}"
            if following is not None and following.language == "text":
                assert matches(following.body, done.stdout), f"line {block.line}: {done.stdout}"


@document
def test_make_targets_exist(path):
    text = path.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:^\s*\$? ?|`)make ([a-z][\w-]*)", text, re.MULTILINE))
    assert named - targets == set()


@document
def test_links_lead_somewhere(path):
    text = path.read_text(encoding="utf-8")
    local = [link for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text) if "://" not in link]
    assert [link for link in local if not (path.parent / link).exists()] == []


@document
def test_tests_that_are_named_exist(path):
    """A document may say which test proves something, as `tests/berm/test_x.py::test_y`."""
    text = path.read_text(encoding="utf-8")
    missing = []
    for file, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text):
        source = ROOT / file
        if not source.exists() or (name and f"def {name}(" not in source.read_text(encoding="utf-8")):
            missing.append((file, name))
    assert missing == []


def test_readme_shows_how_to_start():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first_screen = "\n".join(text.splitlines()[:24])
    assert "make demo" in first_screen
    assert "make test" in first_screen


def test_a_wrong_output_is_noticed():
    assert not matches("hello\nworld", "hello\nmoon")
    assert not matches("hello\n…", "goodbye")
    assert not matches("hello", "hello\nworld")
    assert not matches("…\nworld", "world\nhello")


def test_an_ellipsis_stands_for_text_or_lines():
    assert matches("a … c\n…\nlast", "a b c\nx\ny\nlast")
    assert matches("a\n…\nb", "a\nb")
    assert matches("…", "")


def test_promises_have_the_tests_that_are_named():
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    missing = [
        f"{path}::{name}" if name else path
        for path, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
        if not (ROOT / path).exists() or (name and f"def {name}(" not in (ROOT / path).read_text())
    ]
    assert missing == []
