"""A source written on airbyte-cdk: a full-refresh stream and an incremental one.

The interpreter of a peer that has airbyte-cdk runs it. The records follow from the settings alone.
"""

# mypy: ignore-errors

from __future__ import annotations

import sys

from airbyte_cdk.entrypoint import launch
from airbyte_cdk.models import ConnectorSpecification
from airbyte_cdk.sources import AbstractSource
from airbyte_cdk.sources.streams import CheckpointMixin, Stream

TEXT = {"type": ["null", "string"]}


class Teams(Stream):
    """A full-refresh stream."""

    name = "teams"
    primary_key = "code"

    def get_json_schema(self):
        properties = {"code": {"type": "string"}, "colour": TEXT}
        return {"type": "object", "properties": properties}

    def read_records(self, *args, **kwargs):
        yield {"code": "a", "colour": "red"}
        yield {"code": "b", "colour": None}


class Players(Stream, CheckpointMixin):
    """An incremental stream of `count` rows, with a composite key and mixed types."""

    name = "players"
    primary_key = ["team", "number"]
    cursor_field = "joined_at"
    state_checkpoint_interval = 2
    is_resumable = True

    def __init__(self, count):
        super().__init__()
        self.count = count
        self._state = {}

    @property
    def state(self):
        return self._state

    @state.setter
    def state(self, value):
        self._state = value

    def get_json_schema(self):
        return {
            "type": "object",
            "additionalProperties": True,
            "properties": {
                "team": TEXT,
                "number": {"type": ["null", "integer"]},
                "joined_at": {
                    "type": ["null", "string"],
                    "format": "date-time",
                    "airbyte_type": "timestamp_with_timezone",
                },
                "born": {"type": ["null", "string"], "format": "date"},
                "height": {"type": ["null", "number"]},
                "goals": {"type": ["null", "number"], "airbyte_type": "integer"},
                "nicknames": {"type": ["null", "array"], "items": TEXT},
                "address": {"type": ["null", "object"], "properties": {"city": TEXT}},
            },
        }

    def read_records(self, *args, **kwargs):
        since = self._state.get("joined_at", "")
        for number in range(1, self.count + 1):
            joined_at = f"2024-01-{number:02}T10:00:00Z"
            if joined_at <= since:
                continue
            yield {
                "team": "ab"[number % 2],
                "number": number,
                "joined_at": joined_at,
                "born": f"2000-01-{number:02}",
                "height": 180 + number / 4,
                "goals": number * 10**10,
                "nicknames": ["x", None],
                "address": {"city": "Bern"},
                "surprise": "not in the schema",
            }
            self._state = {"joined_at": joined_at}


class Source(AbstractSource):
    """A source of two teams and their players."""

    def spec(self, *args, **kwargs):
        return ConnectorSpecification(
            connectionSpecification={
                "type": "object",
                "properties": {"count": {"type": "integer"}},
                "required": ["count"],
            }
        )

    def check_connection(self, logger, config):
        return True, None

    def streams(self, config):
        return [Teams(), Players(config["count"])]


if __name__ == "__main__":
    launch(Source(), sys.argv[1:])
