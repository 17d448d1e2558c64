"""Base classes for custom authenticators, with airbyte-cdk's class and method names.

An authenticator is called with a prepared request. By default it sets one header, `auth_header`, to
`token`; a subclass may also return query parameters or body fields to add.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Mapping, MutableMapping
from dataclasses import InitVar, dataclass, field
from datetime import timedelta
from typing import Any, cast

import requests
from requests.auth import AuthBase

from tap_core.authenticators.token_endpoint import TokenFieldNames
from tap_core.http.origins import make_redirect_error
from tap_core.http.transport import ask_token_endpoint
from tap_core.manifest.cdk_compat.datetimes import (
    AirbyteDateTime,
    ab_datetime_now,
    ab_datetime_parse,
)
from tap_core.manifest.cdk_compat.interpolation import InterpolatedString, evaluate
from tap_core.manifest.dpath import MISSING, make_getter
from tap_core.redaction import Secrets, register_secrets

__all__ = [
    "AbstractHeaderAuthenticator",
    "CdkApiKeyAuthenticator",
    "CdkBasicHttpAuthenticator",
    "CdkBearerAuthenticator",
    "CdkNoAuth",
    "CdkSelectiveAuthenticator",
    "DeclarativeAuthenticator",
    "DeclarativeOauth2Authenticator",
    "InterpolatedStringTokenProvider",
    "TokenProvider",
]

_DEFAULT_LIFETIME = timedelta(hours=1)
"""Lifetime assumed for an access token if the token response contains none."""


class AbstractHeaderAuthenticator(AuthBase):
    """Base class of authenticators that send a token in a request header."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the headers of `get_auth_header` to a prepared request; return the request."""
        request.headers.update(self.get_auth_header())
        return request

    def get_auth_header(self) -> Mapping[str, Any]:
        """Return ``{auth_header: token}``, or {} if `auth_header` is empty."""
        return {self.auth_header: self.token} if self.auth_header else {}

    @property
    def auth_header(self) -> str:
        """Name of the request header that carries the token; implemented by subclasses."""
        raise NotImplementedError

    @property
    def token(self) -> str:
        """Header value to send, such as ``Bearer <token>``; implemented by subclasses."""
        raise NotImplementedError


@dataclass
class DeclarativeAuthenticator(AbstractHeaderAuthenticator):
    """Base class of the authenticators that a manifest can declare.

    A subclass may send credentials in query parameters or the body, instead of a header.
    """

    def get_request_params(self) -> Mapping[str, Any]:
        """Return the query parameters that carry credentials; {} by default."""
        return {}

    def get_request_body_data(self) -> Mapping[str, Any] | str:
        """Return the form fields or text body that carry credentials; {} by default."""
        return {}

    def get_request_body_json(self) -> Mapping[str, Any]:
        """Return the members of the JSON body that carry credentials; {} by default."""
        return {}


@dataclass
class CdkNoAuth(DeclarativeAuthenticator):
    """Authenticator that sends requests without credentials; in manifests, its type is NoAuth."""

    parameters: InitVar[Mapping[str, Any]]

    @property
    def auth_header(self) -> str:
        """Empty string, because no authentication header is sent."""
        return ""

    @property
    def token(self) -> str:
        """Empty string, because there is no token to send."""
        return ""


@dataclass
class TokenProvider:
    """Base class of token providers, which supply the token that an authenticator sends."""

    def get_token(self) -> str:
        """Return the token to send with the next request; implemented by subclasses."""
        raise NotImplementedError


@dataclass
class InterpolatedStringTokenProvider(TokenProvider):
    """Token provider that renders a template with the config, such as ``{{ config['key'] }}``."""

    config: Mapping[str, Any]
    api_token: Any
    parameters: Mapping[str, Any]

    def get_token(self) -> str:
        """Render the template `api_token` with the config and return the result as the token."""
        return str(evaluate(self.api_token, self.config, self.parameters))


