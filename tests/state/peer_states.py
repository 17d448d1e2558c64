"""Runs singer_sdk's state manager for `test_peer.py`, in the peer's interpreter.

Reads one question per line of standard input and writes one answer per line of standard output,
both as JSON.
"""

from __future__ import annotations

import datetime as dt  # noqa: F401  for `eval` below
import json
import logging
import sys
import uuid  # noqa: F401  the same
from decimal import Decimal  # noqa: F401  the same


def steps(manager, reset, requested_steps):
    """Run the steps with a state manager of either SDK; return their results."""
    return [_step(manager, reset, *step) for step in requested_steps]


def _step(manager, reset, name, context, *args):
    try:
        return _do(manager, reset, name, context, *args)
    except Exception as fault:
        if type(fault).__name__ not in {"InvalidStreamSortException", "ValueError"}:
            raise
        return type(fault).__name__


def _do(manager, reset, name, context, *args):
    return _OPERATIONS[name](manager, context, *args) if name in _OPERATIONS else reset()


def _start(manager, context, method, key, start_date):
    manager.write_starting_replication_value(context, method, key, {"start_date": start_date}, max)
    return manager.get_starting_replication_value(context, method)


def _signpost(manager, context, value):
    manager.write_replication_key_signpost(value, context=context)


def _record(manager, context, value):
    manager.increment_state({"k": value}, context=context, replication_key="k")


def _end_of_context(manager, context):
    if context == manager.get_state_partition_context(context):
        manager.finalize_state(manager.get_context_state(context))
    return manager.is_flushed


def _end_of_stream(manager, contexts):
    manager.finalize_progress_markers(partitions=contexts)
    return manager.get_state_partitions()


def _is_lost(manager, context):
    return manager.is_state_non_resumable(context)


_OPERATIONS = {
    "start": _start,
    "signpost": _signpost,
    "record": _record,
    "end of context": _end_of_context,
    "end of stream": _end_of_stream,
    "resumable?": _is_lost,
}


def answer(question):
    """Run the steps through singer_sdk's own manager, or encode an expression's value."""
    from singer_sdk.helpers._state import reset_state_progress_markers
    from singer_sdk.singerlib.json import serialize_json
    from singer_sdk.streams._state import StreamStateManager

    if "expression" in question:
        return serialize_json(eval(question["expression"]))  # noqa: S307  the test's own words
    state = question["state"]
    manager = StreamStateManager(stream_name="s", tap_state=state, **question["settings"])

    def reset():
        for stream in state.get("bookmarks", {}).values():
            for entry in (stream, *stream.get("partitions", [])):
                reset_state_progress_markers(entry)

    returned = steps(manager, reset, question["steps"])
    return {"returned": returned, "state": state, "text": serialize_json(state)}


if __name__ == "__main__":
    logging.disable()
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
