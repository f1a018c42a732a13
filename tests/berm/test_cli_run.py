"""`berm run`: what arrives on stdout and stderr, and with which exit code."""

import json
import os
import pty
import select
import signal
import subprocess
import sys

import pytest

from berm.cli import exits, main


@pytest.fixture
def run(cli_image, capfdbinary):
    """Call a tool of the test image inside this process: (exit code, stdout, stderr)."""

    def run(tool, *arguments, command="run"):
        try:
            status = main([command, str(cli_image), tool, *arguments])
        except SystemExit as exit_:
            status = exit_.code
        captured = capfdbinary.readouterr()
        return status, captured.out, captured.err.decode()

    return run


def command(cli_image, *arguments):
    return [sys.executable, "-m", "berm", "run", str(cli_image), *arguments]


def on_terminal(argv):
    """Run a command whose stdout and stderr are one terminal; return (exit code, what it printed)."""
    pid, master = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm", NO_COLOR="1")
        os.execv(argv[0], argv)
    printed = b""
    try:
        while select.select([master], [], [], 60)[0]:
            try:
                piece = os.read(master, 65536)
            except OSError:  # Linux says EIO at the end
                break
            if not piece:
                break
            printed += piece
    finally:
        os.close(master)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), printed.replace(b"\r\n", b"\n")


@pytest.mark.core
def test_done_puts_the_result_on_stdout_unchanged(run):
    assert run("say", '{"text": "hello ü\\n\\u001b[1m"}') == (exits.DONE, "hello ü\n\x1b[1m".encode(), "")


@pytest.mark.core
def test_failed_puts_the_message_on_stderr(run):
    assert run("refuse", '{"message": "no such page"}') == (exits.FAILED, b"", "no such page\n")


@pytest.mark.core
def test_a_trap_is_reported_on_stderr(run):
    status, out, err = run("crash")
    assert (status, out) == (exits.HOST_ERROR, b"")
    assert err.startswith("trap: load fault, 1-byte load at 0x8 - at 0x")
    assert "berm_start_crash" in err


def test_arguments_are_an_empty_object_when_absent(run):
    assert run("blob") == (exits.DONE, b"{}", "")


def test_arguments_reach_the_tool_byte_for_byte(run, tmp_path):
    blob = bytes(range(1, 128)) + "ü".encode() + b"\n" * 3
    (tmp_path / "blob").write_bytes(blob)
    assert run("blob", f"@{tmp_path / 'blob'}") == (exits.DONE, blob, "")


