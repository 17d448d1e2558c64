"""Merges of table schemas for a table format that can widen any type."""

from __future__ import annotations

from collections.abc import Mapping

from target_spark import columns
from target_spark.columns import CanWiden, SchemaChange, TableSchema

__all__ = ["diff_with_table", "merge_table_schemas"]


def _widens_all(_old: str, _new: str) -> bool:
    return True


def merge_table_schemas(
    old: TableSchema, new: TableSchema, can_widen: CanWiden = _widens_all
) -> tuple[TableSchema, tuple[SchemaChange, ...]]:
    return columns.merge_table_schemas(old, new, can_widen)


def diff_with_table(
    table_schema: TableSchema,
    table: Mapping[str, str],
    can_widen: CanWiden = _widens_all,
    sources: Mapping[str, str] | None = None,
) -> tuple[TableSchema, tuple[SchemaChange, ...]]:
    return columns.diff_with_table(table_schema, table, can_widen, sources)
