"""The failure type and the messages of error traces."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import requests

from tap_core.authenticators import AccessTokenError
from tap_core.exceptions import (
    CatalogFileError,
    ConfigValidationError,
    FatalAPIError,
    InvalidStreamSortException,
    RetriableAPIError,
    StateFileError,
    StreamMapConfigError,
)
from tap_core.protocols.airbyte.error_trace import error_body
from tap_core.protocols.error_classification import failure_type, summarize_error

CONFIG, SYSTEM, TRANSIENT = "config_error", "system_error", "transient_error"


def add_cause(outer: Exception, inner: Exception) -> Exception:
    outer.__cause__ = inner
    return outer


def make_response(status: int) -> requests.Response:
    response = requests.Response()
    response.status_code = status
    return response


def attach_response(error: Any, status: int) -> Any:
    error.response = make_response(status)
    return error


class OperationalError(Exception):
    """An error as database drivers raise it."""

    __module__ = "sqlalchemy.exc"

    def __init__(self, text: str, state: str | None = None) -> None:
        super().__init__(text)
        self.orig = SimpleNamespace(sqlstate=state)


class InternalError(Exception):
    """An error of PostgreSQL's class 25, which drivers do not take for an operational one."""

    sqlstate = "25P03"


@pytest.mark.parametrize(
    "error, kind",
    [
        (ConfigValidationError("a setting"), CONFIG),
        (CatalogFileError("a catalog"), CONFIG),
        (StateFileError("a state"), CONFIG),
        (StreamMapConfigError("a map"), CONFIG),
        (FatalAPIError("401 Client Error: Unauthorized for path: /users"), CONFIG),
        (attach_response(FatalAPIError("not so"), 403), CONFIG),
        (requests.HTTPError("no", response=make_response(401)), CONFIG),
        (AccessTokenError("no token", status=400), CONFIG),
        (AccessTokenError("no token", status=401), CONFIG),
        (OperationalError("x", "28P01"), CONFIG),
        (OperationalError("password authentication failed for user"), CONFIG),
        (OperationalError("permission denied for schema public", "42501"), CONFIG),
        (add_cause(RuntimeError("outer"), ConfigValidationError("inner")), CONFIG),
        (RetriableAPIError("busy", make_response(429)), TRANSIENT),
        (RetriableAPIError("busy", make_response(503)), TRANSIENT),
        (RetriableAPIError("an author's own reason"), TRANSIENT),
        (requests.ConnectionError("refused"), TRANSIENT),
        (requests.Timeout("slow"), TRANSIENT),
        (requests.HTTPError("no", response=make_response(502)), TRANSIENT),
        (AccessTokenError("no answer"), TRANSIENT),
        (AccessTokenError("no answer", status=503), TRANSIENT),
        (ConnectionResetError(104, "reset"), TRANSIENT),
        (TimeoutError("slow"), TRANSIENT),
        (OperationalError("cannot connect", "08006"), TRANSIENT),
        (InternalError("terminating connection due to idle-in-transaction timeout"), TRANSIENT),
        (add_cause(RuntimeError("outer"), requests.Timeout("inner")), TRANSIENT),
        (FatalAPIError("404 Client Error: Not Found for path: /users"), SYSTEM),
        (AccessTokenError("the response has no access_token", status=200), SYSTEM),
        (requests.exceptions.SSLError("[SSL: CERTIFICATE_VERIFY_FAILED] no"), SYSTEM),
        (InvalidStreamSortException("unsorted"), SYSTEM),
        (KeyError("id"), SYSTEM),
        (KeyError(503), SYSTEM),
        (FileNotFoundError(2, "no such file"), SYSTEM),
    ],
)
def test_failure_type_of_each_error(error: Exception, kind: str) -> None:
    """TR2: config_error, transient_error or system_error."""
    assert failure_type(error) == kind


def test_path_that_the_locale_cannot_encode_is_a_config_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = UnicodeEncodeError("ascii", "/tmp/ä", 5, 6, "ordinal not in range(128)")
    assert failure_type(error) == "system_error", "the code of the tap encodes a text as ASCII"
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: "ANSI_X3.4-1968")
    assert failure_type(error) == "config_error"
    assert summarize_error(error) == (
        r"A path has the character '\xe4', which the encoding of paths in this environment (ascii)"
        " does not have. If the locale is not UTF-8, set the environment variable PYTHONUTF8=1."
    )


def test_suppressed_context_is_ignored_in_the_failure_type() -> None:
    error = ValueError("of its own")
    error.__context__ = requests.Timeout()
    assert failure_type(error) == TRANSIENT
    error.__suppress_context__ = True  # by `from None`
    assert failure_type(error) == SYSTEM


def test_cyclic_causes_are_handled() -> None:
    error, cause = ValueError("one"), ValueError("other")
    error.__cause__, cause.__cause__ = cause, error
    assert failure_type(error) == SYSTEM


def test_message_advises_the_user() -> None:
    assert summarize_error(ConfigValidationError("'token' is missing")) == "'token' is missing"
    assert summarize_error(FatalAPIError("401 no")).startswith("The source refuses the credentials")
    assert "try again later" in summarize_error(requests.Timeout("slow"))
    for unusable in (
        requests.exceptions.InvalidSchema("ftp"),
        requests.exceptions.MissingSchema(""),
    ):
        sentence = summarize_error(unusable)
        assert sentence.startswith("The address of the source is not valid: check it in the config")
    assert summarize_error(KeyError()).endswith("KeyError")


def test_error_trace_has_details_without_secrets() -> None:
    """TR2: message, internal message, stack trace and failure type."""
    with pytest.raises(ValueError, match="hush") as caught:
        int("hush")
    body = error_body(caught.value, lambda text: text.replace("hush", "***"))
    assert body["internal_message"].endswith("with base 10: '***'")
    assert body["stack_trace"].startswith("Traceback")
    assert "hush" not in body["internal_message"]
    assert set(body) == {"message", "internal_message", "stack_trace", "failure_type"}
    assert "hush" not in body["message"]
