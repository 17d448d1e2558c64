"""Loading of JSON and YAML documents from files, package resources and URLs.

YAML requires PyYAML, an optional dependency. A URL must be http or https, and is loaded with a
timeout. Messages contain neither the credentials nor the query of a URL.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import unquote, urljoin, urlsplit

from tap_core.exceptions import UnsupportedSchemaFormatError
from tap_core.limits.memory import (
    DOCUMENT_BYTES,
    InputTooLargeError,
    format_size,
    read_at_most,
)
from tap_core.singerlib.json import load_json

if TYPE_CHECKING:
    from importlib.abc import Traversable

    _Location: TypeAlias = str | Path | Traversable

__all__ = [
    "format_location",
    "get_suffix",
    "load_document",
    "parse_document",
    "resolve_relative",
    "resolve_sibling",
]

_TIMEOUT_SECONDS: Final = 30

_URL: Final = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_WEB: Final = frozenset({"http", "https"})

_USER: Final = re.compile(r"//[^/@\s]*@")
_QUERY: Final = re.compile(r"\?[^\s'\")]*")


# Text to a document


def parse_document(text: str | bytes, suffix: str) -> Any:
    """Parse a document: as YAML if ``suffix`` is ``.yaml`` or ``.yml``, else as JSON.

    Raises:
        ValueError: The text is not valid JSON or YAML.
        UnsupportedSchemaFormatError: The document is YAML, and PyYAML is not installed.
    """
    return _parse_yaml(text) if suffix in {".yaml", ".yml"} else load_json(text, parse_float=float)


def _parse_yaml(text: str | bytes) -> Any:
    """Parse a YAML document.

    Raises:
        UnsupportedSchemaFormatError: PyYAML is not installed.
    """
    try:
        from tap_core.schema.yaml import load_yaml
    except ImportError as ex:
        msg = "YAML needs the package PyYAML: pip install 'tap-core-sdk[manifest]'"
        raise UnsupportedSchemaFormatError(msg) from ex
    return load_yaml(text)


def get_suffix(name: str) -> str:
    """Return the suffix of a file name in lower case, such as ``.json``; ``""`` if it has none."""
    return posixpath.splitext(name)[1].lower()


# Locations


def load_document(location: _Location, *, redirects: bool = True) -> Any:
    """Load the JSON or YAML document at a URL or in a file.

    Args:
        location: URL (http or https), path of a file, or resource of a package.
        redirects: False to treat a redirect as an error.

    Raises:
        OSError: The document cannot be read.
        ValueError: The content is not valid JSON or YAML, or the URL is neither http nor https.
        UnsupportedSchemaFormatError: The suffix is neither JSON nor YAML.
    """
    if isinstance(location, str) and _URL.match(location):
        content, suffix = _fetch(location, redirects=redirects)
    else:
        file = Path(location) if isinstance(location, str) else location
        with file.open("rb") as opened:
            content, suffix = read_at_most(opened, DOCUMENT_BYTES), get_suffix(file.name)
    if suffix in {".json", ".yaml", ".yml"}:
        return parse_document(content, suffix)
    where = format_location(location)
    msg = f"Unsupported OpenAPI file type: {suffix} ('{where}' is not .json, .yaml or .yml)"
    raise UnsupportedSchemaFormatError(msg)


def resolve_sibling(location: _Location, name: str) -> _Location:
    """Return the location of a document that another document names by a relative path.

    Example: ``https://host/a/api.yaml`` and ``b.yaml`` -> ``https://host/a/b.yaml``.

    Args:
        location: Location of the document that contains the path.
        name: Relative path, URL-encoded.

    Raises:
        ValueError: The path is not relative or leads to another host, or ``location`` has no
            folder.
    """
    if isinstance(location, str) and _URL.match(location):
        url = urljoin(location, name)
        if _get_origin(url) != _get_origin(location):
            msg = f"'{format_location(url)}' is not on the host of the document that names it"
            raise ValueError(msg)
        return url
    file = Path(location) if isinstance(location, str) else location
    folder: Traversable | None = getattr(file, "parent", None)
    if folder is None:
        msg = f"there is no folder of '{format_location(location)}'"
        raise ValueError(msg)
    return resolve_relative(folder, name)


def resolve_relative(folder: Path | Traversable, name: str) -> Path | Traversable:
    """Return the file at a relative path in ``folder``; ``name`` is the URL-encoded path.

    Raises:
        ValueError: The path is not relative, or contains an encoded slash.
    """
    if urlsplit(name).scheme or name.startswith("/"):
        msg = f"'{name}' is not relative to the document that names it"
        raise ValueError(msg)
    for part in map(unquote, name.split("/")):
        if "/" in part or "\\" in part:
            msg = f"'{name}' contains an encoded slash or backslash"
            raise ValueError(msg)
        folder = folder.joinpath(part)
    return folder


def format_location(location: object) -> str:
    """Return a location as text for messages, without the credentials and query of a URL."""
    if isinstance(location, Mapping):
        return "a dictionary"
    text = str(location)
    if not _URL.match(text):
        return text
    try:
        parts = urlsplit(text)
    except ValueError:  # such as an open bracket in the host
        return f"{text.partition('://')[0]}://…"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


# The web


def _fetch(address: str, *, redirects: bool) -> tuple[bytes, str]:
    """Return the content of a URL, and the file suffix for its format, such as ``.json``.

    The suffix depends on the content type. If that is neither JSON nor YAML, the suffix of the
    URL's path is returned. ``redirects`` is False to treat a redirect as an error.

    Raises:
        ValueError: The URL is neither http nor https.
    """
    if urlsplit(address).scheme not in _WEB:
        msg = f"'{format_location(address)}' is neither an http nor an https URL, nor a path"
        raise ValueError(msg)
    import requests

    from tap_core.http.transport import get_document

    try:
        response = get_document(address, timeout=_TIMEOUT_SECONDS, allow_redirects=redirects)
        response.raise_for_status()
        if response.is_redirect:
            where = format_location(address)
            msg = f"'{where}' redirects, which is allowed only for the document that a tap names"
            raise requests.TooManyRedirects(msg)
    except requests.RequestException as ex:
        ex.args = (_QUERY.sub("?***", _USER.sub("//", str(ex))),)  # the message contains the URL
        raise
    content_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    paths = (urlsplit(url or address).path for url in (response.url, address))
    named = next(filter(None, map(get_suffix, paths)), "")
    if len(response.content) > DOCUMENT_BYTES:
        raise InputTooLargeError(f"it is longer than {format_size(DOCUMENT_BYTES)}")
    return response.content, _infer_suffix(content_type) or named


def _get_origin(address: str) -> tuple[str, str | None, int | None]:
    """Return the scheme, host and port of a URL."""
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port


def _infer_suffix(content_type: str) -> str | None:
    """Return ``.json`` or ``.yaml`` for a JSON or YAML content type; None for any other."""
    if content_type.endswith("json"):
        return ".json"
    return ".yaml" if content_type.endswith("yaml") else None
