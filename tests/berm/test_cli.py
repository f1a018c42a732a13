"""The command's frame: help, usage errors, what is imported when."""

import hashlib
import json
import subprocess
import sys

import pytest

from asm import asm
from berm import cli
from berm.cli import exits
from elfs import build_elf

COMMANDS = sorted(cli.COMMANDS)
# Heavy, and not needed to say what a command takes.
NOT_FOR_HELP = {
    "anyio",
    "rvcore",
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


def test_inspecting_runs_and_grants_nothing(cli_image):
    """No machine is made and no capability is loaded; the image's wishes are shown and not acted on."""
    program = (
        "import sys, rvcore._machine, berm.cli\n"
        "status = berm.cli.main(sys.argv[1:])\n"
        "print(rvcore._machine.live_machines(), 'crabtalk' in sys.modules, file=sys.stderr)\n"
        "sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "inspect", str(cli_image)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (exits.DONE, "0 False\n")
    assert "wishes    berm.fs.read (" in done.stdout
    assert "\x1b" not in done.stdout


def test_inspect_as_json_has_everything(cli_image):
    facts = json.loads(berm("inspect", str(cli_image), "--json").stdout)
    assert facts["sha256"] == hashlib.sha256(cli_image.read_bytes()).hexdigest()
    assert facts["file_bytes"] == cli_image.stat().st_size
    assert facts["tools"][0] == {
        "name": "say",
        "description": "Say a text back.",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "what to say"}},
            "required": ["text"],
            "additionalProperties": False,
        },
    }
    assert facts["usage"] == "For tests.\x1b[2J"
    assert facts["capabilities"] == ["berm.fs.read"]
    assert "berm_tool_say" in facts["exports"]


def test_inspect_reads_what_could_not_run(tmp_path):
    """An image without relocations is shown, and what it lacks is said."""
    tool = {"name": "t", "description": "d", "parameters": {"type": "object"}}
    image = build_elf(
        asm("ret"),
        symbols={"berm_tool_t": (0x10000, 4)},
        relocations=None,
        manifest=json.dumps({"abi_version": 0, "tools": [tool]}).encode(),
    )
    (tmp_path / "bare.elf").write_bytes(image)
    done = berm("inspect", "bare.elf", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (exits.DONE, "")
    assert "without --emit-relocs" in done.stdout


def test_disasm_shows_one_function_or_all(cli_image):
    one = berm("disasm", str(cli_image), "square_sum").stdout.splitlines()
    assert one[0] == "square_sum:"
    assert one[-1].endswith("8082      ret")
    everything = berm("disasm", str(cli_image)).stdout
    assert "\n\n" + "\n".join(one) in everything
    assert not everything.startswith("\n")


def test_disasm_of_no_function_suggests_one(cli_image):
    done = berm("disasm", str(cli_image), "square_sun")
    assert done.returncode == exits.HOST_ERROR
    assert done.stderr == "berm: the image has no function square_sun, there is square_sum\n"
