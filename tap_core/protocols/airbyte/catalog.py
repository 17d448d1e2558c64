"""Discovery catalogs and configured catalogs of Airbyte, and their conversion to a tap's catalog.

- Airbyte identifies a stream by namespace and name (`stream_id`). The tap and its state use the
  tap's stream name.
- Streams and fields of a configured catalog that no longer exist are skipped. For an invalid
  catalog, the error names the file and the path of the value.
- Only fields of the configured schema are sent, at every depth where both schemas declare
  properties. This also applies to keys and cursors. A schema without properties selects all fields.
- The cursor is the tap's replication key. If users may choose the cursor, it is the configured
  field, else the default field of the catalog.

Source: the Airbyte protocol, sections "Catalog" and "Schema Mismatches".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from tap_core.events import StreamId
from tap_core.exceptions import CatalogFileError
from tap_core.protocols.airbyte.json_input import JsonNode, parse
from tap_core.protocols.airbyte.schemas import to_airbyte_schema
from tap_core.protocols.catalog_entries import (
    add_catalog_entry,
    apply_selection,
    copy_catalog_entry,
    get_catalog_entry,
    get_properties,
)
from tap_core.singerlib.catalog import (
    REPLICATION_FULL_TABLE,
    REPLICATION_INCREMENTAL,
    REPLICATION_LOG_BASED,
    Breadcrumb,
    Catalog,
    CatalogEntry,
    Metadata,
    MetadataMapping,
    Schema,
)
from tap_core.state.reader import as_bytes
from tap_core.state.replication_key_path import get_definition, parse_path
from tap_core.sync.interfaces import SyncStream
from tap_core.types import JsonSchema

__all__ = [
    "FULL_REFRESH",
    "INCREMENTAL",
    "ConfiguredCatalog",
    "ConfiguredStream",
    "apply_configured_catalog",
    "build_catalog",
    "parse_configured_catalog",
    "stream_id",
]

FULL_REFRESH: Final = "full_refresh"
INCREMENTAL: Final = "incremental"

_Path: TypeAlias = tuple[str, ...]
_Inclusion = Metadata.InclusionType


# Discovery catalog


def stream_id(stream: SyncStream) -> StreamId:
    """Return the identifier of a tap's stream in Airbyte: its name and namespace."""
    return StreamId(stream.name_in_namespace, stream.namespace)


def build_catalog(streams: Mapping[str, SyncStream]) -> dict[str, Any]:
    """Return the discovery catalog of a tap (AirbyteCatalog), sorted by namespace and name."""
    ordered = sorted(streams.values(), key=lambda stream: (stream.namespace or "", stream.name))
    return {"streams": [_describe_stream(stream) for stream in ordered]}


def _describe_stream(stream: SyncStream) -> dict[str, Any]:
    identifier, replication = stream_id(stream), _Replication.of(stream)
    discovered: dict[str, Any] = {
        "name": identifier.name,
        "json_schema": _build_airbyte_schema(stream),
        "supported_sync_modes": [FULL_REFRESH],
        # Airbyte would keep the rows of a failed full refresh, which a second attempt sends again.
        "is_resumable": False,
        "is_file_based": False,
    }
    if identifier.namespace is not None:
        discovered["namespace"] = identifier.namespace
    if replication.is_possible:
        discovered["supported_sync_modes"].append(INCREMENTAL)
        discovered["source_defined_cursor"] = not replication.is_free
        if replication.key:
            discovered["default_cursor_field"] = list(parse_path(replication.key, stream.schema))
    if keys := stream.primary_keys:
        discovered["source_defined_primary_key"] = [[key] for key in keys]
    return discovered


def _build_airbyte_schema(stream: SyncStream) -> JsonSchema:
    """Return a stream's schema for Airbyte's discovery catalog.

    Properties with the inclusion ``unsupported`` in the Singer catalog are left out.
    """
    schema = to_airbyte_schema(stream.schema)
    if properties := get_properties(schema):
        metadata = get_catalog_entry(stream).metadata
        schema["properties"] = {
            name: inner
            for name, inner in properties.items()
            if _get_inclusion(metadata, ("properties", name)) != _Inclusion.UNSUPPORTED
        }
    return schema


