"""Error handlers of a manifest: classification of responses and waits between tries."""

from __future__ import annotations

import time
from typing import Any

import pytest
import requests

from tap_core.exceptions import FatalAPIError
from tap_core.manifest.components.error_handlers import CompositeErrorHandler
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import ErrorHandler, ResponseAction, ResponseResolution
from tests.manifest.pieces import answer, made

CONFIG = "config_error"
SYSTEM = "system_error"
PASSING = "transient_error"


def handler(text: str = "type: DefaultErrorHandler", **config: Any) -> Any:
    return made(text, ErrorHandler, **config)


def filtered(*filters: str, **config: Any) -> Any:
    listed = "".join(f"\n  - {one}" for one in filters)
    return handler(f"type: DefaultErrorHandler\nresponse_filters:{listed}", **config)


@pytest.mark.parametrize(
    ("statuses", "action", "kind"),
    [
        ((200, 204, 302), ResponseAction.SUCCESS, None),
        ((400, 404, 405), ResponseAction.FAIL, SYSTEM),
        ((401, 403), ResponseAction.FAIL, CONFIG),
        ((408, 500, 502, 503, 504), ResponseAction.RETRY, PASSING),
        ((429,), ResponseAction.RATE_LIMITED, PASSING),
        ((418, 501), ResponseAction.RETRY, SYSTEM),
    ],
)
def test_default_action_and_failure_type_per_status(statuses, action, kind):
    for status in statuses:
        resolution = handler().interpret(answer(status), {})
        assert (resolution.action, resolution.failure_type) == (action, kind)


def test_default_is_six_tries_within_ten_minutes():
    found = handler()
    assert (found.max_tries, found.max_seconds) == (6, 600)
    assert handler("type: DefaultErrorHandler\nmax_retries: 2").max_tries == 3
    assert handler("type: DefaultErrorHandler\nmax_retries: '{{ config.n }}'", n=-1).max_tries == 1
    assert handler("type: DefaultErrorHandler\nmax_retries: '{{ config.n }}'").max_tries == 6


@pytest.mark.parametrize(
    ("condition", "matching", "other"),
    [
        ("http_codes: [404, 410]", answer(410), answer(409)),
        (
            "predicate: \"{{ response.code == 7 and headers['X-Kind'] == 'a' }}\"",
            answer(200, b'{"code": 7}', x_kind="a"),
            answer(200, b'{"code": 8}', x_kind="a"),
        ),
        (
            "predicate: \"{{ 'slow down' in response }}\"",
            answer(400, b'["slow down"]'),
            answer(400),
        ),
        (
            "predicate: \"{{ request_url == 'http://x/y' }}\"",
            answer(200, url="http://me:secret@x/y?key=1"),
            answer(200, url="http://x/z"),
        ),
        (
            "error_message_contains: again",
            answer(400, b'{"errors": [{"message": "try again"}, {"detail": "x"}]}'),
            answer(400, b'{"error": {"x": "again"}}'),
        ),
        (
            "error_message_contains: '{{ config.name }}'",
            answer(400, b'{"message": "unknown {{ config.name }}"}'),
            answer(400),
        ),
        ("error_message_contains: again", answer(503, b"<p>try again</p>"), answer(503, b"no")),
    ],
)
def test_response_filter_matches_status_predicate_or_message(condition, matching, other):
    found = filtered(f"{{type: HttpResponseFilter, action: IGNORE, {condition}}}")
    assert found.interpret(matching, {}).action is ResponseAction.IGNORE
    assert found.interpret(other, {}).action is not ResponseAction.IGNORE


def test_first_matching_filter_sets_action_and_message():
    found = filtered(
        "{type: HttpResponseFilter, action: FAIL, http_codes: [403], failure_type: config_error,"
        " error_message: \"{{ config.name }}: {{ response['why'] }}\"}",
        "{type: HttpResponseFilter, action: IGNORE, http_codes: [403, 404]}",
        name="Me",
    )
    assert found.interpret(answer(403, b'{"why": "no"}'), {}) == ResponseResolution(
        ResponseAction.FAIL, "Me: no", CONFIG
    )
    assert found.interpret(answer(404), {}) == ResponseResolution(
        ResponseAction.IGNORE, None, SYSTEM
    )
    assert found.interpret(answer(405), {}).action is ResponseAction.FAIL


def test_body_read_by_a_filter_is_still_available():
    found = filtered("{type: HttpResponseFilter, action: FAIL, predicate: '{{ response.bad }}'}")
    response = answer(200, b'{"data": [1]}')
    assert found.interpret(response, {}).action is ResponseAction.SUCCESS
    assert response.take() == {"data": [1]}


COMPOSITE = """
type: CompositeErrorHandler
error_handlers:
  - type: DefaultErrorHandler
    max_retries: 3
    response_filters:
      - {type: HttpResponseFilter, http_codes: [403], error_message: mine, action: ACTION}
    backoff_strategies: [{type: WaitTimeFromHeader, header: Wait}]
  - type: DefaultErrorHandler
    response_filters:
      - {type: HttpResponseFilter, http_codes: [429], action: RATE_LIMITED}
      - {type: HttpResponseFilter, predicate: "{{ response.skip }}", action: IGNORE}
    backoff_strategies: [{type: ConstantBackoffStrategy, backoff_time_in_seconds: 7}]
"""


