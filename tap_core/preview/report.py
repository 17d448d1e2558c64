"""Report of `tap-x test-stream` and `tap-manifest try`: requests, first records, schema.

A request is printed as soon as its response arrives, so that the requests before a failure are
shown too. The report shows values of records, but secret settings in them are redacted.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tap_core.http.fail_fast import fail_fast
from tap_core.preview.records import find_stream, read_first_records
from tap_core.preview.schema_comparison import compare_schema
from tap_core.preview.tables import print_table
from tap_core.singerlib.json import serialize_json

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncTap

__all__ = ["preview_stream"]

_RECORDS_PER_TABLE: Final = 5


def preview_stream(make_tap: Callable[[], SyncTap], name: str, limit: int) -> None:
    """Print the HTTP requests and the first records of a stream, and check its schema.

    Args:
        make_tap: Function that creates the tap. Requests during its creation, for example by
            discovery, are printed too.
        name: Name of the stream.
        limit: Maximum number of records to read and print.

    Raises:
        ConfigurationError: The settings are invalid, or the tap has no such stream.
        Exception: An error of the tap's code or of the source.
    """
    from tap_core.http.request_listener import listen_to_requests  # imports requests

    with listen_to_requests(_print_request), fail_fast():
        tap = make_tap()
        tap.metrics_logger.setLevel(logging.WARNING)  # its lines would hide the requests
        stream = find_stream(tap, name)
        records = read_first_records(stream, limit)
    count = f"{len(records)} record{'' if len(records) == 1 else 's'}"
    remark = "" if len(records) == limit else ", which has no more"
    _print(f"\n{count} of stream '{name}'{remark}")
    if records:
        _print_records(records)
        _print_schema(records, stream.schema)


def _print_request(method: str, url: str, status: int | None) -> None:
    _print(f"{method} {url}: {status or 'no response'}")


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _print_records(records: Sequence[Mapping[str, Any]]) -> None:
    """Print a table with one row per property and one column per record."""
    names = list(dict.fromkeys(name for record in records for name in record))
    for start in range(0, len(records), _RECORDS_PER_TABLE):
        records_of_table = records[start : start + _RECORDS_PER_TABLE]
        head = ["property", *(f"record {start + n}" for n in range(1, len(records_of_table) + 1))]
        print_table(
            head,
            [[name, *(_format(record, name) for record in records_of_table)] for name in names],
        )
        _print("")


def _format(record: Mapping[str, Any], name: str) -> str:
    """Return a property of a record as text for a table: a string unchanged, other values as JSON.

    A missing property becomes an empty text.
    """
    if name not in record:
        return ""
    value = record[name]
    return value if isinstance(value, str) else serialize_json(value)


def _print_schema(records: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> None:
    """Print a table that compares the types of each property in the records and the schema."""
    properties = compare_schema(records, schema)
    rows = [
        [prop.path, ", ".join(prop.found), ", ".join(prop.declared or ()), prop.problem]
        for prop in properties
    ]
    print_table(["property", "found", "declared", "difference"], rows)
    count = sum(bool(prop.problem) for prop in properties)
    plural = "" if count == 1 else "s"
    _print(f"\n{count or 'No'} difference{plural} between these records and the schema.")
