"""The fuzzed readers: their corpus, and the errors that they may raise.

A reader is made once per process, in its own folder, and then called with one input after the
other. It returns, or raises a typed error; anything else is a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final, TypeAlias

__all__ = ["READERS", "Read", "Reader", "find_maker", "typed_errors"]

Read: TypeAlias = Callable[[bytes], None]


@dataclass(frozen=True)
class Reader:
    """A reader of input: the function that makes it, and the folder of its seeds."""

    place: str
    corpus: str


def find_maker(import_path: str) -> Callable[[Path], Read]:
    """Return the function that makes a reader; its module is imported only here."""
    module, _, name = import_path.partition(":")
    make: Callable[[Path], Read] = getattr(import_module(module), name)
    return make


READERS: Final[dict[str, Reader]] = {
    "sdk_target": Reader("tests.fuzz.target_readers:make_sdk_target", "singer_lines"),
    "mapped_target": Reader("tests.fuzz.target_readers:make_mapped_target", "singer_lines"),
    "sql_target": Reader("tests.fuzz.target_readers:make_sql_target", "singer_lines"),
    "spark_target": Reader("tests.fuzz.loader_readers:make_singer", "singer_lines"),
    "airbyte_destination": Reader("tests.fuzz.loader_readers:make_airbyte", "airbyte_messages"),
    "airbyte_source": Reader("tests.fuzz.tap_readers:make_airbyte_source", "airbyte_requests"),
    "states": Reader("tests.fuzz.tap_readers:make_states", "states"),
    "catalogs": Reader("tests.fuzz.tap_readers:make_catalogs", "catalogs"),
    "stream_maps": Reader("tests.fuzz.tap_readers:make_stream_maps", "stream_maps"),
    "manifests": Reader("tests.fuzz.manifest_readers:make_manifests", "manifests"),
    "fivetran_calls": Reader("tests.fuzz.call_readers:make_calls", "fivetran_calls"),
    "fivetran_files": Reader("tests.fuzz.file_readers:make_files", "fivetran_files"),
}


def typed_errors() -> tuple[type[BaseException], ...]:
    """Return the base classes of errors that a reader may raise."""
    from tap_core.exceptions import SingerError, SingerSDKError
    from target_spark.errors import TargetSparkError

    return (SingerError, SingerSDKError, TargetSparkError)