def test_arguments_come_from_stdin(cli_image):
    done = subprocess.run(
        command(cli_image, "blob", "-"), input=b"from stdin", capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (exits.DONE, b"from stdin")


def test_a_result_that_is_not_utf8_needs_raw(run):
    status, out, err = run("binary")
    assert (status, out) == (exits.HOST_ERROR, b"")
    assert "bad result" in err
    assert run("binary", "--raw") == (exits.DONE, b"\xff\x00\x1b", "")


def test_a_tool_that_is_not_there_is_one_sentence(run):
    status, out, err = run("sag")
    assert (status, out) == (exits.HOST_ERROR, b"")
    assert err.startswith("berm: no tool `sag` in this image: it has say, ")


def test_log_lines_go_to_stderr_and_stay_lines(run):
    assert run("note", '{"line": "a\\nb\\u001b[2J"}') == (exits.DONE, b"done", "note: a\\x0ab\\x1b[2J\n")


@pytest.mark.core
def test_fuel_stops_a_tool(run):
    status, _, err = run("spin", "--fuel", "1M")
    assert status == exits.HOST_ERROR
    assert "trap: out of fuel: all 1000000 instructions are used" in err


@pytest.mark.core
def test_a_deadline_stops_a_tool(run):
    status, _, err = run("spin", "--deadline", "0.05")
    assert status == exits.HOST_ERROR
    assert "trap: deadline: " in err


def test_memory_is_what_was_asked_for(run):
    assert run("work", '{"n": 3}', "--memory", "1MiB") == (exits.DONE, b"5", "")
    status, _, err = run("work", '{"n": 3}', "--memory", "3M")
    assert status == exits.USAGE
    assert (
        err
        == "berm: --memory: expected a power of two from 128 KiB to 4 GiB, got 3145728 - at `memory_size`\n"
    )


def test_options_may_stand_anywhere(cli_image, capfdbinary):
    assert main(["run", "--fuel", "1M", str(cli_image), "say", "--stats", '{"text": "x"}']) == exits.DONE
    captured = capfdbinary.readouterr()
    assert captured.out == b"x"
    assert b" instructions, " in captured.err


def test_json_describes_each_way_to_end(run):
    def facts(*arguments):
        status, out, err = run(*arguments, "--json")
        assert err == ""
        return status, json.loads(out)

    status, done = facts("say", '{"text": "hi"}')
    assert (status, done["outcome"], done["result"]) == (exits.DONE, "done", "hi")
    assert done["instructions"] > 0
    status, binary = facts("binary", "--raw")
    assert (status, binary["result_base64"]) == (exits.DONE, "/wAb")
    status, failed = facts("refuse", '{"message": "no"}')
    assert (status, failed["outcome"], failed["message"]) == (exits.FAILED, "failed", "no")
    status, trap = facts("crash")
    assert (status, trap["outcome"], trap["code"], trap["address"]) == (
        exits.HOST_ERROR,
        "trap",
        "LOAD_FAULT",
        8,
    )


def test_images_can_call_each_other(run, cli_image):
    status, out, err = run("relay", '{"text": "over there"}', "--call", f"peer={cli_image}")
    assert (status, out, err) == (exits.DONE, b"over there", "")


def test_without_call_there_is_nothing_to_call(run):
    status, out, err = run("relay", '{"text": "x"}')
    assert (status, out) == (exits.HOST_ERROR, b"")
    assert "`berm.call`" in err.splitlines()[0]


def test_a_name_is_given_to_one_image_only(run, cli_image):
    status, _, err = run("relay", "{}", "--call", f"peer={cli_image}", "--call", f"peer={cli_image}")
    assert (status, err) == (exits.USAGE, "berm: --call names peer twice\n")


def test_a_terminal_gets_a_newline_and_no_controls(cli_image):
    assert on_terminal(command(cli_image, "say", '{"text": "hi"}')) == (exits.DONE, b"hi\n")
    assert on_terminal(command(cli_image, "say", '{"text": "hi\\n"}')) == (exits.DONE, b"hi\n")
    message = '{"message": "\\u001b[31mred\\u0007"}'
    assert on_terminal(command(cli_image, "refuse", message)) == (exits.FAILED, b"\\x1b[31mred\\x07\n")


def test_a_reader_that_goes_away_is_no_traceback(cli_image):
    script = '"$@" | head -c 1'
    done = subprocess.run(
        ["bash", "-c", script, "-", sys.executable, "-m", "berm", "disasm", str(cli_image)],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == (b"_", b"")


def test_ctrl_c_ends_a_tool(cli_image):
    process = subprocess.Popen(command(cli_image, "spin"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stderr.readline() == b"spin: spinning\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=10)
    assert (process.returncode, out, err) == (exits.INTERRUPTED, b"", b"berm: interrupted\n")


def test_ctrl_c_ends_a_tool_on_an_event_loop(cli_image, tmp_path):
    process = subprocess.Popen(
        command(cli_image, "spin", "--root", str(tmp_path)), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stderr.readline() == b"spin: spinning\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=10)
    assert (process.returncode, out, err) == (exits.INTERRUPTED, b"", b"berm: interrupted\n")


def shell(script, cli_image):
    """Run a script in which $berm is the command and $image the test image."""
    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "berm": f"{sys.executable} -m berm", "image": str(cli_image)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr.decode()


def test_a_full_disk_is_one_sentence(cli_image):
    full = shell("""$berm run $image say '{"text": "x"}' > /dev/full""", cli_image)
    assert full == (exits.HOST_ERROR, b"", "berm: writing the output: no space left on device\n")


def test_streams_that_are_closed_are_no_traceback(cli_image):
    call = """$berm run $image say '{"text": "x"}'"""
    assert shell(f"{call} >&-", cli_image) == (exits.DONE, b"", "")
    assert shell(f"{call} 2>&-", cli_image) == (exits.DONE, b"x", "")
    closed = shell("$berm run $image blob - <&-", cli_image)
    assert closed == (exits.HOST_ERROR, b"", "berm: there is no stdin to read the arguments from\n")


def test_a_terminal_of_another_encoding_shows_what_it_cannot(cli_image):
    done = subprocess.run(
        command(cli_image, "refuse", '{"message": "größe ✓"}'),
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == b"gr\\xf6\\xdfe \\u2713\n"


def test_memory_that_cannot_be_had_is_one_sentence(cli_image):
    script = """ulimit -v 2000000; $berm run $image say '{"text": "x"}' --memory 4GiB"""
    status, out, err = shell(script, cli_image)
    assert (status, out) == (exits.HOST_ERROR, b"")
    assert err == "berm: this machine's memory does not suffice: try a smaller --memory\n"