def _get_inclusion(metadata: MetadataMapping, path: Breadcrumb) -> str | None:
    known = metadata.get(path)
    return known.inclusion if known else None


class _Replication(NamedTuple):
    """Replication method and replication key of a stream.

    ``is_free`` is True if the user may choose any field as replication key.
    """

    method: str
    key: str | None
    is_free: bool

    @classmethod
    def of(cls, stream: SyncStream) -> _Replication:
        entry = get_catalog_entry(stream)
        root = entry.metadata.root
        method = entry.replication_method or root.forced_replication_method or ""
        key = entry.replication_key or root.replication_key
        is_free = stream.allow_any_replication_key and method != REPLICATION_LOG_BASED
        return cls(method, key or None, is_free)

    @property
    def is_possible(self) -> bool:
        """True if the stream supports incremental syncs."""
        has_own = self.method == REPLICATION_INCREMENTAL and self.key is not None
        return self.is_free or has_own or self.method == REPLICATION_LOG_BASED


# Configured catalog


@dataclass(frozen=True, slots=True)
class ConfiguredStream:
    """Stream of an Airbyte configured catalog, with the sync modes that the user has chosen.

    Cursor and key fields are paths of property names, such as ``("meta", "updated")``.
    """

    id: StreamId
    json_schema: JsonSchema = field(default_factory=dict)
    sync_mode: str = FULL_REFRESH
    destination_sync_mode: str = "append"
    cursor_field: _Path = ()
    primary_key: tuple[_Path, ...] = ()
    source_defined_cursor: bool = False
    default_cursor_field: _Path = ()
    supported_sync_modes: tuple[str, ...] = (FULL_REFRESH,)
    generation_id: int | None = None
    minimum_generation_id: int | None = None
    sync_id: int | None = None
    is_resumable: bool = False

    @property
    def cursor(self) -> _Path:
        """Path to the cursor field; empty if the stream has no cursor.

        It is the configured cursor field, else the default cursor field. If the source defines the
        cursor, the configured field is ignored.
        """
        if self.source_defined_cursor:
            return self.default_cursor_field
        return self.cursor_field or self.default_cursor_field


@dataclass(frozen=True, slots=True)
class ConfiguredCatalog:
    """Parsed ConfiguredAirbyteCatalog: the streams that the user has selected.

    ``source`` is the name of the catalog file, for error messages.
    """

    streams: tuple[ConfiguredStream, ...]
    source: str = "catalog"


def parse_configured_catalog(text: str | bytes, source: str) -> ConfiguredCatalog:
    """Parse and validate a configured catalog.

    Unknown properties and nulls are ignored. A stream without a configured primary key gets its
    source-defined key. The output of ``discover`` is accepted too: all streams of its first CATALOG
    message are read with full_refresh and written with append.

    Args:
        text: Content of the catalog file.
        source: Name of the catalog file, for error messages.

    Raises:
        CatalogFileError: The content is not a valid catalog. The message names the invalid value.
    """
    document = _parse_document(text, source)
    streams = document.child("streams")
    if streams.value is None:
        raise document.make_error(
            "a catalog must be an object with a list of 'streams'; this one has none"
        )
    items = list(streams.items())
    if any(isinstance(item.value, dict) and "tap_stream_id" in item.value for item in items):
        raise document.make_error(
            "this is a catalog of Singer; a configured catalog of Airbyte is needed, such as the"
            " output of the command 'discover'"
        )
    return ConfiguredCatalog(tuple(map(_parse_stream, items)), source)


def _parse_document(text: str | bytes, source: str) -> JsonNode:
    try:
        content = parse(text, f"Catalog '{source}'", CatalogFileError)
    except CatalogFileError:
        document = next(_find_catalogs(text, source), None)
        if document is None:
            raise
        return document
    return content.child("catalog") if _is_message(content) else content


