"""Mapping of JSON Schema to table columns: types, schemas, and schema evolution."""

from __future__ import annotations

from target_spark.columns.json_schema_mapping import (
    schema_from_json_schema as schema_from_json_schema,
)
from target_spark.columns.json_schema_mapping import undeclared_keys as undeclared_keys
from target_spark.columns.schema_evolution import CanWiden as CanWiden
from target_spark.columns.schema_evolution import can_share_batch as can_share_batch
from target_spark.columns.schema_evolution import diff_with_table as diff_with_table
from target_spark.columns.schema_evolution import merge_table_schemas as merge_table_schemas
from target_spark.columns.table_json_schema import from_table as from_table
from target_spark.columns.table_json_schema import to_json_schema as to_json_schema
from target_spark.columns.table_schema import AIRBYTE_COLUMNS as AIRBYTE_COLUMNS
from target_spark.columns.table_schema import CDC_DELETED_AT as CDC_DELETED_AT
from target_spark.columns.table_schema import DELETED_AT as DELETED_AT
from target_spark.columns.table_schema import EXTRACTED_AT as EXTRACTED_AT
from target_spark.columns.table_schema import GENERATION as GENERATION
from target_spark.columns.table_schema import HISTORY_COLUMNS as HISTORY_COLUMNS
from target_spark.columns.table_schema import IS_CURRENT as IS_CURRENT
from target_spark.columns.table_schema import META as META
from target_spark.columns.table_schema import METADATA_COLUMNS as METADATA_COLUMNS
from target_spark.columns.table_schema import ORDINAL as ORDINAL
from target_spark.columns.table_schema import PARTITION_NULLS as PARTITION_NULLS
from target_spark.columns.table_schema import RAW_ID as RAW_ID
from target_spark.columns.table_schema import TABLE_VERSION as TABLE_VERSION
from target_spark.columns.table_schema import VALID_FROM as VALID_FROM
from target_spark.columns.table_schema import VALID_TO as VALID_TO
from target_spark.columns.table_schema import ColumnOptions as ColumnOptions
from target_spark.columns.table_schema import OnSchemaChange as OnSchemaChange
from target_spark.columns.table_schema import SchemaChange as SchemaChange
from target_spark.columns.table_schema import TableSchema as TableSchema
from target_spark.columns.types import Array as Array
from target_spark.columns.types import Binary as Binary
from target_spark.columns.types import Boolean as Boolean
from target_spark.columns.types import Column as Column
from target_spark.columns.types import ColumnSource as ColumnSource
from target_spark.columns.types import ColumnType as ColumnType
from target_spark.columns.types import Date as Date
from target_spark.columns.types import Decimal as Decimal
from target_spark.columns.types import Double as Double
from target_spark.columns.types import Integer as Integer
from target_spark.columns.types import LocalTimestamp as LocalTimestamp
from target_spark.columns.types import Struct as Struct
from target_spark.columns.types import Text as Text
from target_spark.columns.types import Timestamp as Timestamp
from target_spark.columns.types import UnmanagedType as UnmanagedType
