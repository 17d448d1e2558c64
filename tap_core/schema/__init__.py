"""JSON Schemas as documents: sources, references, validation and normalization."""

from __future__ import annotations

from tap_core.schema.references import normalize, resolve_schema_references
from tap_core.singerlib.schema import Schema

__all__ = ["Schema", "normalize", "resolve_schema_references"]
