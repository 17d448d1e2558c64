"""JSON Schemas as objects, by singer_sdk's path."""

from __future__ import annotations

from tap_core.schema.in_place import resolve_schema_references as resolve_schema_references
from tap_core.schema.model import Schema as Schema
