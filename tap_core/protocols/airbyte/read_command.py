"""Airbyte's command ``read``: sync a tap with a configured catalog and a state.

The tap has discovered all its streams before. The catalog selects streams and fields, and each
stream resumes from its state. Errors in the files are raised before the first request to the
source system. Source: the Airbyte protocol, section "Read".
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from tap_core.events import StreamId
from tap_core.exceptions import StreamMapConfigError
from tap_core.protocols.airbyte.catalog import (
    FULL_REFRESH,
    ConfiguredCatalog,
    apply_configured_catalog,
    stream_id,
)
from tap_core.protocols.airbyte.state import InputState, to_singer_state, to_state_document
from tap_core.protocols.airbyte.writer import AirbyteWriter
from tap_core.state.document import PER_STREAM_KEYS
from tap_core.sync.interfaces import SyncTap

__all__ = ["read"]


def read(
    tap: SyncTap,
    configured: ConfiguredCatalog,
    input_state: InputState,
    write: Callable[[bytes], None],
    report_error: Callable[[Exception, StreamId | None], None],
) -> None:
    """Run Airbyte's command ``read``: sync a tap, and write its data as Airbyte messages.

    Args:
        tap: The tap, before a catalog or a state was applied.
        configured: Configured catalog of the sync.
        input_state: State from which the streams resume.
        write: Called with complete lines of JSON.
        report_error: Called with each error, and with the stream that failed. None is passed as the
            stream if the error may concern one of its child streams instead.

    Raises:
        CatalogFileError: A stream does not support the configured cursor field.
        StreamMapConfigError: A stream map renames a stream to a name that is not in the catalog.
    """
    sync_modes = {stream.id: stream.sync_mode for stream in configured.streams}
    all_ids = {stream.name: stream_id(stream) for stream in tap.streams.values()}
    ids = {name: identifier for name, identifier in all_ids.items() if identifier in sync_modes}
    full_refresh = {name for name in ids if sync_modes[ids[name]] == FULL_REFRESH}
    catalog, warnings = apply_configured_catalog(configured, tap.streams)
    for sentence in warnings:
        tap.logger.warning(sentence)
    tap.use_catalog(catalog)
    tap.setup_mapper()
    _check_stream_maps(tap, ids)
    document, previous = to_state_document(input_state, tap.streams, full_refresh)
    _resume(tap, document)
    tap.document.input_state = to_singer_state(input_state, tap.streams)
    for name, state in previous.items():
        tap.streams[name].previously_sent_state = state
    writer = AirbyteWriter(write, ids, shared=tap.has_shared_state)
    tap.set_protocol_writer(writer)
    try:
        tap.sync_all()
    except BaseException:
        if not tap.run.is_hurried:
            writer.break_off()
            for name, error in tap.run.stream_errors.items():
                has_children = bool(tap.streams[name].descendent_streams)
                report_error(error, None if has_children else ids.get(name))
        tap.run.stream_errors.clear()
        raise


def _check_stream_maps(tap: SyncTap, names: Collection[str]) -> None:
    """Raise StreamMapConfigError if a stream map renames or copies one of the streams ``names``.

    The catalog does not contain the new name, so Airbyte would ignore the records.
    """
    if not tap.config.get("stream_maps"):
        return
    for name in names:
        others = {stream_map.stream_alias for stream_map in tap.streams[name].stream_maps} - {name}
        if others:
            raise StreamMapConfigError(
                f"The setting stream_maps sends stream '{name}' as {', '.join(sorted(others))},"
                " which is not in the catalog, so the platform would ignore it. Rename or copy"
                " streams in the destination."
            )


def _resume(tap: SyncTap, document: dict[str, Any]) -> None:
    """Load a Singer state document into the tap, so that its streams resume from it.

    Top-level keys other than ``bookmarks`` become the state that all streams share.
    """
    tap.load_state(document)
    for name, value in document.items():
        if name not in PER_STREAM_KEYS:
            tap.document.tap_state.setdefault(name, value)
