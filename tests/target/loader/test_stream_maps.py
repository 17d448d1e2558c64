"""Stream maps and flattening before the load: only streams that they affect are decoded."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest

from tap_core.events import (
    ActivateVersion,
    BatchFiles,
    Checkpoint,
    Event,
    Rows,
    SchemaEvent,
    StreamId,
)
from tap_core.exceptions import (
    ConfigValidationError,
    MapExpressionError,
    StreamMapConfigError,
)
from tap_core.mapper import PluginMapper
from tap_core.protocols.singer.reader import SingerReader
from target_spark.errors import UnsupportedError
from target_spark.loader.stream_maps import StreamMapper
from target_spark.target import TargetSpark
from tests.target.warehouse import Warehouse, record, schema, state

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

PROPERTIES = {
    "id": {"type": "integer"},
    "price": {"type": ["number", "null"]},
    "email": {"type": ["string", "null"]},
    "place": {"type": "object", "properties": {"city": {"type": "string"}, "lot": {}}},
}
DESCRIBED = schema("a", PROPERTIES, "id")
FLAT = {"flattening_enabled": True, "flattening_max_depth": 1}


def raw(body: str, **fields: Any) -> bytes:
    suffix = "".join(f',"{key}":{json.dumps(value)}' for key, value in fields.items())
    return f'{{"type":"RECORD","stream":"a","record":{body}{suffix}}}'.encode()


def make_mapper(**config: Any) -> StreamMapper:
    return StreamMapper(PluginMapper(config, logging.getLogger(__name__)))


def events(*messages: dict[str, Any] | bytes) -> Iterable[Event]:
    lines = (
        message if isinstance(message, bytes) else json.dumps(message).encode()
        for message in messages
    )
    return SingerReader().feed(b"".join(line + b"\n" for line in lines))


def map_messages(config: dict[str, Any], *messages: dict[str, Any] | bytes) -> list[Event]:
    return list(make_mapper(**config).map_events(events(*messages)))


def row_bodies(output: Iterable[Event]) -> list[bytes]:
    return [row for event in output if isinstance(event, Rows) for row in event.rows]


def schema_events(output: Iterable[Event]) -> dict[str, SchemaEvent]:
    return {event.stream.name: event for event in output if isinstance(event, SchemaEvent)}


def test_streams_without_a_map_are_unchanged() -> None:
    body = '{ "id": 1,  "price": 1.500, "x": {"y": [1e2]} }'
    messages = (DESCRIBED, raw(body), state(1), {**record("other", id=1)})
    config = {"stream_maps": {"b": {"id": "id + 1"}}}
    assert map_messages(config, *messages) == list(events(*messages))


def test_flat_streams_are_not_decoded_for_flattening() -> None:
    flat = schema("a", {"id": {"type": "integer"}, "t": {"type": ["null", "string"]}})
    messages = (flat, raw('{ "id":  1.0 }'))
    assert map_messages(FLAT, *messages) == list(events(*messages))
    # A property that may hold an object can have something to flatten.
    open_one = schema("a", {"id": {"type": "integer"}, "t": {}})
    assert row_bodies(map_messages(FLAT, open_one, raw('{ "id":  1 }'))) == [b'{"id":1}']


def test_stream_map_keeps_all_digits_of_numbers() -> None:
    config = {"stream_maps": {"a": {"email": None, "twice": "id * 2"}}}
    body = '{"id":123456789012345678901234567890,"price":12345678901234567890.10,"email":"e"}'
    output = map_messages(config, DESCRIBED, raw(body))
    digits = b'{"id":123456789012345678901234567890,"price":12345678901234567890.10'
    assert row_bodies(output) == [digits + b',"twice":246913578024691357802469135780}']
    properties = schema_events(output)["a"].schema["properties"]
    assert list(properties) == ["id", "price", "place", "twice"]


def test_flattening_turns_objects_into_columns() -> None:
    output = map_messages(
        FLAT, DESCRIBED, raw('{"id":1,"price":1.50,"place":{"city":"x","lot":[1]}}')
    )
    assert row_bodies(output) == [b'{"id":1,"price":1.50,"place__city":"x","place__lot":"[1]"}']
    assert "place__city" in schema_events(output)["a"].schema["properties"]
    assert schema_events(output)["a"].keys == ("id",)


def test_nan_becomes_null_and_lone_surrogates_pass_through() -> None:
    half = r'{"id":1,"email":"\ud83d"}'
    output = map_messages(FLAT, DESCRIBED, raw('{"id":1,"price":NaN}'), raw(half), raw('{"id":2}'))
    assert row_bodies(output) == [
        b'{"id":1,"price":null}',
        json.dumps(half).encode(),
        b'{"id":2}',
    ]


def test_aliased_and_copied_streams_get_rows_and_versions() -> None:
    maps = {
        "a": {"__alias__": "b", "__filter__": "id > 1", "__key_properties__": ["email"]},
        "c": {"__source__": "a", "id": "id + 10", "__else__": None},
    }
    output = map_messages(
        {"stream_maps": maps},
        DESCRIBED,
        raw('{"id":1,"email":"x"}', time_extracted="t1", version=4),
        raw('{"id":2,"email":"y"}', time_extracted="t2", version=4),
        {"type": "ACTIVATE_VERSION", "stream": "a", "version": 4},
        state(1),
    )
    b, c = StreamId("b"), StreamId("c")
    assert {name: event.keys for name, event in schema_events(output).items()} == {
        "b": ("email",),
        "c": ("id",),
    }
    assert output[2:] == [
        Rows(b, [b'{"id":2,"email":"y"}'], extracted_at=["t2"], version=4),
        Rows(c, [b'{"id":11}', b'{"id":12}'], extracted_at=["t1", "t2"], version=4),
        ActivateVersion(b, 4),
        ActivateVersion(c, 4),
        Checkpoint(b'{"at": 1}'),
    ]


@pytest.mark.parametrize(
    "maps",
    [{"a": {"__alias__": "m"}, "b": {"__alias__": "'m'"}}, {"*": {"__alias__": "m"}}],
)
def test_versions_of_streams_that_share_a_name_delete_no_rows(maps: dict[str, Any]) -> None:
    """The rows of stream b, of this run and of earlier ones, do not have the version of a."""
    output = map_messages(
        {"stream_maps": maps},
        {"type": "ACTIVATE_VERSION", "stream": "a", "version": 4},
        DESCRIBED,
        {"type": "ACTIVATE_VERSION", "stream": "a", "version": 4},
        raw('{"id":1}', version=4),
        {"type": "ACTIVATE_VERSION", "stream": "a", "version": 4},
        schema("b", PROPERTIES, "id"),
        state(1),
    )
    versions = [event for event in output if isinstance(event, ActivateVersion)]
    assert not [event for event in versions if event.stream == StreamId("m")]
    assert row_bodies(output) == [b'{"id":1}']
    assert isinstance(output[-1], Checkpoint)


def test_stream_that_takes_the_name_of_another_after_its_version_is_an_error() -> None:
    messages = (
        DESCRIBED,
        {"type": "ACTIVATE_VERSION", "stream": "a", "version": 4},
        schema("b", PROPERTIES, "id"),
    )
    with pytest.raises(UnsupportedError, match="Several streams are loaded as b"):
        map_messages({"stream_maps": {"a": {"__alias__": "b"}}}, *messages)


def test_maps_of_one_stream_do_not_see_each_others_changes() -> None:
    maps = {
        "a": {"place": "place.update({'city': 'changed'}) or place"},
        "c": {"__source__": "a"},
    }
    try:
        output = map_messages(
            {"stream_maps": maps}, DESCRIBED, raw('{"id":1,"place":{"city":"x"}}')
        )
    except MapExpressionError:  # expressions may not call methods that change
        return
    assert row_bodies(output)[1] == b'{"id":1,"place":{"city":"x"}}'


def test_stream_mapped_to_null_is_dropped_and_states_are_kept() -> None:
    for maps in ({"a": None}, {"a": "__NULL__"}, {"__else__": None}):
        output = map_messages(
            {"stream_maps": maps},
            DESCRIBED,
            raw('{"id":1}'),
            {"type": "ACTIVATE_VERSION", "stream": "a", "version": 4},
            {"type": "BATCH", "stream": "a", "encoding": {"format": "jsonl"}, "manifest": ["x"]},
            state(1),
        )
        assert output == [Checkpoint(b'{"at": 1}')]


def test_batch_files_are_accepted_only_for_unmapped_streams() -> None:
    batch = {"type": "BATCH", "stream": "a", "encoding": {"format": "jsonl"}, "manifest": ["x"]}
    flat = schema("a", {"id": {"type": "integer"}})
    assert isinstance(map_messages(FLAT, flat, batch)[1], BatchFiles)
    with pytest.raises(UnsupportedError, match="Stream a comes as BATCH messages"):
        map_messages(FLAT, DESCRIBED, batch)


@pytest.mark.parametrize(
    ("stream_map", "error", "message"),
    [
        ({"x": "nope(id)"}, MapExpressionError, "property 'x' in the map of stream 'a'"),
        ({"x": "id +"}, MapExpressionError, "property 'x' in the map of stream 'a'"),
        ({"id": None}, StreamMapConfigError, "Removing key property 'id'"),
        ({"__filter__": "id >"}, MapExpressionError, "__filter__ of stream 'a'"),
        ({"__key_properties__": ["gone"]}, StreamMapConfigError, "'gone' was not detected"),
    ],
)
def test_invalid_stream_map_fails_at_the_schema(
    stream_map: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        map_messages({"stream_maps": {"a": stream_map}}, DESCRIBED)


def test_rows_before_a_map_error_are_emitted() -> None:
    stream_mapper = make_mapper(stream_maps={"a": {"x": "1 / (id - 2)"}})
    coming = stream_mapper.map_events(events(DESCRIBED, raw('{"id":1}'), raw('{"id":2}')))
    assert isinstance(next(iter(coming)), SchemaEvent)
    assert row_bodies([next(iter(coming))]) == [b'{"id":1,"x":-1.0}']
    with pytest.raises(MapExpressionError, match="property 'x' in the map of stream 'a'"):
        next(iter(coming))


def test_map_settings_are_declared_and_checked_at_start() -> None:
    names = [capability.value for capability in TargetSpark.capabilities]
    assert {"stream-maps", "schema-flattening"} <= set(names)
    with pytest.raises((StreamMapConfigError, ConfigValidationError)):
        TargetSpark(config={"path": "x", "stream_maps": {"a": 1}})
    with pytest.raises(ConfigValidationError, match="Flattening is misconfigured"):
        TargetSpark(config={"path": "x", "flattening_enabled": True})


@pytest.mark.thorough
@pytest.mark.spark
def test_mapped_rows_are_loaded_under_their_new_names(
    spark_session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    delta = Warehouse(spark_session, spark, tmp_path / "tables")
    config = {**FLAT, "stream_maps": {"a": {"__alias__": "b", "email": "md5(email)"}}}
    loader, spool = delta.open()
    half = r'{"id":3,"email":"\ud83d"}'
    messages = (
        DESCRIBED,
        raw('{"id":1,"price":0.1,"email":"e","place":{"city":"x"}}'),
        raw('{"id":1,"price":0.2,"email":"e","place":{"city":"y"}}'),
        raw(half),
        state(1),
    )
    for event in make_mapper(**config).map_events(events(*messages)):
        loader.process_event(event)
    loader.finish(whole=True)
    loader.close()
    spool.close()
    assert delta.rows("b", "id", "price", "email", "place__city") == [
        (1, 0.2, "e1671797c52e15f763380b45e841ec32", "y")
    ]
    assert [row.raw for row in delta.read("b__quarantine").collect()] == [half]
    assert delta.states == [1]
    assert not delta.exists("a")
