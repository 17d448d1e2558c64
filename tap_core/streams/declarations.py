"""What a stream is: its name, schema, keys, catalog entry and selection.

Rules of the room: this half of `Stream` is what an author declares and what a catalog
changes; nothing here reads a record or writes an event. Whoever changes what the
compiled plan was made from makes the plan stale.
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
    """The declared half of a stream: see `tap_core.Stream`."""

    name: str
    """Name of the stream; in Singer the ``stream`` of its messages."""

    selected_by_default: bool = True
    """Whether the stream is synced when no catalog says otherwise."""

    TYPE_CONFORMANCE_LEVEL: TypeConformanceLevel = TypeConformanceLevel.RECURSIVE
    """How deep values are converted to what the schema declares."""

    parent_stream_type: ClassVar[Any] = None
    """The class of the parent stream; a child is synced once for each of its records."""

    takes_any_replication_key: bool = False
    """Whether whoever configures a sync may name the replication key, as for a table."""

    ignore_parent_replication_key: bool = False
    """True when a parent's replication key does not move with its children's changes:
    the parent is then read in full as soon as this stream is selected."""

    def __init__(
        self,
        tap: SyncTap,
        schema: StrPath | JsonSchema | Schema | None = None,
        name: str | None = None,
    ) -> None:
        """Make a stream of ``tap``; ``schema`` and ``name`` override the class's own.

        Raises:
            ValueError: there is no name, or the schema is of no known type.
            FileNotFoundError: the schema is a path and there is no such file.
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
        """Keep a schema given as a dict, a `Schema` or (deprecated) a file."""
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
            raise ValueError(msg)  # noqa: TRY004 - the peer raises ValueError

    @property
    def logger(self) -> logging.Logger:
        """Logger of this stream, a child of the tap's."""
        return self._logger

    def log(self, message: str, *args: Any, level: int = logging.INFO, **kwargs: Any) -> None:
        """Log a message under the stream's name."""
        self._logger.log(level, message, *args, **kwargs)

    @property
    def config(self) -> Mapping[str, Any]:
        """The tap's settings, read-only."""
        return MappingProxyType(self._config)

    @property
    def tap_stream_id(self) -> str:
        """Key of this stream in catalog and state; its name unless overridden."""
        return self.name

    @property
    def namespace(self) -> str | None:
        """What the source keeps the stream in, such as a database schema; None: it has no such."""
        return None

    @property
    def name_in_namespace(self) -> str:
        """What the source calls the stream within its namespace; the name where it has none."""
        return self.name

    @property
    def schema_filepath(self) -> Path | None:
        """Path of the schema file, where the schema came from one (deprecated)."""
        return self._schema_filepath

    @property
    def schema(self) -> JsonSchema:
        """JSON Schema of a record, as the tap declares it.

        Raises:
            DiscoveryError: no schema was given.
        """
        if self._schema is None:
            msg = f"The schema for stream '{self.name}' was not provided"
            raise DiscoveryError(msg)
        return self._schema

    @property
    def effective_schema(self) -> JsonSchema:
        """The schema that records are conformed to: the input catalog's, else the tap's."""
        return self.schema if self._input_schema is None else self._input_schema

    @property
    def primary_keys(self) -> Sequence[str]:
        """Names of the properties that identify a record."""
        return self._primary_keys or []

    @primary_keys.setter
    def primary_keys(self, new_value: Sequence[str]) -> None:
        self._primary_keys = new_value
        self._plan = None

    @property
    def replication_key(self) -> str | None:
        """Name of the property that grows as records change, None for none."""
        return self._replication_key or None

    @replication_key.setter
    def replication_key(self, new_value: str | None) -> None:
        self._replication_key = new_value
        self._plan = None

    @property
    def replication_path(self) -> tuple[str, ...]:
        """Names on the way to the value of the replication key, one unless it is inside of objects.

        ``meta.at`` is the value ``at`` of ``meta``, unless there is a property of that very name.
        """
        key = self._one_replication_key
        return parse_path(key, self.effective_schema) if key else ()

    @property
    def _one_replication_key(self) -> str | None:
        """The replication key.

        Raises:
            InvalidReplicationKeyException: there are several, by which nothing is read here.
        """
        key: Any = self.replication_key or None
        if key is None or isinstance(key, str):
            return key
        raise InvalidReplicationKeyException(
            f"Stream '{self.name}': its replication key is {key!r}. A stream has one, and it is a"
            " text: name the one property that grows with every change, or read it as FULL_TABLE"
            " without any."
        )

    @property
    def replication_method(self) -> str:
        """FULL_TABLE, INCREMENTAL or LOG_BASED: as forced, else by the replication key."""
        key = self._one_replication_key
        if self.forced_replication_method:
            return str(self.forced_replication_method)
        return REPLICATION_INCREMENTAL if key else REPLICATION_FULL_TABLE

    @property
    def is_timestamp_replication_key(self) -> bool:
        """Whether the replication key is declared with format ``date-time``.

        Raises:
            InvalidReplicationKeyException: the schema lacks the replication key.
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
        """Whether a full table says which version of the table it has sent."""
        return bool(self.config.get("emit_activate_version_messages", False))

    # Selection

    @property
    def metadata(self) -> MetadataMapping:
        """Singer metadata by breadcrumb: the input catalog's, else the standard one."""
        if self._metadata is None:
            entry = (
                self._tap_input_catalog.get_stream(self.tap_stream_id)
                if self._tap_input_catalog
                else None
            )
            self._metadata = entry.metadata if entry else self._standard_metadata()
        return self._metadata

    def _standard_metadata(self) -> MetadataMapping:
        """Make the metadata of a stream that no catalog speaks of."""
        key = self._one_replication_key
        metadata = MetadataMapping.get_standard_metadata(
            schema=self.schema,
            replication_method=self.forced_replication_method,
            key_properties=copy(self.primary_keys or []),
            valid_replication_keys=[key] if key else None,
            schema_name=None,
            selected_by_default=self.selected_by_default,
        )
        crumb: Breadcrumb = ()
        for name in parse_path(key, self.schema) if key else ():  # it may be inside of objects
            crumb = (*crumb, "properties", name)
            if crumb in metadata:
                metadata[crumb].inclusion = Metadata.InclusionType.AUTOMATIC
        metadata.root.selected = self._tap_input_catalog is None and self.selected_by_default
        return metadata

    @property
    def mask(self) -> SelectionMask:
        """Whether each breadcrumb is selected."""
        if self._mask is None:
            self._mask = self.metadata.resolve_selection()
        return self._mask

    @property
    def selected(self) -> bool:
        """Whether the stream itself is selected."""
        return self.mask.get((), True)

    @selected.setter
    def selected(self, value: bool | None) -> None:
        self.metadata.root.selected = value
        self._mask = self.metadata.resolve_selection()
        self._plan = None

    def apply_catalog(self, catalog: Catalog) -> None:
        """Take keys, replication method, schema and selection from an input catalog.

        Override to refuse catalogs that the tap cannot serve. A catalog entry without a
        replication key takes the tap's own away, as in the Singer SDK.
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
        """This stream as an entry of the catalog that discovery prints."""
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
        """A catalog of this stream alone."""
        return Catalog([(self.tap_stream_id, self._singer_catalog_entry)])
