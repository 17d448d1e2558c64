"""Declarations of a stream: name, keys, schema, metadata, and the resulting catalog entry.

`tap_core.Stream` inherits the properties and calls the functions of this module. They use only the
author's class and the input catalog. They read no records and write no messages.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from copy import copy
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from tap_core.exceptions import (
    DiscoveryError,
    InvalidReplicationKeyException,
    SingerSDKDeprecationWarning,
)
from tap_core.singerlib.catalog import (
    REPLICATION_FULL_TABLE,
    REPLICATION_INCREMENTAL,
    Breadcrumb,
    Catalog,
    CatalogEntry,
    Metadata,
    MetadataMapping,
    Schema,
)
from tap_core.state.replication_key_path import get_definition, parse_path
from tap_core.streams.state import get_partitions_in_state
from tap_core.sync.context_reader import ContextReader
from tap_core.types import JsonSchema
from tap_core.typing.inspect import is_datetime_type

if TYPE_CHECKING:
    from tap_core.state.manager import StreamStateManager
    from tap_core.sync.interfaces import SyncStream, SyncTap
    from tap_core.sync.plan import Plan

__all__ = [
    "StreamProperties",
    "get_stream_metadata",
    "has_datetime_replication_key",
    "load_schema",
    "make_catalog_entry",
    "read_catalog_keys",
    "require_single_key",
]

_Reader = TypeVar("_Reader", bound=ContextReader)


class StreamProperties:
    """Properties of a stream that the author of a tap sets as class attributes or overrides."""

    name: str
    forced_replication_method: str | None
    parent_stream_type: ClassVar[Any]
    _tap: SyncTap
    _plan: Plan | None = None
    _own_reader: ContextReader | None = None
    _primary_keys: Sequence[str] | None = None
    _replication_key: str | None = None
    _schema: JsonSchema | None = None
    _state_manager: StreamStateManager | None = None
    _state_partitioning_keys: Sequence[str] | None = None

    @property
    def schema(self) -> JsonSchema:
        """JSON Schema of the records, as a dict.

        Set it as a class attribute, pass it to the constructor, or override the property if the
        schema depends on the source. There is no default.

        Raises:
            DiscoveryError: No schema was provided.

        Example:
            schema = th.PropertiesList(th.Property("id", th.IntegerType)).to_dict()
        """
        if self._schema is None:
            raise DiscoveryError(f"The schema for stream '{self.name}' was not provided")
        return self._schema

    @property
    def primary_keys(self) -> Sequence[str]:
        """Names of the properties that identify a record, as a sequence of strings.

        The default is empty: targets then append rows instead of merging them. Set it as a class
        attribute; an input catalog replaces it.

        Example:
            primary_keys = ("account_id", "id")
        """
        return self._primary_keys or []

    @primary_keys.setter
    def primary_keys(self, new_value: Sequence[str]) -> None:
        self._primary_keys = new_value
        self._plan = None

    @property
    def replication_key(self) -> str | None:
        """Name of the property that grows with every change of a record, as a string.

        Without a key (None, the default) the stream is FULL_TABLE. With a key it is INCREMENTAL:
        the greatest value is stored in the state, and `get_starting_replication_key_value` returns
        it in the next sync. An input catalog replaces the key.

        Example:
            replication_key = "updated_at"
        """
        return self._replication_key or self._reader.cursor_field

    @replication_key.setter
    def replication_key(self, new_value: str | None) -> None:
        self._replication_key = new_value
        self._plan = None

    @property
    def replication_method(self) -> str:
        """Replication method of the stream: FULL_TABLE, INCREMENTAL or LOG_BASED.

        It is ``forced_replication_method`` if that is set. Otherwise it is INCREMENTAL for a stream
        with a replication key, and FULL_TABLE for a stream without one.
        """
        key = require_single_key(self.name, self.replication_key)
        if self.forced_replication_method:
            return str(self.forced_replication_method)
        return REPLICATION_INCREMENTAL if key else REPLICATION_FULL_TABLE

    @property
    def state_partitioning_keys(self) -> Sequence[str] | None:
        """Context keys that identify a bookmark, as a sequence of strings.

        With None (the default), each context (partition or parent record) has a bookmark. With an
        empty list, the stream has one. With any list, several contexts may share a bookmark, so the
        stream is not treated as sorted.
        """
        if self._state_partitioning_keys is None:
            return self._reader.state_partitioning_keys
        return self._state_partitioning_keys

    @state_partitioning_keys.setter
    def state_partitioning_keys(self, new_value: Sequence[str] | None) -> None:
        self._state_partitioning_keys = new_value
        self._state_manager = None

    @property
    def is_sorted(self) -> bool:
        """True if records arrive in ascending order of the replication key; False by default.

        Set it to True if the API or database guarantees the order. An interrupted sync then resumes
        at its last record. A record out of order raises an error, unless `check_sorted` is False.

        Example:
            is_sorted = True
        """
        return False

    @property
    def check_sorted(self) -> bool:
        """True if a record out of order in a sorted stream raises an error; True by default."""
        return True

    @property
    def partitions(self) -> list[dict[str, Any]] | None:
        """Partitions of the stream: for each, a dict of the values that identify it; None if none.

        They are read in this order. The default returns those in the state. Override it to read the
        stream once per account or region, for example. Each partition has a separate bookmark,
        unless `state_partitioning_keys` combines several.

        Example:
            @property
            def partitions(self):
                return [{"region": region} for region in self.config["regions"]]
        """
        return get_partitions_in_state(self._tap.document, self.name)

    @property
    def _reader(self) -> ContextReader:
        """`ContextReader` that reads this stream, one partition after the other."""
        return self._get_reader(ContextReader)

    def _get_reader(self, make_reader: Callable[[Any], _Reader]) -> _Reader:
        """Return the `ContextReader` of this stream; ``make_reader`` creates it on first use."""
        if self._own_reader is None or self._own_reader.stream is not self:
            self._own_reader = make_reader(self)
        return cast("_Reader", self._own_reader)


def load_schema(stream_name: str, source: object) -> tuple[JsonSchema, Path | None]:
    """Return a schema as a dict, and the path of its file if it was read from one.

    Args:
        stream_name: Name of the stream, for error messages.
        source: A dict, a `Schema`, or (deprecated) the path of a JSON file.

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
