"""Renewal of an access token that the API no longer accepts, usually reported by status 401."""

from __future__ import annotations

from collections.abc import Callable, Container
from contextlib import nullcontext
from http import HTTPStatus
from typing import Any

import requests

from tap_core.redaction import Secrets
from tap_core.redaction.http import decode_header

__all__ = ["renew_access_token", "send_with_renewal"]


def send_with_renewal(
    send: Callable[[], requests.Response],
    authenticator: Any,
    log: Callable[[str], None],
    tolerated_statuses: Container[int] = (),
) -> requests.Response:
    """Send a request and return the response; after a 401, send it once more with a new token.

    Args:
        send: Function that adds the credentials of ``authenticator`` to the request and sends it.
        authenticator: Authenticator of the request. One without tokens causes no second request.
        log: Function that logs a message.
        tolerated_statuses: Error statuses that the stream accepts. If 401 is one of them, the
            request is sent only once.
    """
    response = send()
    status = response.status_code
    is_refused = status == HTTPStatus.UNAUTHORIZED and status not in tolerated_statuses
    if is_refused and renew_access_token(authenticator, response):
        log("The access token was rejected and renewed; the request is sent again.")
        response = send()
    return response


def renew_access_token(authenticator: Any, refusal: requests.Response) -> bool:
    """Renew the access token of an authenticator after the API has refused a request.

    If the requests of several threads are refused at once, the first thread renews the token and
    the others wait for it. The token is not renewed if another thread has done so since the request
    was sent. ``refusal`` is the response, usually with status 401.

    Returns:
        True if another try may use a new token; False if the authenticator has no tokens.
    """
    update = getattr(authenticator, "update_access_token", None)
    if not callable(update):
        return False
    with getattr(authenticator, "_updating", nullcontext()):
        token = getattr(authenticator, "access_token", None)
        sent = [*refusal.history, refusal][0].request
        if token is None or _contains_token(sent, str(token)):
            update()
    return True


def _contains_token(request: requests.PreparedRequest, token: str) -> bool:
    """Return True if the URL, the headers or the body of a request contain a token.

    A token that is encoded, for example in Base64 or for a URL, is found too.
    """
    body: Any = request.body or ""
    content = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)
    texts = (request.url or "", content, *map(decode_header, request.headers.values()))
    forms = (token, *Secrets((token,)).forms)
    return any(form in text for text in texts for form in forms)
