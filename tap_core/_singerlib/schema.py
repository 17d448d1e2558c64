"""Compatibility import path of singer_sdk; nothing is defined here.

The names are defined in `tap_core.singerlib.schema`.
"""

# ruff: noqa: I001  one list is easier to read than one statement per name

from __future__ import annotations

from tap_core.singerlib.schema import (
    resolve_schema_references as resolve_schema_references,
    Schema as Schema,
)
