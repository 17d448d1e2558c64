"""An API that fits any manifest: its responses are derived from the manifest.

A response is a function of the request, so both sides get the same responses in any order. Each
path that an extractor reads has two records with all fields of the schemas; a page after the second
has none.
"""

from __future__ import annotations

import copy
import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import unquote_plus

from tap_core.incremental.datetime_formats import get_format
from tests.http.server import ReceivedRequest, Reply

__all__ = ["START", "AnyApi", "format_datetime", "iterate_nodes"]

_NOW = dt.datetime.now(dt.timezone.utc).replace(microsecond=0)
START = _NOW - dt.timedelta(days=2, minutes=25)
"""The start date of the config: at another minute than now, to distinguish it from now."""

_VALUES = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}, "null": None}
_PAGE_TOKEN = "2nd-page"
_MAX_REQUESTS = 4000  # a bound for pagination whose end is not known from the manifest
_CHAIN = re.compile(
    r"response((?:\.get\(\s*['\"][^'\"]+['\"][^)]*\)|\[['\"][^'\"]+['\"]\]|\.\w+)+)"
)
_POSITION = re.compile(r"STARTPOSITION[ =:]+(\d+)")
_PARAMETER = re.compile(r"\{\{ *parameters(?:\[['\"](\w+)['\"]\]|\.(\w+)) *\}\}$")
_LINK = re.compile(r"get\(\s*['\"]([^'\"]+)['\"]|\[['\"]([^'\"]+)['\"]\]|\.(?!get\()(\w+)")


