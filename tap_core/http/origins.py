"""Origins (scheme, host and port) to which the credentials of a request may be sent.

Credentials are only sent to the origins that the tap's developer declared and to the hosts in
``allowed_hosts``. A redirect or a next-page URL that leads to any other origin is refused. An
origin is defined as in RFC 6454, section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast
from urllib.parse import parse_qsl, urljoin, urlsplit

import requests
from requests.auth import AuthBase
from requests.cookies import RequestsCookieJar
from requests.structures import CaseInsensitiveDict

from tap_core.exceptions import ConfigurationError, FatalAPIError
from tap_core.http.link_local import is_link_local
from tap_core.redaction import Secrets, is_secret_name
from tap_core.redaction.http import decode_header

__all__ = [
    "LONGEST_URL",
    "Origin",
    "Route",
    "UntrustedHostError",
    "check_allowed_hosts",
    "declared_origin",
    "has_secrets",
    "make_link_local_error",
    "make_redirect_error",
    "parse_origin",
]

_PORTS: Final = {"http": 80, "https": 443}

LONGEST_URL: Final = 100_000
"""Maximum length of a URL in characters; servers accept less."""

_KEPT_HEADERS: Final = (
    "Accept",
    "Accept-Encoding",
    "Accept-Language",
    "Connection",
    "Range",
    "User-Agent",
)
"""Headers that a request keeps when a redirect leads it to another origin."""


class UntrustedHostError(FatalAPIError):
    """Raised if a request or redirect would send credentials to an origin that is not allowed."""

    failure_type = "config_error"


class Origin(NamedTuple):
    """Scheme, host and port of a URL, such as ``("https", "api.example.com", 443)``.

    ``str()`` of it is a URL without path, such as ``https://api.example.com``; the default port of
    the scheme is omitted.
    """

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS.get(self.scheme) else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    def is_tls_upgrade_from(self, other: Origin) -> bool:
        """Return True if this origin is ``other`` after a change from HTTP to HTTPS.

        Host and port must match; both ports must have their defaults, 443 and 80.
        """
        return other == ("http", self.host, 80) and self == ("https", self.host, 443)


def parse_origin(url: str | bytes | None) -> Origin | None:
    """Return the origin of the URL of a prepared request; None if the URL is missing or invalid."""
    text = url.decode("utf-8", "replace") if isinstance(url, bytes) else url or ""
    return _parse_url_start("/".join(text.split("/", 3)[:3]))


@lru_cache(maxsize=512)
def _parse_url_start(beginning: str) -> Origin | None:
    try:
        parts = urlsplit(beginning)
        port, host = parts.port, parts.hostname
    except ValueError:
        return None
    if not host:
        return None
    return Origin(parts.scheme, host, _PORTS.get(parts.scheme, 0) if port is None else port)


@lru_cache(maxsize=512)
def declared_origin(url: str) -> Origin | None:
    """Return the origin of a URL from a tap's code or settings; None if the URL is invalid.

    The URL is first normalized as the requests package does it before sending.
    """
    ready = requests.PreparedRequest()
    try:
        ready.prepare_url(url.strip(), None)
    except (requests.exceptions.RequestException, ValueError):
        return None
    return parse_origin(ready.url)


class _AllowedHost(NamedTuple):
    """Host to which credentials may be sent, parsed from the setting ``allowed_hosts``.

    An empty scheme matches any scheme. A missing port matches the default port of the scheme.
    """

    scheme: str
    host: str
    port: int | None

    def matches(self, origin: Origin) -> bool:
        """Return True if an origin's scheme, host and port match this allowed host."""
        port = _PORTS.get(origin.scheme) if self.port is None else self.port
        if self.scheme not in {"", origin.scheme} or port != origin.port:
            return False
        if self.host.startswith("*."):
            return origin.host.endswith(self.host[1:]) and len(origin.host) >= len(self.host)
        return origin.host == self.host


@lru_cache(maxsize=256)
def _parse_allowed_host(name: str) -> _AllowedHost:
    text = name.strip()
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    plain = host.removeprefix("*.")
    has_other_parts = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    if not plain or "*" in plain or has_other_parts or ("*" in host and "." not in plain):
        raise ConfigurationError(
            f"allowed_hosts has {name!r}, which is not a host name such as 'files.example.com',"
            " 'files.example.com:8443' or '*.example.com'."
        )
    return _AllowedHost(parts.scheme, host, port)


def check_allowed_hosts(names: Collection[str]) -> tuple[str, ...]:
    """Validate the hosts in the setting ``allowed_hosts``, and return them as a tuple.

    A single string is one host, such as ``files.example.com:8443`` or ``*.example.com``.

    Raises:
        ConfigurationError: An entry is not a host, a host with a port, or ``*.`` and a domain.
    """
    names = (names,) if isinstance(names, str) else tuple(names)
    for name in names:
        _ = _parse_allowed_host(str(name))
    return tuple(map(str, names))


