"""What was written, read back: nobody wins by doing less.

An output is compared with what the generator must have given, row by row and
value by value; times of extraction and the tool's own columns are the tool's.
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
    "airbyte_rows",
    "airbyte_sizes",
    "has_last_state",
    "has_setting",
    "has_stream_state",
    "same_rows",
    "singer_rows",
]

Records: TypeAlias = Iterable[Mapping[str, Any]]


class WrongRowsError(Exception):
    """An output is not what it must be: its time means nothing."""


def singer_rows(path: Path, stream: str) -> Iterator[Mapping[str, Any]]:
    """Yield the records of a stream of Singer's."""
    for message in _messages(path):
        if message["type"] == "RECORD" and message["stream"] == stream:
            yield message["record"]


def airbyte_rows(path: Path, stream: str) -> Iterator[Mapping[str, Any]]:
    """Yield the records of a stream of Airbyte's."""
    for message in _messages(path):
        if message["type"] == "RECORD" and message["record"]["stream"] == stream:
            yield message["record"]["data"]


def same_rows(who: str, found: Records, wanted: Records) -> None:
    """Compare two sequences of records.

    Raises:
        WrongRowsError: they differ; the first difference is shown.
    """
    for number, (one, other) in enumerate(zip_longest(found, wanted)):
        if one != other:
            message = f"{who}: record {number} is {one!r}, and must be {other!r}"
            raise WrongRowsError(message)


def has_last_state(who: str, path: Path, holds: Callable[[Any], bool]) -> None:
    """Check that the last message is a state that holds what it must.

    Raises:
        WrongRowsError: it is not.
    """
    last = None
    for last in _messages(path):  # noqa: B007 - the last one is wanted
        pass
    if last is None or last["type"] != "STATE" or not holds(last["value"]):
        message = f"{who}: the last message is {str(last)[:300]}"
        raise WrongRowsError(message)


def has_stream_state(who: str, path: Path, stream: str, holds: Callable[[Any], bool]) -> None:
    """Check that the last of Airbyte's states of a stream holds what it must.

    Raises:
        WrongRowsError: it does not, or there is none.
    """
    last = None
    for message in _messages(path):
        if message["type"] == "STATE":
            found = message["state"]["stream"]
            last = found if found["stream_descriptor"]["name"] == stream else last
    if last is None or not holds(last["stream_state"]):
        message = f"{who}: the last state of {stream} is {str(last)[:300]}"
        raise WrongRowsError(message)


def has_setting(who: str, path: Path, name: str) -> None:
    """Check that there is one specification and that it has a setting.

    Raises:
        WrongRowsError: it is not so.
    """
    found = [message["spec"] for message in _messages(path) if message["type"] == "SPEC"]
    if [name in one["connectionSpecification"]["properties"] for one in found] != [True]:
        message = f"{who}: the specification is {str(found)[:300]}"
        raise WrongRowsError(message)


def airbyte_sizes(path: Path) -> Counter[str]:
    """Return how many bytes the messages of each type take."""
    sizes: Counter[str] = Counter()
    with path.open("rb") as lines:
        for line in lines:
            sizes[json.loads(line)["type"]] += len(line)
    return sizes


def _messages(path: Path) -> Iterator[Any]:
    with path.open("rb") as lines:
        yield from map(json.loads, lines)
