"""Listener for all HTTP requests of this process, for commands that show them to the user.

The listener is called for requests of pages and access tokens, for retries and redirects, and for
requests that a tap's code sends with the requests package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from tap_core.redaction import redact_line, redact_url
from tap_core.redaction.http import collect_sent_secrets

__all__ = ["listen_to_requests"]


@contextmanager
def listen_to_requests(listener: Callable[[str, str, int | None], None]) -> Iterator[None]:
    """Call ``listener`` after each HTTP request during the ``with`` block.

    Args:
        listener: Function that is called with the HTTP method, the URL without secrets, and the
            status of the response, or None if there was no response.
    """
    original = HTTPAdapter.send

    def send(
        adapter: HTTPAdapter, request: requests.PreparedRequest, *args: Any, **kwargs: Any
    ) -> requests.Response:
        status = None
        try:
            response = original(adapter, request, *args, **kwargs)
            status = response.status_code
        finally:
            url = redact_line(collect_sent_secrets(request).hide(redact_url(request.url)))
            listener(request.method or "", url, status)
        return response

    type.__setattr__(HTTPAdapter, "send", send)
    try:
        yield
    finally:
        type.__setattr__(HTTPAdapter, "send", original)
