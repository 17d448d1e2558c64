"""A typical tap, which `test_authors_tap.py` checks with mypy in strict mode.

It overrides what authors override most and uses what they use, with the types that the public
names promise. `reveal_type` lines are compared with what the test expects.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_core.types import Context, Record


class Accounts(Stream):
    """A parent with plain records."""

    name = "accounts"
    primary_keys = ("id",)
    replication_key = "updated_at"
    is_sorted = True
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType, required=True),
        th.Property("updated_at", th.DateTimeType, required=True),
        th.Property("tags", th.ArrayType(th.StringType)),
        th.Property("address", th.ObjectType(th.Property("city", th.StringType))),
    ).to_dict()

    def get_records(self, context: Context | None) -> Iterable[Record]:
        start: datetime | None = self.get_starting_timestamp(context)
        bookmark: Any = self.get_starting_replication_key_value(context)
        self.logger.info("from %s, %s", start, bookmark)
        yield {"id": 1, "updated_at": "2024-01-01T00:00:00Z"}

    def post_process(self, row: Record, context: Context | None = None) -> Record | None:
        return row if row["id"] else None

    def get_child_context(self, record: Record, context: Context | None) -> Context | None:
        return {"account": record["id"]}


class Orders(Stream):
    """A child stream with state partitioning keys."""

    name = "orders"
    parent_stream_type = Accounts
    state_partitioning_keys = ("account",)
    schema = th.PropertiesList(th.Property("id", th.IntegerType)).to_dict()

    def get_records(self, context: Context | None) -> Iterable[Record]:
        if context is not None:
            yield {"id": context["account"]}


class TapAccounts(Tap):
    """A tap with both streams."""

    name = "tap-accounts"
    config_jsonschema = th.PropertiesList(
        th.Property("token", th.StringType, required=True, secret=True),
    ).to_dict()

    def discover_streams(self) -> list[Stream]:
        return [Accounts(self), Orders(self)]


def use(tap: TapAccounts) -> None:
    reveal_type(tap.config)  # noqa: F821
    reveal_type(tap.streams)  # noqa: F821
    reveal_type(tap.streams["accounts"].replication_key)  # noqa: F821
    reveal_type(tap.streams["accounts"].schema)  # noqa: F821
    reveal_type(th.StringType().to_dict())  # noqa: F821


if __name__ == "__main__":
    TapAccounts.cli()
