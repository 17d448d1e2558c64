"""JSON Schemas of streams: sources, resolution of ``$ref``, validation and normalization."""

from __future__ import annotations

from tap_core.schema.references import normalize, resolve_schema_references

__all__ = ["normalize", "resolve_schema_references"]
