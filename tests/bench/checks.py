"""Checks of the output of benchmarked programs: a program with wrong output has no result.

The records of an output are compared with those of the generator, value by value. Extraction times
and the metadata columns of a program are not compared.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias

__all__ = [
    "WrongRowsError",
    "check_last_state",
    "check_setting",
    "check_stream_state",
    "compare_rows",
    "count_airbyte_bytes",
    "read_airbyte_records",
    "read_singer_records",
]

Records: TypeAlias = Iterable[Mapping[str, Any]]


class WrongRowsError(Exception):
    """An output is not as expected, so that the time of its program means nothing."""


def read_singer_records(path: Path, stream: str) -> Iterator[Mapping[str, Any]]:
    """Yield the records of a stream in a file of Singer messages."""
    for message in _read_messages(path):
        if message["type"] == "RECORD" and message["stream"] == stream:
            yield message["record"]


def read_airbyte_records(path: Path, stream: str) -> Iterator[Mapping[str, Any]]:
    """Yield the records of a stream in a file of Airbyte messages."""
    for message in _read_messages(path):
        if message["type"] == "RECORD" and message["record"]["stream"] == stream:
            yield message["record"]["data"]


def compare_rows(program: str, actual: Records, expected: Records) -> None:
    """Compare two sequences of records.

    Raises:
        WrongRowsError: They differ. The message shows the first difference.
    """
    for number, (row, expected_row) in enumerate(zip_longest(actual, expected)):
        if row != expected_row:
            message = f"{program}: record {number} is {row!r} instead of {expected_row!r}"
            raise WrongRowsError(message)


def check_last_state(program: str, path: Path, is_valid: Callable[[Any], bool]) -> None:
    """Check that the last message is a valid state.

    Raises:
        WrongRowsError: The last message is not a state, or the state is not valid.
    """
    last = None
    for last in _read_messages(path):  # noqa: B007 - only the last message is needed
        pass
    if last is None or last["type"] != "STATE" or not is_valid(last["value"]):
        message = f"{program}: the last message is {str(last)[:300]}"
        raise WrongRowsError(message)


def check_stream_state(
    program: str, path: Path, stream: str, is_valid: Callable[[Any], bool]
) -> None:
    """Check the last state of a stream in a file of Airbyte messages.

    Raises:
        WrongRowsError: There is no state of the stream, or it is not valid.
    """
    last = None
    for message in _read_messages(path):
        if message["type"] == "STATE":
            state = message["state"]["stream"]
            last = state if state["stream_descriptor"]["name"] == stream else last
    if last is None or not is_valid(last["stream_state"]):
        message = f"{program}: the last state of {stream} is {str(last)[:300]}"
        raise WrongRowsError(message)


def check_setting(program: str, path: Path, name: str) -> None:
    """Check that a file of Airbyte messages has one specification, with a setting of this name.

    Raises:
        WrongRowsError: There is no specification, or several, or the setting is missing.
    """
    specs = [message["spec"] for message in _read_messages(path) if message["type"] == "SPEC"]
    if [name in spec["connectionSpecification"]["properties"] for spec in specs] != [True]:
        message = f"{program}: the specification is {str(specs)[:300]}"
        raise WrongRowsError(message)


def count_airbyte_bytes(path: Path) -> Counter[str]:
    """Return the bytes of the messages of each type."""
    sizes: Counter[str] = Counter()
    with path.open("rb") as lines:
        for line in lines:
            sizes[json.loads(line)["type"]] += len(line)
    return sizes


def _read_messages(path: Path) -> Iterator[Any]:
    with path.open("rb") as lines:
        yield from map(json.loads, lines)
