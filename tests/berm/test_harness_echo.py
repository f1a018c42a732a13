"""harness/echo: the smallest harness, in the sandbox and natively."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import berm
from guest_images import HARNESSES, image


@pytest.fixture(scope="module")
def echo(engine):
    return berm.Harness.load(engine, image("echo"))


def test_it_has_one_tool_and_wants_nothing(echo):
    assert echo.tools == ("echo",)
    assert list(echo.manifest.capabilities) == []


@pytest.mark.core
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200), st.booleans())
@settings(max_examples=100, deadline=None)
def test_it_says_back_any_text(echo, text, ascii_only):
    assert echo.call("echo", json.dumps({"text": text}, ensure_ascii=ascii_only)).text == text


@pytest.mark.core
@given(st.binary(max_size=100))
@settings(max_examples=100, deadline=None)
def test_any_arguments_are_answered_or_refused(echo, args):
    assert isinstance(echo.call("echo", args), (berm.Done, berm.Failed))


def test_a_text_over_the_output_limit_is_cut_and_says_so(echo):
    outcome = echo.call("echo", json.dumps({"text": "x" * 2_000_000}))
    assert outcome.text.endswith("bytes were dropped here]")
    assert len(outcome.text) <= 1 << 20


@pytest.mark.parametrize("name", sorted(path.parent.name for path in HARNESSES.glob("*/tests")))
def test_the_native_tests_pass(name):
    done = subprocess.run(
        [sys.executable, "-m", "berm", "test", str(HARNESSES / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].endswith("passed, 0 failed")
