"""Conversion of an Airbyte configured catalog to the loader's streams and options.

A catalog with an unsupported sync mode or key is rejected with one error, before any message is
read. Primary keys and cursors are used only in the sync mode append_dedup. Source: the Airbyte
protocol, sections "ConfiguredAirbyteStream" and "Destination Sync Modes", and the protocol's models
for generations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from tap_core.events import SchemaEvent, StreamId
from tap_core.exceptions import CatalogFileError
from tap_core.protocols.airbyte.catalog import INCREMENTAL, ConfiguredCatalog, ConfiguredStream
from tap_core.protocols.airbyte.reader import ExpectedStream
from tap_core.protocols.airbyte.schemas import to_singer_schema
from target_spark.config.options import APPENDING_FORMATS, LoadOptions, StreamOptions, WriteMode
from target_spark.config.settings import load_options, with_defaults

__all__ = ["MODES", "CatalogRequest", "build_options", "parse_catalog"]

_Path: TypeAlias = tuple[str, ...]

_APPEND_DEDUP: Final = "append_dedup"
MODES: Final[Mapping[str, WriteMode]] = {
    "overwrite": WriteMode.OVERWRITE,
    "append": WriteMode.APPEND,
    _APPEND_DEDUP: WriteMode.UPSERT,
}
"""Write mode of the loader for each destination sync mode of the Airbyte protocol."""


@dataclass(frozen=True, slots=True)
class CatalogRequest:
    """The streams of an Airbyte configured catalog, converted to types of the loader.

    Attributes:
        expected: The streams that the Airbyte source will send.
        options: The loader's options of each stream.
    """

    expected: tuple[ExpectedStream, ...]
    options: dict[StreamId, StreamOptions]

    def copy_options(self, old: StreamId, new: StreamId) -> None:
        """Copy the options of a stream to the new name that a stream map gives it.

        If the new name already has options, they are not changed.

        Args:
            old: The stream in the Airbyte catalog.
            new: The stream after stream maps.
        """
        if old in self.options:
            self.options.setdefault(new, self.options[old])


def parse_catalog(catalog: ConfiguredCatalog, table_format: str) -> CatalogRequest:
    """Convert an Airbyte configured catalog to the streams and options of the loader.

    Args:
        catalog: The catalog.
        table_format: The format of the tables, such as "delta", which must support the requested
            sync modes.

    Raises:
        CatalogFileError: The catalog has errors, or requests something that the table format does
            not support. The message lists all errors.
    """
    faults = list(_find_faults(catalog.streams, table_format))
    if faults:
        raise CatalogFileError(f"Catalog '{catalog.source}': {' '.join(faults)}")
    return CatalogRequest(
        tuple(map(_build_expected_stream, catalog.streams)),
        {stream.id: _build_stream_options(stream) for stream in catalog.streams},
    )


def build_options(config: Mapping[str, Any], request: CatalogRequest) -> LoadOptions:
    """Return the options of a load from the settings and a converted Airbyte catalog.

    ``request`` has options per stream, which override those in the settings.
    """
    options = load_options(config)
    quarantines = with_defaults(config).get("misfits") == "quarantine"
    columns = replace(options.columns, airbyte=True, quarantines_invalid_rows=quarantines)
    return replace(options, columns=columns, configured=request.options, by_status=True)


def _find_faults(streams: Sequence[ConfiguredStream], table_format: str) -> Iterator[str]:
    known = set[StreamId]()
    for stream in streams:
        if stream.id in known:
            yield f"Stream '{stream.id}' occurs twice; remove one of the two."
        known.add(stream.id)
        least = stream.minimum_generation_id
        if least and least != stream.generation_id:
            yield (
                f"Stream '{stream.id}': minimum_generation_id {least} is not supported. Set it to"
                " 0, which keeps the rows of earlier generations, or to the generation_id, which"
                " replaces them."
            )
        mode = stream.destination_sync_mode
        if mode not in MODES:
            yield (
                f"Stream '{stream.id}': destination_sync_mode '{mode}' is not supported. Set it"
                f" to one of {', '.join(MODES)}."
            )
        elif mode == _APPEND_DEDUP:
            yield from _find_dedup_faults(stream, table_format)


def _find_dedup_faults(stream: ConfiguredStream, table_format: str) -> Iterator[str]:
    if table_format in APPENDING_FORMATS:
        yield (
            f"Stream '{stream.id}': {_APPEND_DEDUP} replaces rows, which {table_format} cannot. Set"
            " the destination's format to delta or iceberg, or destination_sync_mode to append or"
            " overwrite."
        )
    if not stream.primary_key or not all(stream.primary_key):
        yield (
            f"Stream '{stream.id}': {_APPEND_DEDUP} needs a primary key. Set primary_key, or set"
            " destination_sync_mode to append or overwrite."
        )
    for path in filter(None, stream.primary_key):
        yield from _find_key_faults(stream, path)


def _find_key_faults(stream: ConfiguredStream, path: _Path) -> Iterator[str]:
    declared = stream.json_schema.get("properties")
    if not isinstance(declared, Mapping) or not declared:
        return
    if path[0] not in declared:
        yield (
            f"Stream '{stream.id}': its schema does not declare the primary key {'.'.join(path)}."
            " Add it to the configured schema, or choose another."
        )
    elif len(path) == 1 and _is_list_or_object(declared[path[0]]):
        yield (
            f"Stream '{stream.id}': {path[0]} is a list or an object and cannot be a primary key."
            " Choose another field, or one inside it."
        )


def _is_list_or_object(schema: Any) -> bool:
    """Return True if a JSON Schema allows only arrays, objects and null."""
    declared = schema.get("type") if isinstance(schema, Mapping) else None
    types = {declared} if isinstance(declared, str) else set(declared or ()) - {"null"}
    return bool(types) and types <= {"array", "object"}


def _build_expected_stream(stream: ConfiguredStream) -> ExpectedStream:
    """Convert a stream of an Airbyte configured catalog to the loader's description of a stream.

    A generation is a full refresh of the stream. If the catalog requests only the current
    generation, the loader removes the rows of older generations at the end. In overwrite mode this
    is not necessary, because all rows are replaced.
    """
    generation = stream.generation_id
    keeps_only_current = bool(generation) and stream.minimum_generation_id == generation
    mode = MODES[stream.destination_sync_mode]
    return ExpectedStream(
        _build_schema_event(stream, with_keys=mode is WriteMode.UPSERT),
        generation,
        truncates=keeps_only_current and mode is not WriteMode.OVERWRITE,
    )


def _build_schema_event(stream: ConfiguredStream, *, with_keys: bool) -> SchemaEvent:
    schema = to_singer_schema(stream.json_schema)
    if not with_keys:
        return SchemaEvent(stream.id, schema)
    names = _build_column_names((*stream.primary_key, *filter(None, [stream.cursor])), schema)
    return SchemaEvent(
        stream.id,
        schema,
        keys=tuple(dict.fromkeys(names[path] for path in stream.primary_key)),
        cursor=names[stream.cursor] if stream.cursor else None,
        nested={name: path for path, name in names.items() if len(path) > 1},
    )


def _find_row_identity(stream: ConfiguredStream) -> tuple[str, ...]:
    """Return the properties of the primary key; none if one of them is inside an object."""
    is_flat = all(len(path) == 1 for path in stream.primary_key)
    return tuple(name for (name, *_) in stream.primary_key) if is_flat else ()


def _build_column_names(paths: Sequence[_Path], schema: Mapping[str, object]) -> dict[_Path, str]:
    """Return the column names of primary key and cursor fields, by each field's path in the record.

    The path of a nested property is joined by dots: ``("a", "b")`` -> "a.b". If another column has
    this name, ``_`` is appended.
    """
    declared = schema.get("properties")
    used = set(declared) if isinstance(declared, Mapping) else set()
    used |= {path[0] for path in paths if len(path) == 1}
    names: dict[_Path, str] = {}
    for path in paths:
        name = ".".join(path)
        while len(path) > 1 and path not in names and name in used:
            name += "_"
        names.setdefault(path, name)
        used.add(name)
    return names


def _build_stream_options(stream: ConfiguredStream) -> StreamOptions:
    """Return the loader's options for a stream of an Airbyte configured catalog.

    As Airbyte users expect, rows that the source deleted are removed, not marked.
    """
    mode = MODES[stream.destination_sync_mode]
    return StreamOptions(
        write_mode=mode,
        hard_delete=True,
        by_cursor=True if mode is WriteMode.UPSERT and stream.cursor else None,
        least_version=stream.minimum_generation_id or None,
        sync_id=stream.sync_id,
        is_resumable=stream.is_resumable or stream.sync_mode == INCREMENTAL,
        row_identity=_find_row_identity(stream),
    )
