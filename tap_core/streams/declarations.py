"""Declared properties of a stream: name, schema, keys, catalog entry and selection.

This base class of `Stream` holds the author's declarations and the changes by a catalog. It
reads no records and writes no events. Setting a property that the compiled plan depends on
discards the plan.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

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
    SelectionMask,
)
from tap_core.state.replication_key import get_definition, parse_path
from tap_core.typing.inspect import TypeConformanceLevel, is_datetime_type

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncTap
    from tap_core.sync.plan import Plan
    from tap_core.types import JsonSchema, StrPath

__all__ = ["StreamDeclarations"]


class StreamDeclarations:
    """Declarations of a stream: see `tap_core.Stream`."""

    name: str
    """Name of the stream, required; the ``stream`` of its Singer messages."""

    selected_by_default: bool = True
    """True if the stream is synced without an entry in a catalog."""

    TYPE_CONFORMANCE_LEVEL: TypeConformanceLevel = TypeConformanceLevel.RECURSIVE
    """Nesting depth to which values are converted to the types of the schema."""

    parent_stream_type: ClassVar[Any] = None
    """Class of the parent stream, or None; a child is synced once for each record of its parent."""

    takes_any_replication_key: bool = False
    """True if the user may choose the replication key in the catalog, as for a database table."""

    ignore_parent_replication_key: bool = False
    """True if a change of this stream does not change the parent's replication key. The parent is
    then read in full if this stream is selected."""

    def __init__(
        self,
        tap: SyncTap,
        schema: StrPath | JsonSchema | Schema | None = None,
        name: str | None = None,
    ) -> None:
        """Initialize the stream of ``tap``; ``schema`` and ``name`` replace those of the class.

        Raises:
            ValueError: The stream has no name, or the schema has an unsupported type.
            FileNotFoundError: The schema is a path and the file does not exist.
        """
        if name:
            self.name = name
        if not getattr(self, "name", None):
            msg = f"A stream needs a name: set {type(self).__name__}.name or pass name=."
            raise ValueError(msg)
        self._tap = tap
        self.tap_name: str = tap.name
        self._logger: logging.Logger = tap.logger.getChild(self.name)
        self.metrics_logger: logging.Logger = tap.metrics_logger
        self._config: dict[str, Any] = dict(tap.config)
        self._initialized_at: int = tap.initialized_at
        self.forced_replication_method: str | None = None
        self._tap_input_catalog: Catalog | None = None
        self._input_schema: JsonSchema | None = None
        self._replication_key: str | None = None
        self._primary_keys: Sequence[str] | None = None
        self._metadata: MetadataMapping | None = None
        self._mask: SelectionMask | None = None
        self._plan: Plan | None = None
        self._schema_filepath: Path | None = None
        self._schema: JsonSchema | None = None
        if schema:
            self._take_schema(schema)
        elif self.schema_filepath:
            self._take_schema(self.schema_filepath)

    def _take_schema(self, schema: object) -> None:
        """Store a schema from a dict, a `Schema` or (deprecated) a file path."""
        if isinstance(schema, Schema):
            self._schema = schema.to_dict()
        elif isinstance(schema, dict):
            self._schema = schema
        elif isinstance(schema, (str, PathLike)):
            self._schema_filepath = Path(schema)
            if not self._schema_filepath.is_file():
                msg = f"Stream '{self.name}': there is no schema file '{schema}'."
                raise FileNotFoundError(msg)
            warnings.warn(
                "A path to a schema file is deprecated: pass a dict, or use StreamSchema.",
                SingerSDKDeprecationWarning,
                stacklevel=3,
            )
            self._schema = json.loads(self._schema_filepath.read_text(encoding="utf-8"))
        else:
            msg = f"Unexpected type {type(schema).__name__} for arg 'schema'."
            raise ValueError(msg)  # noqa: TRY004 - singer_sdk raises ValueError

    @property
    def logger(self) -> logging.Logger:
        """Logger of this stream, a child of the tap's logger."""
        return self._logger

    def log(self, message: str, *args: Any, level: int = logging.INFO, **kwargs: Any) -> None:
        """Log a message with the stream's logger."""
        self._logger.log(level, message, *args, **kwargs)

    @property
    def config(self) -> Mapping[str, Any]:
        """Settings of the tap, read-only."""
        return MappingProxyType(self._config)

    @property
    def tap_stream_id(self) -> str:
        """Key of this stream in the catalog and the state; the name, unless overridden."""
        return self.name

    @property
    def namespace(self) -> str | None:
        """Namespace of the stream in the source, such as a database schema; None by default."""
        return None

    @property
    def name_in_namespace(self) -> str:
        """Name of the stream within its namespace; the stream's name by default."""
        return self.name

    @property
    def schema_filepath(self) -> Path | None:
        """Path of the schema file, if the schema was read from a file (deprecated)."""
        return self._schema_filepath

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
            msg = f"The schema for stream '{self.name}' was not provided"
            raise DiscoveryError(msg)
        return self._schema

    @property
    def effective_schema(self) -> JsonSchema:
        """Schema that records are conformed to: that of the input catalog, else that of the tap."""
        return self.schema if self._input_schema is None else self._input_schema

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
        return self._replication_key or None

    @replication_key.setter
    def replication_key(self, new_value: str | None) -> None:
        self._replication_key = new_value
        self._plan = None

    @property
    def replication_path(self) -> tuple[str, ...]:
        """Property names on the path to the value of the replication key.

        ``meta.at`` means the property ``at`` of the object ``meta``, unless a property has the name
        ``meta.at`` itself. The path of a top-level property has one name.
        """
        key = self._single_replication_key
        return parse_path(key, self.effective_schema) if key else ()

    @property
    def _single_replication_key(self) -> str | None:
        """Replication key of the stream.

        Raises:
            InvalidReplicationKeyException: The stream has several replication keys, which is not
                supported.
        """
        key: Any = self.replication_key or None
        if key is None or isinstance(key, str):
            return key
        raise InvalidReplicationKeyException(
            f"Stream '{self.name}': its replication key is {key!r}, but it must be a single string:"
            " name the one property that grows with every change, or read the stream as FULL_TABLE"
            " without a replication key."
        )

    @property
    def replication_method(self) -> str:
        """FULL_TABLE, INCREMENTAL or LOG_BASED.

        The method is the forced one, else INCREMENTAL if the stream has a replication key, else
        FULL_TABLE.
        """
        key = self._single_replication_key
        if self.forced_replication_method:
            return str(self.forced_replication_method)
        return REPLICATION_INCREMENTAL if key else REPLICATION_FULL_TABLE

    @property
    def is_timestamp_replication_key(self) -> bool:
        """True if the schema declares the replication key with format ``date-time``.

        Raises:
            InvalidReplicationKeyException: The replication key is not in the schema.
        """
        if not self.replication_key:
            return False
        definition = get_definition(self.replication_path, self.effective_schema)
        if definition is None:
            msg = (
                f"Field '{self.replication_key}' is not in schema for stream '{self.name}':"
                " declare it there, or choose another replication key."
            )
            raise InvalidReplicationKeyException(msg)
        return is_datetime_type(definition)

    @property
    def emit_activate_version_messages(self) -> bool:
        """True if FULL_TABLE streams write ACTIVATE_VERSION; the setting of the same name."""
        return bool(self.config.get("emit_activate_version_messages", False))

    # Selection

    @property
    def metadata(self) -> MetadataMapping:
        """Singer metadata by breadcrumb: that of the input catalog, else the standard metadata."""
        if self._metadata is None:
            entry = (
                self._tap_input_catalog.get_stream(self.tap_stream_id)
                if self._tap_input_catalog
                else None
            )
            self._metadata = entry.metadata if entry else self._standard_metadata()
        return self._metadata

    def _standard_metadata(self) -> MetadataMapping:
        """Return the metadata of a stream that is not in the input catalog."""
        key = self._single_replication_key
        metadata = MetadataMapping.get_standard_metadata(
            schema=self.schema,
            replication_method=self.forced_replication_method,
            key_properties=copy(self.primary_keys or []),
            valid_replication_keys=[key] if key else None,
            schema_name=None,
            selected_by_default=self.selected_by_default,
        )
        crumb: Breadcrumb = ()
        for name in parse_path(key, self.schema) if key else ():  # the key may be a nested property
            crumb = (*crumb, "properties", name)
            if crumb in metadata:
                metadata[crumb].inclusion = Metadata.InclusionType.AUTOMATIC
        metadata.root.selected = self._tap_input_catalog is None and self.selected_by_default
        return metadata

    @property
    def mask(self) -> SelectionMask:
        """Selection by breadcrumb."""
        if self._mask is None:
            self._mask = self.metadata.resolve_selection()
        return self._mask

    @property
    def selected(self) -> bool:
        """True if the stream itself is selected."""
        return self.mask.get((), True)

    @selected.setter
    def selected(self, value: bool | None) -> None:
        self.metadata.root.selected = value
        self._mask = self.metadata.resolve_selection()
        self._plan = None

    def apply_catalog(self, catalog: Catalog) -> None:
        """Apply keys, replication method, schema and selection of an input catalog.

        Override it to reject catalogs that the tap does not support. A catalog entry without a
        replication key removes the tap's own key, as in the Meltano Singer SDK.
        """
        self._tap_input_catalog = catalog
        self._plan = self._metadata = self._mask = None
        entry = catalog.get_stream(self.name)
        if entry is None:
            return
        root = entry.metadata.get(())
        keys = getattr(root, "table_key_properties", None)
        key = getattr(root, "replication_key", None)
        method = getattr(root, "forced_replication_method", None)
        self.primary_keys = entry.key_properties or keys or ()
        self.replication_key = entry.replication_key or key
        if method := entry.replication_method or method:
            self.forced_replication_method = method
        self._input_schema = entry.schema.to_dict()

    @property
    def _singer_catalog_entry(self) -> CatalogEntry:
        """Catalog entry of this stream for discovery."""
        return CatalogEntry(
            tap_stream_id=self.tap_stream_id,
            stream=self.name,
            schema=Schema.from_dict(self.schema),
            metadata=self.metadata,
            key_properties=copy(self.primary_keys or []),
            replication_key=self.replication_key,
            replication_method=self.replication_method,
            is_view=None,
            database=None,
            table=None,
            row_count=None,
            stream_alias=None,
        )

    @property
    def _singer_catalog(self) -> Catalog:
        """Catalog with only this stream."""
        return Catalog([(self.tap_stream_id, self._singer_catalog_entry)])
