"""What must not be seen: values of secret settings, wherever they turn up in a text.

Rules of the room: pure. A setting is secret by its own name, at any depth, or because its
schema says so; a password in an address always is. Messages of Spark and of its storages
repeat what they were given, so whatever is told to people goes through here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tap_core.config import is_secret, property_schema

__all__ = ["SECRET_NAME", "hider"]

SECRET_NAME: Final = re.compile(
    r"secret|passw(?:or)?d|passphrase|pwd|token|credential|cookie|jaas"
    r"|(?:^|[._-])pass(?:$|[._-])|[.]auth$|(?<!security\.)authorization$"
    r"|(?:access|account|shared|private|api|sse|encryption|decryption)[._-]?key(?!_?(?:size|length))"
    r"|connection[._-]?(?:string|ur[il])|[.]sas[.]|sas[._-]?ur[il]|[.]headers?[.]",
    re.IGNORECASE,
)
"""Names of settings that hold secrets: Spark's own pattern, and what storages, catalogs and drivers
call theirs. It is also written in the syntax of Java, for Spark."""

_PASSWORD: Final = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+@")
_PARAMETER: Final = re.compile(r"(?i)((?:token|password|secret|key|signature|sig)=)[^;&\s'\"]+")
_HIDDEN: Final = "***"
_SHORTEST: Final = 3
"""Shorter values would be found in every word."""


def hider(
    config: Mapping[str, Any], schema: Mapping[str, Any] | None = None
) -> Callable[[str], str]:
    """Return a function that takes the secrets of a configuration out of a text.

    ``schema`` is the JSON Schema of the settings, which may mark some as secret.
    """
    found = sorted({*_secrets(config), *_marked(config, schema or {})}, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, found))) if found else None

    def hide(text: str) -> str:
        text = _PASSWORD.sub(rf"\1:{_HIDDEN}@", text)
        text = _PARAMETER.sub(rf"\1{_HIDDEN}", text)
        return pattern.sub(_HIDDEN, text) if pattern else text

    return hide


def _secrets(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _secrets(inner, str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets(inner, name)
    elif isinstance(value, str) and len(value) >= _SHORTEST and _is_secret(name):
        yield value


def _marked(value: Any, schema: Any) -> Iterator[str]:
    """Yield the texts of settings that their schema calls secret."""
    if not isinstance(schema, Mapping):
        return
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _marked(inner, property_schema(schema, name))
    elif isinstance(value, str) and len(value) >= _SHORTEST and is_secret("", schema):
        yield value


def _is_secret(name: str) -> bool:
    return is_secret(name) or SECRET_NAME.search(name) is not None