def has_secrets(request: requests.PreparedRequest, secrets: Secrets) -> bool:
    """Return True if the headers, URL or body of a request contain a secret.

    A secret is a value in ``secrets``, plain or encoded, or the value of a header or query
    parameter with a secret name. Cookies are ignored, since they are never sent to another origin.
    The result is also True for a body that can be read only once (a file or a generator). It is
    True as well for authentication that sends credentials after a 401 response (HTTP Digest, NTLM).
    """
    if any(map(_answers_challenge, _response_hooks(request))):
        return True
    headers = {
        decode_header(name): decode_header(value) for name, value in (request.headers or {}).items()
    }
    headers.pop("Cookie", None)
    url, body = str(request.url or ""), cast("Any", request.body)
    if any(map(is_secret_name, headers)):
        return True
    if any(is_secret_name(name) for name, _ in parse_qsl(urlsplit(url).query)):
        return True
    if body is not None and not isinstance(body, (str, bytes)):
        return True  # a file or a generator, which cannot be read twice
    body_text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body or ""
    texts = [url, *headers.values(), body_text]
    return any(secrets.hide_values(text) != text for text in texts)


def _response_hooks(request: requests.PreparedRequest) -> list[Any]:
    hooks: Any = request.hooks or {}
    return list(hooks.get("response") or ())


def _answers_challenge(hook: Any) -> bool:
    """Return True if a response hook belongs to an authenticator, such as HTTP Digest.

    Such a hook may answer a 401 response with credentials.
    """
    return isinstance(getattr(hook, "__self__", None), AuthBase)


@dataclass(slots=True)
class Route:
    """Rules that say to which origins a request with credentials may be sent or redirected.

    Args:
        is_home: Function that returns True for an origin to which the credentials belong.
        has_credentials: Function that returns True for a request that contains credentials.
        requires_https: Function that returns True if credentials must not be sent over plain HTTP.
        allowed_hosts: Other hosts that may receive the credentials.
        setting: Name of the setting that contains the allowed hosts, for error messages.
    """

    is_home: Callable[[Origin], bool]
    has_credentials: Callable[[requests.PreparedRequest], bool]
    requires_https: Callable[[], bool]
    allowed_hosts: Collection[str] = ()
    setting: str = "`allowed_hosts` of the stream"

    def check(self, request: requests.PreparedRequest) -> None:
        """Check that a request may be sent to its URL.

        A request without credentials may be sent anywhere, but its cookies are removed if the
        origin may not receive credentials.

        Raises:
            FatalAPIError: The URL is too long.
            UntrustedHostError: The request would send credentials to an origin that is not allowed,
                or fall back from HTTPS to plain HTTP.
        """
        length = len(request.url or "")
        if length > LONGEST_URL:  # Python caches the parts of many URLs
            raise FatalAPIError(
                f"The URL of a request has {length:,} characters, more than {LONGEST_URL:,}. If it"
                " contains values of records or of a link, check these."
            )
        origin = parse_origin(request.url)
        if origin is None or self.is_home(origin):
            return
        if origin.scheme == "http" and self.requires_https():
            raise _make_downgrade_error(origin)
        if self._allows(origin):
            return
        if is_link_local(origin.host):
            raise make_link_local_error(origin.host)
        if self.has_credentials(request):
            raise self._make_refusal(origin, "The URL of a request leads")
        request.headers.pop("Cookie", None)

    def prepare_redirect(
        self,
        first: requests.PreparedRequest,
        response: requests.Response,
        following: requests.PreparedRequest,
        *,
        is_stripped: bool,
    ) -> bool:
        """Check a redirect, and remove the credentials that the next host must not receive.

        Args:
            first: Request that started the chain of redirects.
            response: Response that redirects.
            following: Request that follows the redirect; it is changed.
            is_stripped: True if the credentials were already removed at an earlier redirect.

        Returns:
            True if the credentials were removed now or at an earlier redirect.

        Raises:
            UntrustedHostError: The redirect leads from HTTPS to HTTP, or to an origin that must not
                receive the credentials or the body of the request.
        """
        request = response.request
        # The requests package has added it for the proxy of the first request. If the next request
        # needs a proxy, its connection pool adds the header again.
        following.headers.pop("Proxy-Authorization", None)
        source, target = parse_origin(request.url), parse_origin(following.url)
        if target is None or source is None:
            return is_stripped
        if source.scheme == "https" and target.scheme == "http":
            raise _make_downgrade_error(target, response)
        is_same = target == source or target.is_tls_upgrade_from(source)
        if self._is_trusted(target, first) or (is_same and self._is_trusted(source, first)):
            _keep_authorization(request, following)
            return is_stripped
        if not is_same:
            if not self._allows(target) and is_link_local(target.host):
                raise make_link_local_error(target.host)
            if not (is_stripped or self._allows(target)) and self.has_credentials(request):
                raise self._make_refusal(target, "The response redirects", response)
            if following.body:
                raise UntrustedHostError(
                    f"The response redirects a request with a body to {target}. A body is only sent"
                    " to hosts that may receive the credentials: nothing was sent there.",
                    response=response,
                )
        _remove_credentials(following, keep_body=is_same)
        return True

    def check_redirect(self, response: requests.Response, *_: Any, **__: Any) -> None:
        """Check the target of a redirect before the session follows it.

        This method is a response hook of the requests package.

        Raises:
            UntrustedHostError: The redirect leads from HTTPS to HTTP, or to an origin that must not
                receive the credentials.
        """
        if not response.is_redirect:
            return
        location = urljoin(response.url, response.headers["Location"])
        source, target = parse_origin(response.url), declared_origin(location)
        if (
            source is None
            or target is None
            or target == source
            or target.is_tls_upgrade_from(source)
        ):
            return
        if source.scheme == "https" and target.scheme == "http":
            raise _make_downgrade_error(target, response)
        if not self.is_home(target) and not self._allows(target):
            raise self._make_refusal(target, "The response redirects", response)

    def is_declared(self, request: requests.PreparedRequest) -> bool:
        """Return True if the code or the settings of the source name the host of a request.

        If the result is False, the host may have been read from a response, such as a next-page
        URL.
        """
        origin = parse_origin(request.url)
        if origin is None or self.is_home(origin) or self._allows(origin):
            return True
        plain = origin._replace(scheme="http", port=80)
        return origin.is_tls_upgrade_from(plain) and (self.is_home(plain) or self._allows(plain))

    def _is_trusted(self, origin: Origin, first: requests.PreparedRequest) -> bool:
        """Return True if a redirect may carry a request's credentials to an origin.

        Args:
            origin: Origin of the redirect's target.
            first: Request that started the chain of redirects.
        """
        is_first = self._allows(origin) and origin == parse_origin(first.url)
        return is_first or self.is_home(origin)

    def _allows(self, origin: Origin) -> bool:
        return any(_parse_allowed_host(str(name)).matches(origin) for name in self.allowed_hosts)

    def _make_refusal(
        self, target: Origin, action: str, response: requests.Response | None = None
    ) -> UntrustedHostError:
        return UntrustedHostError(
            f"{action} to {target}, and the credentials of this request belong to another host:"
            f" nothing was sent there. To send them to this host, add it to {self.setting}.",
            response=response,
        )