@dataclass
class CdkBearerAuthenticator(DeclarativeAuthenticator):
    """Authenticator that sends ``Authorization: Bearer <token>``.

    The token comes from a TokenProvider.
    """

    token_provider: TokenProvider
    config: Mapping[str, Any]
    parameters: InitVar[Mapping[str, Any]]

    @property
    def auth_header(self) -> str:
        """Name of the request header: ``Authorization``."""
        return "Authorization"

    @property
    def token(self) -> str:
        """Header value ``Bearer <token>``, with the current token of `token_provider`."""
        return f"Bearer {self.token_provider.get_token()}"


@dataclass
class CdkBasicHttpAuthenticator(DeclarativeAuthenticator):
    """Authenticator that sends user name and password as HTTP Basic credentials (RFC 7617)."""

    username: Any
    config: Mapping[str, Any]
    parameters: InitVar[Mapping[str, Any]]
    password: Any = ""

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        self._username = InterpolatedString.create(self.username, parameters=parameters)
        self._password = InterpolatedString.create(self.password, parameters=parameters)

    @property
    def auth_header(self) -> str:
        """Name of the request header: ``Authorization``."""
        return "Authorization"

    @property
    def token(self) -> str:
        """Header value: ``Basic`` and the base64 encoding of ``<user name>:<password>``."""
        credentials = f"{self._username.eval(self.config)}:{self._password.eval(self.config)}"
        return f"Basic {base64.b64encode(credentials.encode()).decode()}"


@dataclass
class CdkApiKeyAuthenticator(DeclarativeAuthenticator):
    """Authenticator that sends an API key in a header or a query parameter."""

    request_option: Any
    token_provider: TokenProvider
    config: Mapping[str, Any]
    parameters: InitVar[Mapping[str, Any]]

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        name = getattr(self.request_option, "field_name", "")
        self._field_name = str(evaluate(name, self.config, parameters))
        kind = getattr(self.request_option, "inject_into", "header")
        self._kind = str(getattr(kind, "value", kind))

    @property
    def auth_header(self) -> str:
        """Name of the header, or an empty string if the API key is not sent in a header."""
        return self._field_name if self._kind == "header" else ""

    @property
    def token(self) -> str:
        """API key to send: the current token of `token_provider`."""
        return self.token_provider.get_token()

    def get_request_params(self) -> Mapping[str, Any]:
        """Return ``{field name: API key}`` if the key is sent as a query parameter, else {}."""
        return {self._field_name: self.token} if self._kind == "request_parameter" else {}


class CdkSelectiveAuthenticator(DeclarativeAuthenticator):
    """Class whose constructor returns one of several authenticators, selected by a config value."""

    def __new__(
        cls,
        config: Mapping[str, Any],
        authenticators: Mapping[str, Any],
        authenticator_selection_path: list[str],
        **_: Any,
    ) -> Any:
        """Return the authenticator that the config selects by name.

        The name is the config value at ``authenticator_selection_path``, a list of nested keys.

        Raises:
            ValueError: The config has no value at the path, or the value is not in
                ``authenticators``.
        """
        selected = make_getter(list(authenticator_selection_path))(dict(config))
        if selected is MISSING or selected not in authenticators:
            names = ", ".join(authenticators)
            path = ".".join(authenticator_selection_path)
            raise ValueError(f"The setting '{path}' must be one of the authenticators {names}.")
        return authenticators[selected]