class AnyApi:
    """Sends the same response to every request, except for pages after the second."""

    def __init__(
        self, tree: Mapping[str, Any], url: str, schemas: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        all_nodes = list(iterate_nodes(tree))
        extractors = [node for node in all_nodes if "Extractor" in str(node.get("type"))]
        paths = {tuple(_path(extractor)) for extractor in extractors}
        self._paths = sorted(paths, key=lambda path: (len(path), path))
        self._pages = [_Page(node["page_token_option"]) for node in all_nodes if _has_token(node)]
        tokens = _tokens(all_nodes, url)
        self._tokens = [token for token in tokens if tuple(token[0]) not in paths]
        self._statuses = [*_completed_statuses(all_nodes)]
        self._has_links = any("headers" in str(node.get("cursor_value")) for node in all_nodes)
        self._url = url
        self._records = [_record([*all_nodes, *schemas], number) for number in (1, 2)]
        self._document = self._records[0] | _token_response(all_nodes)
        self._count = 0

    def answer(self, request: ReceivedRequest) -> Reply:
        """Return two records under every path, none on a page after the second."""
        self._count += 1
        if self._count > _MAX_REQUESTS:
            return Reply({})
        text = " ".join([request.path, str(request.query), unquote_plus(request.body.decode())])
        is_second = _PAGE_TOKEN in text or _PAGE_TOKEN in str(request.headers)
        position = _POSITION.search(text)
        is_late = any(page.is_late(request) for page in self._pages)
        is_late = is_late or (position is not None and int(position[1]) > 3)
        document = {} if is_late else copy.deepcopy(self._document)
        for path in self._paths:
            records = copy.deepcopy([] if is_late else self._records[int(is_second) :])
            _set_value(document, list(path), records)
        for path, status in self._statuses:
            _set_value(document, path, status)
        for path, token, end in self._tokens:
            _set_value(document, path, end if is_second or is_late else token)
        link = f'<{self._url}{request.path}?page={_PAGE_TOKEN}>; rel="next"'
        has_link = self._has_links and not (is_second or is_late)
        return Reply(document, headers={"Link": link} if has_link else {})


def _path(extractor: Mapping[str, Any]) -> Iterator[str]:
    """Yield the steps of the path to the records, with the values of parameters."""
    parameters = getattr(extractor, "parameters", {})
    field_path = extractor.get("field_path") or []
    for step in field_path if isinstance(field_path, list) else []:
        match = _PARAMETER.match(str(step))
        yield str(parameters.get("".join(match.groups(""))) if match else step)


class _Page:
    """The part of a request that contains the page number."""

    def __init__(self, option: Mapping[str, Any]) -> None:
        name = option.get("field_name") or (option.get("field_path") or [""])[-1]
        self._name = str(name)
        self._pattern = re.compile(rf"\b{re.escape(self._name)}\"?\s*[:=]\s*\"?(\d+)")

    def is_late(self, request: ReceivedRequest) -> bool:
        """Return True if the request is for a page after the second."""
        values = request.query.get(self._name) or [request.headers.get(self._name, "")]
        match = self._pattern.search(unquote_plus(request.body.decode()))
        token = values[0] or (match[1] if match else "0")
        return token.isdecimal() and int(token) > 1


def iterate_nodes(node: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a document, outer ones first."""
    if isinstance(node, dict):
        yield node
        for inner in node.values():
            yield from iterate_nodes(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from iterate_nodes(inner)


def format_datetime(moment: dt.datetime, form: str) -> Any:
    """Return a datetime in a format, or None if the format is invalid."""
    with suppress(ValueError):
        return get_format(form).write(moment)
    return None


def _has_token(node: Mapping[str, Any]) -> bool:
    option = node.get("page_token_option")
    return isinstance(option, dict) and ("field_name" in option or "field_path" in option)


def _tokens(all_nodes: list[Mapping[str, Any]], url: str) -> Iterator[tuple[list[str], Any, Any]]:
    """Yield the path of each next-page token, the token, and its value on the last page."""
    for node in all_nodes:
        strategy = node.get("pagination_strategy")
        if not isinstance(strategy, dict):
            continue
        is_link = "RequestPath" in str(node.get("page_token_option"))
        token = f"{url}/next?page={_PAGE_TOKEN}" if is_link else _PAGE_TOKEN
        stops = _parse_chain(strategy.get("stop_condition"))
        if stops:
            yield stops, (has_more := _is_more(stops[-1])), not has_more
        if value := _parse_chain(strategy.get("cursor_value")):
            yield value, token, None


def _completed_statuses(all_nodes: list[Mapping[str, Any]]) -> Iterator[tuple[list[str], Any]]:
    """Yield the path of each job status, and the value for a completed job."""
    for node in all_nodes:
        if statuses := (node.get("status_mapping") or {}).get("completed"):
            yield node["status_extractor"]["field_path"], statuses[0]


def _parse_chain(template: Any) -> list[str]:
    match = _CHAIN.search(str(template or ""))
    return ["".join(groups) for groups in _LINK.findall(match[1])] if match else []


def _is_more(name: str) -> Any:
    low = name.lower()
    return True if "more" in low or "next" in low else not ("last" in low or "end" in low)


def _token_response(all_nodes: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the response of a token request."""
    response: dict[str, Any] = {"access_token": "granted-1", "expires_in": 7200, "id": 1}
    for node in all_nodes:
        if node.get("type") == "OAuthAuthenticator":
            response[str(node.get("access_token_name") or "access_token")] = "granted-1"
            form = node.get("token_expiry_date_format")
            until: Any = get_format(str(form)).write(_NOW + dt.timedelta(days=1)) if form else 7200
            response[str(node.get("expires_in_name") or "expires_in")] = until
        if path := node.get("session_token_path"):
            _set_value(response, [str(step) for step in path], "session-1")
    return response


def _set_value(document: dict[str, Any], path: list[str], value: Any) -> None:
    if path and "*" not in path:
        *parents, last = path
        for name in parents:
            inner = document.get(name)
            if isinstance(inner, list):
                inner = next((element for element in inner if isinstance(element, dict)), {})
            elif not isinstance(inner, dict):
                inner = document[name] = {}
            document = inner
        document[last] = value


def _record(all_nodes: Sequence[Mapping[str, Any]], number: int) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for node in all_nodes:
        properties = node.get("properties")
        if isinstance(properties, dict):
            named = properties.items()
            record |= {name: _value(schema, number) for name, schema in named if name not in record}
    for node in all_nodes:
        field, form = node.get("cursor_field"), node.get("datetime_format")
        if isinstance(field, str) and isinstance(form, str) and "{{" not in field + form:
            form = (node.get("cursor_datetime_formats") or [form])[0]
            moment = START + dt.timedelta(hours=1 if number == 1 else 20)
            record[field] = format_datetime(moment, form) or record.get(field)
        if isinstance(key := node.get("parent_key"), str) and "." not in key:
            record[key] = record.get(key) or 6 + number
    return {**record, "id": number}


def _value(schema: Any, number: int, depth: int = 0) -> Any:
    if not isinstance(schema, dict):
        return "a text"
    kinds = schema.get("type") or "string"
    kind = next(
        (
            type_name
            for type_name in ([kinds] if isinstance(kinds, str) else kinds)
            if type_name != "null"
        ),
        0,
    )
    properties = schema.get("properties")
    if kind == "object" and isinstance(properties, dict) and depth < 3:
        return {name: _value(schema, number, depth + 1) for name, schema in properties.items()}
    if kind == "array" and isinstance(schema.get("items"), dict) and depth < 3:
        return [_value(schema["items"], number, depth + 1)]
    if schema.get("format") == "date-time":
        return (START + dt.timedelta(hours=number)).strftime("%Y-%m-%dT%H:%M:%SZ")
    if schema.get("format") == "date":
        return (START + dt.timedelta(days=number - 1)).strftime("%Y-%m-%d")
    return _VALUES.get(str(kind), f"text {number}")