def make_link_local_error(host: str, address: str = "") -> UntrustedHostError:
    """Return the error for a response that leads a request to a link-local address.

    ``host`` is the host of the request's URL. If ``host`` is a name, ``address`` is its IP address.
    """
    where = f"{host} ({address})" if address not in {"", host} else host
    return UntrustedHostError(
        f"A response leads to {where}, a link-local address or the address of a metadata service,"
        " where clouds serve credentials of this machine: nothing was sent there. Only the URL of a"
        " source, or its allowed hosts, may name such an address."
    )


def make_redirect_error(response: requests.Response) -> UntrustedHostError | None:
    """Return the error for a token or login request that the server redirects.

    Such a redirect is not followed. Return None if the response is not a redirect.
    """
    if not response.is_redirect:
        return None
    following = getattr(response, "next", None)
    target = None if following is None else parse_origin(following.url)
    return UntrustedHostError(
        f"The response, status {response.status_code}, redirects to"
        f" {target or 'another URL'}, and a request for credentials follows no redirect: if the"
        " redirect is correct, configure its target as the URL of the request.",
        response=response,
    )


def _make_downgrade_error(
    target: Origin, response: requests.Response | None = None
) -> UntrustedHostError:
    return UntrustedHostError(
        f"A response over HTTPS leads to {target}, which is plain HTTP: nothing was sent there."
        " Requests never fall back from HTTPS to HTTP.",
        response=response,
    )


def _keep_authorization(
    request: requests.PreparedRequest, following: requests.PreparedRequest
) -> None:
    """Copy the Authorization header of a request to ``following``, the request after its redirect.

    The requests package may have replaced the header with credentials from ``.netrc``.
    """
    following.headers.pop("Authorization", None)
    if "Authorization" in request.headers:
        following.headers["Authorization"] = request.headers["Authorization"]


def _remove_credentials(following: requests.PreparedRequest, *, keep_body: bool) -> None:
    """Remove credentials, cookies and unknown headers from a request that follows a redirect.

    The body is kept only if ``keep_body`` is True.
    """
    hooks = [hook for hook in _response_hooks(following) if not _answers_challenge(hook)]
    following.hooks = {"response": hooks}
    kept_names = (*_KEPT_HEADERS, "Content-Type", "Content-Length") if keep_body else _KEPT_HEADERS
    headers = {name: following.headers[name] for name in kept_names if name in following.headers}
    following.headers = CaseInsensitiveDict(headers)
    vars(following)["_cookies"] = RequestsCookieJar()