def _find_catalogs(text: str | bytes, source: str) -> Iterator[JsonNode]:
    """Yield the catalog of each CATALOG message in ``text``, the output of ``discover``.

    ``source`` is the name of the file, for error messages.
    """
    for line in as_bytes(text).splitlines():
        if b'"CATALOG"' in line:
            message = parse(line, f"Catalog '{source}'", CatalogFileError)
            if _is_message(message):
                yield message.child("catalog")


def _is_message(document: JsonNode) -> bool:
    return isinstance(document.value, dict) and document.value.get("type") == "CATALOG"


def _parse_stream(entry: JsonNode) -> ConfiguredStream:
    stream = entry.child("stream")
    if stream.value is None:
        stream = entry  # in a discovery catalog, the entry itself is the stream
    name = stream.child("name").required_text()
    entry, stream = entry.with_name(name), stream.with_name(name)
    modes = tuple(
        mode.required_text().lower() for mode in stream.child("supported_sync_modes").items()
    )
    keys = entry.child("primary_key").paths() or stream.child("source_defined_primary_key").paths()
    return ConfiguredStream(
        id=StreamId(name, stream.child("namespace").text()),
        json_schema=stream.child("json_schema", "schema").members(),
        sync_mode=_parse_sync_mode(entry.child("sync_mode")),
        destination_sync_mode=(entry.child("destination_sync_mode").text() or "append").lower(),
        cursor_field=entry.child("cursor_field").path(),
        primary_key=keys,
        source_defined_cursor=stream.child("source_defined_cursor").flag(),
        default_cursor_field=stream.child("default_cursor_field").path(),
        supported_sync_modes=modes or (FULL_REFRESH,),
        generation_id=entry.child("generation_id").integer(),
        minimum_generation_id=entry.child("minimum_generation_id").integer(),
        sync_id=entry.child("sync_id").integer(),
        is_resumable=stream.child("is_resumable").flag(),
    )


def _parse_sync_mode(node: JsonNode) -> str:
    text = node.text()
    mode = FULL_REFRESH if text is None else text.lower()
    if mode not in (FULL_REFRESH, INCREMENTAL):
        raise node.make_error(f"'{text}' is not a sync mode: use {FULL_REFRESH} or {INCREMENTAL}")
    return mode


# Conversion to the tap's catalog


def apply_configured_catalog(
    configured: ConfiguredCatalog, streams: Mapping[str, SyncStream]
) -> tuple[Catalog, list[str]]:
    """Convert a configured catalog to a Singer catalog that selects the configured streams.

    Args:
        configured: The configured catalog.
        streams: Streams of the tap by name, before any catalog was applied to them.

    Returns:
        A catalog of the configured streams only, and a list of warnings.

    Raises:
        CatalogFileError: A stream does not support the configured cursor field.
    """
    known = {stream_id(stream): stream for stream in streams.values()}
    catalog, warnings = Catalog(), []
    for wanted in configured.streams:
        stream = known.get(wanted.id)
        if stream is None:
            warnings.append(f"Stream '{wanted.id}' of the catalog is not in the source: skipped.")
            continue
        replication = _resolve_replication(stream, wanted, configured.source)
        if wanted.sync_mode == INCREMENTAL and replication.method == REPLICATION_FULL_TABLE:
            warnings.append(
                f"Stream '{wanted.id}' has no cursor: it is read in full although the catalog"
                f" asks for {INCREMENTAL}."
            )
        if stream.name in catalog:
            warnings.append(f"Stream '{wanted.id}' is in the catalog twice: the last one is used.")
        entry = _make_entry(stream, wanted, replication)
        add_catalog_entry(catalog, stream, entry)
    return catalog, warnings


def _resolve_replication(stream: SyncStream, wanted: ConfiguredStream, source: str) -> _Replication:
    """Return the replication method and replication key for the sync of a configured stream.

    Args:
        stream: The tap's stream.
        wanted: The same stream in the configured catalog.
        source: Name of the catalog file, for error messages.

    Raises:
        CatalogFileError: The stream does not support the configured cursor field.
    """
    replication = _Replication.of(stream)
    if wanted.sync_mode == FULL_REFRESH or not replication.is_possible:
        return replication._replace(method=REPLICATION_FULL_TABLE)
    if not replication.is_free:
        return replication
    cursor = _choose_cursor(stream, wanted, replication.key, source)
    return _Replication(REPLICATION_INCREMENTAL, cursor, is_free=True)


