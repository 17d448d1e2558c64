"""`Sink`: base class for writing the records of one stream.

Public members, signatures and overridable methods (hooks) are those of singer_sdk 0.54, so a
target migrates by changing an import. `tap_core.sinks.pipeline` decides once per sink which hooks
to call. A hook that is not overridden costs no time per record.
"""

from __future__ import annotations

import abc
import copy
import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, final

from tap_core import metrics
from tap_core.batch.encodings import BaseBatchFileEncoding, BatchConfig
from tap_core.batch.limits import FileLimits
from tap_core.compat.author_overrides import overridable_cached_property, overridable_property
from tap_core.exceptions import InvalidJSONSchema as InvalidJSONSchema
from tap_core.exceptions import InvalidRecord, MissingKeyPropertiesError
from tap_core.sinks.batch_files import BatchFileReader, get_batch_config
from tap_core.sinks.datetime_parsing import date_fields, parse_datetimes_lenient
from tap_core.sinks.message_conversion import make_record_message
from tap_core.sinks.sdc_metadata import (
    add_metadata,
    add_metadata_columns,
    remove_metadata,
    remove_metadata_columns,
)
from tap_core.sinks.validation import BaseJSONSchemaValidator as BaseJSONSchemaValidator
from tap_core.sinks.validation import JSONSchemaValidator as JSONSchemaValidator
from tap_core.types import JsonSchema, Record
from tap_core.typing.values import DatetimeErrorTreatmentEnum as DatetimeErrorTreatmentEnum

if TYPE_CHECKING:
    from tap_core.plugin_base import PluginBase

__all__ = [
    "BaseJSONSchemaValidator",
    "DatetimeErrorTreatmentEnum",
    "InvalidJSONSchema",
    "JSONSchemaValidator",
    "Sink",
]


