"""What errors mean: by their names, by their text, by the status; and what is shown of them."""

import pytest

from crabtalk.config_values import Secret
from crabtalk.conversation.model import ErrorKind
from crabtalk.providers.failures import Failures, error_in, retry_after

KEY = "sk-0123456789abcdef"
FAILURES = Failures("main", [Secret(KEY)])
NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (
            401,
            {"message": "Incorrect API key", "type": "invalid_request_error", "code": "invalid_api_key"},
            "auth",
        ),
        (403, {"type": "permission_error", "message": "no"}, "auth"),
        (401, "", "auth"),
        (429, {"type": "requests", "code": "rate_limit_exceeded", "message": "slow down"}, "rate"),
        (429, {"type": "rate_limit_error", "message": "number of request tokens has exceeded"}, "rate"),
        (429, {"type": "insufficient_quota", "code": "insufficient_quota", "message": "x"}, "quota"),
        (429, {"message": "You exceeded your current quota, please check your plan"}, "quota"),
        (400, {"type": "invalid_request_error", "message": "Your credit balance is too low"}, "quota"),
        (402, {"message": "Insufficient Balance"}, "quota"),
        (429, "", "rate"),
        (529, {"type": "overloaded_error", "message": "Overloaded"}, "overloaded"),
        (500, {"type": "api_error", "message": "Internal server error"}, "overloaded"),
        (503, {"message": "The engine is currently overloaded"}, "overloaded"),
        (502, "", "overloaded"),
        (
            400,
            {"code": "context_length_exceeded", "type": "invalid_request_error", "message": "x"},
            "context",
        ),
        (400, {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens"}, "context"),
        (400, {"code": 400, "type": "exceed_context_size_error", "message": "x"}, "context"),
        (413, "", "context"),
        (400, {"code": "content_filter", "message": "The response was filtered"}, "refused"),
        (400, {"type": "invalid_request_error", "message": "tools: must be unique"}, "bad_request"),
        (404, {"type": "not_found_error", "message": "model: nix"}, "bad_request"),
        (422, {"message": "no"}, "bad_request"),
        (408, "", "timeout"),
        # Within a stream there is no status.
        (None, {"type": "overloaded_error", "message": "Overloaded"}, "overloaded"),
        (None, {"type": "api_error", "message": "x"}, "overloaded"),
        (None, {"type": "invalid_request_error", "message": "x"}, "bad_request"),
        (None, {"code": 429, "message": "x"}, "rate"),
        (None, {"code": 502, "message": "x"}, "overloaded"),
        (None, "the process died", "overloaded"),
    ],
)
def test_the_kind_of_an_error(status, error, kind):
    assert FAILURES.of_error(error, status=status).kind == kind


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"error": {"message": "a"}}', {"message": "a"}),
        (b'{"error": "a"}', "a"),
        (b'[{"error": {"message": "a"}}]', {"message": "a"}),
        (b'{"type": "error", "error": {"type": "x"}}', {"type": "x"}),
        (b'{"message": "a", "code": 3}', {"message": "a", "code": 3}),
        (b'{"detail": "a"}', {"detail": "a"}),
        (b'{"error": null}', None),
        (b"<html>", None),
        (b"[" * 100_000, None),
        (b"", None),
    ],
)
def test_where_the_error_is(body, found):
    assert error_in(body) == found


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "172800"}, 172800.0),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:30 GMT"}, 10.0),
        ({"retry-after": "Tue, 14 Nov 2023 00:00:00 GMT"}, 0.0),
        ({}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Mon, 99 Foo 99999 00:00:00 GMT"}, None),
    ],
)
def test_for_how_long_the_endpoint_wants_to_be_left_alone(headers, seconds):
    assert retry_after(headers, NOW_MS) == (None if seconds is None else pytest.approx(seconds))


def test_a_message_is_one_line_capped_and_without_the_key():
    said = f"Incorrect API key provided: {KEY}\n\x1b[31m" + "x" * 10_000
    error = FAILURES.of_error({"message": said}, status=401)
    assert KEY not in str(error)
    assert "[redacted]" in str(error)
    assert str(error).isprintable()
    assert len(str(error)) < 700
    assert str(error).startswith("model `main`: HTTP 401: Incorrect API key provided: ")


def test_an_error_that_says_nothing_still_has_a_message():
    error = FAILURES.of_error({}, status=503)
    assert str(error) == "model `main`: HTTP 503: it failed and did not say why"
    assert (error.kind, error.status) == (ErrorKind.OVERLOADED, 503)
