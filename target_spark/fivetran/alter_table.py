"""Execution of Fivetran's AlterTable requests, without loss of values.

1. All values are checked; nothing changes if a value does not fit its new type.
2. The new Fivetran metadata are written to the table properties.
3. The columns change: in place if the table format supports it, or else by rewriting all rows in
   one commit. Rows that another writer commits meanwhile are a conflict, or are rewritten too.

Fivetran may repeat a request after a failure at any step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tap_core.events import StreamId
from target_spark.columns import SchemaChange
from target_spark.config.options import LoadOptions
from target_spark.errors import ConflictError, TableError, UnsupportedError
from target_spark.fivetran.alter_plan import AlterPlan
from target_spark.fivetran.existing_table import ExistingTable, ensure_not_replaced
from target_spark.fivetran.table_layout import build_layout
from target_spark.fivetran.table_metadata import TABLE_PROPERTY, dump_metadata
from target_spark.fivetran.type_conversion import get_conversion
from target_spark.fivetran.type_mapping import to_ddl, to_fivetran_type
from target_spark.tables.identifiers import quote, sql_literal
from target_spark.writers.delta.catalog import get_layout
from target_spark.writers.delta.layout import PartitionSpec, build_partition_specs
from target_spark.writers.iceberg.layout import build_sort_order
from target_spark.writers.iceberg.replacement import TableReplacement
from target_spark.writers.sql_statements import build_alter_statements, format_properties

__all__ = ["apply_plan"]

_TIMESTAMP_NTZ: Final = "timestamp_ntz"

_LOST_VALUE: Final = "target-spark: a value does not fit the new type"
"""Error message of Spark for a value that does not fit the new type during a rewrite.

All values were checked before, so another writer must have added this value meanwhile.
"""

_GENERATION_EXPRESSION: Final = "delta.generationExpression"
"""Key of Delta column metadata that stores the expression of a generated column."""


def apply_plan(
    spark: SparkSession,
    options: LoadOptions,
    stream: StreamId,
    existing: ExistingTable,
    plan: AlterPlan,
) -> None:
    """Apply the changes of an `AlterPlan` to a table.

    Args:
        spark: The Spark session of the calling thread.
        options: The options of the load.
        stream: The stream of the table.
        existing: The table before the change.
        plan: The changes.

    Raises:
        TableError: A value would be lost, or the new key would not be unique or would contain
            nulls. The table is unchanged.
        UnsupportedError: The table's partitioning does not allow the change. The table is
            unchanged.
    """
    is_rewritten = _is_rewritten(plan, existing.format)
    # A replacement detects changes since its creation, so it is created before the rows are read.
    replacement = (
        TableReplacement(spark, existing.table)
        if is_rewritten and existing.format == "iceberg"
        else None
    )
    rows = spark.table(existing.ref)
    _check_values(rows, stream, existing, plan)
    changed = rows.selectExpr(*_build_select_list(rows, existing, plan))
    _check_keys(changed, stream, plan)
    table_schema, layout = build_layout(options, stream, plan.after)
    if is_rewritten and replacement is None:
        changed = _mark_generated_columns(
            changed, stream, existing, plan, build_partition_specs(table_schema, layout)
        )
    properties = dict(_build_properties(existing, plan))
    with ensure_not_replaced(spark, existing):
        if replacement is not None:
            replacement.commit(changed, properties)
            if order := build_sort_order(table_schema, layout):  # the rewrite removes it
                spark.sql(f"ALTER TABLE {existing.ref} {order}")
            return
        spark.sql(f"ALTER TABLE {existing.ref} SET TBLPROPERTIES ({format_properties(properties)})")
        if is_rewritten:
            _rewrite_delta(spark, existing, changed)
        elif plan.changes_columns:
            for clause in _build_alter_clauses(plan, existing.format):
                spark.sql(f"ALTER TABLE {existing.ref} {clause}")


def _is_rewritten(plan: AlterPlan, table_format: str) -> bool:
    """Return True if the changes in ``plan`` require that all rows of the table are rewritten.

    Rewriting is required to convert values of a column, or to drop a column of a Delta table.
    """
    return bool(plan.converted or (plan.dropped and table_format == "delta"))


def _check_values(
    rows: DataFrame, stream: StreamId, existing: ExistingTable, plan: AlterPlan
) -> None:
    columns = (*plan.converted, *plan.narrowed)
    if not columns:
        return
    conditions = [
        get_conversion(quote(column.column), existing.types[column.column], to_ddl(column)).lost
        for column in columns
    ]
    (counts,) = rows.select(*(F.count_if(F.expr(lost)) for lost in conditions)).collect()
    faults = [
        f"column {column.name} to {to_fivetran_type(column)} ({count} of its values)"
        for column, count in zip(columns, counts, strict=True)
        if count
    ]
    if faults:
        raise TableError(
            f"Table {stream} cannot change {'; '.join(faults)}: values that the new type cannot"
            " hold would be lost. Nothing was changed. Correct these values in the destination,"
            " or give the column a type that holds them all, such as STRING."
        )


def _check_keys(changed: DataFrame, stream: StreamId, plan: AlterPlan) -> None:
    keys = plan.keys_to_check
    if not keys:
        return
    columns = [quote(column.column) for column in keys]
    names = ", ".join(column.name for column in keys)
    has_null = " OR ".join(f"{column} IS NULL" for column in columns)
    if not changed.where(has_null).isEmpty():
        raise TableError(
            f"The key of table {stream} cannot be {names}: there are rows without a value"
            " in it. Nothing was changed. Re-sync the table, or fill these values in the"
            " destination."
        )
    if not changed.groupBy(*columns).count().where("count > 1").isEmpty():
        raise TableError(
            f"The key of table {stream} cannot be {names}: several rows have the same"
            " values in it. Nothing was changed. Re-sync the table, or remove the duplicate rows"
            " in the destination."
        )


def _build_select_list(rows: DataFrame, existing: ExistingTable, plan: AlterPlan) -> Iterator[str]:
    """Yield the SELECT expression of each column of the table after the change.

    Columns that only the table has, such as generated partition columns, are included. If a value
    does not fit the new type of its column, the query fails.
    """
    dropped = {column.column for column in plan.dropped}
    ddl = {column.column: to_ddl(column, existing.format) for column in plan.after.columns}
    converted = {column.column for column in plan.converted}
    widened = {column.column for column in plan.widened}
    for name in rows.columns:
        value = quote(name)
        if name in converted:
            conversion = get_conversion(value, existing.types[name], ddl[name])
            error = f"raise_error({sql_literal(_LOST_VALUE)})"
            value = f"IF({conversion.lost}, {error}, {conversion.value})"
        elif name in widened:
            value = f"CAST({value} AS {ddl[name]})"
        if name not in dropped:
            yield value if value == quote(name) else f"{value} AS {quote(name)}"
    for column in plan.added:
        yield f"CAST(NULL AS {ddl[column.column]}) AS {quote(column.column)}"


def _build_properties(existing: ExistingTable, plan: AlterPlan) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each table property to set before columns change.

    One property stores the Fivetran types, keys and names of the columns. Others enable the
    features of Delta Lake that the changes need, such as type widening.
    """
    schemas = (plan.after, plan.before) if plan.changes_columns else (plan.after,)
    yield TABLE_PROPERTY, dump_metadata(*schemas)
    if existing.format != "delta":
        return
    if plan.widened and not _is_rewritten(plan, existing.format):
        yield "delta.enableTypeWidening", "true"
    new_types = {to_ddl(column, existing.format) for column in plan.after.columns}
    if _TIMESTAMP_NTZ in new_types and not any(
        _TIMESTAMP_NTZ in ddl for ddl in existing.types.values()
    ):
        yield "delta.feature.timestampNtz", "supported"


