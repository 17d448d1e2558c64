"""Base classes for custom requesters, with airbyte-cdk's class and method names.

A requester only describes requests. A subclass may override the methods for URL, query parameters,
headers and body; the stream sends the requests and retries them.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import InitVar, dataclass
from typing import Any
from urllib.parse import urljoin

from tap_core.manifest.cdk_compat.interpolation import (
    InterpolatedRequestOptionsProvider,
    InterpolatedString,
    evaluate,
)
from tap_core.manifest.cdk_compat.models import HttpMethod, RequestOptionType

__all__ = ["CdkHttpRequester", "CdkRequestOption", "Requester"]


@dataclass
class CdkRequestOption:
    """Option that declares where in a request a value is sent.

    `inject_into` is the part of the request, such as its headers. `field_name` or `field_path` is
    the key in that part.
    """

    inject_into: RequestOptionType
    parameters: InitVar[Mapping[str, Any]]
    field_name: Any = None
    field_path: Any = None

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        self.inject_into = RequestOptionType(getattr(self.inject_into, "value", self.inject_into))
        if self.field_name is not None:
            self.field_name = InterpolatedString.create(self.field_name, parameters=parameters)
        elif self.field_path is not None:
            self.field_path = [
                InterpolatedString.create(name, parameters=parameters) for name in self.field_path
            ]

    def inject_into_request(
        self, target: MutableMapping[str, Any], value: Any, config: Mapping[str, Any]
    ) -> None:
        """Store ``value`` in ``target`` under the option's field name or path.

        ``target`` is the part of the request, such as its headers. Missing parent objects are
        created.
        """
        names = [self.field_name] if self.field_path is None else self.field_path
        *parents, last = [str(name.eval(config)) for name in names]
        for name in parents:
            target = target.setdefault(name, {})
        target[last] = value


class Requester:
    """Base class of the objects that build a stream's HTTP requests.

    Custom components of connectors use it in type hints, and derive classes from it.
    """


@dataclass
class CdkHttpRequester(Requester):
    """Requester that builds URL, query parameters, headers and body from a manifest's options."""

    name: str
    config: Mapping[str, Any]
    parameters: InitVar[Mapping[str, Any]]
    url: Any = None
    url_base: Any = None
    path: Any = None
    authenticator: Any = None
    http_method: Any = HttpMethod.GET
    request_options_provider: Any = None
    error_handler: Any = None
    api_budget: Any = None
    disable_retries: bool = False
    message_repository: Any = None
    use_cache: bool = False
    _exit_on_rate_limit: bool = False
    stream_response: bool = False
    decoder: Any = None

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = parameters or {}
        if self.request_options_provider is None:
            self._request_options_provider = InterpolatedRequestOptionsProvider(
                config=self.config, parameters=self._parameters
            )
        else:
            self._request_options_provider = self.request_options_provider
        self._http_method = HttpMethod(getattr(self.http_method, "value", self.http_method))
        self._authenticator = self.authenticator

    def _render(self, text: Any, stream_slice: Any, token: Any) -> str:
        variables: dict[str, Any] = {"stream_slice": stream_slice or {}, "next_page_token": token}
        return str(evaluate(text or "", self.config, self._parameters, **variables))

    def get_authenticator(self) -> Any:
        """Return the authenticator that signs the requests; None if the manifest declares none."""
        return self._authenticator

    def get_url(
        self,
        *,
        stream_state: Any = None,  # noqa: ARG002  (airbyte-cdk's signature)
        stream_slice: Any = None,
        next_page_token: Any = None,
    ) -> str:
        """Return the rendered option ``url``, or ``url_base`` if ``url`` is not set."""
        return self._render(self.url or self.url_base, stream_slice, next_page_token)

    def get_url_base(
        self,
        *,
        stream_state: Any = None,  # noqa: ARG002
        stream_slice: Any = None,
        next_page_token: Any = None,
    ) -> str:
        """Return the rendered option ``url_base``, or ``url`` if ``url_base`` is not set."""
        return self._render(self.url_base or self.url, stream_slice, next_page_token)

    def get_path(
        self,
        *,
        stream_state: Any = None,  # noqa: ARG002
        stream_slice: Any = None,
        next_page_token: Any = None,
    ) -> str:
        """Return the rendered option ``path``, relative to the base URL; "" if it is not set."""
        return self._render(self.path, stream_slice, next_page_token)

    def get_method(self) -> HttpMethod:
        """Return the HTTP method of the requests, such as GET."""
        return self._http_method

    def get_request_params(
        self,
        *,
        stream_state: Any = None,
        stream_slice: Any = None,
        next_page_token: Any = None,
    ) -> Any:
        """Return the query parameters of a request, rendered for a stream slice and page token."""
        return self._request_options_provider.get_request_params(
            stream_state=stream_state, stream_slice=stream_slice, next_page_token=next_page_token
        )

    def get_request_headers(
        self,
        *,
        stream_state: Any = None,
        stream_slice: Any = None,
        next_page_token: Any = None,
    ) -> Any:
        """Return the headers of a request, rendered for a stream slice and a page token."""
        return self._request_options_provider.get_request_headers(
            stream_state=stream_state, stream_slice=stream_slice, next_page_token=next_page_token
        )

    def get_request_body_data(
        self,
        *,
        stream_state: Any = None,
        stream_slice: Any = None,
        next_page_token: Any = None,
    ) -> Any:
        """Return the body of a request: a string, or a mapping to send as form fields."""
        return self._request_options_provider.get_request_body_data(
            stream_state=stream_state, stream_slice=stream_slice, next_page_token=next_page_token
        )

    def get_request_body_json(
        self,
        *,
        stream_state: Any = None,
        stream_slice: Any = None,
        next_page_token: Any = None,
    ) -> Any:
        """Return the JSON body of a request, rendered for a stream slice and a page token."""
        return self._request_options_provider.get_request_body_json(
            stream_state=stream_state, stream_slice=stream_slice, next_page_token=next_page_token
        )

    @classmethod
    def _join_url(cls, url_base: str, path: str | None = None) -> str:
        """Join a path, with or without a leading slash, to a base URL.

        If the path is empty, return the base URL unchanged.
        """
        if not path:
            return url_base
        return urljoin(url_base if url_base.endswith("/") else f"{url_base}/", path.lstrip("/"))