@dataclass
class DeclarativeOauth2Authenticator(DeclarativeAuthenticator):
    """Authenticator that requests and refreshes OAuth 2.0 access tokens (RFC 6749, section 6).

    A subclass may override the same methods as in airbyte-cdk. A new refresh token in the token
    response is not written to the config; use the manifest's OAuthAuthenticator for that.
    """

    config: Mapping[str, Any]
    parameters: InitVar[Mapping[str, Any]]
    client_id: Any = None
    client_secret: Any = None
    token_refresh_endpoint: Any = None
    refresh_token: Any = None
    scopes: list[str] | None = None
    token_expiry_date: Any = None
    token_expiry_date_format: str | None = None
    token_expiry_is_time_of_expiration: bool = False
    access_token_name: Any = "access_token"  # noqa: S105  (a field name)
    access_token_value: Any = None
    client_id_name: Any = "client_id"
    client_secret_name: Any = "client_secret"  # noqa: S105  (a field name)
    expires_in_name: Any = "expires_in"
    refresh_token_name: Any = "refresh_token"  # noqa: S105  (a field name)
    refresh_request_body: Mapping[str, Any] | None = None
    refresh_request_headers: Mapping[str, Any] | None = None
    grant_type_name: Any = "grant_type"
    grant_type: Any = "refresh_token"
    message_repository: Any = None
    profile_assertion: Any = None
    use_profile_assertion: Any = False
    _lock: Any = field(init=False, repr=False, compare=False, default_factory=threading.RLock)

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = parameters or {}
        self._token_expiry_date = ab_datetime_now() - timedelta(days=1)
        if self.token_expiry_date:
            self._token_expiry_date = ab_datetime_parse(self._render(self.token_expiry_date))
        self._access_token: str | None = self._render(self.access_token_value) or None

    def _render(self, value: Any) -> Any:
        return evaluate(value, self.config, self._parameters)

    @property
    def auth_header(self) -> str:
        """Name of the request header: ``Authorization``."""
        return "Authorization"

    @property
    def token(self) -> str:
        """Header value ``Bearer <access token>``; an expired access token is refreshed first."""
        return f"Bearer {self.get_access_token()}"

    def get_auth_header(self) -> Mapping[str, Any]:
        """Return the ``Authorization`` header; refresh the access token first if it has expired."""
        return {"Authorization": f"Bearer {self.get_access_token()}"}

    def get_access_token(self) -> str:
        """Return a valid access token; if the current one has expired, request a new one first.

        Only one thread at a time requests a token.
        """
        if self.token_has_expired():
            with self._lock:
                if self.token_has_expired():
                    self.refresh_and_set_access_token()
        return self.access_token

    def refresh_and_set_access_token(self) -> None:
        """Request an access token from the token endpoint; store the token and its expiry date."""
        token, expires = self.refresh_access_token()
        self.access_token = token
        self.set_token_expiry_date(self._to_expiry_date(expires))

    def token_has_expired(self) -> bool:
        """Return True if the expiry date of the access token has passed."""
        return ab_datetime_now() > self.get_token_expiry_date()

    def refresh_access_token(self) -> tuple[str, Any]:
        """Request a new access token; return the token and its lifetime (seconds) or expiry date.

        Raises:
            ValueError: The token response contains no access token.
        """
        document = self._make_handled_request()
        names = TokenFieldNames(self.get_access_token_name(), deep=True)
        if not (token := names.get_value(document, names.access_token)):
            raise ValueError(f"The token response has no {names.access_token}.")
        return token, names.get_value(document, self.get_expires_in_name())

    def _make_handled_request(self) -> Any:
        """Send the token request and return the parsed JSON response.

        Subclasses written for airbyte-cdk 7 override this method.
        """
        return self._get_refresh_access_token_response()

    def _get_refresh_access_token_response(self) -> Any:
        """Send the token request and return the parsed JSON response.

        Subclasses written for older versions of airbyte-cdk override this method.
        """
        with requests.Session() as session:
            response = ask_token_endpoint(
                session,
                str(self.get_token_refresh_endpoint()),
                timeout=60,
                data=self.build_refresh_request_body(),
                headers=self.build_refresh_request_headers(),
            )
        if (redirect := make_redirect_error(response)) is not None:
            raise redirect
        self._log_response(response)
        response.raise_for_status()
        return response.json()

    def _log_response(self, response: requests.Response) -> None:
        """Do nothing: a token response is not logged, because it contains secrets."""

    def _to_expiry_date(self, expires: Any) -> AirbyteDateTime:
        if isinstance(expires, AirbyteDateTime):
            return expires
        if self.token_expiry_is_time_of_expiration:
            return ab_datetime_parse(expires)
        lifetime = timedelta(seconds=float(expires)) if expires else _DEFAULT_LIFETIME
        return ab_datetime_now() + lifetime

    def build_refresh_request_body(self) -> Mapping[str, Any]:
        """Return the form fields of the token request, such as grant type and refresh token."""
        form: MutableMapping[str, Any] = {self.get_grant_type_name(): self.get_grant_type()}
        if "Authorization" not in self.get_refresh_request_headers():
            form[self.get_client_id_name()] = self.get_client_id()
            form[self.get_client_secret_name()] = self.get_client_secret()
        form[self.get_refresh_token_name()] = self.get_refresh_token()
        if scopes := self.get_scopes():
            form["scopes"] = scopes
        return {**self.get_refresh_request_body(), **form}

    def build_refresh_request_headers(self) -> Mapping[str, Any] | None:
        """Return the headers of the token request, or None if the manifest declares no headers."""
        return self.get_refresh_request_headers() or None

    @property
    def access_token(self) -> str:
        """Current access token: the configured one, or the one requested last.

        Messages and logs hide it from the time at which it is set.

        Raises:
            ValueError: No access token is configured, and none was requested yet.
        """
        if self._access_token is None:
            raise ValueError("There is no access token yet.")
        return self._access_token

    @access_token.setter
    def access_token(self, value: str) -> None:
        self._access_token = value
        register_secrets(self, Secrets.from_values([str(value)]))

    def get_token_expiry_date(self) -> AirbyteDateTime:
        """Return the date and time at which the access token expires."""
        return cast("AirbyteDateTime", self._token_expiry_date)

    def set_token_expiry_date(self, value: Any) -> None:
        """Set the expiry date of the access token, from a date or from a lifetime in seconds."""
        self._token_expiry_date = self._to_expiry_date(value)

    # Settings

    def get_token_refresh_endpoint(self) -> str | None:
        """Return the URL of the token endpoint, or None if the manifest declares none."""
        return cast("str | None", self._render(self.token_refresh_endpoint))

    def get_client_id_name(self) -> str:
        """Return the name of the form field for the client ID, ``client_id`` by default."""
        return str(self._render(self.client_id_name))

    def get_client_id(self) -> str:
        """Return the OAuth client ID from the config."""
        return cast(str, self._render(self.client_id))

    def get_client_secret_name(self) -> str:
        """Return the name of the form field for the client secret, ``client_secret`` by default."""
        return str(self._render(self.client_secret_name))

    def get_client_secret(self) -> str:
        """Return the OAuth client secret from the config."""
        return cast(str, self._render(self.client_secret))

    def get_refresh_token_name(self) -> str:
        """Return the name of the form field for the refresh token, ``refresh_token`` by default."""
        return str(self._render(self.refresh_token_name))

    def get_refresh_token(self) -> str | None:
        """Return the refresh token from the config, or None if the manifest declares none."""
        return None if self.refresh_token is None else str(self._render(self.refresh_token))

    def get_scopes(self) -> list[str]:
        """Return the OAuth scopes to request; [] if the manifest declares none."""
        return self.scopes or []

    def get_access_token_name(self) -> str:
        """Return the response field that contains the access token, ``access_token`` by default."""
        return str(self._render(self.access_token_name))

    def get_expires_in_name(self) -> str:
        """Return the response field that contains the lifetime, ``expires_in`` by default."""
        return str(self._render(self.expires_in_name))

    def get_grant_type_name(self) -> str:
        """Return the name of the form field for the grant type, ``grant_type`` by default."""
        return str(self._render(self.grant_type_name))

    def get_grant_type(self) -> str:
        """Return the grant type, ``refresh_token`` by default."""
        return str(self._render(self.grant_type))

    def get_refresh_request_body(self) -> Mapping[str, Any]:
        """Return the additional form fields of the token request, from ``refresh_request_body``."""
        return cast(Mapping[str, Any], self._render(self.refresh_request_body or {}))

    def get_refresh_request_headers(self) -> Mapping[str, Any]:
        """Return the headers of the token request, from the option ``refresh_request_headers``."""
        return cast(Mapping[str, Any], self._render(self.refresh_request_headers or {}))
