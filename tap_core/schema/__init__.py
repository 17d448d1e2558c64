"""JSON Schemas as documents: an object model, references, and a normal form."""

from __future__ import annotations

from tap_core.schema.model import Schema as Schema
