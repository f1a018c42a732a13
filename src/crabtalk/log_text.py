"""A log record as a line: what is shown of it, and what never is.

Pure: a record and the known secrets in, text out. Whatever a guest or a client wrote may be in a record, so
text is capped, control characters are escaped, and a line cannot be made to look like two.
"""

import json
import logging
import re
import traceback
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from crabtalk.config_values import Secret

MAX_TEXT: Final = 8192  # characters of one message
MAX_GUEST_TEXT: Final = 2048  # of one line that a guest logged
GUEST: Final = "crabtalk.guest"  # the logger of what guests log
REDACTED: Final = "[redacted]"
_SHORTEST_SECRET: Final = 4  # replacing shorter ones would make lines unreadable, and hides nothing

_SECRET_KEY: Final = re.compile(
    r"token|secret|passw(?:or)?d|api[_-]?key|authorization|cookie|credential", re.IGNORECASE | re.ASCII
)
# A name that says secret, a separator, and the value up to where it ends.
_ASSIGNED: Final = re.compile(
    r"""([\w-]*(?:token|secret|passw(?:or)?d|api[_-]?key|authorization|cookie|credential)[\w-]*["']?\s*[=:]\s*)"""
    r"""((?:bearer|basic)\s+[^\s"',;}]+|"[^"]*"|'[^']*'|[^\s"',;}]+)""",
    re.IGNORECASE | re.ASCII,
)
# C0 but for nothing, DEL, C1, what reorders or splits lines for a terminal, and what no encoder takes.
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# syslog's numbers, which a service manager reads from `<N>` at the start of a line
_PRIORITY: Final = {"debug": 7, "info": 6, "warning": 4, "error": 3}


class LogLine(NamedTuple):
    """One event, ready to be shown anywhere."""

    time_ms: int
    level: str  # debug, info, warning, error
    logger: str
    text: str
    fields: dict[str, str]  # what else the code said about it: `agent`, `harness`, …
    trace: tuple[str, ...] = ()  # lines of a traceback

    @property
    def agent(self) -> str:
        """The agent it is about, if it is about one."""
        return self.fields.get("agent", "")

    @property
    def harness(self) -> str:
        """The harness it is about, if it is about one."""
        return self.fields.get("harness", "")


class Redactor:
    """Replaces what is secret: known values, and whatever follows a name that says so."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        """Know `secrets` by value."""
        values = {secret.reveal() for secret in secrets}
        values = {value for value in values if len(value) >= _SHORTEST_SECRET}
        # Also as it stands within JSON, which arguments and messages of others often are.
        values |= {json.dumps(value, ensure_ascii=pure)[1:-1] for value in values for pure in (True, False)}
        ordered = sorted(map(re.escape, values), key=len, reverse=True)
        self._known = re.compile("|".join(ordered)) if ordered else None

    def known(self, text: str) -> str:
        """Return `text` without the values that are known."""
        return text if self._known is None else self._known.sub(REDACTED, text)

    def text(self, text: str) -> str:
        """Return `text` without secrets."""
        text = self.known(text)
        return _ASSIGNED.sub(rf"\1{REDACTED}", text) if _SECRET_KEY.search(text) else text

    def field(self, name: str, value: str) -> str:
        """Return the value of a field, or what stands for it."""
        return REDACTED if _SECRET_KEY.search(name) else self.text(value)


def escaped(text: str) -> str:
    """Return `text` with control characters as escapes that show their number."""
    return _CONTROL.sub(_escape, text)


def capped(text: str, limit: int) -> str:
    """Return `text`, or its beginning and how much is missing."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


def line_of(record: logging.LogRecord, redactor: Redactor) -> LogLine:
    """Return what is shown of a record."""
    limit = MAX_GUEST_TEXT if record.name in {GUEST, "berm.guest"} else MAX_TEXT
    return LogLine(
        time_ms=int(record.created * 1000),
        level=level_name(record.levelno),
        logger=record.name,
        text=escaped(redactor.text(capped(_message(record), limit))),
        fields={
            name: escaped(redactor.field(name, capped(str(value), MAX_GUEST_TEXT)))
            for name, value in vars(record).items()
            if name not in _STANDARD and not name.startswith("_")
        },
        trace=tuple(_trace(record, redactor)),
    )


def as_text(line: LogLine, *, journal: bool = False) -> str:
    """Return a line for people; under a service manager it has a priority instead of a time."""
    moment = datetime.fromtimestamp(line.time_ms / 1000, UTC)
    stamp = f"{moment:%Y-%m-%dT%H:%M:%S}.{line.time_ms % 1000:03d}Z"
    opening = f"<{_PRIORITY[line.level]}>" if journal else f"{stamp} {line.level.upper():7} "
    fields = "".join(f" {name}={_quoted(value)}" for name, value in line.fields.items())
    first = f"{opening}{line.logger}: {line.text}{fields}"
    return "\n".join([first, *(f"    | {text}" for text in line.trace)])


def as_json(line: LogLine) -> str:
    """Return a line for programs."""
    known = {"time_ms": line.time_ms, "level": line.level, "logger": line.logger, "text": line.text}
    record: dict[str, object] = {**line.fields, **known}
    if line.trace:
        record["trace"] = list(line.trace)
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def level_name(number: int) -> str:
    """Return the name of the level that a record counts as."""
    known: Mapping[str, int] = {"error": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO}
    return next((name for name, least in known.items() if number >= least), "debug")


Render = Callable[[LogLine], str]


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001 - a log call that is wrong must not end what it was about
        return f"{record.msg!s} (its arguments do not fit: {error})"


def _trace(record: logging.LogRecord, redactor: Redactor) -> list[str]:
    if not record.exc_info or record.exc_info[1] is None:
        return []
    text = "".join(traceback.format_exception(record.exc_info[1], limit=20))
    return [escaped(redactor.text(line)) for line in capped(text, MAX_TEXT).splitlines()]


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"  # noqa: PLR2004 - what two digits hold


def _quoted(value: str) -> str:
    return value if value and not re.search(r'[\s"=]', value) else json.dumps(value, ensure_ascii=False)