def _build_alter_clauses(plan: AlterPlan, table_format: str) -> Iterator[str]:
    """Yield the clauses of the ALTER TABLE statements that change columns without a rewrite."""
    changes = [SchemaChange("add", (c.column,), to_ddl(c, table_format)) for c in plan.added]
    changes += [SchemaChange("widen", (c.column,), to_ddl(c, table_format)) for c in plan.widened]
    yield from build_alter_statements(changes)
    if plan.dropped:
        yield f"DROP COLUMNS ({', '.join(quote(column.column) for column in plan.dropped)})"


def _mark_generated_columns(
    changed: DataFrame,
    stream: StreamId,
    existing: ExistingTable,
    plan: AlterPlan,
    partition_specs: Sequence[PartitionSpec],
) -> DataFrame:
    """Return the rows that overwrite a Delta table, with its generated columns marked as such.

    A generated column, such as the year of a date, is computed by Delta. After the overwrite, it is
    still generated only if the metadata of the written column contain its expression.
    ``partition_specs`` has the expressions, from the setting ``partition_by``.

    Raises:
        UnsupportedError: The setting ``partition_by`` does not define a generated column of the
            table.
    """
    expressions = {
        spec.name: spec.generation_expression
        for spec in partition_specs
        if spec.generation_expression is not None
    }
    table_columns = {*existing.types, *(column.column for column in plan.added)}
    unknown = [
        name for name in changed.columns if name not in table_columns and name not in expressions
    ]
    if unknown:
        raise UnsupportedError(
            f"Table {stream} is partitioned by {', '.join(unknown)}, which is computed from a"
            " column that changes, or is not in the setting partition_by. Nothing was changed. Set"
            " partition_by as it was when the table was created, or drop and re-sync the table."
        )
    return changed.select(
        *(
            F.col(quote(name)).alias(name, metadata={_GENERATION_EXPRESSION: expressions[name]})
            if name in expressions
            else F.col(quote(name))
            for name in changed.columns
        )
    )


def _rewrite_delta(spark: SparkSession, existing: ExistingTable, changed: DataFrame) -> None:
    """Replace all rows of a Delta table by ``changed``, in one commit.

    Delta reads the rows in the same transaction, so rows that other writers add meanwhile are not
    lost. Partitioning is kept. Clustering, which the overwrite removes, is set again.

    Raises:
        ConflictError: Another writer has added values that the new types cannot hold.
    """
    partition_columns, cluster_columns = (
        [name for name in names if name in changed.columns]
        for names in get_layout(spark, existing.table)
    )
    writer = changed.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    if partition_columns:
        writer = writer.partitionBy(*partition_columns)
    try:
        writer.saveAsTable(existing.ref)
    except Exception as error:
        if _LOST_VALUE not in str(error):
            raise
        raise ConflictError(
            f"Another writer has added values to table {existing.table.name} that the new types of"
            " its columns cannot hold."
        ) from error
    if cluster_columns:
        names = ", ".join(map(quote, cluster_columns))
        spark.sql(f"ALTER TABLE {existing.ref} CLUSTER BY ({names})")
