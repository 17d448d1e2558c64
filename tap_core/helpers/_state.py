"""Compatibility module for plugins that import ``singer_sdk.helpers._state``.

It only re-exports names of `tap_core.exceptions`, `tap_core.state.bookmarks` and
`tap_core.typing.values`.
"""

# ruff: noqa: I001  one list is easier to read than one statement per name

from __future__ import annotations

from tap_core.exceptions import InvalidStreamSortException as InvalidStreamSortException
from tap_core.state.bookmarks import (
    PROGRESS_MARKERS as PROGRESS_MARKERS,
    PROGRESS_MARKER_NOTE as PROGRESS_MARKER_NOTE,
    SIGNPOST_MARKER as SIGNPOST_MARKER,
    STARTING_MARKER as STARTING_MARKER,
    finalize_state_progress_markers as finalize_state_progress_markers,
    get_starting_replication_value as get_starting_replication_value,
    get_state_if_exists as get_state_if_exists,
    get_state_partitions_list as get_state_partitions_list,
    get_writeable_state_dict as get_writeable_state_dict,
    increment_state as increment_state,
    is_state_non_resumable as is_state_non_resumable,
    log_sort_error as log_sort_error,
    reset_state_progress_markers as reset_state_progress_markers,
    write_replication_key_signpost as write_replication_key_signpost,
    write_starting_replication_value as write_starting_replication_value,
    write_stream_state as write_stream_state,
)
from tap_core.typing.values import to_json_compatible as to_json_compatible
