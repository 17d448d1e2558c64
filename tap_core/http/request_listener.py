"""Listener for the HTTP requests of this process, for commands that show them.

It is called for every request on the wire: pages, retries, redirects, access tokens, and requests
that an author's code sends with the requests package itself.
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
    """Call ``listener`` after each request during the block.

    Its arguments are the HTTP method, the URL with secrets redacted, and the status of the
    response, or None without a response.
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
