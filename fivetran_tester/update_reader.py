"""Reader of the messages of a connector's Update (a sync): checks, applies and counts them.

It makes no calls; broken rules are recorded in a `Findings` object. The rule numbers are those of
``docs/fivetran.md``.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from fivetran_tester.common_checks import check_text
from fivetran_tester.findings import Findings
from fivetran_tester.known_tables import (
    KnownColumn,
    KnownTable,
    Name,
    TableSelection,
    format_name,
    iterate_tables,
)
from fivetran_tester.row_model import CheckpointSample, Model
from fivetran_tester.value_checks import find_fault, format_value
from tap_core.protocols.fivetran.enums import RecordType

__all__ = ["UpdateReader"]

_MAX_RECORDS: Final = 100
"""Maximum number of records in one message."""

_MAX_CHECKPOINT_SECONDS: Final = 3600
_SYSTEM_PREFIXES: Final = ("_fivetran_", "_sdc_", "_airbyte_")


class UpdateReader:
    """Reader that checks the messages of one Update (a sync) and applies its records to a model.

    Args:
        findings: Object to which broken rules are added.
        tables: Tables that the connector has reported in its schema.
        choice: Selected tables and columns.
        model: Rows of the destination before the Update; by default no rows.
        checkpoints: Sample to which the Update's checkpoints are added.
    """

    def __init__(
        self,
        findings: Findings,
        tables: Mapping[Name, KnownTable],
        choice: TableSelection,
        model: Model | None = None,
        checkpoints: CheckpointSample | None = None,
    ) -> None:
        self.findings = findings
        self.tables = dict(tables)
        self.choice = choice
        self.model = model or Model()
        self.checkpoints = checkpoints or CheckpointSample(0)
        self.counts: Counter[Name] = Counter()
        self.operations: Counter[str] = Counter()
        self.examples: dict[tuple[Name, str], str] = {}
        self.state: str | None = None
        self.task: str | None = None
        self._records_since_checkpoint = 0
        self._tables_with_rows: set[Name] = set()
        self._last_checkpoint_at = time.monotonic()

    def read(self, messages: Iterable[Any]) -> None:
        """Check messages of the connector's Update, and apply their records to the model."""
        for message in messages:
            self.process(message)

    def process(self, message: Any) -> None:
        """Check one message of the connector's Update, and apply its records to the model."""
        kind = message.WhichOneof("operation")
        if self.task is not None:
            self.findings.add_violation(4, "a message follows a task, which ends a sync")
        if kind is None:
            self.findings.add_violation(12, "a message of the stream is empty")
            return
        self.operations[kind] += 1
        {
            "record": lambda: self._process_records([message.record]),
            "records": lambda: self._process_records(message.records.records),
            "schema_change": lambda: self._process_schema_change(message.schema_change),
            "checkpoint": lambda: self._process_checkpoint(message.checkpoint.state_json),
            "warning": lambda: check_text("a warning", message.warning.message, self.findings),
            "task": lambda: self._process_task(message.task.message),
        }[kind]()

    def end(self) -> None:
        """Check, after the last message of the Update, that a checkpoint follows the last data.

        The check is skipped if the Update ended with an error.
        """
        if self.task is None and self._records_since_checkpoint:
            self.findings.add_violation(15, "no checkpoint follows the last data")
        if self.task is None and self.state is None:
            self.findings.add_warning(15, "an Update without any checkpoint")

    def check_table(self, name: Name, table: KnownTable) -> None:
        """Check the columns of a reported table by rules F10 and F11 of ``docs/fivetran.md``."""
        label = format_name(name)
        for column in table.repeated:
            self.findings.add_violation(10, f"column {column} is listed twice in {label}")
        for column in table.columns:
            if column.startswith(_SYSTEM_PREFIXES):
                self.findings.add_violation(11, f"{label} lists the system column {column}")
        if not name[1] or not all(table.columns):
            self.findings.add_violation(10, "a table or a column has no name")

    # Messages

    def _process_records(self, records: Any) -> None:
        """Check the records of one message of the Update, and apply them to the model."""
        if len(records) > _MAX_RECORDS:
            self.findings.add_violation(12, f"more than {_MAX_RECORDS} records in one message")
        for record in records:
            self._records_since_checkpoint += 1
            for rule, text in self._apply_record(record):
                self.findings.add_violation(rule, text)

    def _apply_record(self, record: Any) -> Iterator[tuple[int, str]]:
        """Apply a record to the model; yield number and description of each rule that it breaks."""
        name = (record.schema_name if record.HasField("schema_name") else None, record.table_name)
        table = self.tables.get(name)
        if table is None:
            yield 13, f"a record of {format_name(name)}, which no Schema or SchemaChange lists"
            return
        self.counts[name] += 1
        if name not in self.choice.columns:
            yield 19, f"a record of {format_name(name)}, which is not selected"
        if record.type == RecordType.TRUNCATE:
            yield from self._check_truncation(name, record)
        else:
            self._tables_with_rows.add(name)
            yield from self._check_data(name, table, record)
        self.model.apply(name, table.keys, record.type, record.data)

    def _check_truncation(self, name: Name, record: Any) -> Iterator[tuple[int, str]]:
        """Yield a number and a description for each rule that a truncate record breaks."""
        if record.data:
            yield 14, f"a truncate of {format_name(name)} has data"
        if name in self._tables_with_rows:
            self.findings.add_warning(
                14, f"a truncate of {format_name(name)} comes after its records"
            )

    def _check_data(self, name: Name, table: KnownTable, record: Any) -> Iterator[tuple[int, str]]:
        """Yield a number and a description for each rule that the values of a record break."""
        label, data = format_name(name), record.data
        selected = self.choice.columns.get(name, frozenset(table.columns))
        for column in table.keys:
            if column not in data or data[column].WhichOneof("inner") == "null":
                yield 14, f"key {column} of {label} is missing or null in a record"
        if record.type == RecordType.UPSERT and (lacking := selected - set(data)):
            self.findings.add_warning(
                14, f"an upsert of {label} lacks {', '.join(sorted(lacking))}"
            )
        for column, value in data.items():
            if column not in table.columns:
                yield 13, f"{label} has no column {column}, but a record does"
            elif column not in selected and column not in table.keys:
                yield 19, f"column {column} of {label} is sent and not selected"
            else:
                yield from self._check_value(name, table.columns[column], value)

    def _check_value(
        self, name: Name, column: KnownColumn, value: Any
    ) -> Iterator[tuple[int, str]]:
        """Yield the number and a description of the rule that a record's value breaks, if any.

        A valid value is stored as the column's example for the printed report instead.
        """
        if fault := find_fault(column, value):
            yield 13, f"a value of {format_name(name)}.{column.name} {fault}"
        elif self.examples.get((name, column.name), "null") == "null":
            self.examples[name, column.name] = format_value(column, value)

    def _process_schema_change(self, message: Any) -> None:
        """Check the tables in a SchemaChange message, and use them for later records."""
        changed = dict(iterate_tables(message))
        columns = dict(self.choice.columns)
        for name, table in changed.items():
            self.check_table(name, table)
            if self.choice.takes_new:
                previous = self.tables[name].columns if name in self.tables else {}
                new = frozenset(table.columns) - frozenset(previous)
                columns[name] = columns.get(name, frozenset()) | new
        self.tables |= changed
        self.choice = TableSelection(columns, self.choice.takes_new)

    def _process_checkpoint(self, state: str) -> None:
        """Check the state of a checkpoint message, and store it as the latest state."""
        try:
            document = json.loads(state)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            self.findings.add_violation(15, "the state of a checkpoint is not a JSON object")
        now = time.monotonic()
        if now - self._last_checkpoint_at > _MAX_CHECKPOINT_SECONDS:
            self.findings.add_violation(15, "more than an hour between two checkpoints")
        self._last_checkpoint_at = now
        self._records_since_checkpoint = 0
        self.state = state
        self.checkpoints.add(state, self.model)

    def _process_task(self, text: str) -> None:
        """Check and store the error text of a Task message, which ends the Update."""
        check_text("a task", text, self.findings)
        self.task = text
