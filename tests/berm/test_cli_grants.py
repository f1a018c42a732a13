"""Capabilities on the command line come from installed packages, through real entry points."""

import os
import subprocess
import sys

import pytest

from berm.cli import exits
from berm.cli.granting import option_for
from guest_images import image

ORACLE = """
import berm


def make(values):
    if "bad" in values:
        raise ValueError("oracle `bad` gives no answers")

    @berm.capability("test.oracle")
    def ask(call, question: str) -> str:
        return f"{question} {' '.join(values)}"

    @berm.capability("test.oracle")
    async def ask_later(call, question: str) -> str:
        return f"later: {question}"

    return (ask_later if "later" in values else ask,)
"""


@pytest.fixture
def installed(tmp_path):
    """Return a function that installs a package offering capabilities, as (option, function)."""

    def install(*offers):
        info = tmp_path / "oracle-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: oracle\nVersion: 1.0\n")
        lines = [f"{option} = oracle:{function}" for option, function in offers]
        (info / "entry_points.txt").write_text("\n".join(["[berm.capabilities]", *lines]))
        (tmp_path / "oracle.py").write_text(ORACLE)

    return install


@pytest.fixture
def run(tmp_path, cli_image):
    def run(*arguments):
        path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(
            [sys.executable, "-m", "berm", "run", str(cli_image), *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": path},
        )
        return done.returncode, done.stdout, done.stderr

    return run


def test_a_package_brings_an_option_and_its_capability(installed, run):
    installed(("oracle", "make"))
    assert "--oracle VALUE" in run("--help")[1]
    answer = run("consult", '{"question": "why?"}', "--oracle", "old", "--oracle", "wise")
    assert answer == (exits.DONE, "why? old wise", "")


def test_an_async_capability_is_awaited(installed, run):
    installed(("oracle", "make"))
    answer = run("consult", '{"question": "why?"}', "--oracle", "later")
    assert answer == (exits.DONE, "later: why?", "")


def test_what_is_installed_and_not_given_is_absent(installed, run):
    installed(("oracle", "make"))
    status, out, err = run("consult", '{"question": "why?"}')
    assert (status, out) == (exits.HOST_ERROR, "")
    assert err.startswith("trap: unknown host call 0x")


def test_a_value_that_makes_no_sense_is_one_sentence(installed, run):
    installed(("oracle", "make"))
    status, out, err = run("consult", "{}", "--oracle", "bad")
    assert (status, out, err) == (exits.USAGE, "", "berm: --oracle: oracle `bad` gives no answers\n")


def test_an_option_of_ours_cannot_be_taken(installed, run):
    installed(("fuel", "make"), ("oracle", "make"))
    status, out, err = run("say", '{"text": "x"}', "--fuel", "5", "--oracle", "wise")
    assert (status, out) == (exits.HOST_ERROR, "")
    assert err.startswith("trap: out of fuel")


def test_a_name_that_is_no_option_is_left_out(installed, run):
    installed(("two words", "make"), ("--root", "make"))
    assert run("say", '{"text": "fine"}') == (exits.DONE, "fine", "")


def test_the_machine_capabilities_are_there(run, tmp_path):
    (tmp_path / "note").write_text("hello")
    status, out, err = run("say", '{"text": "x"}', "--root", str(tmp_path), "--zone", "local")
    assert (status, out, err) == (exits.DONE, "x", "")
    status, _, err = run("say", '{"text": "x"}', "--root", str(tmp_path / "absent"))
    assert status == exits.USAGE
    assert err.startswith("berm: --root: ")
    status, _, err = run("say", '{"text": "x"}', "--zone", "Mars")
    assert status == exits.USAGE
    assert err.startswith("berm: --zone: ")


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("berm.fs.read", "--root DIR"),
        ("crabtalk.exec.run", "--root DIR"),
        ("berm.http.start", "--host HOST"),
        ("berm.clock.now", "--zone Z"),
        ("berm.kv.keys", "--storage FILE"),
        ("berm.call", "--call NAME=IMAGE"),
        ("crabtalk.wake.schedule", None),
    ],
)
def test_an_option_is_named_for_every_capability_that_one_grants(name, option):
    assert option_for(name) == option


def test_a_guest_that_calls_what_was_not_given_is_told_the_option(tmp_path):
    path = tmp_path / "os.elf"
    path.write_bytes(image("os"))
    done = subprocess.run(
        [sys.executable, "-m", "berm", "run", str(path), "read", '{"path":"x"}'],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == exits.HOST_ERROR
    assert done.stderr.splitlines()[-1] == "hint: --root DIR grants `berm.fs.read`"
