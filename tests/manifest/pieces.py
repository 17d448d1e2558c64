"""Single components built from YAML, with responses and a request sender for them."""

from __future__ import annotations

import time
from textwrap import dedent, indent
from typing import Any

import requests

from tap_core.exceptions import FatalAPIError
from tap_core.http.request import HTTPRequest, build_body_arguments
from tap_core.http.response import JSONResponse
from tap_core.manifest.builder import build_component
from tap_core.manifest.loader import read_manifest

__all__ = ["Sender", "build", "make_response"]

_HEAD = "type: DeclarativeSource\nversion: 6.0.0\nstreams: []\npiece:\n"


def build(text: str, expected: Any, **config: Any) -> Any:
    """Return the component of a YAML text, built with a config."""
    manifest = read_manifest(_HEAD + indent(dedent(text), "  "))
    return build_component(manifest, manifest.tree["piece"], expected, config)


def make_response(
    status: int = 200, body: bytes = b"{}", url: str = "http://x/y", **headers: str
) -> Any:
    """Return a response as a stream gets it; ``_`` in header names becomes ``-``."""
    response = requests.Response()
    response.status_code, response._content, response.url = status, body, url
    response.headers.update({name.replace("_", "-"): text for name, text in headers.items()})
    return JSONResponse.of(response)


class Sender:
    """The part of a stream that components use to send requests."""

    name = "readings"

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        self.config = config or {}

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def fetch(
        self, request: HTTPRequest, scope: Any, error_handler: Any = None
    ) -> requests.Response:
        body = build_body_arguments(request.data, as_json=bool(request.as_json))
        headers = {**body.pop("headers", {}), **request.headers}
        query = request.encode_params()
        response = requests.request(
            request.method, request.url, params=query, headers=headers, timeout=10, **body
        )
        if not response.ok:
            raise FatalAPIError(f"status {response.status_code}", response=response)
        return response
