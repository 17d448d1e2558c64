"""JSON Schemas as documents: an object model, references, and a normal form."""

from __future__ import annotations

from tap_core.schema.model import Schema
from tap_core.schema.references import normal_form, resolve_schema_references

__all__ = ["Schema", "normal_form", "resolve_schema_references"]