def _choose_cursor(
    stream: SyncStream, wanted: ConfiguredStream, replication_key: str | None, source: str
) -> str:
    """Return the name of the cursor field of a stream whose cursor the user may choose.

    It is the field that ``wanted`` configures, else the catalog's default, else the tap's
    ``replication_key``. ``source`` is the name of the catalog file, for error messages.

    Raises:
        CatalogFileError: There is no cursor field, or its name is unknown or ambiguous.
    """
    path = wanted.cursor_field or wanted.default_cursor_field
    key = ".".join(path) or replication_key
    start = f"Catalog '{source}': stream '{wanted.id}'"
    if key is None:
        raise CatalogFileError(
            f"{start} has no cursor for {INCREMENTAL} sync. Set 'cursor_field' to one of its"
            f" fields, or set 'sync_mode' to {FULL_REFRESH}."
        )
    path = path or parse_path(key, stream.schema)
    exists = get_definition(path, stream.schema) is not None
    if not exists or parse_path(key, stream.schema) != path:
        number = "more than one" if exists else "no"
        raise CatalogFileError(
            f"{start} has {number} field '{key}' for the cursor. Set 'cursor_field' to another"
            f" field, or set 'sync_mode' to {FULL_REFRESH}."
        )
    return key


def _make_entry(
    stream: SyncStream, wanted: ConfiguredStream, replication: _Replication
) -> CatalogEntry:
    """Return a copy of a stream's Singer catalog entry for the configured stream ``wanted``.

    It selects only the configured properties, and it has the given replication method and key.
    """
    entry = copy_catalog_entry(stream, is_selected=True)
    root = entry.metadata.root
    entry.replication_method = root.forced_replication_method = replication.method
    entry.replication_key = root.replication_key = replication.key
    _select(entry.metadata, (), to_airbyte_schema(stream.schema), wanted.json_schema)
    entry.schema = Schema.from_dict(_remove_unwanted(entry.schema.to_dict(), wanted.json_schema))
    return entry


def _select(metadata: MetadataMapping, path: Breadcrumb, known: Any, wanted: Any) -> None:
    """Set ``selected`` in catalog metadata for each property of an object and of nested objects.

    Properties of the configured schema are selected. All other properties are deselected, even
    keys.

    Args:
        metadata: Catalog metadata to change.
        path: Breadcrumb of the object in ``metadata``; empty for the record.
        known: Schema of the object that the tap has discovered.
        wanted: Schema of the object in the configured catalog. If it has no properties, all
            properties are selected.
    """
    chosen = get_properties(wanted)
    for name, definition in get_properties(known).items():
        crumb = (*path, "properties", name)
        node = metadata[crumb]
        apply_selection(node, wanted=not chosen or name in chosen)
        if node.selected:
            _select(metadata, crumb, definition, chosen.get(name))


def _remove_unwanted(known: JsonSchema, wanted: Any, *, in_list: bool = False) -> JsonSchema:
    """Return the tap's schema ``known`` without properties that the user has not selected.

    Only those are removed that catalog metadata cannot deselect: properties inside arrays
    (``in_list``), and undeclared ones (``additionalProperties``). ``wanted`` is the schema in the
    configured catalog, which has the selected properties.
    """
    result = dict(known)
    chosen, properties = get_properties(wanted), get_properties(known)
    if chosen and properties:
        if known.get("additionalProperties") and not wanted.get("additionalProperties"):
            result["additionalProperties"] = False
        result["properties"] = {
            name: _remove_unwanted(inner, chosen.get(name), in_list=in_list)
            if isinstance(inner, dict)
            else inner
            for name, inner in properties.items()
            if name in chosen or not in_list
        }
    items = known.get("items")
    if isinstance(items, dict) and isinstance(wanted, Mapping):
        result["items"] = _remove_unwanted(items, wanted.get("items"), in_list=True)
    return result
