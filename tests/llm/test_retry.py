from __future__ import annotations

import time
from email.utils import formatdate
from typing import Any

import aiohttp
import pytest

from capeval.llm.retry import BadAnswerError, RetryDecision, decide, retry_after

SENT = ("temperature", "seed", "max_tokens", "response_format")


def _error(status: int, body: Any) -> BadAnswerError:
    return BadAnswerError(status, "", body)


def _said(message: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "code": code, "param": param, "type": "some_error"}}


TABLE = [
    (408, _said("slow"), "wait", False),
    (409, _said("conflict"), "wait", False),
    (429, _said("rate limit", "rate_limit_exceeded"), "wait", True),
    (429, _said("Quota exceeded for requests per minute, check your billing"), "wait", True),
    (429, _said("no money", "insufficient_quota"), "stop_run", False),
    (400, _said("hard limit", "billing_hard_limit_reached"), "stop_run", False),
    (500, _said("oops"), "wait", False),
    (500, "<html>Bad gateway</html>", "wait", False),
    (502, "", "wait", False),
    (503, None, "wait", True),
    (529, _said("overloaded"), "wait", True),
    (401, _said("bad key"), "stop_run", False),
    (402, _said("pay"), "stop_run", False),
    (403, _said("country"), "refuse_access", False),
    (403, _said("no credit", "billing_not_active"), "stop_run", False),
    (405, "", "refuse_access", False),
    (410, None, "refuse_access", False),
    (403, _said("your input was flagged"), "refuse_request", False),
    (404, _said("The model `x` does not exist", "model_not_found"), "refuse_access", False),
    (400, _said("invalid model: x"), "refuse_access", False),
    (307, "", "refuse_access", False),
    (400, _said("filtered", "content_filter"), "refuse_request", False),
    (400, _said("violates our content management policy"), "refuse_request", False),
    (400, _said("maximum context length is 8192", "context_length_exceeded"), "refuse_request",
     False),
    (400, _said("max_tokens is too large: 32000. It supports at most 16384", None, "max_tokens"),
     "refuse_request", False),
    (413, "", "refuse_request", False),
    (400, _said("messages[0] is wrong", None, "messages"), "refuse_request", False),
    (422, {"detail": "nonsense"}, "refuse_request", False),
    (400, _said("'temperature' does not support 0 with this model", "unsupported_value",
                "temperature"), "renegotiate", False),
    (422, {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]},
     "renegotiate", False),
    (400, _said("json_schema is not available here"), "renegotiate", False),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "action", "throttled"), TABLE)
def test_every_failure_is_classified_once(
    status: int, body: Any, action: str, throttled: bool
) -> None:
    decision = decide(_error(status, body), SENT)
    assert decision is not None
    assert (decision.action, decision.throttled) == (action, throttled)
    assert str(status) in decision.reason


@pytest.mark.parametrize(
    ("message", "param", "named"),
    [
        ("Use 'max_completion_tokens' instead of 'max_tokens'", "max_tokens", "max_tokens"),
        ("unknown field seed", None, "seed"),
        ("response_format is no good, nor is temperature", None, "response_format"),
        ("structured output is not supported", None, "response_format"),
        ("seeds are fine, logprobs are not", None, None),
    ],
)
def test_the_refused_parameter_is_named(message: str, param: str | None, named: str | None) -> None:
    decision = decide(_error(400, _said(message, None, param)), SENT)
    assert decision is not None
    assert decision.parameter == named


def test_a_parameter_that_was_not_sent_is_not_renegotiated() -> None:
    decision = decide(_error(400, _said("temperature is wrong", None, "temperature")), ("seed",))
    assert decision is not None
    assert decision.action == "refuse_request"


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        ConnectionResetError(),
        aiohttp.ClientPayloadError("cut off"),
        aiohttp.ServerTimeoutError(),
        aiohttp.ServerDisconnectedError(),
        BadAnswerError(200, "the response has no choices"),
    ],
)
def test_a_failed_connection_is_waited_for(error: Exception) -> None:
    decision = decide(error)
    assert decision is not None
    assert decision.action == "wait"
    assert not decision.throttled


def test_a_router_that_answers_200_with_429_inside_is_throttling() -> None:
    decision = decide(BadAnswerError(429, "no choices", {"error": {"message": "slow down"}}))
    assert decision == RetryDecision("wait", None, True, "429: slow down", status=429)


def test_faults_of_ours_are_not_classified() -> None:
    assert decide(KeyError("x")) is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({}, None),
    ],
)
def test_retry_after_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_retry_after_may_be_a_date() -> None:
    after = retry_after({"retry-after": formatdate(time.time() + 60, usegmt=True)})
    assert after is not None
    assert 55 < after <= 60
