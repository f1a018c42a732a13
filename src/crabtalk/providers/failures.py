"""What an endpoint's error means: its kind, and a message that can be shown.

What the error calls itself decides first, then what its text says where endpoints have no better name for
it, then the HTTP status. A message is the endpoint's own sentence, capped, on one line, without the
credentials that some endpoints repeat in it.
"""

import math
import re
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from crabtalk.config_values import Secret
from crabtalk.conversation.model import ErrorKind, ModelError
from crabtalk.log_text import Redactor, capped, escaped
from crabtalk.providers.json_values import clean, loads, number, table

_MAX_MESSAGE: Final = 500  # characters

_BY_NAME: Final[Mapping[str, ErrorKind]] = {
    **dict.fromkeys(
        (
            "insufficient_quota",
            "billing_error",
            "billing_not_active",
            "billing_hard_limit_reached",
            "credit_balance_exhausted",
            "insufficient_balance",
            "insufficient_credits",
            "quota_exceeded",
        ),
        ErrorKind.QUOTA,
    ),
    **dict.fromkeys(
        ("rate_limit_error", "rate_limit_exceeded", "too_many_requests", "slow_down"), ErrorKind.RATE
    ),
    **dict.fromkeys(
        (
            "overloaded_error",
            "overloaded",
            "server_is_overloaded",
            "server_error",
            "api_error",
            "internal_error",
            "internal_server_error",
            "service_unavailable",
            "service_unavailable_error",
            "unavailable_error",
            "engine_overloaded_error",
        ),
        ErrorKind.OVERLOADED,
    ),
    **dict.fromkeys(
        (
            "context_length_exceeded",
            "context_length_error",
            "exceed_context_size_error",
            "model_context_window_exceeded",
            "string_above_max_length",
            "request_too_large",
        ),
        ErrorKind.CONTEXT,
    ),
    **dict.fromkeys(
        (
            "authentication_error",
            "invalid_api_key",
            "permission_error",
            "access_terminated",
            "account_deactivated",
        ),
        ErrorKind.AUTH,
    ),
    **dict.fromkeys(
        ("content_filter", "content_policy_violation", "responsibleaipolicyviolation", "refusal"),
        ErrorKind.REFUSED,
    ),
    "timeout_error": ErrorKind.TIMEOUT,
}
# Some endpoints have one name for everything that is wrong with a request, and say it in the text alone.
_BY_TEXT: Final = (
    (
        re.compile(
            r"prompt is too long|maximum context length|context (?:window|length|size)"
            r"|input (?:is|length|tokens?)\b.{0,40}\b(?:too long|exceeds?)",
            re.IGNORECASE,
        ),
        ErrorKind.CONTEXT,
    ),
    (
        re.compile(
            r"credit balance|exceeded your current quota|insufficient (?:balance|credit|fund)", re.IGNORECASE
        ),
        ErrorKind.QUOTA,
    ),
    (re.compile(r"\boverloaded\b", re.IGNORECASE), ErrorKind.OVERLOADED),
)
_BY_STATUS: Final[Mapping[int, ErrorKind]] = {
    401: ErrorKind.AUTH,
    402: ErrorKind.QUOTA,
    403: ErrorKind.AUTH,
    408: ErrorKind.TIMEOUT,
    409: ErrorKind.OVERLOADED,
    413: ErrorKind.CONTEXT,
    425: ErrorKind.OVERLOADED,
    429: ErrorKind.RATE,
}
# Names that say only that something is wrong with the request, whatever it is.
_VAGUE: Final = frozenset({"invalid_request_error", "invalid_request", "bad_request", ""})
_SERVER: Final = 500
_STATUSES: Final = range(400, 600)


class Failures:
    """Makes errors of one endpoint; knows what must not be in a message."""

    def __init__(self, name: str, secrets: Iterable[Secret] = ()) -> None:
        """Speak of the model `name`."""
        self._name = name
        self._redactor = Redactor(secrets)

    def make(
        self, kind: ErrorKind, what: str, *, status: int | None = None, retry_after_s: float | None = None
    ) -> ModelError:
        """Return an error that says what happened to this model."""
        said = capped(self._redactor.text(escaped(what.strip())), _MAX_MESSAGE)
        return ModelError(kind, f"model `{self._name}`: {said}", status=status, retry_after_s=retry_after_s)

    def of_error(
        self, error: object, *, status: int | None = None, retry_after_s: float | None = None, hint: str = ""
    ) -> ModelError:
        """Return what an endpoint's error object means; of a response, or within a stream."""
        fields = table(error)
        names = [clean(fields.get(key)).lower() for key in ("code", "type", "status")]
        said = clean(error) or clean(fields.get("message")) or clean(fields.get("detail"))
        code = number(fields.get("code"))
        if status is None and code is not None and code in _STATUSES:
            status = code
        kind = _kind(names, said, status)
        said = said or next(filter(None, names), "") or "it failed and did not say why"
        where = f"HTTP {status}: " if status is not None else ""
        return self.make(kind, f"{where}{said}{hint}", status=status, retry_after_s=retry_after_s)

    def of_response(
        self, status: int, headers: Mapping[str, str], body: bytes, now_ms: int, *, hint: str
    ) -> ModelError:
        """Return what a response that is no answer means."""
        retry_after_s = retry_after(headers, now_ms)
        return self.of_error(error_in(body) or {}, status=status, retry_after_s=retry_after_s, hint=hint)


def error_in(body: bytes) -> object:
    """Return what of a body is about the error, None if nothing is."""
    try:
        parsed: Any = loads(body)
    except ValueError:
        return None
    if isinstance(parsed, list) and parsed:  # some gateways wrap it
        parsed = parsed[0]
    fields = table(parsed)
    error = fields.get("error")
    if isinstance(error, dict | str) and error:
        return error
    return fields if fields.keys() & {"message", "detail"} else None


def retry_after(headers: Mapping[str, str], now_ms: int) -> float | None:
    """Return for how long the endpoint wants to be left alone, in seconds; None if it does not say."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) * unit
        except ValueError:
            seconds = _seconds_until(value, now_ms)
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    return None


def _seconds_until(date: str, now_ms: int) -> float:
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now_ms / 1000)
    except (ValueError, TypeError, IndexError, OverflowError):
        return math.nan


def _kind(names: list[str], said: str, status: int | None) -> ErrorKind:
    for name in names:
        if name in _BY_NAME and name != "api_error":
            return _BY_NAME[name]
    for pattern, kind in _BY_TEXT:
        if pattern.search(said) and (status is None or status not in {401, 403}):
            return kind
    if status is not None:
        return _BY_STATUS.get(status, ErrorKind.OVERLOADED if status >= _SERVER else ErrorKind.BAD_REQUEST)
    if "api_error" in names:
        return ErrorKind.OVERLOADED
    return ErrorKind.BAD_REQUEST if any(name in _VAGUE - {""} for name in names) else ErrorKind.OVERLOADED
