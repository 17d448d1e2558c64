"""Builders of Singer messages as text lines."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["ID", "NAME", "activate", "batch", "record", "schema", "state"]

ID = {"type": "integer"}
NAME = {"type": ["string", "null"]}


def line(message: dict[str, Any]) -> str:
    return json.dumps(message) + "\n"


def schema(stream: str = "a", keys: tuple[str, ...] | None = ("id",), **properties: Any) -> str:
    """Return a SCHEMA message; its default properties are ``id`` and ``name``."""
    known = properties or {"id": ID, "name": NAME}
    message = {"type": "SCHEMA", "stream": stream, "schema": {"properties": known}}
    return line(message if keys is None else {**message, "key_properties": list(keys)})


def record(
    stream: str = "a", *, extracted: str | None = None, v: int | None = None, **values: Any
) -> str:
    """Return a RECORD message, with a time and a version if they are given."""
    message: dict[str, Any] = {"type": "RECORD", "stream": stream, "record": values}
    if extracted is not None:
        message["time_extracted"] = extracted
    if v is not None:
        message["version"] = v
    return line(message)


def state(value: Any) -> str:
    return line({"type": "STATE", "value": value})


def activate(stream: str, version: int) -> str:
    return line({"type": "ACTIVATE_VERSION", "stream": stream, "version": version})


def batch(stream: str, *files: str, **encoding: str) -> str:
    return line({"type": "BATCH", "stream": stream, "encoding": encoding, "manifest": list(files)})
