"""Text on the command line becomes values, or a usage error that says what was expected."""

import argparse
from pathlib import Path

import pytest

from berm.build.build import add_arguments as add_build_arguments
from berm.cli import arguments
from berm.cli.exits import CommandError
from berm.cli.parsing import Parser


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("65536", 65536),
        ("64MiB", 64 << 20),
        ("64M", 64 << 20),
        ("64mb", 64 << 20),
        ("16 KiB", 16 << 10),
        ("4G", 4 << 30),
        ("512B", 512),
    ],
)
def test_sizes_are_binary_multiples(text, size):
    assert arguments.size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "MiB", "1.5M", "64XB", "64MiBs", "0x10", "٣", "1e3"])
def test_what_is_no_size_is_refused_with_an_example(text):
    with pytest.raises(argparse.ArgumentTypeError, match="expected a size like 64MiB"):
        arguments.size_bytes(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1", 1),
        ("20000000000", 20_000_000_000),
        ("20_000_000_000", 20_000_000_000),
        ("2e10", 20_000_000_000),
        ("1.5e3", 1500),
        ("20G", 20_000_000_000),
        ("2.5M", 2_500_000),
        ("9007199254740993", 9007199254740993),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_counts_are_decimal_and_exact(text, count):
    assert arguments.count(text) == count


@pytest.mark.parametrize("text", ["", "0", "-5", "ten", "1e99", "9223372036854775808", "0.2", "inf", "nan"])
def test_what_is_no_count_is_refused_with_an_example(text):
    with pytest.raises(argparse.ArgumentTypeError, match="expected a count like 2e10"):
        arguments.count(text)


def test_seconds_may_have_a_fraction_and_a_unit():
    assert arguments.seconds("2.5") == 2.5
    assert arguments.seconds("10s") == 10


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "inf", "1m", "soon"])
def test_what_is_no_positive_time_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="expected a number of seconds"):
        arguments.seconds(text)


def test_tool_arguments_are_passed_as_they_are():
    assert arguments.tool_arguments('{"a": "ü"}') == '{"a": "ü"}'.encode()


def test_tool_arguments_keep_bytes_that_are_not_utf8():
    assert arguments.tool_arguments(b"\xff\x00x".decode("utf-8", "surrogateescape")) == b"\xff\x00x"


def test_tool_arguments_come_from_a_file(tmp_path):
    (tmp_path / "args.json").write_bytes(b"\x00\xff{}\r\n")
    assert arguments.tool_arguments(f"@{tmp_path / 'args.json'}") == b"\x00\xff{}\r\n"


def test_a_file_that_is_missing_is_named():
    with pytest.raises(CommandError, match=r"cannot read nowhere/args\.json: no such file"):
        arguments.tool_arguments("@nowhere/args.json")


def test_a_directory_is_no_image(tmp_path):
    with pytest.raises(CommandError, match="is a directory"):
        arguments.read_image(tmp_path)


def test_no_more_of_an_image_is_read_than_a_loader_accepts(monkeypatch):
    monkeypatch.setattr(arguments, "MAX_IMAGE_BYTES", 1000)
    assert len(arguments.read_image(Path("/dev/zero"))) == 1001


@pytest.mark.parametrize("text", ["-", "@blob"])
def test_arguments_without_an_end_are_refused(monkeypatch, tmp_path, text):
    """`berm run … - < /dev/zero` must not take all memory."""
    monkeypatch.setattr(arguments, "MAX_ARGUMENT_BYTES", 1000)
    monkeypatch.chdir(tmp_path)
    Path("blob").write_bytes(bytes(1000))
    with Path("blob").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert arguments.tool_arguments(text) == bytes(1000)
    with Path("/dev/zero").open() as endless:
        monkeypatch.setattr("sys.stdin", endless)
        with pytest.raises(CommandError, match="are larger than"):
            arguments.tool_arguments("-" if text == "-" else "@/dev/zero")


@pytest.mark.parametrize("words", [["-C", "-O3", "x.c"], ["x.c", "--cflag", "-O3"], ["x.c", "-C=-O3"]])
def test_a_flag_of_the_compiler_may_look_like_an_option(words):
    parser = Parser(prog="berm build")
    add_build_arguments(parser)
    parsed = parser.read(words)
    assert (parsed.cflags, parsed.sources) == (["-O3"], ["x.c"])


def test_a_file_name_in_place_of_arguments_is_pointed_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert arguments.tool_arguments("args.json") == b"args.json"
    assert capsys.readouterr().err == ""
    (tmp_path / "args.json").write_text("{}")
    assert arguments.tool_arguments("args.json") == b"args.json"
    said = "note: `args.json` is passed as text; `@args.json` passes what the file holds\n"
    assert capsys.readouterr().err == said
