"""Detection of the secrets in a config, by the JSON Schema or the name of a setting.

All values in a secret setting are secret, except those that the schema contains (a default, a
constant, an enum value). Passwords in URLs and option strings are always secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, unquote_plus

from tap_core.redaction.names import is_secret_name, is_secret_parameter
from tap_core.redaction.process_secrets import redact
from tap_core.redaction.text import Secrets, find_embedded_secrets, redact_text

__all__ = [
    "collect_secrets",
    "is_secret",
    "is_secret_text",
    "is_showable",
    "make_redactor",
    "property_schema",
]

_MARKS: Final = ("secret", "writeOnly", "airbyte_secret")
"""Schema keywords that mark a setting as secret, besides the format ``password``."""

_LONGEST_SHOWN: Final = 42
"""Maximum length, in characters, of a value in a message about a setting: 40 and quotes."""

_SHORTEST_UNMARKED_NUMBER: Final = 6
"""Minimum digits of a number that is secret only by its name: ``max_tokens: 100`` is shown."""

_NAMED_BY_USERS: Final = re.compile(r"stream|table", re.IGNORECASE)
"""Settings whose keys are names of streams or tables; a table ``tokens`` is not a secret."""

_LONG_PART: Final = 8
"""Minimum length, in characters, of an item to hide if a secret is a comma-separated list."""

_ALTERNATIVES: Final = ("anyOf", "oneOf", "allOf")


def is_secret(setting: str, schema: Mapping[str, Any] | None = None) -> bool:
    """Return True if a setting is secret by its JSON Schema or its name.

    A name such as ``api_key`` is secret, unless the schema has ``"secret": false``.
    """
    if schema is not None:
        if any(schema.get(mark) for mark in _MARKS) or schema.get("format") == "password":
            return True
        if schema.get("secret") is False:
            return False
    return is_secret_name(setting)


def is_showable(value: Any) -> bool:
    """Return True if an error message may quote the value of a setting.

    The value must have at most 42 characters as `repr` text and must not contain a secret.
    """
    if len(repr(value)) > _LONGEST_SHOWN:
        return False
    return not isinstance(value, str) or redact_text(value) == value


def is_secret_text(name: str, setting: Mapping[str, Any]) -> bool:
    """Return True if a setting is marked as secret, or is a string with a secret name.

    ``setting`` is the JSON Schema of the setting. An object with ``"holds_secrets": true`` is also
    secret, although logs hide only its values with a secret name.
    """
    if setting.get("holds_secrets"):
        return True
    types = setting.get("type")
    is_text = "string" in (types if isinstance(types, list) else (types,))
    return is_secret(name if is_text else "", setting)


def property_schema(schema: Mapping[str, Any], name: str) -> Any:
    """Return the schema of a property in an object schema.

    Schemas in ``anyOf``, ``oneOf`` and ``allOf`` are searched too. If several of them declare the
    property, one that marks it as secret is preferred. For an undeclared property, return the value
    of ``additionalProperties``, or None without it.
    """
    declared = (schema.get("properties") or {}).get(name)
    if declared is not None:
        return declared
    candidates = [
        inner
        for keyword in _ALTERNATIVES
        for branch in schema.get(keyword, ())
        if isinstance(branch, dict) and (inner := property_schema(branch, name)) is not None
    ]
    secret = (
        candidate
        for candidate in candidates
        if isinstance(candidate, dict) and is_secret("", candidate)
    )
    return next(secret, candidates[0] if candidates else schema.get("additionalProperties"))


def make_redactor(
    config: Mapping[str, Any], schema: Mapping[str, Any] | None = None
) -> Callable[[str], str]:
    """Return a function that replaces the secret values of a config by ``***`` in a text.

    The function also replaces the registered secrets of this process, such as access tokens.

    Args:
        config: Config of a plugin.
        schema: JSON Schema of the config, which may mark settings as secret.
    """
    secrets = collect_secrets(config, schema)
    return lambda text: redact(secrets.hide_values(text))


def collect_secrets(config: Mapping[str, Any], schema: Mapping[str, Any] | None = None) -> Secrets:
    """Return the secret values in a config.

    A value is secret if the JSON Schema marks its setting as secret, if the setting has a secret
    name, or if the value is a password in a URL.
    """
    return Secrets.from_values(_iterate_config_secrets(config, schema or {}))


def _iterate_config_secrets(config: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield each secret value of a config as a string."""
    for name, value in config.items():
        inner_schema = _as_schema(property_schema(schema, name))
        is_named = is_secret_parameter(str(name)) and inner_schema.get("secret") is not False
        location = _ValueLocation(inner_schema, str(name), is_secret("", inner_schema), is_named)
        yield from _iterate_secrets(value, location)


