"""A singer_sdk target that writes Parquet files with pyarrow: one batch, one file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from singer_sdk import BatchSink, Target

TYPES = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
}


def type_of(schema: dict[str, Any], *, inside: bool = False) -> pa.DataType:
    """Return the Arrow type of a property; instants ``inside`` of objects stay text in the SDK."""
    if schema.get("format") == "date-time" and not inside:
        return pa.timestamp("us", tz="UTC")
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    kind = next(kind for kind in kinds if kind != "null")
    if kind == "object":
        fields = schema["properties"].items()
        return pa.struct([(name, type_of(inner, inside=True)) for name, inner in fields])
    if kind == "array":
        return pa.list_(type_of(schema["items"]))
    return TYPES[kind]


def values_of(records: list[dict[str, Any]], field: pa.Field) -> list[Any]:
    """Return a column; the SDK reads numbers as Decimal, which Arrow takes for no double."""
    values = [record.get(field.name) for record in records]
    if pa.types.is_floating(field.type):
        return [value if value is None else float(value) for value in values]
    if pa.types.is_struct(field.type):
        objects = [value for value in values if value is not None]
        for inner in field.type:
            if not (pa.types.is_floating(inner.type) or pa.types.is_struct(inner.type)):
                continue
            for record, value in zip(objects, values_of(objects, inner), strict=True):
                record[inner.name] = value
    return values


class ParquetSink(BatchSink):
    """Writes each batch as one file."""

    def process_batch(self, context: dict[str, Any]) -> None:
        """Write the batch's records."""
        properties = self.schema["properties"].items()
        schema = pa.schema([(name, type_of(definition)) for name, definition in properties])
        table = pa.Table.from_pydict(
            {field.name: values_of(context["records"], field) for field in schema}, schema=schema
        )
        folder = Path(self.config["path"], self.stream_name)
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / f"{context['batch_id']}.parquet")


class ParquetTarget(Target):
    """A target as small as a target can be."""

    name = "target-bench"
    config_jsonschema = {"type": "object", "properties": {"path": {"type": "string"}}}
    default_sink_class = ParquetSink


if os.environ.get("BENCH_READER") == "msgspec":
    from singer_sdk.contrib.msgspec import MsgSpecReader

    ParquetTarget.message_reader_class = MsgSpecReader

if __name__ == "__main__":
    ParquetTarget.cli()
