"""Test of a Fivetran destination: form, connection tests, tables, batches, truncation and history.

Fivetran's protocol has no rpc that reads rows, so a destination is judged by its responses and by
DescribeTable, and users have to inspect the rows. No rpc removes tables, so they remain, in schemas
whose names start with ``fivetran_test_``. Batch files are written to a temporary folder.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

from fivetran_tester.batch_files import NULL, UNMODIFIED, BatchFileSet, Cell
from fivetran_tester.client import Client, RefusedError
from fivetran_tester.common_checks import (
    StoppedError,
    call_rpc,
    check_form,
    check_refusal,
    check_text,
    run_connection_tests,
)
from fivetran_tester.configuration import collect_secrets, to_text_map
from fivetran_tester.findings import Findings
from fivetran_tester.known_tables import KnownColumn, parse_column, to_message
from fivetran_tester.report import form_lines
from fivetran_tester.sample_tables import (
    DELETED,
    HISTORY,
    KEYLESS,
    MARKER,
    SYNCED,
    TYPES,
    Sample,
)
from fivetran_tester.server_pool import Servers
from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.enums import BatchFileFormat, Compression, DataType, Encryption

__all__ = ["DestinationTester"]

_FILE_FORMATS: Final = (
    (Compression.ZSTD, Encryption.AES, True),
    (Compression.ZSTD, Encryption.NONE, True),
    (Compression.OFF, Encryption.AES, True),
    (Compression.OFF, Encryption.NONE, True),
    (Compression.GZIP, Encryption.AES, False),
)
"""Compression and encryption of files, and True if destinations must support them."""

_CONCURRENT_TABLES: Final = 3


class DestinationTester:
    """Tester that calls a Fivetran destination's rpcs as Fivetran does and checks the responses.

    Args:
        servers: Starts the destination's servers.
        settings: Settings of the destination.
        say: Function that prints a line.
    """

    def __init__(
        self, servers: Servers, settings: Mapping[str, Any], say: Callable[[str], None]
    ) -> None:
        self.servers = servers
        self.findings: Findings = servers.findings
        self.settings = settings
        self.say = say
        self.configuration: dict[str, str] = {}
        self.schema = f"fivetran_test_{secrets.token_hex(4)}"

    def run(self) -> None:
        """Run all tests of the destination, print their results and record the broken rules.

        Raises:
            NotStartedError: The destination cannot be started.
            StoppedError: A test failed such that the remaining tests would be meaningless.
        """
        with self.servers.open() as server, tempfile.TemporaryDirectory() as folder:
            self.client: Client = server.client
            self.folder = Path(folder)
            form = self._check_form_and_capabilities()
            if not run_connection_tests(
                self.client, self.findings, form, self.configuration, self.say
            ):
                raise StoppedError(
                    "A connection test fails, so nothing can be written with these settings."
                )
            self._check_create_table()
            self._check_write_batch()
            self._check_unreadable_files()
            self._check_alter_table()
            self._check_truncate()
            self._check_history()
        self.say(
            f"This interface cannot read rows: inspect the tables of {self.schema}"
            " yourself. They are not removed."
        )

    # Form, tests, capabilities

    def _check_form_and_capabilities(self) -> Any:
        """Request and check the destination's configuration form and capabilities.

        Convert the settings to the fields of the form, and return the form.
        """
        request = proto_messages.ConfigurationFormRequest()
        form = call_rpc(self.client, self.findings, "ConfigurationForm", request)
        for line in form_lines(form):
            self.say(line)
        check_form(form, self.findings)
        self.configuration = to_text_map(self.settings, form)
        self.servers.secrets[:] = collect_secrets(self.configuration, form)
        request = proto_messages.CapabilitiesRequest()
        capabilities = call_rpc(self.client, self.findings, "Capabilities", request)
        if capabilities.batch_file_format != BatchFileFormat.CSV:
            self.findings.add_violation(30, "the destination does not take CSV")
        return form

    # Tables

    def _check_create_table(self) -> None:
        """Check the rpcs DescribeTable and CreateTable, including concurrent calls."""
        if not self._describe_table("types").not_found:
            self.findings.add_violation(31, "a missing table is not reported as not_found")
        self._expect_success(
            "CreateTable", 32, "a table", self._build_table_request("types", TYPES)
        )
        self._check_description(TYPES)
        self._expect_failure(
            "CreateTable", 32, "a table that exists", self._build_table_request("types", TYPES)
        )
        names = [f"side_{number}" for number in range(_CONCURRENT_TABLES)]
        other_schema = f"{self.schema}_side"
        requests = [self._build_table_request(name, KEYLESS, schema=other_schema) for name in names]
        with ThreadPoolExecutor(len(names)) as threads:
            faults = list(threads.map(partial(self._find_fault, "CreateTable"), requests))
        for fault in filter(None, faults):
            self.findings.add_violation(32, f"tables created concurrently in a new schema: {fault}")
        self._expect_success(
            "CreateTable", 32, "a table without keys", self._build_table_request("keyless", KEYLESS)
        )
        self.say(f"Tables are created in {self.schema}")

    def _check_description(self, sample: Sample, rule: int = 31) -> None:
        """Call DescribeTable for the table "types", and check that it has the columns of a sample.

        Args:
            sample: The expected columns.
            rule: Number of the rule in ``docs/fivetran.md`` that is broken if the columns differ.
        """
        response = self._describe_table("types")
        if response.WhichOneof("response") != "table":
            self.findings.add_violation(rule, "the table types exists but is not described")
            return
        columns = {column.name: parse_column(column) for column in response.table.columns}
        for column in sample.columns:
            if column.name not in columns:
                self.findings.add_violation(rule, f"column {column.name} of types is not described")
            elif columns[column.name] != column:
                was, now = _describe_column(column), _describe_column(columns[column.name])
                self.findings.add_violation(
                    rule, f"column {column.name} of types is {now} and was {was}"
                )
        for extra in columns.keys() - {column.name for column in sample.columns}:
            self.findings.add_violation(rule, f"types is described with an unknown column {extra}")

    # Batches

    def _check_write_batch(self) -> None:
        """Check the rpc WriteBatch with every compression, encryption and kind of change."""
        for compression, encryption, is_required in _FILE_FORMATS:
            files = BatchFileSet(self.folder, compression, encryption)
            kind = f"{compression.name}, {encryption.name}"
            request = self._build_batch_request(
                "types", TYPES, files, replace=self._write_replacements(files)
            )
            self._expect_success(
                "WriteBatch", 39, f"files that are {kind}", request, is_required=is_required
            )
        files = BatchFileSet(self.folder)
        request = self._build_batch_request(
            "types",
            TYPES,
            files,
            replace=self._write_replacements(files),
            update=[self._write_updates(files)],
            delete=[self._write_deletion(files, TYPES)],
        )
        self._expect_success("WriteBatch", 37, "replace, update and delete in one batch", request)
        self._expect_success("WriteBatch", 43, "the same batch once more", request)
        rows = [_get_cells(row, KEYLESS.names) for row in KEYLESS.rows]
        path = files.write("keyless.csv", KEYLESS.names, rows)
        deletion = self._write_deletion(files, KEYLESS)
        request = self._build_batch_request(
            "keyless", KEYLESS, files, replace=[path], delete=[deletion]
        )
        self._expect_success("WriteBatch", 37, "a table without keys", request)
        self._expect_success(
            "WriteBatch", 37, "no files", self._build_batch_request("types", TYPES, files)
        )
        self._check_description(TYPES)
        self.say("Batches are written")

    def _write_replacements(self, files: BatchFileSet) -> list[str]:
        """Write two batch files with rows to insert or replace, and return their paths.

        The second file has its columns in reverse order.
        """
        backwards = TYPES.names[::-1]
        first, *other_rows = TYPES.rows
        return [
            files.write("first.csv", TYPES.names, [_get_cells(first, TYPES.names)]),
            files.write(
                "second.csv", backwards, [_get_cells(row, backwards) for row in other_rows]
            ),
        ]

    def _write_updates(self, files: BatchFileSet) -> str:
        """Write a batch file that updates only system columns of two rows, and return its path.

        One of the two rows does not exist in the table.
        """
        unmodified: dict[str, Cell] = dict.fromkeys(TYPES.names, UNMODIFIED)
        changed = {DELETED: "true", SYNCED: "2024-01-09T00:00:00Z"}
        rows = [
            {**unmodified, **changed, "id": number, "region": "north"} for number in ("1", "99")
        ]
        cells = [_get_cells(row, TYPES.names) for row in rows]
        return files.write("update.csv", TYPES.names, cells)

    def _write_deletion(self, files: BatchFileSet, sample: Sample) -> str:
        """Write a batch file that deletes one row of ``sample``, and return its path.

        All columns other than keys are null in the file.
        """
        row = {name: sample.rows[1][name] for name in sample.keys}
        cells = _get_cells(row, sample.names)
        return files.write(f"delete-{len(files.keys)}.csv", sample.names, [cells])

    def _check_unreadable_files(self) -> None:
        """Check that WriteBatch reports unreadable batch files and keeps the table's columns."""
        files = BatchFileSet(self.folder)
        [path, _] = self._write_replacements(files)
        request = self._build_batch_request("types", TYPES, files, replace=[path])
        request.keys[path] = bytes(32)
        self._expect_failure("WriteBatch", 42, "a file and the key of another", request)
        content = Path(path).read_bytes()
        Path(path).write_bytes(content[: len(content) // 2])
        request = self._build_batch_request("types", TYPES, files, replace=[path])
        self._expect_failure("WriteBatch", 42, "half a file", request)
        Path(path).unlink()
        self._expect_failure("WriteBatch", 42, "a missing file", request)
        self._check_description(TYPES, 42)

    # Changes of tables

    def _check_alter_table(self) -> None:
        """Check the rpc AlterTable with added, changed and omitted columns and with other keys."""
        added = KnownColumn("one_more", DataType.STRING, is_key=False)
        wider = KnownColumn("a_int", DataType.LONG, is_key=False)
        sample = TYPES.with_columns(one_more=added, a_int=wider)
        self._check_alteration("a column is added, the type of another one is changed", sample)
        fewer = sample.with_columns(a_json=None, a_xml=None)
        self._expect_success("AlterTable", 33, "fewer columns", self._build_alteration(fewer))
        self._check_description(sample, 33)
        text = KnownColumn("id", DataType.STRING, is_key=True)
        self._check_alteration("another type of a key column", sample.with_columns(id=text))
        plain = KnownColumn("region", DataType.STRING, is_key=False)
        self._check_alteration("a shorter key", sample.with_columns(id=text, region=plain))
        self._check_alteration("a longer key", sample.with_columns(id=text))
        self.say("Tables are changed")

    def _check_alteration(self, change: str, sample: Sample) -> None:
        """Call AlterTable with the columns of ``sample``; check the result with DescribeTable.

        ``change`` describes the change in findings.
        """
        self._expect_success("AlterTable", 33, change, self._build_alteration(sample))
        self._check_description(sample, 33)

    def _build_alteration(self, sample: Sample) -> Any:
        """Return an AlterTableRequest that gives the table "types" the columns of ``sample``."""
        return self._build_table_request("types", sample, kind=proto_messages.AlterTableRequest)

    def _check_truncate(self) -> None:
        """Check the rpc Truncate for a missing table, as soft deletion, and for all rows."""
        self._expect_success("Truncate", 34, "a missing table", self._build_truncation("nowhere"))
        soft = self._build_truncation("types")
        soft.soft.deleted_column = DELETED
        self._expect_success("Truncate", 34, "softly", soft)
        self._expect_success("Truncate", 34, "a table", self._build_truncation("types"))

    def _build_truncation(self, name: str) -> Any:
        """Return a TruncateRequest that deletes the rows of a table that were synced before now."""
        request = proto_messages.TruncateRequest(
            configuration=self.configuration,
            schema_name=self.schema,
            table_name=name,
            synced_column=SYNCED,
        )
        request.utc_delete_before.seconds = int(time.time())
        request.utc_delete_before.nanos = 123_000_000
        return request

    # History, migration

    def _check_history(self) -> None:
        """Check the rpc WriteHistoryBatch, which writes each version of a row."""
        request = self._build_table_request("history", HISTORY)
        self._expect_success("CreateTable", 32, "a table that keeps its history", request)
        files = BatchFileSet(self.folder)
        rows = [_get_cells(row, HISTORY.names) for row in HISTORY.rows]
        names = ["id", "_fivetran_start"]
        starts = [_get_cells(row, names) for row in HISTORY.rows]
        batch = proto_messages.WriteHistoryBatchRequest(
            configuration=self.configuration,
            schema_name=self.schema,
            table=to_message("history", HISTORY.columns),
            earliest_start_files=[files.write("starts.csv", names, starts)],
            replace_files=[files.write("history.csv", HISTORY.names, rows)],
            keys=files.keys,
            file_params=files.params(),
        )
        self._expect_success("WriteHistoryBatch", 44, "rows with their history", batch)
        self._check_migrate()

    def _check_migrate(self) -> None:
        """Check that the rpc Migrate either succeeds or reports that it is not supported."""
        request = proto_messages.MigrateRequest(configuration=self.configuration)
        request.details.schema = self.schema
        request.details.table = "history"
        request.details.rename.rename_table.from_table = "history"
        request.details.rename.rename_table.to_table = "kept"
        if fault := self._find_fault("Migrate", request):
            self.findings.add_violation(44, f"Migrate neither succeeds nor is unsupported: {fault}")

    # Calls

    def _describe_table(self, name: str) -> Any:
        """Call the rpc DescribeTable for a table and return the response."""
        request = proto_messages.DescribeTableRequest(
            configuration=self.configuration, schema_name=self.schema, table_name=name
        )
        return call_rpc(self.client, self.findings, "DescribeTable", request)

    def _build_table_request(
        self, name: str, sample: Sample, schema: str = "", kind: Any = None
    ) -> Any:
        """Return a request for a table with the columns of ``sample``.

        Args:
            name: Name of the table.
            sample: Columns of the table.
            schema: Schema of the table, by default that of the test.
            kind: Class of the request, by default CreateTableRequest.
        """
        return (kind or proto_messages.CreateTableRequest)(
            configuration=self.configuration,
            schema_name=schema or self.schema,
            table=to_message(name, sample.columns),
        )

    def _build_batch_request(
        self,
        name: str,
        sample: Sample,
        files: BatchFileSet,
        *,
        replace: Iterable[str] = (),
        update: Iterable[str] = (),
        delete: Iterable[str] = (),
    ) -> Any:
        """Return a WriteBatchRequest for a table, with the paths and keys of its batch files.

        Args:
            name: Name of the table.
            sample: Columns of the table.
            files: Format and encryption keys of the files.
            replace: Paths of files with rows to insert or replace.
            update: Paths of files with updates of rows.
            delete: Paths of files with rows to delete.
        """
        return proto_messages.WriteBatchRequest(
            configuration=self.configuration,
            schema_name=self.schema,
            table=to_message(name, sample.columns),
            keys=files.keys,
            replace_files=replace,
            update_files=update,
            delete_files=delete,
            file_params=files.params(),
        )

    def _find_fault(self, rpc: str, request: Any) -> str | None:
        """Call an rpc; return the destination's reason if it fails, or None if it succeeds."""
        try:
            response = self.client.call(rpc, request)
        except RefusedError as refusal:
            check_refusal(refusal, self.findings)
            return refusal.text
        kind = response.WhichOneof("response")
        if kind in {"task", "warning"}:
            text: str = getattr(response, kind).message
            check_text(f"the {kind} of {rpc}", text, self.findings)
            if MARKER in text:
                self.findings.add_violation(3, f"the {kind} of {rpc} shows a value of a row")
                return "with a text that shows a row"
            return text
        return None if kind is not None and getattr(response, kind) else "the response is empty"

    def _expect_success(
        self, rpc: str, rule: int, subject: str, request: Any, *, is_required: bool = True
    ) -> None:
        """Call an rpc that should succeed, and record a finding if it fails.

        Args:
            rpc: Name of the rpc.
            rule: Number of the rule in ``docs/fivetran.md`` that a failure breaks.
            subject: Description of the request, for the finding.
            request: The request.
            is_required: True to record a broken rule, False to record a warning.
        """
        if fault := self._find_fault(rpc, request):
            record = self.findings.add_violation if is_required else self.findings.add_warning
            record(rule, f"{rpc} of {subject} fails: {fault}")

    def _expect_failure(self, rpc: str, rule: int, subject: str, request: Any) -> None:
        """Call an rpc with a request that must fail, and record a broken rule if it succeeds.

        ``rule`` is the rule's number in ``docs/fivetran.md``; ``subject`` describes the request.
        """
        if self._find_fault(rpc, request) is None:
            self.findings.add_violation(rule, f"{rpc} of {subject} succeeds")


def _get_cells(row: Mapping[str, Cell], names: Sequence[str]) -> list[Cell]:
    """Return the values of a row in the order of the columns ``names``, for a CSV file.

    A missing value is null.
    """
    return [row.get(name, NULL) for name in names]


def _describe_column(column: KnownColumn) -> str:
    return f"{column.type_name}{', a key' if column.is_key else ''}"
