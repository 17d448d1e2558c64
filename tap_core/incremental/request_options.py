"""Request options, each of which adds a value as query parameter, header, body field or URL part.

The dicts of a request are copied before a key is added, never changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote, urlencode

from tap_core.exceptions import StreamSetupError
from tap_core.http.request import HTTPRequest
from tap_core.singerlib.json import replace_path

__all__ = ["RequestOption"]


@dataclass(frozen=True)
class RequestOption:
    """Position at which a value is added to a request, such as the query parameter ``since``.

    Args:
        inject_into: Kind of position: query parameter, header, form field (``body_data``), field of
            a JSON body, or ``path``. For ``path``, which only streams written in Python support,
            the value replaces ``{field_name}`` in the URL.
        field_name: Name of the parameter, header or field.
        field_path: Path of a nested field in a JSON body, instead of ``field_name``.

    Raises:
        ValueError: Neither or both of ``field_name`` and ``field_path`` are set, or ``field_path``
            is not used with a JSON body.
    """

    inject_into: Literal["request_parameter", "header", "body_data", "body_json", "path"]
    field_name: str | None = None
    field_path: list[str] | None = None

    def __post_init__(self) -> None:
        if self.inject_into not in _PUT:
            raise ValueError(
                f"inject_into is {self.inject_into!r}: it must be one of {', '.join(_PUT)}."
            )
        if self.field_name is None and not self.field_path:  # a template may render an empty name
            raise ValueError("An option of a request needs a field_name (or a field_path).")
        if self.field_name and self.field_path:
            raise ValueError("An option of a request has a field_name or a field_path, not both.")
        if self.field_path and self.inject_into != "body_json":
            raise ValueError(
                f"A field_path leads into a JSON body (body_json), not into {self.inject_into}:"
                " give a field_name."
            )

    def put(self, request: HTTPRequest, value: Any) -> None:
        """Add a value to a request, which is changed in place; None is not added.

        Raises:
            ValueError: The value is a field of the body, but the body is not a mapping.
        """
        if value is not None:
            _PUT[self.inject_into](
                request, tuple(self.field_path or (str(self.field_name),)), value
            )


def _put_parameter(request: HTTPRequest, path: tuple[str, ...], value: Any) -> None:
    params: Any = request.params
    if isinstance(params, str):  # deprecated form: a query string encoded by the author
        request.params = "&".join(filter(None, (params, urlencode({path[0]: value}))))  # type: ignore[assignment]
    else:
        request.params = {**(params or {}), path[0]: value}


def _put_header(request: HTTPRequest, path: tuple[str, ...], value: Any) -> None:
    request.headers = {**request.headers, path[0]: str(value)}


def _put_form_field(request: HTTPRequest, path: tuple[str, ...], value: Any) -> None:
    request.data = {**_get_fields(request, path), path[0]: value}
    request.as_json = False


def _put_json_field(request: HTTPRequest, path: tuple[str, ...], value: Any) -> None:
    request.data = replace_path(_get_fields(request, path), path, value)
    request.as_json = True


def _put_into_path(request: HTTPRequest, path: tuple[str, ...], value: Any) -> None:
    request.url = request.url.replace(f"{{{path[0]}}}", quote(str(value), safe=":"))


def _get_fields(request: HTTPRequest, path: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the fields of a request's body as a mapping, which is empty without a body.

    ``path`` is the place of the field to add, for the error.

    Raises:
        StreamSetupError: The body is not a mapping.
    """
    data = request.data
    if data is None:
        return {}
    if isinstance(data, Mapping):
        return data
    raise StreamSetupError(
        f"The field '{'.'.join(path)}' cannot be added to the request body, because the body is a"
        f" {'list' if isinstance(data, (list, tuple)) else 'text'} and has no fields: declare the"
        " body as a mapping, or send the value elsewhere, such as in a query parameter."
    )


_PUT = {
    "request_parameter": _put_parameter,
    "header": _put_header,
    "body_data": _put_form_field,
    "body_json": _put_json_field,
    "path": _put_into_path,
}