@pytest.mark.parametrize(
    ("action", "response", "expected"),
    [
        ("RETRY", answer(403), ResponseResolution(ResponseAction.RETRY, "mine", CONFIG)),
        ("IGNORE", answer(403), ResponseResolution(ResponseAction.IGNORE, "mine", CONFIG)),
        ("FAIL", answer(403), ResponseResolution(ResponseAction.FAIL, "mine", CONFIG)),
        (
            "RATE_LIMITED",
            answer(403),
            ResponseResolution(ResponseAction.RATE_LIMITED, "mine", CONFIG),
        ),
        (
            "FAIL",
            answer(403, b'{"skip": 1}'),
            ResponseResolution(ResponseAction.IGNORE, None, CONFIG),
        ),
        ("FAIL", answer(500), ResponseResolution(ResponseAction.RETRY, None, PASSING)),
        ("FAIL", answer(429), ResponseResolution(ResponseAction.RATE_LIMITED, None, PASSING)),
        ("FAIL", answer(200), ResponseResolution(ResponseAction.SUCCESS)),
    ],
)
def test_later_handler_of_a_composite_may_retry_or_ignore(action, response, expected):
    assert handler(COMPOSITE.replace("ACTION", action)).interpret(response, {}) == expected


@pytest.mark.parametrize(("first", "then"), [("FAIL", "RATE_LIMITED"), ("RATE_LIMITED", "FAIL")])
def test_rate_limited_has_priority_in_a_composite_handler(first, then):
    """airbyte-cdk uses the last handler, so the second case fails there."""
    limit = "{type: HttpResponseFilter, http_codes: [403], action: %s}"
    found = [filtered(limit % action) for action in (first, then)]
    resolution = CompositeErrorHandler(error_handlers=found).interpret(answer(403), {})
    assert resolution.action is ResponseAction.RATE_LIMITED


def test_composite_handler_uses_the_first_known_wait():
    found = handler(COMPOSITE.replace("ACTION", "FAIL"))
    assert (found.max_tries, found.max_seconds) == (4, 600)
    assert found.compute_wait(answer(429, Wait="3"), 1, {}) == 3
    assert found.compute_wait(answer(429), 1, {}) == 7
    assert handler().compute_wait(answer(429), 1, {}) is None
    assert (
        CompositeErrorHandler(error_handlers=[handler()]).compute_wait(answer(429), 1, {}) is None
    )


class Silent:
    """Custom error handler that returns no action for any response."""

    max_tries, max_seconds = 1, None

    def interpret(self, response, scope):
        return None

    def compute_wait(self, response, tries, scope):
        return None


def test_handler_without_a_decision_defers_to_the_next():
    found = CompositeErrorHandler(error_handlers=[Silent(), handler()])
    assert found.interpret(answer(404), {}).action is ResponseAction.FAIL
    assert found.max_seconds == 600


def test_composite_of_handlers_without_a_time_limit_has_none():
    assert CompositeErrorHandler(error_handlers=[Silent()]).max_seconds is None


def test_filters_accept_plain_requests_responses():
    found = filtered("{type: HttpResponseFilter, action: FAIL, predicate: '{{ response.bad }}'}")
    response = requests.Response()
    response.status_code, response._content = 200, b'{"bad": 1}'
    assert found.interpret(response, {}).action is ResponseAction.FAIL


def waited(strategy: str, response: Any = None, tries: int = 1, **config: Any) -> float | None:
    text = f"type: DefaultErrorHandler\nbackoff_strategies: [{{{strategy}}}]"
    found = handler(text, **config)
    seconds: float | None = found.compute_wait(response, tries, {})
    return seconds


HEADER = "type: WaitTimeFromHeader, header: Wait"
UNTIL = "type: WaitUntilTimeFromHeader, header: Until"
FROM_BODY = "type: WaitTimeFromResponse, wait_time_in_seconds: '{{ response.seconds }}'"


@pytest.mark.parametrize(
    ("strategy", "response", "seconds"),
    [
        ("type: ConstantBackoffStrategy, backoff_time_in_seconds: 2.5", None, 2.5),
        ("type: ConstantBackoffStrategy, backoff_time_in_seconds: '{{ config.s }}'", None, 9),
        ("type: ExponentialBackoffStrategy", None, 10),
        ("type: ExponentialBackoffStrategy, factor: 0.5", None, 1),
        ("type: ExponentialBackoffStrategy, factor: 0", None, 10),
        (HEADER, answer(429, Wait="12"), 12),
        (HEADER, answer(429, Wait="soon"), None),
        (HEADER, answer(429, Wait="nan"), None),
        (HEADER, answer(429, Wait="-5"), None),
        (UNTIL, answer(429, Until="nan"), None),
        (HEADER, answer(429), None),
        (HEADER, None, None),
        (f"{HEADER}, regex: '[.0-9]+'", answer(429, Wait="1.5s please"), 1.5),
        (UNTIL, answer(429, Until="1"), None),
        (UNTIL, answer(429), None),
        (f"{UNTIL}, min_wait: 4", answer(429, Until="1"), 4),
        (f"{UNTIL}, min_wait: 4", None, 4),
        (FROM_BODY, answer(429, b'{"seconds": 3}'), 3),
        (FROM_BODY, answer(429, b'{"seconds": -3}'), None),
        (FROM_BODY, answer(429, b"[]"), None),
        (FROM_BODY, None, None),
        (f"{UNTIL}, min_wait: '{{{{ config.none }}}}'", answer(429, Until="1"), None),
    ],
)
def test_backoff_strategy_returns_the_wait(strategy, response, seconds):
    assert waited(strategy, response, s=9) == seconds


