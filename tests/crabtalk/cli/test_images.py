"""`crabtalk harness diff` of files; that the differences are right is tested where they are found."""

import hashlib
import json

import pytest

from berm.cli.exits import DONE, HOST_ERROR
from crabtalk.cli import main


@pytest.fixture
def images(build):
    return build("harness/echo/echo.c"), build("tests/guests/cli.c")


def test_two_files_are_compared_without_a_daemon(images, capfd):
    echo, other = images
    assert main(["harness", "diff", str(echo), str(other)]) == DONE
    first, second, *lines = capfd.readouterr().out.splitlines()
    assert first.split() == [
        "sha256",
        hashlib.sha256(echo.read_bytes()).hexdigest(),
        "->",
        hashlib.sha256(other.read_bytes()).hexdigest(),
    ]
    assert second.startswith("size ")
    assert "removes tools: echo" in lines
    assert any(line.startswith("adds tools: ") and " say," in line for line in lines)


def test_as_json_each_kind_of_difference_is_a_list(images, capfd):
    echo, other = images
    assert main(["harness", "diff", "--json", str(echo), str(other)]) == DONE
    found = json.loads(capfd.readouterr().out)
    assert found["tools_removed"] == ["echo"]
    assert found["requests_added"] == ["berm.fs.read"]
    assert found["new_sha256"] == hashlib.sha256(other.read_bytes()).hexdigest()


def test_a_file_and_itself_are_the_same(images, capfd):
    assert main(["harness", "diff", str(images[0]), str(images[0])]) == DONE
    assert capfd.readouterr().out.startswith("the same image, ")


def test_what_is_no_image_is_refused(tmp_path, images, capfd):
    (tmp_path / "x.elf").write_bytes(b"no image")
    assert main(["harness", "diff", str(images[0]), str(tmp_path / "x.elf")]) == HOST_ERROR
    assert capfd.readouterr().err.startswith(f"crabtalk: {tmp_path}/x.elf: ")


def test_a_file_that_is_not_there_is_not_asked_of_the_daemon(images, tmp_path, capfd):
    assert main(["harness", "diff", str(images[0]), f"{tmp_path}/y.elf"]) == HOST_ERROR
    assert capfd.readouterr().err == f"crabtalk: there is no file {tmp_path}/y.elf\n"
