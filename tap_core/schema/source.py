"""Schema source classes under their import path in singer_sdk, ``schema.source``."""

from __future__ import annotations

from typing import TypeAlias

from tap_core.exceptions import DiscoveryError as DiscoveryError
from tap_core.exceptions import SchemaNotFoundError as SchemaNotFoundError
from tap_core.exceptions import SchemaNotValidError as SchemaNotValidError
from tap_core.exceptions import UnsupportedOpenAPISpec as UnsupportedOpenAPISpec
from tap_core.exceptions import UnsupportedSchemaFormatError as UnsupportedSchemaFormatError
from tap_core.schema.base import SchemaPreprocessor as SchemaPreprocessor
from tap_core.schema.base import SchemaSource as SchemaSource
from tap_core.schema.base import StreamSchema as StreamSchema
from tap_core.schema.directory import SchemaDirectory as SchemaDirectory
from tap_core.schema.openapi import OpenAPISchema as OpenAPISchema
from tap_core.schema.openapi_normalizer import OpenAPISchemaNormalizer as OpenAPISchemaNormalizer
from tap_core.types import JsonSchema

__all__ = [
    "DiscoveryError",
    "OpenAPISchema",
    "OpenAPISchemaNormalizer",
    "Schema",
    "SchemaDirectory",
    "SchemaNotFoundError",
    "SchemaNotValidError",
    "SchemaPreprocessor",
    "SchemaSource",
    "StreamSchema",
    "UnsupportedOpenAPISpec",
    "UnsupportedSchemaFormatError",
]

Schema: TypeAlias = JsonSchema
"""JSON Schema as a dict."""
