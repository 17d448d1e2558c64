"""JSON Schemas as objects, by an older path of singer_sdk."""

# ruff: noqa: I001  one list reads better than one statement per name

from __future__ import annotations

from tap_core.singerlib.schema import (
    resolve_schema_references as resolve_schema_references,
    Schema as Schema,
)
