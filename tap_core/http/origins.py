"""Origins (scheme, host and port) that the credentials of a request may be sent to.

A request keeps its credentials on the origins that its author declared and on the hosts that the
author allows besides. An address that an answer named is refused when it leads elsewhere. An
origin is defined as in RFC 6454, section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast
from urllib.parse import parse_qsl, urljoin, urlsplit

import requests
from requests.cookies import RequestsCookieJar
from requests.structures import CaseInsensitiveDict

from tap_core.exceptions import ConfigurationError, FatalAPIError
from tap_core.redaction import Secrets, is_secret_name

__all__ = [
    "Origin",
    "Route",
    "UntrustedHostError",
    "check_allowed_hosts",
    "declared_origin",
    "describe_redirect",
    "has_secrets",
    "parse_origin",
]

_PORTS: Final = {"http": 80, "https": 443}

_HARMLESS: Final = (
    *("Accept", "Accept-Encoding", "Accept-Language", "Connection", "Range", "User-Agent"),
    "Proxy-Authorization",  # requests sets it for the proxy, which takes it off
)
"""Headers that a request keeps when a redirect leads it to another origin."""


class UntrustedHostError(FatalAPIError):
    """An answer leads to an origin that may not get the credentials of the request."""

    failure_type = "config_error"


class Origin(NamedTuple):
    """What credentials are given for."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        """Return it as the beginning of a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS.get(self.scheme) else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    def is_tls_upgrade_from(self, other: Origin) -> bool:
        """Return whether this is the same host over TLS, both at their usual ports."""
        return (other.scheme, other.port, self.scheme, self.port) == (
            *("http", 80, "https", 443),
        ) and self.host == other.host


def parse_origin(url: str | bytes | None) -> Origin | None:
    """Return the origin of a prepared URL, None where it has no readable one."""
    text = url.decode("utf-8", "replace") if isinstance(url, bytes) else url or ""
    return _origin("/".join(text.split("/", 3)[:3]))


@lru_cache(maxsize=512)
def _origin(beginning: str) -> Origin | None:
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
    """Return the origin of a URL as it is written, read as the HTTP client reads it."""
    ready = requests.PreparedRequest()
    try:
        ready.prepare_url(url.strip(), None)
    except (requests.exceptions.RequestException, ValueError):
        return None
    return parse_origin(ready.url)


class _Allowed(NamedTuple):
    """One of the hosts that an author allows."""

    scheme: str
    host: str
    port: int | None

    def admits(self, origin: Origin) -> bool:
        """Return whether an origin is meant."""
        port = _PORTS.get(origin.scheme) if self.port is None else self.port
        if self.scheme not in {"", origin.scheme} or port != origin.port:
            return False
        if self.host.startswith("*."):
            return origin.host.endswith(self.host[1:]) and len(origin.host) >= len(self.host)
        return origin.host == self.host


@lru_cache(maxsize=256)
def _allowed(name: str) -> _Allowed:
    text = name.strip()
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    plain = host.removeprefix("*.")
    is_more = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    if not plain or "*" in plain or is_more or ("*" in host and "." not in plain):
        raise ConfigurationError(
            f"allowed_hosts has {name!r}, and may have host names such as 'files.example.com',"
            " 'files.example.com:8443' and '*.example.com'."
        )
    return _Allowed(parts.scheme, host, port)


def check_allowed_hosts(names: Collection[str]) -> tuple[str, ...]:
    """Return the names of allowed hosts.

    Raises:
        ConfigurationError: one of them is not a host, a host with a port, or ``*.`` and a domain.
    """
    names = (names,) if isinstance(names, str) else tuple(names)
    for name in names:
        _ = _allowed(str(name))
    return tuple(map(str, names))


def has_secrets(request: requests.PreparedRequest, secrets: Secrets) -> bool:
    """Return whether a request carries a secret: by the name of a header or key, or by its value.

    Cookies are not looked at, since they are never sent to another origin.
    """
    headers = {_text(name): _text(value) for name, value in (request.headers or {}).items()}
    headers.pop("Cookie", None)
    url, body = str(request.url or ""), cast("Any", request.body)
    if any(map(is_secret_name, headers)):
        return True
    if any(is_secret_name(name) for name, _ in parse_qsl(urlsplit(url).query)):
        return True
    if body is not None and not isinstance(body, (str, bytes)):
        return True  # a file or a generator, which cannot be read twice
    texts = [url, *headers.values(), _text(body or "")]
    return any(value in text for value in secrets.values for text in texts)


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


