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
from tests.manifest.pieces import build, make_response

CONFIG = "config_error"
SYSTEM = "system_error"
PASSING = "transient_error"


def make_handler(text: str = "type: DefaultErrorHandler", **config: Any) -> Any:
    return build(text, ErrorHandler, **config)


def make_filter_handler(*filters: str, **config: Any) -> Any:
    listed = "".join(f"\n  - {response_filter}" for response_filter in filters)
    return make_handler(f"type: DefaultErrorHandler\nresponse_filters:{listed}", **config)


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
        resolution = make_handler().interpret(make_response(status), {})
        assert (resolution.action, resolution.failure_type) == (action, kind)


def test_default_is_six_tries_within_ten_minutes():
    error_handler = make_handler()
    assert (error_handler.max_tries, error_handler.max_seconds) == (6, 600)
    assert make_handler("type: DefaultErrorHandler\nmax_retries: 2").max_tries == 3
    assert (
        make_handler("type: DefaultErrorHandler\nmax_retries: '{{ config.n }}'", n=-1).max_tries
        == 1
    )
    assert make_handler("type: DefaultErrorHandler\nmax_retries: '{{ config.n }}'").max_tries == 6


@pytest.mark.parametrize(
    ("condition", "matching", "other"),
    [
        ("http_codes: [404, 410]", make_response(410), make_response(409)),
        (
            "predicate: \"{{ response.code == 7 and headers['X-Kind'] == 'a' }}\"",
            make_response(200, b'{"code": 7}', x_kind="a"),
            make_response(200, b'{"code": 8}', x_kind="a"),
        ),
        (
            "predicate: \"{{ 'slow down' in response }}\"",
            make_response(400, b'["slow down"]'),
            make_response(400),
        ),
        (
            "predicate: \"{{ request_url == 'http://x/y' }}\"",
            make_response(200, url="http://me:secret@x/y?key=1"),
            make_response(200, url="http://x/z"),
        ),
        (
            "error_message_contains: again",
            make_response(400, b'{"errors": [{"message": "try again"}, {"detail": "x"}]}'),
            make_response(400, b'{"error": {"x": "again"}}'),
        ),
        (
            "error_message_contains: '{{ config.name }}'",
            make_response(400, b'{"message": "unknown {{ config.name }}"}'),
            make_response(400),
        ),
        (
            "error_message_contains: again",
            make_response(503, b"<p>try again</p>"),
            make_response(503, b"no"),
        ),
    ],
)
def test_response_filter_matches_status_predicate_or_message(condition, matching, other):
    error_handler = make_filter_handler(
        f"{{type: HttpResponseFilter, action: IGNORE, {condition}}}"
    )
    assert error_handler.interpret(matching, {}).action is ResponseAction.IGNORE
    assert error_handler.interpret(other, {}).action is not ResponseAction.IGNORE


def test_first_matching_filter_sets_action_and_message():
    error_handler = make_filter_handler(
        "{type: HttpResponseFilter, action: FAIL, http_codes: [403], failure_type: config_error,"
        " error_message: \"{{ config.name }}: {{ response['why'] }}\"}",
        "{type: HttpResponseFilter, action: IGNORE, http_codes: [403, 404]}",
        name="Me",
    )
    assert error_handler.interpret(make_response(403, b'{"why": "no"}'), {}) == ResponseResolution(
        ResponseAction.FAIL, "Me: no", CONFIG
    )
    assert error_handler.interpret(make_response(404), {}) == ResponseResolution(
        ResponseAction.IGNORE, None, SYSTEM
    )
    assert error_handler.interpret(make_response(405), {}).action is ResponseAction.FAIL


def test_body_read_by_a_filter_is_still_available():
    error_handler = make_filter_handler(
        "{type: HttpResponseFilter, action: FAIL, predicate: '{{ response.bad }}'}"
    )
    response = make_response(200, b'{"data": [1]}')
    assert error_handler.interpret(response, {}).action is ResponseAction.SUCCESS
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
        ("RETRY", make_response(403), ResponseResolution(ResponseAction.RETRY, "mine", CONFIG)),
        ("IGNORE", make_response(403), ResponseResolution(ResponseAction.IGNORE, "mine", CONFIG)),
        ("FAIL", make_response(403), ResponseResolution(ResponseAction.FAIL, "mine", CONFIG)),
        (
            "RATE_LIMITED",
            make_response(403),
            ResponseResolution(ResponseAction.RATE_LIMITED, "mine", CONFIG),
        ),
        (
            "FAIL",
            make_response(403, b'{"skip": 1}'),
            ResponseResolution(ResponseAction.IGNORE, None, CONFIG),
        ),
        ("FAIL", make_response(500), ResponseResolution(ResponseAction.RETRY, None, PASSING)),
        (
            "FAIL",
            make_response(429),
            ResponseResolution(ResponseAction.RATE_LIMITED, None, PASSING),
        ),
        ("FAIL", make_response(200), ResponseResolution(ResponseAction.SUCCESS)),
    ],
)
def test_later_handler_of_a_composite_may_retry_or_ignore(action, response, expected):
    assert make_handler(COMPOSITE.replace("ACTION", action)).interpret(response, {}) == expected


