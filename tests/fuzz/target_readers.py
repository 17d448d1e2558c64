"""Singer lines into targets on the SDK: one that stores nothing, and one with SQLite."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tap_core import Target
from tap_core.exceptions import FatalSyncError
from tap_core.sinks import BatchSink
from tests.fuzz.readers import Read
from tests.sql_targets.small_target import SmallTarget

__all__ = ["make_mapped_target", "make_sdk_target", "make_sql_target"]

MAP_CONFIG = {
    "flattening_enabled": True,
    "flattening_max_depth": 3,
    "stream_maps": {"a": {"__filter__": "id != 2", "name": "str(name)[:3]", "id": "id"}},
}
"""The maps of stream ``a``; other streams are only flattened."""


class DiscardingSink(BatchSink):
    """A sink that discards batches after the SDK's record processing."""

    max_size = 7

    def process_batch(self, context: dict[str, Any]) -> None:
        """Check each record."""
        for record in context["records"]:
            assert isinstance(record, dict)


class DiscardingTarget(Target):
    """A target with the SDK's defaults."""

    name = "target-discarding"
    config_jsonschema = {"properties": {"add_record_metadata": {"type": "boolean"}}}
    default_sink_class = DiscardingSink


def make_sdk_target(_folder: Path) -> Read:
    """Return a reader that loads lines into a target of the SDK."""

    def read(data: bytes) -> None:
        target = DiscardingTarget(config={"add_record_metadata": True})
        target.listen(io.BytesIO(data))

    return read


def make_mapped_target(_folder: Path) -> Read:
    """Return a reader that maps and flattens lines for a target of the SDK."""
    return lambda data: DiscardingTarget(config=MAP_CONFIG).listen(io.BytesIO(data))


def make_sql_target(folder: Path) -> Read:
    """Return a reader that loads lines into SQLite.

    An error of the database counts as a typed error.
    """

    def read(data: bytes) -> None:
        database = folder / "rows.db"
        database.unlink(missing_ok=True)
        target = SmallTarget(config={"sqlalchemy_url": f"sqlite:///{database}"})
        try:
            target.listen(io.BytesIO(data))
        except sa.exc.SQLAlchemyError as error:
            raise FatalSyncError("the database refuses") from error
        finally:
            for sink in target._sinks_active.values():
                sink.connector._engine.dispose()

    return read