@dataclass(slots=True)
class Route:
    """Where one request and its redirects may lead.

    ``is_home`` tells the origins that the credentials were given for. ``carries`` tells whether
    a request has any. ``setting`` says in messages where an author allows a host.
    """

    is_home: Callable[[Origin], bool]
    carries: Callable[[requests.PreparedRequest], bool]
    is_secure: Callable[[], bool]
    """Whether the credentials were given for HTTPS, which never falls back to HTTP."""
    allowed_hosts: Collection[str] = ()
    setting: str = "`allowed_hosts` of the stream"

    def check(self, request: requests.PreparedRequest) -> None:
        """Check the address of a request that is about to be sent.

        A request without credentials may go anywhere, and takes no cookies there.

        Raises:
            UntrustedHostError: it would take credentials to an origin that may not have them.
        """
        origin = parse_origin(request.url)
        if origin is None or self.is_home(origin):
            return
        if origin.scheme == "http" and self.is_secure():
            raise _fallen_back(origin)
        if self._allows(origin):
            return
        if self.carries(request):
            raise self._refused(origin, "The address of a request leads")
        request.headers.pop("Cookie", None)

    def redirected(
        self,
        first: requests.PreparedRequest,
        response: requests.Response,
        following: requests.PreparedRequest,
        *,
        is_bare: bool,
    ) -> bool:
        """Check a redirect, and take off ``following`` what its origin may not get.

        ``first`` is the request that the redirects began with. ``is_bare`` tells that an earlier
        redirect took everything off.

        Returns:
            Whether ``following`` is bare, too.

        Raises:
            UntrustedHostError: it leads from HTTPS to HTTP, or to an origin that may get neither
                the credentials nor the body of the request.
        """
        request = response.request
        source, target = parse_origin(request.url), parse_origin(following.url)
        if target is None or source is None:
            return is_bare
        if source.scheme == "https" and target.scheme == "http":
            raise _fallen_back(target, response)
        is_same = target == source or target.is_tls_upgrade_from(source)
        if self._is_trusted(target, first) or (is_same and self._is_trusted(source, first)):
            _keep_authorization(request, following)
            return is_bare
        if not is_same:
            if not (is_bare or self._allows(target)) and self.carries(request):
                raise self._refused(target, "The answer redirects", response)
            if following.body:
                raise UntrustedHostError(
                    f"The answer redirects a request with a body to {target}, and a body is not"
                    " sent to another host than it was made for: nothing was sent there.",
                    response=response,
                )
        _strip(following, keep_body=is_same)
        return True

    def check_redirect(self, response: requests.Response, *_: Any, **__: Any) -> None:
        """Check a redirect that a session follows by itself: a hook of requests.

        Raises:
            UntrustedHostError: it leads to an origin that may not get the credentials.
        """
        if not response.is_redirect:
            return
        place = urljoin(response.url, response.headers["Location"])
        source, target = parse_origin(response.url), declared_origin(place)
        if (
            source is None
            or target is None
            or target == source
            or target.is_tls_upgrade_from(source)
        ):
            return
        if source.scheme == "https" and target.scheme == "http":
            raise _fallen_back(target, response)
        if not self.is_home(target) and not self._allows(target):
            raise self._refused(target, "The answer redirects", response)

    def _is_trusted(self, origin: Origin, first: requests.PreparedRequest) -> bool:
        """Return whether an origin may get what ``first`` carries."""
        is_first = self._allows(origin) and origin == parse_origin(first.url)
        return is_first or self.is_home(origin)

    def _allows(self, origin: Origin) -> bool:
        return any(_allowed(str(name)).admits(origin) for name in self.allowed_hosts)

    def _refused(
        self, target: Origin, what: str, response: requests.Response | None = None
    ) -> UntrustedHostError:
        return UntrustedHostError(
            f"{what} to {target}, and the credentials of this request were given for another"
            f" place: nothing was sent there. If that host may have them, name it in"
            f" {self.setting}.",
            response=response,
        )


def describe_redirect(response: requests.Response) -> UntrustedHostError | None:
    """Return the error of a redirect where none is followed, None for another answer."""
    if not response.is_redirect:
        return None
    following = getattr(response, "next", None)
    target = None if following is None else parse_origin(following.url)
    return UntrustedHostError(
        f"The answer, status {response.status_code}, redirects to"
        f" {target or 'another address'}, and a request for credentials follows no redirect: if"
        " that is where it belongs, give the address that it leads to.",
        response=response,
    )


def _fallen_back(target: Origin, response: requests.Response | None = None) -> UntrustedHostError:
    return UntrustedHostError(
        f"An answer over HTTPS leads to {target}, which is plain HTTP: nothing was sent there."
        " Requests never fall back from HTTPS to HTTP.",
        response=response,
    )


def _keep_authorization(
    request: requests.PreparedRequest, following: requests.PreparedRequest
) -> None:
    """Put back what requests may have replaced by the user's ``.netrc``."""
    following.headers.pop("Authorization", None)
    if "Authorization" in request.headers:
        following.headers["Authorization"] = request.headers["Authorization"]


def _strip(following: requests.PreparedRequest, *, keep_body: bool) -> None:
    """Leave of a redirected request nothing that says who sends it."""
    kept = (*_HARMLESS, "Content-Type", "Content-Length") if keep_body else _HARMLESS
    headers = {name: following.headers[name] for name in kept if name in following.headers}
    following.headers = CaseInsensitiveDict(headers)
    vars(following)["_cookies"] = RequestsCookieJar()