@pytest.mark.parametrize(("first", "then"), [("FAIL", "RATE_LIMITED"), ("RATE_LIMITED", "FAIL")])
def test_rate_limited_has_priority_in_a_composite_handler(first, then):
    """airbyte-cdk uses the last handler, so the second case fails there."""
    limit = "{type: HttpResponseFilter, http_codes: [403], action: %s}"
    handlers = [make_filter_handler(limit % action) for action in (first, then)]
    resolution = CompositeErrorHandler(error_handlers=handlers).interpret(make_response(403), {})
    assert resolution.action is ResponseAction.RATE_LIMITED


def test_composite_handler_uses_the_first_known_wait():
    error_handler = make_handler(COMPOSITE.replace("ACTION", "FAIL"))
    assert (error_handler.max_tries, error_handler.max_seconds) == (4, 600)
    assert error_handler.compute_wait(make_response(429, Wait="3"), 1, {}) == 3
    assert error_handler.compute_wait(make_response(429), 1, {}) == 7
    assert make_handler().compute_wait(make_response(429), 1, {}) is None
    assert (
        CompositeErrorHandler(error_handlers=[make_handler()]).compute_wait(
            make_response(429), 1, {}
        )
        is None
    )


class Silent:
    """Custom error handler that returns no action for any response."""

    max_tries, max_seconds = 1, None

    def interpret(self, response, scope):
        return None

    def compute_wait(self, response, tries, scope):
        return None


def test_handler_without_a_decision_defers_to_the_next():
    error_handler = CompositeErrorHandler(error_handlers=[Silent(), make_handler()])
    assert error_handler.interpret(make_response(404), {}).action is ResponseAction.FAIL
    assert error_handler.max_seconds == 600


def test_composite_of_handlers_without_a_time_limit_has_none():
    assert CompositeErrorHandler(error_handlers=[Silent()]).max_seconds is None


def test_filters_accept_plain_requests_responses():
    error_handler = make_filter_handler(
        "{type: HttpResponseFilter, action: FAIL, predicate: '{{ response.bad }}'}"
    )
    response = requests.Response()
    response.status_code, response._content = 200, b'{"bad": 1}'
    assert error_handler.interpret(response, {}).action is ResponseAction.FAIL


def compute_wait(
    strategy: str, response: Any = None, tries: int = 1, **config: Any
) -> float | None:
    text = f"type: DefaultErrorHandler\nbackoff_strategies: [{{{strategy}}}]"
    error_handler = make_handler(text, **config)
    seconds: float | None = error_handler.compute_wait(response, tries, {})
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
        (HEADER, make_response(429, Wait="12"), 12),
        (HEADER, make_response(429, Wait="soon"), None),
        (HEADER, make_response(429, Wait="nan"), None),
        (HEADER, make_response(429, Wait="-5"), None),
        (UNTIL, make_response(429, Until="nan"), None),
        (HEADER, make_response(429), None),
        (HEADER, None, None),
        (f"{HEADER}, regex: '[.0-9]+'", make_response(429, Wait="1.5s please"), 1.5),
        (UNTIL, make_response(429, Until="1"), None),
        (UNTIL, make_response(429), None),
        (f"{UNTIL}, min_wait: 4", make_response(429, Until="1"), 4),
        (f"{UNTIL}, min_wait: 4", None, 4),
        (FROM_BODY, make_response(429, b'{"seconds": 3}'), 3),
        (FROM_BODY, make_response(429, b'{"seconds": -3}'), None),
        (FROM_BODY, make_response(429, b"[]"), None),
        (FROM_BODY, None, None),
        (f"{UNTIL}, min_wait: '{{{{ config.none }}}}'", make_response(429, Until="1"), None),
    ],
)
def test_backoff_strategy_returns_the_wait(strategy, response, seconds):
    assert compute_wait(strategy, response, s=9) == seconds