class _ValueLocation(NamedTuple):
    """Location of a value in a config, which determines if the value is secret.

    Attributes:
        schema: JSON Schema of the value.
        name: Name of the property with the value or, for a list item, with the list.
        is_marked: True if the schema of the value, or of an object around it, marks it as secret.
        is_named: True if the name of the value, or of an object around it, is secret.
    """

    schema: Mapping[str, Any]
    name: str
    is_marked: bool = False
    is_named: bool = False

    def inside(self, name: str) -> _ValueLocation:
        """Return the location of the property ``name`` in the object at this location."""
        inner_schema = _as_schema(property_schema(self.schema, name))
        names_settings = _NAMED_BY_USERS.search(self.name) is None
        return _ValueLocation(
            inner_schema,
            name,
            self.is_marked or is_secret("", inner_schema),
            self.is_named or (names_settings and is_secret(name, inner_schema)),
        )

    def item(self) -> _ValueLocation:
        """Return the location of the items of the array at this location."""
        inner_schema = _as_schema(self.schema.get("items"))
        return self._replace(
            schema=inner_schema, is_marked=self.is_marked or is_secret("", inner_schema)
        )


def _iterate_secrets(value: Any, location: _ValueLocation) -> Iterator[str]:
    """Yield the secret strings in a config value, also in objects and arrays of any depth.

    ``location`` is the location of the value, which determines if the value is secret.
    """
    remaining = [(value, location)]
    while remaining:
        value, location = remaining.pop()
        if isinstance(value, Mapping):
            remaining += [(inner, location.inside(str(name))) for name, inner in value.items()]
        elif isinstance(value, (list, tuple)):
            remaining += [(inner, location.item()) for inner in value]
        elif isinstance(value, str):
            is_hidden = location.is_marked or location.is_named
            yield from _iterate_text_secrets(
                value, is_hidden and not _is_public(value, location.schema)
            )
        elif _is_secret_number(value, location):
            yield str(value)


def _is_secret_number(value: Any, location: _ValueLocation) -> bool:
    """Return True for a number marked as secret, or with a secret name and 6 or more digits."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return False
    is_long = len(str(value)) >= _SHORTEST_UNMARKED_NUMBER
    return location.is_marked or (location.is_named and is_long)


def _iterate_text_secrets(value: str, is_hidden: bool) -> Iterator[str]:
    """Yield the secrets in a string of the config.

    Args:
        value: The string.
        is_hidden: True if the whole string is secret. False to yield only secrets inside it, such
            as a password in a URL.
    """
    if is_hidden:
        yield value
        yield unquote(value)
        yield from (part for part in map(str.strip, value.split(",")) if len(part) >= _LONG_PART)
    if value.lstrip()[:1] == "{" and (document := _parse_json_object(value)):
        yield from _iterate_secrets(document, _ValueLocation({}, ""))
        return
    for inner in find_embedded_secrets(value):
        yield from {inner, unquote(inner), unquote_plus(inner)}


def _parse_json_object(text: str) -> dict[str, Any] | None:
    """Parse a string, such as a service account key, as a JSON object; return None if not one."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _is_public(value: str, schema: Mapping[str, Any]) -> bool:
    """Return True if a config value is public: its schema has it as default, const or enum."""
    if value in (schema.get("default"), schema.get("const")) or value in schema.get("enum", ()):
        return True
    branches = (branch for keyword in _ALTERNATIVES for branch in schema.get(keyword, ()))
    return any(isinstance(branch, Mapping) and _is_public(value, branch) for branch in branches)


def _as_schema(schema: Any) -> Mapping[str, Any]:
    """Return a JSON Schema unchanged if it is an object.

    Return ``{}`` for any other value, such as True.
    """
    return schema if isinstance(schema, Mapping) else {}
