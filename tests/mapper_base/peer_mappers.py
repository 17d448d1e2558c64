"""Inline mappers written for singer_sdk; run on either SDK.

Imports singer_sdk, which is the real one in its own interpreter and
tap_core under `tap-core run`.
"""

# mypy: ignore-errors

from __future__ import annotations

import sys

import singer_sdk.singerlib as singer
from singer_sdk import typing as th
from singer_sdk.mapper import PluginMapper, RemoveRecordTransform
from singer_sdk.mapper_base import InlineMapper


class Identity(InlineMapper):
    """Passes every message on."""

    name = "mapper-identity"

    def map_schema_message(self, message_dict):
        yield singer.SchemaMessage(
            stream=message_dict["stream"],
            schema=message_dict["schema"],
            key_properties=message_dict.get("key_properties", []),
            bookmark_properties=message_dict.get("bookmark_properties"),
        )

    def map_record_message(self, message_dict):
        yield singer.RecordMessage(
            stream=message_dict["stream"],
            record=message_dict["record"],
            version=message_dict.get("version"),
        )

    def map_state_message(self, message_dict):
        yield singer.StateMessage(value=message_dict["value"])

    def map_activate_version_message(self, message_dict):
        yield singer.ActivateVersionMessage(
            stream=message_dict["stream"], version=message_dict["version"]
        )


class MapTransformer(InlineMapper):
    """Applies the `stream_maps` of its settings between any tap and any target."""

    name = "meltano-map-transformer"
    config_jsonschema = th.PropertiesList(
        th.Property(
            "stream_maps",
            th.ObjectType(
                additional_properties=th.CustomType({"type": ["object", "string", "null"]})
            ),
            required=True,
            description="What becomes of each stream.",
        ),
        th.Property("stream_map_config", th.ObjectType(additional_properties=True)),
    ).to_dict()

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.mapper = PluginMapper(plugin_config=dict(self.config), logger=self.logger)

    def map_schema_message(self, message_dict):
        self._assert_line_requires(message_dict, requires={"stream", "schema"})
        stream = message_dict["stream"]
        self.mapper.register_raw_stream_schema(
            stream, message_dict["schema"], message_dict.get("key_properties", [])
        )
        for stream_map in self.mapper.stream_maps[stream]:
            if not isinstance(stream_map, RemoveRecordTransform):
                yield singer.SchemaMessage(
                    stream_map.stream_alias,
                    stream_map.transformed_schema,
                    stream_map.transformed_key_properties,
                    message_dict.get("bookmark_properties", []),
                )

    def map_record_message(self, message_dict):
        self._assert_line_requires(message_dict, requires={"stream", "record"})
        for stream_map in self.mapper.stream_maps[message_dict["stream"]]:
            mapped = stream_map.transform(message_dict["record"])
            if mapped is not None:
                yield singer.RecordMessage(
                    stream=stream_map.stream_alias,
                    record=mapped,
                    version=message_dict.get("version"),
                )

    def map_state_message(self, message_dict):
        return [singer.StateMessage(value=message_dict["value"])]

    def map_activate_version_message(self, message_dict):
        for stream_map in self.mapper.stream_maps[message_dict["stream"]]:
            if not isinstance(stream_map, RemoveRecordTransform):
                yield singer.ActivateVersionMessage(
                    stream=stream_map.stream_alias, version=message_dict["version"]
                )


if __name__ == "__main__":
    kind = {each.name: each for each in (Identity, MapTransformer)}[sys.argv.pop(1)]
    kind.cli()
