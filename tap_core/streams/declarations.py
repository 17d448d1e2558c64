"""Schema source, Singer metadata and catalog entry of a stream.

`tap_core.Stream` delegates to these functions. They read the stream's declarations and the input
catalog; they pull no records and write no messages.
"""

from __future__ import annotations

import json
import warnings
from copy import copy
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tap_core.exceptions import InvalidReplicationKeyException, SingerSDKDeprecationWarning
from tap_core.singerlib.catalog import (
    Breadcrumb,
    Catalog,
    CatalogEntry,
    Metadata,
    MetadataMapping,
    Schema,
)
from tap_core.state.replication_key import get_definition, parse_path
from tap_core.typing.inspect import is_datetime_type

if TYPE_CHECKING:
    from tap_core.streams.core import Stream
    from tap_core.types import JsonSchema

__all__ = [
    "apply_input_catalog",
    "get_stream_metadata",
    "has_datetime_replication_key",
    "load_schema",
    "make_catalog_entry",
    "require_single_key",
]


def load_schema(stream_name: str, source: object) -> tuple[JsonSchema, Path | None]:
    """Return the schema that a stream's constructor received, and the path of its file if any.

    Args:
        stream_name: Name of the stream, for errors.
        source: A dict, a `Schema`, or (deprecated) the path of a JSON file.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The source has another type.
    """
    if isinstance(source, Schema):
        return source.to_dict(), None
    if isinstance(source, dict):
        return source, None
    if not isinstance(source, (str, PathLike)):
        msg = f"Unexpected type {type(source).__name__} for arg 'schema'."
        raise ValueError(msg)  # noqa: TRY004 - singer_sdk raises ValueError
    path = Path(source)
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
    """Return a replication key that is a string, or None if there is none.

    Raises:
        InvalidReplicationKeyException: The stream has several replication keys, which is not
            supported.
    """
    if not key or isinstance(key, str):
        return key or None
    raise InvalidReplicationKeyException(
        f"Stream '{stream_name}': its replication key is {key!r}, but it must be a single string:"
        " name the one property that grows with every change, or read the stream as FULL_TABLE"
        " without a replication key."
    )


def has_datetime_replication_key(stream: Stream) -> bool:
    """Return True if the schema declares the replication key with format ``date-time``.

    Raises:
        InvalidReplicationKeyException: The replication key is not in the schema.
    """
    if not stream.replication_key:
        return False
    definition = get_definition(stream.replication_path, stream.effective_schema)
    if definition is None:
        msg = (
            f"Field '{stream.replication_key}' is not in schema for stream '{stream.name}':"
            " declare it there, or choose another replication key."
        )
        raise InvalidReplicationKeyException(msg)
    return is_datetime_type(definition)


def get_stream_metadata(stream: Stream, catalog: Catalog | None) -> MetadataMapping:
    """Return the Singer metadata of the input catalog, else the standard metadata."""
    entry = catalog.get_stream(stream.tap_stream_id) if catalog else None
    if entry:
        return entry.metadata
    key = require_single_key(stream.name, stream.replication_key)
    metadata = MetadataMapping.get_standard_metadata(
        schema=stream.schema,
        replication_method=stream.forced_replication_method,
        key_properties=copy(stream.primary_keys or []),
        valid_replication_keys=[key] if key else None,
        schema_name=None,
        selected_by_default=stream.selected_by_default,
    )
    crumb: Breadcrumb = ()
    for name in parse_path(key, stream.schema) if key else ():  # the key may be a nested property
        crumb = (*crumb, "properties", name)
        if crumb in metadata:
            metadata[crumb].inclusion = Metadata.InclusionType.AUTOMATIC
    metadata.root.selected = catalog is None and stream.selected_by_default
    return metadata


def apply_input_catalog(stream: Stream, catalog: Catalog) -> None:
    """Set the keys, the replication method and the schema of a stream from its catalog entry."""
    entry = catalog.get_stream(stream.name)
    if entry is None:
        return
    root = entry.metadata.get(())
    keys = getattr(root, "table_key_properties", None)
    key = getattr(root, "replication_key", None)
    method = getattr(root, "forced_replication_method", None)
    stream.primary_keys = entry.key_properties or keys or ()
    stream.replication_key = entry.replication_key or key
    if method := entry.replication_method or method:
        stream.forced_replication_method = method
    stream._input_schema = entry.schema.to_dict()


def make_catalog_entry(stream: Stream) -> CatalogEntry:
    """Return the catalog entry of a stream for discovery."""
    return CatalogEntry(
        tap_stream_id=stream.tap_stream_id,
        stream=stream.name,
        schema=Schema.from_dict(stream.schema),
        metadata=stream.metadata,
        key_properties=copy(stream.primary_keys or []),
        replication_key=stream.replication_key,
        replication_method=stream.replication_method,
        is_view=None,
        database=None,
        table=None,
        row_count=None,
        stream_alias=None,
    )