@pytest.mark.parametrize("template", ["response.error.seconds", "response.seconds + 'x'"])
def test_failing_template_of_a_wait_defers_to_the_next_strategy(template, caplog):
    """Before, a body of another form ended the stream."""
    strategy = f'type: WaitTimeFromResponse, wait_time_in_seconds: "{{{{ {template} }}}}"'
    assert waited(strategy, answer(429, b'{"seconds": 3}')) is None
    assert "The next backoff strategy is used" in caplog.text


@pytest.mark.parametrize(
    ("strategy", "response"),
    [
        (HEADER, answer(429, Wait="86400")),
        (HEADER, answer(429, Wait="1e999")),
        (UNTIL, answer(429, Until="inf")),
        (FROM_BODY, answer(429, b'{"seconds": 1e300}')),
    ],
)
def test_wait_of_a_day_is_an_error_unless_the_manifest_allows_it(strategy, response):
    """SEC13: a response cannot make a sync wait without end."""
    with pytest.raises(FatalAPIError, match="`max_waiting_time_in_seconds` is 86,400"):
        waited(strategy, response)
    longer = f"{HEADER}, max_waiting_time_in_seconds: 100000"
    assert waited(longer, answer(429, Wait="90000")) == 90_000


def test_deeply_nested_error_message_is_not_searched_to_its_end():
    """SEC13: before, it ended the run with a RecursionError."""
    text = FILTER.replace("FAILWHICH", "RETRY, error_message_contains: 'no'")
    found = handler(text)
    nested = b"[" * 400 + b'"no"' + b"]" * 400
    assert found.interpret(answer(400, nested), {}).action is ResponseAction.FAIL


def test_exponential_backoff_doubles_the_wait():
    waits = [waited("type: ExponentialBackoffStrategy, factor: 1", tries=n) for n in (1, 2, 3)]
    assert waits == [2, 4, 8]


@pytest.mark.parametrize(
    "strategy",
    [
        "type: ConstantBackoffStrategy, backoff_time_in_seconds: 10, jitter_range_in_seconds: 2",
        "type: ExponentialBackoffStrategy, factor: 5, jitter_range_in_seconds: 2",
    ],
)
def test_jitter_adds_up_to_twice_its_range(strategy):
    waits = [waited(strategy) or 0.0 for _ in range(20)]
    assert all(10 <= seconds <= 14 for seconds in waits)
    assert len(set(waits)) > 1


def test_wait_until_time_from_header_is_the_remaining_time():
    seconds = waited(UNTIL, answer(429, Until=str(time.time() + 3_600))) or 0.0
    assert 3_000 < seconds <= 3_600


@pytest.mark.parametrize(
    ("strategy", "response"),
    [
        (HEADER, answer(429, Wait="30")),
        (UNTIL, answer(429, Until=str(time.time() + 3_600))),
        (FROM_BODY, answer(429, b'{"seconds": 31}')),
    ],
)
def test_wait_above_the_maximum_ends_the_stream(strategy, response):
    with pytest.raises(FatalAPIError, match="sync again later"):
        waited(f"{strategy}, max_waiting_time_in_seconds: 30", response)


def test_filter_without_a_condition_is_ignored_with_a_warning(caplog):
    found = handler(FILTER.replace("WHICH", ""))
    assert "response_filters[0]: This response filter matches no response" in caplog.text
    assert found.interpret(answer(200), {}).action is ResponseAction.SUCCESS


FILTER = """
type: DefaultErrorHandler
response_filters: [{type: HttpResponseFilter, action: FAILWHICH}]
"""
WAITING = """
type: DefaultErrorHandler
backoff_strategies: [{type: WaitTimeFromHeader, header: x, WHICH}]
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{type: CompositeErrorHandler, error_handlers: []}", "at least one"),
        (FILTER.replace("WHICH", ", http_codes: [1]").replace("FAIL", "EXPLODE"), "EXPLODE"),
        (WAITING.replace("WHICH", "regex: '('"), "not a valid regular expression"),
    ],
)
def test_invalid_error_handler_is_rejected_with_its_line(text, words):
    with pytest.raises(ManifestError, match=words) as error:
        handler(text)
    assert "line" in str(error.value)
