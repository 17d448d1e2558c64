"""Test of a Fivetran connector: form, connection tests, schema, and Updates (syncs).

Updates are run in full, from earlier states, after an interruption, and for selected tables. Each
step prints its result and records broken rules in a `Findings` object. If the next steps would be
meaningless, the test stops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

from fivetran_tester.client import Client, RefusedError
from fivetran_tester.common_checks import (
    StoppedError,
    call_rpc,
    check_form,
    check_refusal,
    run_connection_tests,
    stop_if_refused,
)
from fivetran_tester.configuration import collect_secrets, to_text_map
from fivetran_tester.findings import Findings
from fivetran_tester.known_tables import (
    KnownTable,
    Name,
    TableSelection,
    build_selection,
    format_name,
    iterate_tables,
    select_all,
)
from fivetran_tester.report import form_lines, format_count, format_reading
from fivetran_tester.row_model import CheckpointSample, Model
from fivetran_tester.server_pool import Servers
from fivetran_tester.server_process import ServerProcess
from fivetran_tester.update_reader import UpdateReader
from tap_core.protocols.fivetran import proto_messages

__all__ = ["FIRST_STATE", "ConnectorTester"]

FIRST_STATE: Final = "{}"
"""State of a first sync."""


class ConnectorTester:
    """Tester that calls a Fivetran connector's rpcs as Fivetran does and checks the responses.

    Args:
        servers: Starts the connector's servers.
        settings: Settings of the connector.
        say: Function that prints a line.
        state: State with which the first Update (a sync) starts, as JSON text.
        resumes: Number of earlier checkpoints from which an Update is resumed.
    """

    def __init__(
        self,
        servers: Servers,
        settings: Mapping[str, Any],
        say: Callable[[str], None],
        state: str = FIRST_STATE,
        resumes: int = 2,
    ) -> None:
        self.servers = servers
        self.findings: Findings = servers.findings
        self.settings = settings
        self.say = say
        self.state = state
        self.resumes = resumes
        self.configuration: dict[str, str] = {}
        self.tables: dict[Name, KnownTable] = {}
        self.can_select = True

    def run(self) -> None:
        """Run all tests of the connector, print their results and record the broken rules.

        Raises:
            NotStartedError: The connector cannot be started.
            StoppedError: A test failed such that the remaining tests would be meaningless.
        """
        with self.servers.open() as server:
            form = self._check_configuration_form(server.client)
            passes = run_connection_tests(
                server.client, self.findings, form, self.configuration, self.say
            )
            self._call_without_settings(server.client)
            if not passes:
                raise StoppedError(
                    "A connection test fails, so nothing can be read with these settings."
                )
            self._check_schema(server.client)
            full_update = self._run_full_update(server.client)
            self._run_update_from_last_state(server.client, full_update)
        self._run_resumed_updates(full_update)
        self._run_interrupted_update(full_update)
        if self.can_select:
            self._run_selected_updates(full_update)

    # Form, tests, schema

    def _check_configuration_form(self, client: Client) -> Any:
        """Request and check the configuration form; convert the settings to the form's fields.

        Return the form.
        """
        request = proto_messages.ConfigurationFormRequest()
        form = call_rpc(client, self.findings, "ConfigurationForm", request)
        for line in form_lines(form):
            self.say(line)
        check_form(form, self.findings)
        self.configuration = to_text_map(self.settings, form)
        self.servers.secrets[:] = collect_secrets(self.configuration, form)
        self.can_select = form.table_selection_supported or form.schema_selection_supported
        return form

    def _call_without_settings(self, client: Client) -> None:
        """Call the Schema rpc without settings. If the call fails, check its error status."""
        try:
            client.call("Schema", proto_messages.SchemaRequest())
        except RefusedError as refusal:
            check_refusal(refusal, self.findings)

    def _check_schema(self, client: Client) -> None:
        """Call the rpc Schema twice, check the reported tables, and keep them for later steps."""
        request = proto_messages.SchemaRequest(configuration=self.configuration)
        first, second = (call_rpc(client, self.findings, "Schema", request) for _ in range(2))
        listed = list(iterate_tables(first))
        if listed != list(iterate_tables(second)):
            self.findings.add_violation(10, "two calls of Schema have different responses")
        names = [name for name, _ in listed]
        for name in {name for name in names if names.count(name) > 1}:
            self.findings.add_violation(10, f"Schema lists {format_name(name)} twice")
        self.tables = dict(listed)
        if not self.tables:
            self.findings.add_violation(10, "Schema lists no table")
            raise StoppedError("Without a table, nothing can be read.")
        self.can_select = self.can_select and not first.selection_not_supported
        reader = self._make_reader(select_all(self.tables))
        for name, table in self.tables.items():
            reader.check_table(name, table)
        self.say(f"Schema: {format_count(len(self.tables), 'table')}")

    # Update, and Update again

    def _run_full_update(self, client: Client) -> UpdateReader:
        """Run the first Update (a sync) with all tables selected; return its reader."""
        checkpoints = CheckpointSample(self.resumes)
        full_update = self._make_reader(select_all(self.tables), checkpoints=checkpoints)
        self._read_update(client, self.state, full_update)
        self.say("Update with all tables selected")
        for line in format_reading(full_update):
            self.say(line)
        return full_update

    def _run_update_from_last_state(self, client: Client, full_update: UpdateReader) -> None:
        """Run an Update (a sync) from the last state; check that the rows stay the same."""
        reader = self._make_next_reader(full_update, full_update.model.copy())
        self._read_update(client, full_update.state or self.state, reader)
        self._compare(full_update, reader, "an Update from the last state")
        self._report_update("Update from the last state", reader)

    def _run_resumed_updates(self, full_update: UpdateReader) -> None:
        """Run Updates from earlier checkpoints of ``full_update``, each in a fresh process.

        Check that each of them leads to the same rows as ``full_update``.
        """
        for number, state, model in full_update.checkpoints.chosen():
            with self.servers.open() as server:
                reader = self._make_next_reader(full_update, model)
                self._read_update(server.client, state, reader)
                self._compare(
                    full_update, reader, "an Update that resumes from an earlier checkpoint"
                )
                self._report_update(f"Update from checkpoint {number}, in a fresh process", reader)

    def _run_interrupted_update(self, full_update: UpdateReader) -> None:
        """Cancel one Update, kill the server during the next one, and then complete an Update.

        Check that the rows are the same as after the uninterrupted ``full_update``.
        """
        half = max(1, sum(full_update.operations.values()) // 2)
        with self.servers.open() as server:
            self._read_partial_update(server.client, self._make_reader(full_update.choice), half)
            second = self._make_next_reader(full_update, Model())
            if isinstance(server, ServerProcess):
                self._read_partial_update(server.client, second, half)
                server.kill()
            else:
                self._read_update(server.client, self.state, second)
        if isinstance(server, ServerProcess):
            state = second.state or self.state
            with self.servers.open() as server:
                second = self._make_next_reader(full_update, second.model)
                self._read_update(server.client, state, second)
        self._compare(full_update, second, "an Update after one that was interrupted")
        self._report_update("Update after a cancelled and a killed Update", second)

    # Selection

    def _run_selected_updates(self, full_update: UpdateReader) -> None:
        """Run Updates (syncs) with tables and columns deselected, then with a table reselected."""
        choice = select_all(self.tables)
        first = next(iter(self.tables))
        left_out: Name | None = None
        if len(self.tables) > 1:
            left_out = max(self.tables, key=lambda name: full_update.counts[name])
            choice = choice.without(left_out)
            first = next(name for name in self.tables if name != left_out)
        column = next(iter(_get_non_keys(self.tables[first])), None)
        if column is not None:
            choice = choice.without(first, column)
        with self.servers.open() as server:
            partial_update = self._run_selected_update(server.client, choice, "with new columns")
            if left_out is not None:
                self._run_reselected_update(server.client, full_update, partial_update, left_out)
            some_columns = [*self.tables[first].keys, *_get_non_keys(self.tables[first])[:1]]
            only = TableSelection({first: frozenset(some_columns)}, takes_new=False)
            self._run_selected_update(server.client, only, "without new columns")

    def _run_selected_update(
        self, client: Client, choice: TableSelection, description: str
    ) -> UpdateReader:
        """Run an Update (a sync) for the tables and columns in ``choice``, and return its reader.

        ``description`` names the selection in the printed result.
        """
        partial_update = self._make_reader(choice)
        self._read_update(client, self.state, partial_update)
        if partial_update.state is None:
            self.findings.add_violation(19, "an Update of selected tables has no checkpoint")
        self._report_update(f"Update of selected columns, {description}", partial_update)
        return partial_update

    def _run_reselected_update(
        self, client: Client, full_update: UpdateReader, partial_update: UpdateReader, table: Name
    ) -> None:
        """Run an Update with all tables, and check that all rows of ``table`` are delivered.

        The preceding Update, which ``partial_update`` read, was run without ``table``.
        """
        reader = self._make_reader(select_all(self.tables), partial_update.model)
        self._read_update(client, partial_update.state or self.state, reader)
        for difference in full_update.model.only(table).differences(reader.model.only(table)):
            self.findings.add_violation(19, f"after it was selected again: {difference}")
        self._report_update("Update after a deselected table was selected again", reader)

    # Calls

    def _make_reader(
        self,
        choice: TableSelection,
        model: Model | None = None,
        checkpoints: CheckpointSample | None = None,
    ) -> UpdateReader:
        """Return a reader for the messages of an Update (a sync) of the tables in ``choice``.

        Args:
            choice: Selected tables and columns.
            model: Rows of the destination before the Update; by default no rows.
            checkpoints: Sample to which the Update's checkpoints are added.
        """
        return UpdateReader(self.findings, self.tables, choice, model, checkpoints)

    def _make_next_reader(self, full_update: UpdateReader, model: Model) -> UpdateReader:
        """Return a reader for another Update with the tables and selection of ``full_update``.

        ``model`` has the rows of the destination before that Update.
        """
        return UpdateReader(self.findings, full_update.tables, full_update.choice, model)

    def _build_request(self, state: str, reader: UpdateReader) -> Any:
        """Return a request for an Update from ``state`` with the table selection of ``reader``."""
        return proto_messages.UpdateRequest(
            configuration=self.configuration,
            selection=build_selection(reader.tables, reader.choice),
            state_json=state,
        )

    def _read_update(self, client: Client, state: str, reader: UpdateReader) -> None:
        """Call the Update rpc with ``state``, and read all its messages with ``reader``.

        Raises:
            StoppedError: The call failed, or the connector sent a task, which is its error message.
        """
        with stop_if_refused(self.findings):
            reader.read(client.stream("Update", self._build_request(state, reader)))
        reader.end()
        if reader.task is not None:
            raise StoppedError(f"Update ends with a task: {reader.task}")

    def _read_partial_update(self, client: Client, reader: UpdateReader, count: int) -> None:
        """Read the first ``count`` messages of an Update with ``reader``, then cancel the call."""
        with stop_if_refused(self.findings):
            stream = client.stream("Update", self._build_request(self.state, reader))
            reader.read(islice(iter(stream), count))
            stream.cancel()

    def _compare(self, full_update: UpdateReader, other: UpdateReader, subject: str) -> None:
        for difference in full_update.model.differences(other.model):
            self.findings.add_violation(16, f"{subject}: {difference}")

    def _report_update(self, title: str, reader: UpdateReader) -> None:
        self.say(f"{title}: {format_count(sum(reader.counts.values()), 'record')}")


def _get_non_keys(table: KnownTable) -> list[str]:
    """Return the names of a table's columns that are not in the primary key."""
    return [column.name for column in table.columns.values() if not column.is_key]