class Sink(abc.ABC):
    """Base class of `BatchSink` and `RecordSink`; subclass one of these two for a target.

    A sink writes the records of one stream with one schema. When the schema changes, the target
    creates a new sink. The old sink writes its last records (it is drained) and is cleaned up.
    """

    logger: logging.Logger

    MAX_SIZE_DEFAULT = 10000
    """The default maximum number of records per batch."""

    MAX_BYTES: ClassVar[int | None] = None
    """The maximum size of a batch in bytes of JSON input; None for no limit."""

    validate_field_string_format = False
    """True if string formats (``date-time``, ``email``, …) are validated."""

    fail_on_record_validation_exception: bool = True
    """True if an invalid record ends the run; False if it is only logged."""

    stores_in_clean_up: ClassVar[bool | None] = None
    """True if records are stored durably only after `clean_up`.

    States are then written when all sinks are drained, instead of after each batch. None means
    True for sinks that override `clean_up`, and False for all others.
    """

    whole_batch_files: bool = False
    """True to write each batch file as one batch, regardless of its size.

    If False, records of files are batched like all others, so that memory use is bounded.
    """

    def __init__(
        self,
        target: PluginBase,
        stream_name: str,
        schema: JsonSchema,
        key_properties: Sequence[str] | None,
    ) -> None:
        """Create a sink for the records of a stream.

        Depending on the settings, the ``_sdc_`` metadata columns are added to ``schema`` or removed
        from it, in place.

        Raises:
            InvalidJSONSchema: The schema is not a valid JSON Schema.
        """
        self.logger = target.logger.getChild(stream_name)
        self.sync_started_at: int = target.initialized_at
        self._config = dict(target.config)
        self._pending_batch: dict[str, Any] | None = None
        self.stream_name = stream_name
        self.original_schema: JsonSchema = copy.deepcopy(schema)
        self.schema = schema
        if self.include_sdc_metadata_properties:
            self._add_sdc_metadata_to_schema()
        else:
            self._remove_sdc_metadata_from_schema()
        self.records_to_drain: Any = []
        self._context_draining: dict[str, Any] | None = None
        self.latest_state: dict[str, Any] | None = None
        self._draining_state: dict[str, Any] | None = None
        self.drained_state: dict[str, Any] | None = None
        self._key_properties: Sequence[str] = key_properties or []
        self._total_records_written = 0
        self._total_dupe_records_merged = 0
        self._total_records_read = 0
        self._batch_records_read = 0
        self._batch_bytes_read = 0
        self._batch_dupe_records_merged = 0
        self._batch_size_rows: int | None = target.config.get("batch_size_rows")
        self._warned_missing_fields: set[str] = set()
        self._validator: BaseJSONSchemaValidator | None = self.get_validator()
        self._record_counter = self.get_sink_record_counter()
        self._batch_timer = self.get_batch_processing_timer()

    # Settings

    @property
    def config(self) -> Mapping[str, Any]:
        """Config settings of the target, as a read-only mapping."""
        return MappingProxyType(self._config)

    @property
    def batch_config(self) -> BatchConfig | None:
        """Location and encoding of batch files, or None if the settings define no storage."""
        return get_batch_config(self.config)

    @property
    def batch_limits(self) -> FileLimits:
        """Limits on the batch files that the sink reads, such as their size."""
        return FileLimits.from_config(self.config)

    @overridable_property
    def include_sdc_metadata_properties(self) -> bool:
        """True if the ``_sdc_`` metadata columns are added to the records; False by default."""
        return bool(self.config.get("add_record_metadata", False))

    @overridable_property
    def process_activate_version_messages(self) -> bool:
        """True if the sink processes ACTIVATE_VERSION messages; True by default."""
        return bool(self.config.get("process_activate_version_messages", True))

    @overridable_property
    def datetime_error_treatment(self) -> DatetimeErrorTreatmentEnum:
        """Reaction to a date or time text that cannot be parsed; by default an error is raised."""
        return DatetimeErrorTreatmentEnum.ERROR

    @overridable_property
    def key_properties(self) -> Sequence[str]:
        """Names of the properties that identify a record.

        Override it to return the column names of the target.
        """
        return self._key_properties

    @overridable_cached_property
    def validate_schema(self) -> bool:
        """True if records are validated against the schema; True by default."""
        return bool(self.config.get("validate_records", True))

    def get_validator(self) -> BaseJSONSchemaValidator | None:
        """Return the validator of the records, or None if records are not validated."""
        if not self.validate_schema:
            return None
        return JSONSchemaValidator(self.schema, validate_formats=self.validate_field_string_format)

    # Size

    @overridable_property
    def current_size(self) -> int:
        """Number of records received since the last drain."""
        return self._batch_records_read

    @property
    def is_full(self) -> bool:
        """True if the current batch is full, so that the sink must be drained."""
        limit = self.MAX_BYTES
        if limit is not None and self._batch_bytes_read >= limit:
            return True
        return self.current_size >= self.max_size

    @overridable_property
    def batch_size_rows(self) -> int | None:
        """Setting ``batch_size_rows``: the number of records per batch; None if it is not set."""
        return self._batch_size_rows

    @overridable_property
    def max_size(self) -> int:
        """Maximum number of records per batch: `batch_size_rows`, or else `MAX_SIZE_DEFAULT`."""
        rows = self.batch_size_rows
        return self.MAX_SIZE_DEFAULT if rows is None else rows

    # Counting

    @property
    def record_counter_metric(self) -> metrics.Counter:
        """Counter of the processed records, which logs their number as a metric."""
        return self._record_counter

    @property
    def batch_processing_timer(self) -> metrics.Timer:
        """Timer that measures the writing of a batch, and logs the duration as a metric."""
        return self._batch_timer

    def get_sink_record_counter(self) -> metrics.Counter:
        """Return a new counter of processed records, which logs their number as a metric."""
        return metrics.record_counter(self.stream_name)

    def get_batch_processing_timer(self) -> metrics.Timer:
        """Return a new timer for the writing of a batch, which logs the duration as a metric."""
        tags: dict[str, Any] = {metrics.Tag.STREAM: self.stream_name}
        return metrics.Timer(metrics.Metric.BATCH_PROCESSING_TIME, tags)

    @final
    def tally_record_read(self, count: int = 1) -> None:
        """Add ``count`` to the number of received records; called by the SDK."""
        self._total_records_read += count
        self._batch_records_read += count

    @final
    def tally_record_written(self, count: int = 1) -> None:
        """Add ``count`` to the number of written records; called by the SDK after each write."""
        self._total_records_written += count

    @final
    def tally_duplicate_merged(self, count: int = 1) -> None:
        """Add ``count`` to the number of records that were merged into other records.

        A target's sink calls this method; merged records are not counted as written.
        """
        self._total_dupe_records_merged += count
        self._batch_dupe_records_merged += count

    # Steps before a record is processed

    def _get_context(self, record: Record) -> dict[str, Any]:  # noqa: ARG002  a hook
        return {}

    def _add_sdc_metadata_to_record(
        self, record: Record, message: dict[str, Any], context: dict[str, Any]
    ) -> None:
        add_metadata(record, message, context.get("batch_start_time"), self.sync_started_at)

    def _add_sdc_metadata_to_schema(self) -> None:
        add_metadata_columns(self.schema)

    def _remove_sdc_metadata_from_schema(self) -> None:
        remove_metadata_columns(self.schema)

    def _remove_sdc_metadata_from_record(self, record: Record) -> None:
        remove_metadata(record)

    def _validate_and_parse(self, record: Record) -> Record:
        """Validate a record, and replace its date and time texts by parsed values in place.

        Raises:
            InvalidRecord: The record is invalid and `fail_on_record_validation_exception` is true.
        """
        if self._validator is not None:
            try:
                self._validator.validate(record)
            except InvalidRecord as error:
                self._refuse(error)
        self._parse_timestamps_in_record(
            record=record, schema=self.schema, treatment=self.datetime_error_treatment
        )
        return record

    def _refuse(self, error: InvalidRecord) -> None:
        """Log the error of an invalid record, and raise it unless the sink skips invalid records.

        Raises:
            InvalidRecord: `fail_on_record_validation_exception` is true.
        """
        error.stream_name = self.stream_name
        self.logger.error("Record validation failed: %s", error.reason)
        if self.fail_on_record_validation_exception:
            raise error

    def _parse_timestamps_in_record(
        self, record: Record, schema: JsonSchema, treatment: DatetimeErrorTreatmentEnum
    ) -> None:
        self._warn_of_undeclared_fields(record, schema)
        parse_datetimes_lenient(record, date_fields(schema), treatment, self.logger)

    def _warn_of_undeclared_fields(self, record: Record, schema: JsonSchema) -> None:
        """Log a warning for each field that the schema does not declare, once per field name."""
        if schema.get("additionalProperties", False):
            return
        for name in record.keys() - schema["properties"].keys() - self._warned_missing_fields:
            if record[name] is not None:
                self.logger.warning("No schema for record field '%s'", name)
                self._warned_missing_fields.add(name)

    def _singer_validate_message(self, record: Record) -> None:
        """Raise MissingKeyPropertiesError if a record does not have all key properties.

        `tap_core.sinks.pipeline` calls it only for such records, unless a subclass overrides it.
        """
        if any(name not in record for name in self._key_properties):
            raise MissingKeyPropertiesError(
                "Record is missing one or more key_properties. Key Properties: "
                f"{self._key_properties}, Record Keys: {list(record)} [stream '{self.stream_name}']"
            )

    def _after_process_record(self, context: dict[str, Any]) -> None:  # noqa: ARG002  a hook
        # The context has all records of the batch: to log it for each of them takes hours.
        self.logger.debug("Processed record %d of the batch.", self._batch_records_read)

    # Methods that authors override

    def preprocess_record(self, record: Record, context: dict[str, Any]) -> Record:  # noqa: ARG002
        """Return the record to process; override it to change records before they are written."""
        return record

    @abc.abstractmethod
    def process_record(self, record: Record, context: dict[str, Any]) -> None:
        """Write a record, or add it to the batch in ``context`` to write it later."""

    @abc.abstractmethod
    def process_batch(self, context: dict[str, Any]) -> None:
        """Write the records of the batch in ``context``.

        The records must be stored durably when this method returns, because the target then writes
        the state.
        """
        raise NotImplementedError("No handling exists for process_batch().")

    def start_drain(self) -> dict[str, Any]:
        """Close the current batch, so that a new one can begin.

        Return the context of the closed batch.
        """
        self._context_draining = self._pending_batch or {}
        self._pending_batch = None
        return self._context_draining

    def mark_drained(self) -> None:
        """Add the number of records in the written batch to the totals, and reset the counters.

        The SDK calls this method after each drain, that is, after each written batch.
        """
        self.drained_state = self._draining_state
        self._draining_state = None
        self._context_draining = None
        if self._batch_records_read:
            self.tally_record_written(self._batch_records_read - self._batch_dupe_records_merged)
        self._batch_records_read = 0
        self._batch_bytes_read = 0
        self._batch_dupe_records_merged = 0

    def activate_version(self, new_version: int) -> None:  # noqa: ARG002  a hook
        """Delete or deactivate the rows of table versions older than ``new_version``.

        All earlier records are written before this call. Override it to support ACTIVATE_VERSION
        messages; the default ignores them with a warning.
        """
        self.logger.warning(
            "ACTIVATE_VERSION message received but not implemented by this target. Ignoring."
        )

    def setup(self) -> None:
        """Prepare the sink, for example create its table. The SDK calls this once per sink."""
        self.logger.debug("Setting up %s", self.stream_name)

    def clean_up(self) -> None:
        """Release the resources of the sink; called once after the last drain."""
        self.logger.debug("Cleaning up %s", self.stream_name)
        self.record_counter_metric.exit()

    def process_batch_files(self, encoding: BaseBatchFileEncoding, files: Sequence[str]) -> None:
        """Read the batch files at the URLs ``files``, and write each file as one batch.

        This method is called only if a sink overrides it or sets `whole_batch_files`. Otherwise the
        records of the files are processed like those of RECORD messages.

        Raises:
            BatchFileError: A file cannot be read.
            NotImplementedError: The format of a file is not supported.
        """
        reader = BatchFileReader(
            self.stream_name, self.schema, self.batch_config, self.batch_limits
        )
        for path in files:
            context: dict[str, Any] = {"records": []}
            for record in reader.records(path, encoding):
                context["records"].append(self._prepare_file_record(record, context))
            self.record_counter_metric.increment(len(context["records"]))
            self.process_batch(context)

    def _prepare_file_record(self, record: Record, context: dict[str, Any]) -> Record:
        """Validate, parse and preprocess a record of a batch file, so that it can be written.

        ``context`` is the context of the batch, the dict that is passed to the sink's methods.
        """
        if self.include_sdc_metadata_properties:
            message = make_record_message(self.stream_name, record, None, None)
            self._add_sdc_metadata_to_record(record, message, context)
        else:
            self._remove_sdc_metadata_from_record(record)
        prepared = self.preprocess_record(self._validate_and_parse(record), context)
        self._singer_validate_message(prepared)
        return prepared
