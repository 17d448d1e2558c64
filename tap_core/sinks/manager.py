"""`SinkManager`: creates, drains and cleans up the sinks of a target and emits its states.

A state is emitted as soon as all earlier records of all sinks are drained, and never
before. A replaced sink is drained after `Sink.setup` of its successor and before the
successor gets a row, so a target that truncates its file in `Sink.setup` keeps all rows.
If one drain fails, drains that have started are completed.
"""

from __future__ import annotations

import abc
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final, final

from tap_core.exceptions import RecordsWithoutSchemaException
from tap_core.singerlib.json import dump_json
from tap_core.sinks.core import Sink
from tap_core.sinks.message_conversion import decode_state
from tap_core.sinks.pipeline import RecordPipeline, compile_pipeline
from tap_core.sinks.signal_handling import SignalHandler
from tap_core.sinks.state_watermark import StateWatermark
from tap_core.types import JsonSchema, Record

__all__ = ["SinkManager"]

_MAX_PARALLELISM: Final = 8


class SinkManager(SignalHandler, abc.ABC):
    """Base class of targets that manages sinks, drains and states."""

    _MAX_RECORD_AGE_IN_MINUTES: float = 5.0
    """The maximum time a record waits to be drained, even while no input arrives."""

    default_sink_class: type[Sink]
    """The sink class of streams, unless `get_sink_class` returns another."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._watermark: StateWatermark[Sink] = StateWatermark()
        self._newest_state: bytes | None = None
        self._sinks_active: dict[str, Sink] = {}
        self._sinks_to_clear: list[Sink] = []
        self._max_parallelism: int | None = None
        self._lanes: dict[Sink, RecordPipeline] = {}
        self._has_ended = False
        self._reset_max_record_age()

    # Sinks

    @property
    def max_parallelism(self) -> int:
        """The maximum number of sinks that are drained concurrently."""
        return _MAX_PARALLELISM if self._max_parallelism is None else self._max_parallelism

    @max_parallelism.setter
    def max_parallelism(self, new_value: int) -> None:
        self._max_parallelism = new_value

    def get_sink(
        self,
        stream_name: str,
        *,
        record: Record | None = None,  # noqa: ARG002  for authors who choose by it
        schema: JsonSchema | None = None,
        key_properties: Sequence[str] | None = None,
    ) -> Sink:
        """Return the sink of a stream.

        If a schema is passed, the sink is created if it does not exist or if the schema or the keys
        have changed. A replaced sink is drained after the new sink is set up, and cleaned up at the
        end of the run.

        Raises:
            KeyError: the sink does not exist and no schema was passed.
        """
        if schema is None:
            return self._sinks_active[stream_name]
        existing = self._sinks_active.get(stream_name)
        if existing is None:
            return self.add_sink(stream_name, schema, key_properties)
        same_keys = existing.key_properties == key_properties
        if existing.original_schema == schema and same_keys:
            return existing
        self.logger.info(
            "Schema or key properties for '%s' stream have changed. Initializing a new sink...",
            stream_name,
        )
        successor = self._made(stream_name, schema, key_properties)
        self._retire(existing)
        self._sinks_active[stream_name] = successor
        return successor

    def _retire(self, sink: Sink) -> None:
        """Drain a sink that gets no more records and schedule its clean-up."""
        self.drain_one(sink)
        self._release()
        self._lanes.pop(sink, None)
        self._sinks_to_clear.append(sink)

    def get_sink_class(self, stream_name: str) -> type[Sink]:
        """Return the sink class of a stream.

        Raises:
            ValueError: `default_sink_class` is not set.
        """
        found: type[Sink] | None = getattr(self, "default_sink_class", None)
        if found is None:
            raise ValueError(
                f"No sink class defined for '{stream_name}': set default_sink_class or override"
                " get_sink_class()."
            )
        return found

    def sink_exists(self, stream_name: str) -> bool:
        """Return True if a stream has a sink."""
        return stream_name in self._sinks_active

    @final
    def add_sink(
        self,
        stream_name: str,
        schema: JsonSchema,
        key_properties: Sequence[str] | None = None,
    ) -> Sink:
        """Create the sink of a stream and set it up."""
        sink = self._sinks_active[stream_name] = self._made(stream_name, schema, key_properties)
        return sink

    def _made(
        self, stream_name: str, schema: JsonSchema, key_properties: Sequence[str] | None
    ) -> Sink:
        sink_class = self.get_sink_class(stream_name=stream_name)
        sink = sink_class(
            target=self, stream_name=stream_name, schema=schema, key_properties=key_properties
        )
        try:
            sink.setup()
        except Exception:
            self.logger.error("Error initializing the sink of '%s'", stream_name)  # noqa: TRY400
            raise
        return sink

    def _assert_sink_exists(self, stream_name: str) -> None:
        if not self.sink_exists(stream_name):
            raise RecordsWithoutSchemaException(
                f"A record for stream '{stream_name}' was encountered before a corresponding"
                " schema. A tap must send a SCHEMA message first."
            )

    def _get_pipeline(self, sink: Sink) -> RecordPipeline:
        lane = self._lanes.get(sink)
        if lane is None:
            lane = self._lanes[sink] = compile_pipeline(sink)
        return lane

    # States

    def _keep_state(self, state: bytes) -> None:
        if state == self._newest_state:
            return
        self._newest_state = state
        if len(state) > len(b"false") or decode_state(state):  # ignore empty states
            self._watermark.arrived(state)
            self._release()

    @property
    def _latest_state(self) -> Any:
        return None if self._newest_state is None else decode_state(self._newest_state)

    def _release(self) -> None:
        """Emit the newest state whose records are all drained, if there is one."""
        if not self._watermark.is_waiting:
            return
        for sink in list(self._watermark.holders):
            if sink.current_size == 0:
                self._watermark.settled(sink)
        state = self._watermark.take()
        if state is None:
            return
        own = type(self)._write_state_message is not SinkManager._write_state_message  # noqa: SLF001
        if own:
            self._write_state_message(decode_state(state))
        else:
            _write_line(state)

    def _write_state_message(self, state: Any) -> None:
        """Write a state to standard output, on one line."""
        _write_line(dump_json(state, default=str).encode())

    # Drains

    def process_endofpipe(self) -> None:
        """Drain all sinks; called at the end of the input."""
        self.drain_all(is_endofpipe=True)

    @final
    def drain_all(self, *, is_endofpipe: bool = False) -> None:
        """Drain all sinks, and clean them up at the end of the input.

        If one drain fails, drains that have started are completed, and the covered state is emitted
        before the error is raised.
        """
        try:
            self._drain_all(self._sinks_to_clear, 1)
            self._drain_all(self._sinks_active.values(), self.max_parallelism)
            if is_endofpipe:
                self._clean_up()
        finally:
            self._release()
        self._reset_max_record_age()

    @final
    def drain_one(self, sink: Sink) -> None:
        """Drain a sink, unless it is empty or the target is stopping."""
        if sink.current_size == 0 or self._is_stopping:
            return
        context = sink.start_drain()
        with sink.batch_processing_timer:
            sink.process_batch(context)
        sink.mark_drained()
        self._watermark.settled(sink)

    def _drain_all(self, sink_list: Iterable[Sink], parallelism: int) -> None:
        sinks = [sink for sink in sink_list if sink.current_size]
        if parallelism == 1 or len(sinks) <= 1:
            for sink in sinks:
                self.drain_one(sink)
            return
        from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

        with ThreadPoolExecutor(min(parallelism, len(sinks))) as pool:
            drains = [pool.submit(self.drain_one, sink) for sink in sinks]
            done = wait(drains, return_when=FIRST_EXCEPTION).done
            pool.shutdown(wait=True, cancel_futures=True)
        for drain in done:
            drain.result()

    def _drain_full(self, sink: Sink) -> None:
        self.logger.info(
            "Target sink for '%s' is full. Current size is '%s'. Draining...",
            sink.stream_name,
            sink.current_size,
        )
        self.drain_one(sink)
        self._release()

    def _clean_up(self) -> None:
        self._has_ended = True
        for sink in [*self._sinks_to_clear, *self._sinks_active.values()]:
            sink.clean_up()
        self._sinks_to_clear = []

    @property
    def _max_record_age_in_minutes(self) -> float:
        return (time.monotonic() - self._last_full_drain_at) / 60

    def _reset_max_record_age(self) -> None:
        self._last_full_drain_at = time.monotonic()

    def _handle_max_record_age(self) -> None:
        """Drain all sinks if a record may have waited longer than the maximum age."""
        if not any(sink.current_size for sink in self._watermark.holders):
            self._reset_max_record_age()
        elif self._max_record_age_in_minutes > self._MAX_RECORD_AGE_IN_MINUTES:
            self.logger.info(
                "One or more records have exceeded the max age of %g minutes. Draining all sinks.",
                self._MAX_RECORD_AGE_IN_MINUTES,
            )
            self.drain_all()

    def _wind_up(self) -> None:
        """Clean up after a signal without starting another drain."""
        self.logger.info("Stopping on a signal: no further drain is started.")
        self._release()
        if not self._has_ended:
            self._clean_up()


def _write_line(line: bytes) -> None:
    """Write a line to the current `sys.stdout`, which tests and runners may have replaced."""
    below = getattr(sys.stdout, "buffer", None)
    if below is None:
        sys.stdout.write(f"{line.decode()}\n")
    else:
        sys.stdout.flush()
        below.write(line + b"\n")
    sys.stdout.flush()
