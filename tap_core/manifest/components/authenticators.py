"""Authenticators of a manifest: API key, bearer, Basic, JWT, OAuth and session tokens.

`tap_core.manifest.request_credentials` and `tap_core.authenticators` add the credentials to
requests. Config settings are read when the first request is sent, because a config may contain only
the settings of the selected authenticator. No `repr` shows a secret.

Source: Airbyte YAML reference, "Authentication".
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Any, ClassVar, Literal, cast

import requests

from tap_core.authenticators import (
    BasicAuthenticator,
    BearerTokenAuthenticator,
    SimpleAuthenticator,
)
from tap_core.authenticators.jwt import load_private_key, sign_jwt
from tap_core.authenticators.token_endpoint import TokenFieldNames
from tap_core.authenticators.token_storage import is_refresh_token_name
from tap_core.exceptions import FatalAPIError
from tap_core.http.request import Auth, HTTPRequest, build_body_arguments
from tap_core.http.response import parse_json
from tap_core.incremental.durations import parse_duration
from tap_core.incremental.request_options import RequestOption
from tap_core.manifest.components.requester import HttpRequester, finalize_request
from tap_core.manifest.dpath import MISSING, make_getter
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import (
    Authenticator,
    DeclarativeStreamProtocol,
    Decoder,
    InterpolatedMapping,
    InterpolatedText,
    resolve,
    resolve_mapping,
)
from tap_core.manifest.request_credentials import (
    CachedToken,
    ExpiringToken,
    InjectedCredential,
    TokenRefusals,
    parse_expiry,
)
from tap_core.manifest.type_hints import PlainText
from tap_core.parsing.datetimes import utc_now

__all__ = [
    "ApiKeyAuthenticator",
    "BasicHttpAuthenticator",
    "BearerAuthenticator",
    "JwtAuthenticator",
    "JwtHeaders",
    "JwtPayload",
    "LegacySessionTokenAuthenticator",
    "NoAuth",
    "OAuthAuthenticator",
    "RefreshTokenUpdater",
    "SelectiveAuthenticator",
    "SessionTokenAuthenticator",
    "SessionTokenRequestApiKeyAuthenticator",
    "SessionTokenRequestBearerAuthenticator",
]

_BEARER = RequestOption(inject_into="header", field_name="Authorization")
_JWT_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@dataclass(frozen=True, kw_only=True)
class NoAuth:
    """Authenticator that sends requests without credentials."""

    def auth(self, stream: DeclarativeStreamProtocol) -> Auth:  # noqa: ARG002  (every authenticator takes it)
        """Return a callable that adds no credentials and leaves requests unchanged."""
        return SimpleAuthenticator()


@dataclass(frozen=True, kw_only=True, repr=False)
class ApiKeyAuthenticator:
    """Authenticator that adds an API key to a header, a query parameter or the body of a request.

    Raises:
        ManifestError: Neither or both of `inject_into` and `header` are set.
    """

    api_token: str = ""
    header: str | None = None
    inject_into: RequestOption | None = None

    def __post_init__(self) -> None:
        if (self.header is None) == (self.inject_into is None):
            raise ManifestError(
                "An ApiKeyAuthenticator needs one location of the key: set either `inject_into`"
                " or the older `header`."
            )

    def auth(self, stream: DeclarativeStreamProtocol) -> Auth:  # noqa: ARG002  (every authenticator takes it)
        """Return a callable that adds the API key to a request."""
        option = self.inject_into
        if option is None:
            return SimpleAuthenticator(auth_headers={self.header or "": self.api_token})
        return InjectedCredential(option, lambda: self.api_token)


@dataclass(frozen=True, kw_only=True, repr=False)
class BearerAuthenticator:
    """Authenticator that sends a token in the header ``Authorization: Bearer <token>``."""

    api_token: str

    def auth(self, stream: DeclarativeStreamProtocol) -> Auth:  # noqa: ARG002  (every authenticator takes it)
        """Return a callable that adds the header ``Authorization: Bearer <token>`` to a request."""
        return BearerTokenAuthenticator(token=self.api_token)


@dataclass(frozen=True, kw_only=True, repr=False)
class BasicHttpAuthenticator:
    """Authenticator that sends user name and password in the header ``Authorization: Basic …``."""

    username: str
    password: str = ""

    def auth(self, stream: DeclarativeStreamProtocol) -> Auth:  # noqa: ARG002  (every authenticator takes it)
        """Return a callable that adds the header ``Authorization: Basic …`` to a request."""
        return BasicAuthenticator(username=self.username, password=self.password)


@dataclass(frozen=True, kw_only=True, repr=False)
class SelectiveAuthenticator:
    """Authenticator that delegates to one of several authenticators, selected by a config value."""

    authenticator_selection_path: list[str]
    authenticators: dict[str, Authenticator]
    config: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def get_used_keys(
        options: Mapping[str, Any], config: Mapping[str, Any]
    ) -> Mapping[str, list[str]]:
        """Return ``{"authenticators": [name]}`` with the name of the authenticator that is used.

        The builder calls this method to build only that authenticator, because the config may lack
        the settings of all others. Return {} if the config selects no authenticator; the builder
        then builds all of them.
        """
        path = options.get("authenticator_selection_path")
        selected = make_getter(path)(dict(config)) if isinstance(path, list) else MISSING
        declared = options.get("authenticators")
        if not isinstance(declared, Mapping) or str(selected) not in declared:
            return {}
        return {"authenticators": [str(selected)]}

    def auth(self, stream: DeclarativeStreamProtocol) -> Auth:
        """Return a callable that adds the credentials of the selected authenticator to a request.

        Raises:
            ManifestError: The config has no value at the selection path, or the value is not the
                name of an authenticator.
        """
        path = ".".join(self.authenticator_selection_path)
        selected = make_getter(self.authenticator_selection_path)(dict(self.config))
        if selected is MISSING:
            raise ManifestError(
                f"The setting '{path}' selects the authenticator, and is missing: set it to one"
                f" of {', '.join(self.authenticators)}."
            )
        authenticator = self.authenticators.get(str(selected))
        if authenticator is None:
            raise ManifestError(
                f"The setting '{path}' has an unknown value: set it to one of"
                f" {', '.join(self.authenticators)}."
            )
        return authenticator.auth(stream)


# JSON Web Tokens


@dataclass(frozen=True, kw_only=True)
class JwtHeaders:
    """Standard JWT header parameters, one manifest option each; None omits a parameter."""

    kid: str | None = None
    typ: str | None = "JWT"
    cty: str | None = None


@dataclass(frozen=True, kw_only=True)
class JwtPayload:
    """Standard JWT claims, one manifest option each; None omits a claim."""

    iss: str | None = None
    sub: str | None = None
    aud: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class JwtAuthenticator:
    """Authenticator that signs a JWT with `secret_key` and sends it, by default as bearer token.

    A JWT is valid for `token_duration` seconds. Signing requires PyJWT (extra ``jwt``).
    """

    secret_key: str
    algorithm: Literal[
        "HS256",
        "HS384",
        "HS512",
        "ES256",
        "ES256K",
        "ES384",
        "ES512",
        "RS256",
        "RS384",
        "RS512",
        "PS256",
        "PS384",
        "PS512",
        "EdDSA",
    ]
    base64_encode_secret_key: bool = False
    token_duration: int = 1200
    header_prefix: str | None = None
    jwt_headers: JwtHeaders = field(default_factory=JwtHeaders)
    additional_jwt_headers: InterpolatedMapping = None
    jwt_payload: JwtPayload = field(default_factory=JwtPayload)
    additional_jwt_payload: InterpolatedMapping = None
    passphrase: str | None = None
    request_option: RequestOption = _BEARER

    def auth(self, stream: DeclarativeStreamProtocol) -> Auth:  # noqa: ARG002  (every authenticator takes it)
        """Return a callable that adds a JWT to a request.

        The callable signs a new JWT before the current one expires.
        """
        token, prefix = ExpiringToken(self.sign), self.header_prefix
        return InjectedCredential(
            self.request_option, (lambda: f"{prefix} {token()}") if prefix else token
        )

    def sign(self) -> tuple[str, datetime]:
        """Sign a new JWT; return (JWT, expiry time).

        Raises:
            ManifestError: PyJWT or a package that it needs is not installed, or the key is invalid.
        """
        ends_at = utc_now() + timedelta(seconds=self.token_duration)
        headers, payload = self._headers(), self._payload(ends_at)
        try:
            return sign_jwt(payload, self._key(), self.algorithm, headers), ends_at
        except RuntimeError as error:
            raise ManifestError(str(error)) from None
        except Exception as error:  # noqa: BLE001  (the error for a bad key depends on the algorithm)
            raise ManifestError(
                f"The `secret_key` cannot sign a token with {self.algorithm}:"
                f" {type(error).__name__}."  # its text may contain the key
            ) from None

    def _headers(self) -> dict[str, Any]:
        additional = resolve_mapping(self.additional_jwt_headers)
        _refuse_reserved(additional, ("kid", "alg", "typ", "cty"), "additional_jwt_headers")
        declared = vars(self.jwt_headers)
        return {**additional, **{name: value for name, value in declared.items() if value}}

    def _payload(self, ends_at: datetime) -> dict[str, Any]:
        additional = resolve_mapping(self.additional_jwt_payload)
        reserved = ("iss", "sub", "aud", "iat", "exp", "nbf")
        _refuse_reserved(additional, reserved, "additional_jwt_payload")
        claims = {name: value for name, value in vars(self.jwt_payload).items() if value}
        expiry = int(ends_at.timestamp())
        now = expiry - self.token_duration
        return {**additional, **claims, "iat": now, "exp": expiry, "nbf": now}

    def _key(self) -> Any:
        if self.passphrase:
            return load_private_key(self.secret_key, self.passphrase)
        if self.base64_encode_secret_key:
            return base64.b64encode(self.secret_key.encode()).decode()
        return self.secret_key


def _refuse_reserved(options: Mapping[str, Any], names: tuple[str, ...], option: str) -> None:
    reserved = [name for name in names if name in options]
    if reserved:
        raise ManifestError(
            f"`{option}` has {', '.join(reserved)}: use the separate options, or remove what"
            " the authenticator sets itself."
        )


# OAuth 2.0


@dataclass(frozen=True, kw_only=True)
class RefreshTokenUpdater:
    """Options for an API that issues a new refresh token with each access token.

    `refresh_token_name` is the field of the new refresh token in the token response. The
    `…_config_path` options are the paths in the config at which the new tokens are stored. The
    `refresh_token_error_…` options are an older place for those of the `OAuthAuthenticator`.
    """

    refresh_token_name: str = "refresh_token"  # noqa: S105  (a name, no secret)
    access_token_config_path: list[str] = field(
        default_factory=lambda: ["credentials", "access_token"]
    )
    refresh_token_config_path: list[str] = field(
        default_factory=lambda: ["credentials", "refresh_token"]
    )
    token_expiry_date_config_path: list[str] = field(
        default_factory=lambda: ["credentials", "token_expiry_date"]
    )
    refresh_token_error_status_codes: list[int] = field(default_factory=list)
    refresh_token_error_key: PlainText = ""
    refresh_token_error_values: list[PlainText] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, repr=False)
class OAuthAuthenticator:
    """Authenticator that requests OAuth 2.0 access tokens and sends ``Authorization: Bearer …``.

    A refused token request is a `config_error` if its status is one of
    `refresh_token_error_status_codes`, and the field `refresh_token_error_key` of the response has
    one of the `refresh_token_error_values`; otherwise it is a `system_error`.

    Raises:
        ManifestError: An option that the grant type needs is missing.
    """

    client_id: str | None = None
    client_secret: str | None = None
    token_refresh_endpoint: str | None = None
    refresh_token: str | None = None
    grant_type: str = "refresh_token"
    scopes: list[PlainText] = field(default_factory=list)
    refresh_request_body: InterpolatedMapping = None
    refresh_request_headers: InterpolatedMapping = None
    send_refresh_request_as_query_params: bool = False
    client_id_name: str = "client_id"
    client_secret_name: str = "client_secret"  # noqa: S105  (names, no secrets)
    refresh_token_name: str = "refresh_token"  # noqa: S105
    access_token_name: str = "access_token"  # noqa: S105
    expires_in_name: str = "expires_in"
    grant_type_name: str = "grant_type"
    access_token_value: str | None = None
    token_expiry_date: str | None = None
    token_expiry_date_format: str | None = None
    refresh_token_updater: RefreshTokenUpdater | None = None
    profile_assertion: JwtAuthenticator | None = None
    use_profile_assertion: bool = False
    refresh_token_error_status_codes: list[int] = field(default_factory=list)
    refresh_token_error_key: PlainText = ""
    refresh_token_error_values: list[PlainText] = field(default_factory=list)
    config: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        needed = ["client_id", "client_secret"]
        if self.use_profile_assertion:
            needed = ["profile_assertion"]
        elif self.grant_type == "refresh_token" and self.refresh_token_updater is None:
            needed.append("refresh_token")
        missing = ", ".join(f"`{name}`" for name in needed if getattr(self, name) is None)
        if missing:
            raise ManifestError(f"An OAuthAuthenticator with this grant type needs {missing}.")
        if len(self._declared_refusals) > 1:
            raise ManifestError(
                "The `refresh_token_error_…` options are set both in the OAuthAuthenticator and in"
                " its `refresh_token_updater`: remove those in the updater."
            )

    def auth(self, stream: DeclarativeStreamProtocol) -> Auth:  # noqa: ARG002  (every authenticator takes it)
        """Return a callable that adds the access token to a request.

        The callable refreshes the token before it expires.
        """
        updater = self.refresh_token_updater
        return CachedToken(
            endpoint=self.token_refresh_endpoint,
            body=self._body,
            headers={
                name: str(value)
                for name, value in _evaluate_mapping(self.refresh_request_headers).items()
            },
            names=TokenFieldNames(
                self.access_token_name, self._refresh_token_name, self.expires_in_name, deep=True
            ),
            in_query=self.send_refresh_request_as_query_params,
            end_format=self.token_expiry_date_format,
            known=self._configured_token,
            keep_in=None
            if updater is None
            else (
                updater.access_token_config_path,
                updater.token_expiry_date_config_path,
                updater.refresh_token_config_path,
            ),
            refresh_token_settings=self._refresh_token_settings,
            client_secret=self.client_secret,
            refusals=next(iter(self._declared_refusals), TokenRefusals()),
        )

    @property
    def _declared_refusals(self) -> list[TokenRefusals]:
        """Refusals that the authenticator and its updater declare, at most one for each."""
        components: list[OAuthAuthenticator | RefreshTokenUpdater] = [self]
        if self.refresh_token_updater is not None:
            components.append(self.refresh_token_updater)
        declared = [
            TokenRefusals(
                frozenset(component.refresh_token_error_status_codes),
                component.refresh_token_error_key,
                frozenset(component.refresh_token_error_values),
            )
            for component in components
        ]
        return [refusals for refusals in declared if any(vars(refusals).values())]

    @property
    def _refresh_token_name(self) -> str:
        updater = self.refresh_token_updater
        return self.refresh_token_name if updater is None else updater.refresh_token_name

    @property
    def _refresh_token_settings(self) -> list[str]:
        """Names of the config settings that contain the refresh token."""
        if self.refresh_token_updater is not None:
            return [str(key) for key in self.refresh_token_updater.refresh_token_config_path[-1:]]
        return _find_settings(self.config, self.refresh_token) if self.refresh_token else []

    @property
    def _configured_token(self) -> tuple[str, datetime | None] | None:
        """Access token in the config, and its expiry time if known; None without a token."""
        updater = self.refresh_token_updater
        if updater is not None:
            token = self._get_setting(updater.access_token_config_path)
            ends_at = self._get_setting(updater.token_expiry_date_config_path)
        else:
            token, ends_at = self.access_token_value, self.token_expiry_date
        if not token:
            return None
        expiry = parse_expiry(ends_at, self.token_expiry_date_format) if ends_at else None
        return str(token), expiry

    def _get_setting(self, path: list[str]) -> Any:
        value = make_getter(path)(dict(self.config))
        return None if value is MISSING else value

    def _body(self) -> dict[str, Any]:
        if self.use_profile_assertion and self.profile_assertion is not None:
            return {
                self.grant_type_name: _JWT_GRANT,
                "assertion": self.profile_assertion.sign()[0],
            }
        default = self._make_default_body()
        # The default fields come first, and override the others.
        return {**default, **_evaluate_mapping(self.refresh_request_body), **default}

    def _make_default_body(self) -> dict[str, Any]:
        body: dict[str, Any] = {self.grant_type_name: self.grant_type}
        if "Authorization" not in _evaluate_mapping(self.refresh_request_headers):
            body |= self._make_client_fields()
        token = self._find_refresh_token()
        if token is not None:
            body[self._refresh_token_name] = token
        if self.scopes:
            body["scopes"] = self.scopes
        return body

    def _make_client_fields(self) -> dict[str, Any]:
        client_id, secret = self.client_id, self.client_secret
        if self.refresh_token_updater is not None:
            client_id = self._get_setting(["credentials", "client_id"]) or client_id
            secret = self._get_setting(["credentials", "client_secret"]) or secret
        if not client_id:
            raise ManifestError(
                "The `client_id` of an OAuthAuthenticator is empty: is the setting missing?"
            )
        return {self.client_id_name: client_id, self.client_secret_name: secret}

    def _find_refresh_token(self) -> str | None:
        updater = self.refresh_token_updater
        if updater is None:
            return self.refresh_token
        stored = self._get_setting(updater.refresh_token_config_path)
        return self.refresh_token if stored is None else str(stored)


def _find_settings(settings: Mapping[str, Any], value: str) -> list[str]:
    """Return the names of the settings, also nested ones, that have a value.

    If one of them has the name of a refresh token, the others are omitted.
    """
    names: list[str] = []
    for name, setting in settings.items():
        if isinstance(setting, Mapping):
            names += _find_settings(setting, value)
        elif setting == value:
            names.append(str(name))
    return list(filter(is_refresh_token_name, names)) or names


def _evaluate_mapping(value: Any) -> dict[str, Any]:
    """Render the templates in a mapping, such as the fields of a token request.

    Omit members with the value None or an empty string.
    """
    mapping = resolve_mapping(value)
    return {name: value for name, value in mapping.items() if value is not None and value != ""}


# Sessions


@dataclass(frozen=True, kw_only=True)
class SessionTokenRequestBearerAuthenticator:
    """Declaration that a session token is sent as ``Authorization: Bearer <session token>``."""

    TYPE: ClassVar[str] = "Bearer"

    def auth_with(self, token: ExpiringToken) -> InjectedCredential:
        """Return a callable that adds ``Authorization: Bearer <session token>`` to a request."""
        return _SessionTokenCredential(_BEARER, token, lambda: f"Bearer {token()}")


@dataclass(frozen=True, kw_only=True)
class SessionTokenRequestApiKeyAuthenticator:
    """Declaration that a session token is sent in the part of requests that `inject_into` names.

    `api_token` is an optional template for the sent value, with the variable ``session_token``.
    """

    TYPE: ClassVar[str] = "ApiKey"

    inject_into: RequestOption
    api_token: InterpolatedText | None = None

    def auth_with(self, token: ExpiringToken) -> InjectedCredential:
        """Return a callable that adds the session token to a request, as `inject_into` declares."""
        text: Any = self.api_token
        if text is None:
            return _SessionTokenCredential(self.inject_into, token, token)
        return _SessionTokenCredential(
            self.inject_into, token, lambda: str(resolve(text, {"session_token": token()}))
        )


class _SessionTokenCredential(InjectedCredential):
    """Callable that adds a session token to requests; fetches a new one if the API rejects it."""

    def __init__(self, option: RequestOption, token: ExpiringToken, credential: Any) -> None:
        super().__init__(option, credential)
        self._token = token
        self.update_access_token = token.update_access_token

    @property
    def access_token(self) -> str | None:
        """Current session token, or None before the first login."""
        return self._token.access_token


@dataclass(frozen=True, kw_only=True, repr=False)
class SessionTokenAuthenticator:
    """Authenticator that gets a session token from a login request and adds it to all requests.

    `session_token_path` is the path of the token in the login response.
    """

    login_requester: HttpRequester
    session_token_path: list[str]
    request_authentication: (
        SessionTokenRequestApiKeyAuthenticator | SessionTokenRequestBearerAuthenticator
    )
    expiration_duration: str | None = None
    decoder: Decoder | None = None
    config: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.expiration_duration:
            _ = parse_duration(self.expiration_duration)

    def auth(self, stream: DeclarativeStreamProtocol) -> Auth:
        """Return a callable that adds the session token to a request.

        The callable logs in again when `expiration_duration` has passed. Without
        `expiration_duration` it logs in again when the API rejects the token.
        """
        return self.request_authentication.auth_with(ExpiringToken(partial(self._log_in, stream)))

    def _log_in(self, stream: DeclarativeStreamProtocol) -> tuple[str, datetime | None]:
        """Send the login request; return (session token, expiry time).

        The expiry time is None without `expiration_duration`, because it is unknown.

        Raises:
            FatalAPIError: The response has no token.
        """
        scope = {"config": self.config}
        request: HTTPRequest = finalize_request(self.login_requester.request(scope))
        if self.login_requester.authenticator is not None:
            request = _sign_request(request, self.login_requester.authenticator.auth(stream))
        now = utc_now()
        response = stream.fetch(request, scope, self.login_requester.error_handler)
        if self.decoder is None:
            document = parse_json(response)
        else:
            document = next(self.decoder.decode(response), None)
        token = make_getter(self.session_token_path)(document)
        if token is MISSING or not token:
            raise FatalAPIError(
                "The login response has no token at the `session_token_path`"
                f" {'.'.join(self.session_token_path)}.",
                response=response,
            )
        duration = self.expiration_duration
        return str(token), parse_duration(duration).after(now) if duration else None


def _sign_request(request: HTTPRequest, auth: Auth) -> HTTPRequest:
    """Return a copy of a request with an authenticator's credentials already added.

    The copy can be sent without an authenticator.
    """
    body = build_body_arguments(request.data, as_json=bool(request.as_json))
    headers = {**body.pop("headers", {}), **request.headers}
    query = request.encode_params()
    unsigned = requests.Request(request.method, request.url, headers=headers, params=query, **body)
    signed = auth(unsigned.prepare())
    content: Any = signed.body
    return HTTPRequest(
        url=str(signed.url), method=str(signed.method), headers=dict(signed.headers), data=content
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class LegacySessionTokenAuthenticator:
    """Authenticator that sends the session token of the config, or logs in to get a new one.

    It logs in if the config has no session token or if the API no longer accepts the token.
    """

    header: str
    login_url: str
    validate_session_url: str
    session_token_response_key: str
    session_token: str = ""
    username: str = ""
    password: str = ""

    def auth(self, stream: DeclarativeStreamProtocol) -> Auth:
        """Return a callable that adds the session token, in the header `header`, to a request."""
        token = ExpiringToken(lambda: (self._find_token(stream), None))
        option = RequestOption(inject_into="header", field_name=self.header)
        return _SessionTokenCredential(option, token, token)

    def _find_token(self, stream: DeclarativeStreamProtocol) -> str:
        requester: HttpRequester = cast(Any, stream).retriever.requester
        base = requester.get_base_url({"config": stream.config})
        if self.session_token and self._is_accepted(stream, base):
            return self.session_token
        if not (self.username and self.password):
            raise ManifestError(
                "There is no valid session token, and no user name and password to log in"
                " with: set `username` and `password`."
            )
        login = {"username": self.username, "password": self.password}
        request = HTTPRequest(f"{base}{self.login_url}", "POST", data=login, as_json=True)
        response = stream.fetch(request, {})
        token = make_getter([self.session_token_response_key])(parse_json(response))
        if token is MISSING or not token:
            raise FatalAPIError(
                "The login response has no token at the `session_token_response_key`"
                f" {self.session_token_response_key}.",
                response=response,
            )
        return str(token)

    def _is_accepted(self, stream: DeclarativeStreamProtocol, base: str) -> bool:
        headers = {self.header: self.session_token}
        request = HTTPRequest(f"{base}{self.validate_session_url}", headers=headers)
        try:
            stream.fetch(request, {})
        except FatalAPIError as error:
            if getattr(error.response, "status_code", None) == HTTPStatus.UNAUTHORIZED:
                return False
            raise
        return True
