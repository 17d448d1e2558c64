"""Reader of the batch files that a BATCH message lists.

Values are converted to the JSON types that the schema declares. A file may contain 1 for true, for
example, or a Parquet timestamp. The records then equal those of RECORD messages, so stream maps,
validation and sinks need no special case for files. Memory use does not depend on the file size.

Source: the BATCH message of the Meltano Singer SDK ("Batch messages").
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from tap_core.batch.encodings import BaseBatchFileEncoding, BatchConfig, BatchFileFormat
from tap_core.batch.limits import FileLimits
from tap_core.batch.reader import read_rows
from tap_core.records.conform import warn_once
from tap_core.records.serializer import compile_conformer_only
from tap_core.schema.references import map_subschemas
from tap_core.singerlib.catalog import SelectionMask
from tap_core.types import JsonSchema, Record
from tap_core.typing.inspect import TypeConformanceLevel

__all__ = ["BatchFileReader", "get_batch_config"]

logger: logging.Logger = logging.getLogger(__name__)


def get_batch_config(config: Any) -> BatchConfig | None:
    """Parse the setting ``batch_config`` of a plugin.

    Return None if the setting is missing or has no ``storage``.
    """
    batch_config = config.get("batch_config") or {}
    return BatchConfig.from_dict(batch_config) if batch_config.get("storage") else None


class BatchFileReader:
    """Reader of the batch files of one stream; all files have the same schema."""

    def __init__(
        self,
        stream: str,
        schema: JsonSchema,
        config: BatchConfig | None = None,
        limits: FileLimits | None = None,
    ) -> None:
        """Create a reader for a stream.

        Args:
            stream: Name of the stream.
            schema: JSON Schema of the records.
            config: Setting ``batch_config``, with the storage that contains the files.
            limits: Limits on the files, such as their size.
        """
        self._stream = stream
        self._schema = schema
        self._storage = config.storage if config is not None else None
        self._limits = limits
        self._conform = _compile_conform(stream, schema)

    def records(self, address: str, encoding: BaseBatchFileEncoding) -> Iterator[Record]:
        """Yield the records of the batch file at the URL ``address``.

        Raises:
            BatchFileError: The file cannot be read completely.
            NotImplementedError: The format or compression is not supported.
        """
        rows = read_rows(
            address, encoding, stream=self._stream, storage=self._storage, limits=self._limits
        )
        is_parquet = encoding.format == BatchFileFormat.PARQUET
        if is_parquet and (remove_nulls := _make_null_remover(self._schema)):
            rows = map(remove_nulls, rows)
        return map(self._conform, rows)


def _compile_conform(stream: str, schema: JsonSchema) -> Callable[[Record], Record]:
    """Return a function that converts the values of a record to the types in a JSON Schema.

    The function keeps properties that the schema does not declare. Warnings contain the name
    ``stream``.
    """
    open_schema = _allow_extra_properties(schema)
    shape = compile_conformer_only(
        schema=open_schema,
        mask=SelectionMask(),
        level=TypeConformanceLevel.RECURSIVE,
        unmapped=warn_once(stream, logger),
        copies=False,
    )

    def conform(record: Record) -> Record:
        conformed: Record = record if shape.fits(record) else shape(record)
        return conformed

    return conform


def _allow_extra_properties(schema: JsonSchema) -> JsonSchema:
    """Return a copy of a schema in which all objects allow undeclared properties."""
    copy = map_subschemas(schema, _allow_extra_properties)
    if isinstance(copy.get("properties"), dict):
        copy["additionalProperties"] = True
    return copy


def _make_null_remover(schema: Any) -> Callable[[Any], Any] | None:
    """Return a function that removes null properties from a value of a Parquet file, in place.

    Parquet stores a missing property as null. The function therefore removes only nulls that the
    schema forbids, and returns the changed value. Return None instead of a function if the schema
    declares no object with properties.
    """
    if not isinstance(schema, dict):
        return None
    if schema.get("properties"):
        return _make_null_property_remover(schema["properties"])
    remove_in_item = _make_null_remover(schema.get("items"))
    if remove_in_item is None:
        return None

    def remove(value: Any) -> Any:
        if isinstance(value, list):
            for item in value:
                remove_in_item(item)
        return value

    return remove


def _make_null_property_remover(properties: JsonSchema) -> Callable[[Any], Any]:
    """Return a function that removes null properties from an object, in place.

    ``properties`` are the schemas of the object's properties. The function removes only nulls that
    these schemas forbid, also in nested objects.
    """
    strict = [name for name, definition in properties.items() if not _allows_null(definition)]
    removers = ((name, _make_null_remover(definition)) for name, definition in properties.items())
    nested = [(name, inner) for name, inner in removers if inner is not None]

    def remove(value: Any) -> Any:
        if isinstance(value, dict):
            for name in strict:
                if name in value and value[name] is None:
                    del value[name]
            for name, inner in nested:
                inner(value.get(name))
        return value

    return remove


def _allows_null(schema: Any) -> bool:
    """Return True if a schema allows null, by its ``type``, ``anyOf``, ``oneOf`` or ``enum``."""
    if not isinstance(schema, dict):
        return bool(schema)
    kinds = schema.get("type")
    if kinds is not None:
        return "null" in ([kinds] if isinstance(kinds, str) else kinds)
    options = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return any(map(_allows_null, options)) if options else None in schema.get("enum", (None,))
