"""Declarations of a stream: name, keys, schema, metadata, and the resulting catalog entry.

`tap_core.Stream` calls these functions. They use only the author's class and the input catalog.
They read no records and write no messages.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from copy import copy
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tap_core.exceptions import (
    InvalidReplicationKeyException,
    SingerSDKDeprecationWarning,
)
from tap_core.singerlib.catalog import (
    Breadcrumb,
    Catalog,
    CatalogEntry,
    Metadata,
    MetadataMapping,
    Schema,
)
from tap_core.state.replication_key_path import get_definition, parse_path
from tap_core.types import JsonSchema
from tap_core.typing.inspect import is_datetime_type

if TYPE_CHECKING:
    from importlib.abc import Traversable

    from tap_core.sync.interfaces import SyncStream

__all__ = [
    "get_stream_metadata",
    "has_datetime_replication_key",
    "load_schema",
    "make_catalog_entry",
    "read_catalog_keys",
    "require_single_key",
]


def load_schema(stream_name: str, source: object) -> tuple[JsonSchema, Path | Traversable | None]:
    """Return a schema as a dict, and the path of its file if it was read from one.

    Args:
        stream_name: Name of the stream, for error messages.
        source: A dict, a `Schema`, or (deprecated) the path of a JSON file or, in a
            package, its `Traversable`.

    Returns:
        The schema and the path. The path is None if ``source`` is not a path.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: ``source`` has another type.
    """
    if isinstance(source, Schema):
        return source.to_dict(), None
    if isinstance(source, dict):
        return source, None
    path: Any = Path(source) if isinstance(source, (str, PathLike)) else source
    if not hasattr(path, "read_text"):
        msg = f"Unexpected type {type(source).__name__} for arg 'schema'."
        raise ValueError(msg)
    if not path.is_file():
        msg = f"Stream '{stream_name}': there is no schema file '{source}'."
        raise FileNotFoundError(msg)
    warnings.warn(
        "A path to a schema file is deprecated: pass a dict, or use StreamSchema.",
        SingerSDKDeprecationWarning,
        stacklevel=3,
    )
    return json.loads(path.read_text(encoding="utf-8")), path


def require_single_key(stream_name: str, key: Any) -> str | None:
    """Check that a replication key is a string, and return it; return None for an empty key.

    Raises:
        InvalidReplicationKeyException: ``key`` is a list of several keys, which is not supported.
    """
    if not key or isinstance(key, str):
        return key or None
    raise InvalidReplicationKeyException(
        f"Stream '{stream_name}': its replication key is {key!r}, but it must be a single string:"
        " name the one property that grows with every change, or read the stream as FULL_TABLE"
        " without a replication key."
    )


def has_datetime_replication_key(stream: SyncStream) -> bool:
    """Return True if the schema declares the replication key with format ``date-time``.

    Raises:
        InvalidReplicationKeyException: The replication key is not in the schema.
    """
    if not stream.replication_key:
        return False
    definition = get_definition(stream.replication_path, stream.effective_schema)
    if definition is None:
        msg = (
            f"Field '{stream.replication_key}' is not in schema for stream '{stream.name}'"
            f"{'' if stream._input_schema is None else ' in the catalog'}:"
            " declare it there, or choose another replication key."
        )
        raise InvalidReplicationKeyException(msg)
    return is_datetime_type(definition)


def get_stream_metadata(stream: SyncStream, catalog: Catalog | None) -> MetadataMapping:
    """Return a stream's Singer metadata from the catalog or, without one, the tap's defaults."""
    entry = catalog.get_stream(stream.tap_stream_id) if catalog else None
    if entry:
        return entry.metadata
    key = require_single_key(stream.name, stream.replication_key)
    metadata = MetadataMapping.get_standard_metadata(
        schema=stream.schema,
        replication_method=stream.forced_replication_method,
        key_properties=copy(stream.primary_keys or []),
        valid_replication_keys=[key] if key else None,
        selected_by_default=stream.selected_by_default,
    )
    crumb: Breadcrumb = ()
    for name in parse_path(key, stream.schema) if key else ():  # the key may be a nested property
        crumb = (*crumb, "properties", name)
        if crumb in metadata:
            metadata[crumb].inclusion = Metadata.InclusionType.AUTOMATIC
    metadata.root.selected = catalog is None and stream.selected_by_default
    return metadata


def read_catalog_keys(entry: CatalogEntry) -> tuple[Sequence[str], str | None, str | None]:
    """Return the primary keys, replication key and replication method of a catalog entry.

    A value that is missing in the entry is taken from the metadata of the entry. If both lack it,
    the primary keys are empty, and the other values are None.
    """
    root = entry.metadata.get(())
    return (
        entry.key_properties or getattr(root, "table_key_properties", None) or (),
        entry.replication_key or getattr(root, "replication_key", None),
        entry.replication_method or getattr(root, "forced_replication_method", None),
    )


def make_catalog_entry(stream: SyncStream) -> CatalogEntry:
    """Return the catalog entry of a stream for discovery, with its schema, keys and metadata."""
    return CatalogEntry(
        tap_stream_id=stream.tap_stream_id,
        stream=stream.name,
        schema=Schema.from_dict(stream.schema),
        metadata=stream.metadata,
        key_properties=copy(stream.primary_keys or []),
        replication_key=stream.replication_key,
        replication_method=stream.replication_method,
    )