@pytest.mark.parametrize("template", ["response.error.seconds", "response.seconds + 'x'"])
def test_failing_template_of_a_wait_defers_to_the_next_strategy(template, caplog):
    """Before, a body of another form ended the stream."""
    strategy = f'type: WaitTimeFromResponse, wait_time_in_seconds: "{{{{ {template} }}}}"'
    assert compute_wait(strategy, make_response(429, b'{"seconds": 3}')) is None
    assert "The next backoff strategy is used" in caplog.text


@pytest.mark.parametrize(
    ("strategy", "response"),
    [
        (HEADER, make_response(429, Wait="86400")),
        (HEADER, make_response(429, Wait="1e999")),
        (UNTIL, make_response(429, Until="inf")),
        (FROM_BODY, make_response(429, b'{"seconds": 1e300}')),
    ],
)
def test_wait_of_a_day_is_an_error_unless_the_manifest_allows_it(strategy, response):
    """SEC13: a response cannot make a sync wait without end."""
    with pytest.raises(FatalAPIError, match="`max_waiting_time_in_seconds` is 86,400"):
        compute_wait(strategy, response)
    longer = f"{HEADER}, max_waiting_time_in_seconds: 100000"
    assert compute_wait(longer, make_response(429, Wait="90000")) == 90_000


def test_deeply_nested_error_message_is_not_searched_to_its_end():
    """SEC13: before, it ended the run with a RecursionError."""
    text = FILTER.replace("FAILWHICH", "RETRY, error_message_contains: 'no'")
    error_handler = make_handler(text)
    nested = b"[" * 400 + b'"no"' + b"]" * 400
    assert error_handler.interpret(make_response(400, nested), {}).action is ResponseAction.FAIL


def test_exponential_backoff_doubles_the_wait():
    waits = [
        compute_wait("type: ExponentialBackoffStrategy, factor: 1", tries=n) for n in (1, 2, 3)
    ]
    assert waits == [2, 4, 8]


@pytest.mark.parametrize(
    "strategy",
    [
        "type: ConstantBackoffStrategy, backoff_time_in_seconds: 10, jitter_range_in_seconds: 2",
        "type: ExponentialBackoffStrategy, factor: 5, jitter_range_in_seconds: 2",
    ],
)
def test_jitter_adds_up_to_twice_its_range(strategy):
    waits = [compute_wait(strategy) or 0.0 for _ in range(20)]
    assert all(10 <= seconds <= 14 for seconds in waits)
    assert len(set(waits)) > 1


def test_wait_until_time_from_header_is_the_remaining_time():
    seconds = compute_wait(UNTIL, make_response(429, Until=str(time.time() + 3_600))) or 0.0
    assert 3_000 < seconds <= 3_600


@pytest.mark.parametrize(
    ("strategy", "response"),
    [
        (HEADER, make_response(429, Wait="30")),
        (UNTIL, make_response(429, Until=str(time.time() + 3_600))),
        (FROM_BODY, make_response(429, b'{"seconds": 31}')),
    ],
)
def test_wait_above_the_maximum_ends_the_stream(strategy, response):
    with pytest.raises(FatalAPIError, match="sync again later"):
        compute_wait(f"{strategy}, max_waiting_time_in_seconds: 30", response)


def test_filter_without_a_condition_is_ignored_with_a_warning(caplog):
    error_handler = make_handler(FILTER.replace("WHICH", ""))
    assert "response_filters[0]: This response filter matches no response" in caplog.text
    assert error_handler.interpret(make_response(200), {}).action is ResponseAction.SUCCESS


FILTER = """
type: DefaultErrorHandler
response_filters: [{type: HttpResponseFilter, action: FAILWHICH}]
"""
WAITING = """
type: DefaultErrorHandler
backoff_strategies: [{type: WaitTimeFromHeader, header: x, WHICH}]
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{type: CompositeErrorHandler, error_handlers: []}", "at least one"),
        (FILTER.replace("WHICH", ", http_codes: [1]").replace("FAIL", "EXPLODE"), "EXPLODE"),
        (WAITING.replace("WHICH", "regex: '('"), "not a valid regular expression"),
    ],
)
def test_invalid_error_handler_is_rejected_with_its_line(text, message):
    with pytest.raises(ManifestError, match=message) as error:
        make_handler(text)
    assert "line" in str(error.value)
