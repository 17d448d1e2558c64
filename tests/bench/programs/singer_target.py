"""A singer_sdk target that writes each batch to a Parquet file with pyarrow."""

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


def to_arrow_type(schema: dict[str, Any], *, is_nested: bool = False) -> pa.DataType:
    """Return the Arrow type of a property. The SDK leaves instants in objects as text."""
    if schema.get("format") == "date-time" and not is_nested:
        return pa.timestamp("us", tz="UTC")
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    json_type = next(name for name in types if name != "null")
    if json_type == "object":
        fields = schema["properties"].items()
        return pa.struct([(name, to_arrow_type(inner, is_nested=True)) for name, inner in fields])
    if json_type == "array":
        return pa.list_(to_arrow_type(schema["items"]))
    return TYPES[json_type]


def get_column(records: list[dict[str, Any]], field: pa.Field) -> list[Any]:
    """Return the values of a field. The SDK's decimals become floats, which Arrow requires."""
    values = [record.get(field.name) for record in records]
    if pa.types.is_floating(field.type):
        return [value if value is None else float(value) for value in values]
    if pa.types.is_struct(field.type):
        objects = [value for value in values if value is not None]
        for inner in field.type:
            if not (pa.types.is_floating(inner.type) or pa.types.is_struct(inner.type)):
                continue
            for record, value in zip(objects, get_column(objects, inner), strict=True):
                record[inner.name] = value
    return values


class ParquetSink(BatchSink):
    """Write each batch to one file."""

    def process_batch(self, context: dict[str, Any]) -> None:
        """Write the records of a batch."""
        properties = self.schema["properties"].items()
        schema = pa.schema([(name, to_arrow_type(definition)) for name, definition in properties])
        table = pa.Table.from_pydict(
            {field.name: get_column(context["records"], field) for field in schema}, schema=schema
        )
        folder = Path(self.config["path"], self.stream_name)
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / f"{context['batch_id']}.parquet")


class ParquetTarget(Target):
    """A minimal target for the sink."""

    name = "target-bench"
    config_jsonschema = {"type": "object", "properties": {"path": {"type": "string"}}}
    default_sink_class = ParquetSink


if os.environ.get("BENCH_READER") == "msgspec":
    from singer_sdk.contrib.msgspec import MsgSpecReader

    ParquetTarget.message_reader_class = MsgSpecReader

if __name__ == "__main__":
    ParquetTarget.cli()
