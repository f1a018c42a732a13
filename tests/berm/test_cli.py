"""The command's frame: help, usage errors, what is imported when."""

import subprocess
import sys

import pytest

from berm import cli
from berm.cli import exits

COMMANDS = sorted(cli.COMMANDS)
# Heavy, and not needed to say what a command takes.
NOT_FOR_HELP = {
    "anyio",
    "trio",
    "jsonschema",
    "httpcore",
    "h11",
    "elftools",
    "google.protobuf",
    "crabtalk",
    "asyncio",
}


def berm(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "berm", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


def imported(*arguments):
    """List the modules that a command has imported when it ends."""
    program = (
        "import sys, berm.cli\n"
        "try:\n    berm.cli.main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stderr.splitlines())


def test_help_lists_every_command():
    done = berm("--help")
    assert done.returncode == exits.DONE
    assert [name for name in COMMANDS if f"\n  {name} " not in done.stdout] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command):
    done = berm(command, "--help")
    assert (done.returncode, done.stderr) == (exits.DONE, "")
    assert done.stdout.startswith(f"usage: berm {command}")


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help_imports_nothing_heavy(arguments):
    assert imported(*arguments) & NOT_FOR_HELP == set()


def test_an_import_that_is_heavy_would_be_seen():
    assert {"berm.cli", "argparse"} <= imported("--help")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "berm: a command is missing; see berm --help"),
        (["ran"], "berm: there is no command 'ran'; see berm --help"),
        (["--verbose"], "berm: unrecognized arguments: --verbose; see berm --help"),
        (["run"], "berm run: the following arguments are required: IMAGE, TOOL; see berm run --help"),
        (["run", "a.elf", "t", "{}", "more"], "berm run: unrecognized arguments: more; see berm run --help"),
        (
            ["run", "a.elf", "t", "--memory", "lots"],
            "berm run: argument --memory: expected a size like 64MiB, got 'lots'; see berm run --help",
        ),
        (
            ["run", "a.elf", "t", "--call", "peer"],
            "berm run: argument --call: expected NAME=IMAGE, got 'peer'; see berm run --help",
        ),
        (
            ["run", "a.elf", "t", "--roo", "."],
            "berm run: unrecognized arguments: --roo .; see berm run --help",
        ),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exits_with_64(arguments, message):
    done = berm(*arguments)
    assert (done.returncode, done.stdout, done.stderr.splitlines()) == (exits.USAGE, "", [message])


def test_version_is_that_of_the_distribution():
    from importlib.metadata import version

    assert berm("--version").stdout == f"berm {version('crabtalk')}\n"


def test_the_console_script_is_the_same_command():
    from importlib.metadata import entry_points

    (script,) = entry_points(group="console_scripts", name="berm")
    assert script.load() is cli.main


def test_a_missing_image_is_one_sentence(tmp_path):
    done = berm("inspect", "nowhere.elf", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (exits.HOST_ERROR, "")
    assert done.stderr == "berm: cannot read nowhere.elf: no such file or directory\n"


def test_a_file_that_is_no_image_is_one_sentence(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    done = berm("inspect", "notes.txt", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (exits.HOST_ERROR, "")
    assert done.stderr.startswith("berm: ")
    assert done.stderr.count("\n") == 1
