"""Log lines: what is shown, what never is, and who may follow."""

import json
import logging
import os
import threading

import pytest
import trio

from crabtalk.config import LogConfig, Secret
from crabtalk.log_text import GUEST, Redactor, as_json, as_text, line_of
from crabtalk.logs import Logs, StderrWriter, guest_line, logging_to_stderr

LOGGER = logging.getLogger("crabtalk.tests")


@pytest.fixture
def written():
    return []


@pytest.fixture
def logs(written):
    logs = Logs(LogConfig(level="info", keep_lines=5), [Secret("sk-hidden")], written.append)
    logging.getLogger().addHandler(logs)
    yield logs
    logging.getLogger().removeHandler(logs)
    for tree in ("crabtalk", "berm", "rvcore"):
        logging.getLogger(tree).setLevel(logging.NOTSET)


def record(text, /, *args, name="crabtalk.tests", level=logging.INFO, error=None, **fields):
    made = logging.LogRecord(
        name, level, "f.py", 1, text, args, (type(error), error, None) if error else None
    )
    vars(made).update(fields)
    return made


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the key is sk-hidden, twice sk-hidden", "the key is [redacted], twice [redacted]"),
        ("token=abc next", "token=[redacted] next"),
        ('{"api_key": "abc def", "a": 1}', '{"api_key": [redacted], "a": 1}'),
        ("Authorization: Bearer abc.def", "Authorization: [redacted]"),
        ("DB_PASSWORD='x y' done", "DB_PASSWORD=[redacted] done"),
        ("a token was refused", "a token was refused"),
    ],
)
def test_secrets_are_replaced_by_value_and_by_name(text, shown):
    assert line_of(record("%s", text), Redactor([Secret("sk-hidden")])).text == shown


def test_a_field_whose_name_says_secret_is_not_shown():
    line = line_of(record("x", client_token="abc", agent="01A"), Redactor())
    assert line.fields == {"client_token": "[redacted]", "agent": "01A"}


def test_a_secret_that_contains_another_goes_whole():
    redactor = Redactor([Secret("abcd"), Secret("abcdefgh")])
    assert redactor.text("abcdefgh abcd") == "[redacted] [redacted]"


def test_a_guest_cannot_forge_a_line_or_move_the_cursor():
    text = as_text(line_of(record("%s", "a\n2026 ERROR root: b\x1b[2J\u2028\u202ec\ud800\x85"), Redactor()))
    assert "\n" not in text
    assert text.endswith("a\\x0a2026 ERROR root: b\\x1b[2J\\u2028\\u202ec\\ud800\\x85")


def test_what_a_guest_says_is_capped():
    line = line_of(record("%s", "x" * 3000, name=GUEST), Redactor())
    assert line.text == "x" * 2048 + "… (952 more characters)"
    assert len(line_of(record("%s", "x" * 9000), Redactor()).text) == 8192 + len("… (808 more characters)")


def test_a_line_of_text_has_its_time_level_and_fields():
    made = record("started %d", 3, agent="01A", why="two words")
    made.created = 1_700_000_000.25
    assert as_text(line_of(made, Redactor())) == (
        '2023-11-14T22:13:20.250Z INFO    crabtalk.tests: started 3 agent=01A why="two words"'
    )
    assert as_text(line_of(made, Redactor()), journal=True).startswith("<6>crabtalk.tests: started 3 ")


def test_a_line_of_json_is_one_object():
    made = record("a\nb", level=logging.ERROR, error=ValueError("token=abc"), agent="01A", text="not this")
    line = json.loads(as_json(line_of(made, Redactor())))
    assert line["text"] == "a\\x0ab"
    assert line["level"] == "error"
    assert line["agent"] == "01A"
    assert line["trace"][-1] == "ValueError: token=[redacted]"


def test_a_traceback_cannot_be_taken_for_lines():
    text = as_text(line_of(record("x", error=ValueError("a\nb")), Redactor()))
    assert all(line.startswith("    | ") for line in text.split("\n")[1:])


def test_a_log_call_that_is_wrong_is_shown_and_ends_nothing():
    assert "its arguments do not fit" in line_of(record("%d %d", 1), Redactor()).text


@pytest.mark.usefixtures("logs")
def test_less_than_the_level_is_not_written(written):
    LOGGER.debug("no")
    LOGGER.info("yes")
    logging.getLogger("httpx").warning("of others, too")
    assert [line.split(": ", 1)[1] for line in written] == ["yes", "of others, too"]


def test_the_newest_lines_are_kept(logs):
    for number in range(8):
        LOGGER.info("%d", number)
    assert [line.text for line in logs.recent()] == ["3", "4", "5", "6", "7"]
    LOGGER.warning("w")
    assert [line.text for line in logs.recent("warning")] == ["w"]


def test_a_new_configuration_is_obeyed_at_once(logs, written):
    logs.configure(LogConfig(level="debug", format="json"), [Secret("another")])
    LOGGER.debug("another sk-hidden")
    assert json.loads(written[-1])["text"] == "[redacted] sk-hidden"


@pytest.mark.trio
async def test_a_follower_gets_the_newest_lines_then_the_new_ones(logs):
    guest_line("before", agent="01A", harness="os")
    with logs.followed("info") as lines:
        threading.Thread(target=LOGGER.warning, args=("from a thread",)).start()
        LOGGER.debug("not asked for")
        found = [await anext(lines), await anext(lines)]
    assert [line.text for line in found] == ["before", "from a thread"]
    assert (found[0].agent, found[0].harness, found[0].logger) == ("01A", "os", GUEST)
    LOGGER.info("after")  # nobody follows any more


@pytest.mark.trio
async def test_a_follower_that_does_not_read_loses_lines_and_knows_how_many(logs):
    with logs.followed("info") as lines:
        for number in range(1010):
            LOGGER.info("%d", number)
        assert lines.lost == 10
        assert (await anext(lines)).text == "0"


@pytest.mark.trio
async def test_a_follower_waits_without_a_line(logs):
    with logs.followed("error") as lines, trio.move_on_after(0.05) as scope:
        LOGGER.info("not asked for")
        await anext(lines)
    assert scope.cancelled_caught


def test_a_stderr_that_nobody_reads_slows_nothing_down():
    reading, writing = os.pipe()
    writer = StderrWriter(writing)
    for _ in range(30_000):
        writer("x" * 100)
    closing = threading.Thread(target=lambda: (writer.close(), os.close(writing)))
    closing.start()
    with os.fdopen(reading, "rb") as pipe:  # to its end: a fast reader gets more lines after the report
        lines = pipe.read().decode().splitlines()
    closing.join()
    reports = [line for line in lines if "dropped: stderr was not read" in line]
    dropped = sum(int(line.split()[1]) for line in reports)
    assert dropped >= 5000
    assert dropped + len(lines) - len(reports) == 30_000


def test_everything_goes_to_stderr(capfd):
    with logging_to_stderr(LogConfig()):
        LOGGER.info("here")
    out, err = capfd.readouterr()
    assert out == ""
    assert err.endswith("INFO    crabtalk.tests: here\n")
