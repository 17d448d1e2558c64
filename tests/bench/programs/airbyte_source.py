"""A source of the generated records with airbyte-cdk."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

import generator
from airbyte_cdk.entrypoint import launch
from airbyte_cdk.models import ConnectorSpecification
from airbyte_cdk.sources import AbstractSource
from airbyte_cdk.sources.streams import CheckpointMixin, Stream


class Narrow(Stream, CheckpointMixin):
    name = "narrow"
    primary_key = "id"
    cursor_field = "updated_at"
    state_checkpoint_interval = 10_000
    is_resumable = True

    def __init__(self, records: int) -> None:
        super().__init__()
        self._records = records
        self._state: MutableMapping[str, Any] = {}

    @property
    def state(self) -> MutableMapping[str, Any]:
        return self._state

    @state.setter
    def state(self, value: MutableMapping[str, Any]) -> None:
        self._state = value

    def get_json_schema(self) -> Mapping[str, Any]:
        return generator.NARROW_SCHEMA

    def read_records(self, *args: Any, **kwargs: Any) -> Iterable[Mapping[str, Any]]:
        for record in generator.narrow(self._records):
            yield record
            self._state = {"updated_at": record["updated_at"]}


class Source(AbstractSource):
    def spec(self, *args: Any, **kwargs: Any) -> ConnectorSpecification:
        properties = {"records": {"type": "integer"}}
        return ConnectorSpecification(
            connectionSpecification={"type": "object", "properties": properties}
        )

    def check_connection(self, logger: Any, config: Mapping[str, Any]) -> tuple[bool, Any]:
        return True, None

    def streams(self, config: Mapping[str, Any]) -> list[Stream]:
        return [Narrow(config["records"])]


if __name__ == "__main__":
    launch(Source(), sys.argv[1:])
