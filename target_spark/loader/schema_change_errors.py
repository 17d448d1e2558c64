"""Errors for schemas that a stream's policy ``on_schema_change`` forbids.

`target_spark.columns.diff_with_table` applies the policy and raises the error. This module adds the
stream, the table and the remedy to the message.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tap_core.events import StreamId
from target_spark.columns import OnSchemaChange
from target_spark.errors import SchemaChangeError
from target_spark.tables.table import Table

__all__ = ["check_not_null_policy", "name_refused_schema"]


@contextmanager
def name_refused_schema(
    stream: StreamId | None, table: Table, policy: OnSchemaChange
) -> Iterator[None]:
    """Context manager: add stream, table and remedy to the error of a forbidden schema change.

    Args:
        stream: The stream of the table; None for a quarantine table, which may always be changed.
        table: The table of the stream.
        policy: The policy of the stream.

    Raises:
        SchemaChangeError: The block raised this error; it is raised again with the new message.
    """
    try:
        yield
    except SchemaChangeError as error:
        raise SchemaChangeError(
            f"The schema of stream {stream} does not fit table {table.name} ({table.key}), which"
            f" on_schema_change: {policy.value} protects: {error}; nothing more was written to"
            " it and no state that covers unwritten rows is emitted. Change the schema in the tap"
            " or the table, or set on_schema_change to evolve (for this stream only: streams,"
            f" {stream}, on_schema_change).",
            error.refused,
        ) from None


def check_not_null_policy(policy: OnSchemaChange) -> None:
    """Check that the policy ``on_schema_change`` allows dropping NOT NULL constraints.

    The constraint must be dropped before a null can be loaded into a NOT NULL column.

    Raises:
        SchemaChangeError: The policy is not `OnSchemaChange.EVOLVE`.
    """
    if policy is not OnSchemaChange.EVOLVE:
        raise SchemaChangeError("a row has null in a column that the table declares NOT NULL")
