"""The catalog file of `--catalog`: parsing, and streams or properties that the tap lacks."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field

import pytest

from tap_core import Stream, Tap
from tap_core.exceptions import CatalogFileError
from tap_core.protocols.singer.catalog_file import find_unknown_streams, parse_catalog


@dataclass
class Known:
    tap_stream_id: str
    schema: dict = field(default_factory=dict)
    forced_replication_method: str | None = None


STREAMS = {
    "users": Known("public-users", {"properties": {"id": {}, "name": {}}}),
    "empty": Known("empty"),
}


def entry(name: str, *properties: str) -> dict:
    return {"tap_stream_id": name, "schema": {"properties": {name: {} for name in properties}}}


def unknown_streams(*entries: dict) -> list[str]:
    return list(find_unknown_streams({"streams": list(entries)}, STREAMS))


def test_valid_catalog_is_parsed():
    assert parse_catalog(b'{"streams": []}', "k.json") == {"streams": []}
    catalog = parse_catalog('\ufeff{"streams": [{"tap_stream_id": "a"}]}'.encode(), "k")
    assert catalog == {"streams": [{"tap_stream_id": "a"}]}


@pytest.mark.parametrize(
    "text, fault",
    [
        ("{", "'k.json' is not JSON: .* line 1, column 2"),
        ("\n", "'k.json' is not JSON: it is empty"),
        ("[]", "'k.json' has no list of 'streams'"),
        ('{"streams": {}}', "no list"),
        ('{"streams": ["users"]}', "no list"),
        (b"\xff\xfe\xfa", "UTF-8|JSON"),
    ],
)
def test_invalid_catalog_is_refused_with_the_file_name(text, fault):
    with pytest.raises(CatalogFileError, match=fault.replace(".* line", r".*\(line")):
        parse_catalog(text, "k.json")


def test_streams_are_found_by_id_or_name():
    assert (
        unknown_streams(entry("public-users", "id"), entry("users", "name"), entry("empty")) == []
    )
    assert unknown_streams({"stream": "users", "schema": {}}) == []


class Computed:
    tap_stream_id = "computed"
    forced_replication_method = None

    @property
    def schema(self) -> dict:
        raise AssertionError("a catalog was given so that nothing need be discovered")


class Given(Stream):
    name = "given"

    def get_records(self, context):
        return []


class TapOfNone(Tap):
    name = "tap-of-none"

    def discover_streams(self):
        return []


def test_computed_schema_is_not_evaluated():
    catalog = {"streams": [entry("computed", "a"), entry("given", "id", "b")]}
    given = Given(TapOfNone(), schema={"properties": {"id": {}}})
    assert list(find_unknown_streams(catalog, {"computed": Computed(), "given": given})) == [
        "The catalog's stream 'given' has unknown properties: b"
    ]


def test_unknown_streams_and_properties_are_named():
    assert unknown_streams(
        entry("users", "id", "b", "a"), entry("x"), entry("y"), entry("empty", "c")
    ) == [
        "The catalog's stream 'users' has unknown properties: a, b",
        "The catalog's stream 'empty' has unknown properties: c",
        "The catalog has streams that this tap does not: x, y",
    ]
    assert unknown_streams(entry("user"), entry("emptyy"), entry("empty")) == [
        "The catalog has streams that this tap does not: user (did you mean 'users'?), emptyy"
    ]


def test_few_of_many_unknown_streams_have_a_suggestion():
    """The search for a similar name takes long: minutes for thousands of streams."""
    [warning] = unknown_streams(*(entry(f"users{number}") for number in range(50)))
    assert warning.count("did you mean") == 10
    assert warning.endswith("users48, users49")


@pytest.mark.parametrize("content", [b"\x97\xff", b"\xf0\xfe\x00\x01binary", b"[\xff]"])
def test_catalog_of_binary_data_is_not_utf8_text(content):
    with pytest.raises(CatalogFileError, match=r"^Catalog 'c\.json' is not UTF-8 text$"):
        parse_catalog(content, "c.json")


@pytest.mark.parametrize(
    "content, reason",
    [
        (gzip.compress(b"{}"), "compressed with gzip: decompress it"),
        (b"\x28\xb5\x2f\xfd\x00\x80", "compressed with Zstandard: decompress it"),
        ('{"streams": [}'.encode("utf-16"), "UTF-16: convert it to UTF-8"),
    ],
)
def test_catalog_in_another_encoding_says_which(content, reason):
    with pytest.raises(CatalogFileError, match=f"is not UTF-8 text, but {reason}$"):
        parse_catalog(content, "c.json")


def test_unknown_replication_method_is_named():
    methods = ["incremental", "INCREMENTAL", "FULL_TABLE", "LOG_BASED"]
    streams = {method: Known(method, {}, method) for method in methods}
    warnings = find_unknown_streams({"streams": [*map(entry, streams)]}, streams)
    assert next(warnings) == (
        "Stream 'incremental' has the replication method 'incremental', so it is read in full and"
        " has no bookmark. Use one of FULL_TABLE, INCREMENTAL, LOG_BASED in the catalog."
    )
    assert list(warnings) == []


@pytest.mark.parametrize(
    ("stream", "fault"),
    [
        ({}, "stream 1: 'tap_stream_id' is missing"),
        ({"replication_key": ["id", "u"]}, r"stream 1: the replication key \['id', 'u'\]"),
        (
            {"metadata": [{"breadcrumb": [], "metadata": {"replication-key": ["id", "u"]}}]},
            r"stream 1: the replication key \['id', 'u'\]",
        ),
        ({"tap_stream_id": ["a"]}, "stream 1: 'tap_stream_id' is not a string"),
        (
            {"tap_stream_id": "a", "key_properties": [{}]},
            "'key_properties' is not a list of strings",
        ),
        (
            {"tap_stream_id": "a", "schema": True},
            r"^Catalog 'catalog\.json', stream 1 \(a\): 'schema' is not an object$",
        ),
        (
            {"tap_stream_id": "a", "schema": {"properties": []}},
            r"stream 1 \(a\): 'properties' in the schema is not an object",
        ),
        (
            {"tap_stream_id": "a", "schema": {"properties": {"x": {"anyOf": [{}, None]}}}},
            r"stream 1 \(a\): 'anyOf' in 'properties.x' of the schema is not a list of schemas",
        ),
        (
            {"tap_stream_id": "a", "schema": {"properties": {"x": {"items": {"anyOf": [5]}}}}},
            r"'anyOf' in 'properties.x.items' of the schema is not a list of schemas",
        ),
        (
            {"tap_stream_id": "a", "schema": {"properties": {"x": {"oneOf": [{"type": 5}]}}}},
            r"a 'type' in 'properties.x.oneOf.0' of the schema is not a string or a list",
        ),
        ({"tap_stream_id": "a", "metadata": None}, r"\(a\): 'metadata' is not a list of objects"),
        (
            {"tap_stream_id": "a", "metadata": [{"breadcrumb": None, "metadata": {}}]},
            r"\(a\): the 'breadcrumb' in metadata 1 is not a list of at most 500 names",
        ),
        (
            {
                "tap_stream_id": "a",
                "metadata": [{"breadcrumb": ["properties", "x"], "metadata": None}],
            },
            r"\(a\): the 'metadata' of breadcrumb \['properties', 'x'\] is not an object",
        ),
        ({"tap_stream_id": "a", "metadata": [{}]}, "'breadcrumb' is missing"),
        (
            {"tap_stream_id": "a", "metadata": {"x": 1}},
            r"\(a\): 'metadata' is not a list of objects",
        ),
        ({"tap_stream_id": "a", "metadata": [5]}, r"\(a\): 'metadata' is not a list of objects"),
    ],
)
def test_invalid_stream_is_refused_with_its_location(stream, fault):
    """SEC15: an invalid catalog is reported in one sentence, without a Python error."""
    with pytest.raises(CatalogFileError, match=fault):
        parse_catalog(json.dumps({"streams": [stream]}), "catalog.json")


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"x": {"oneOf": [None], "allOf": 5}}},
        {"properties": {"x": {"anyOf": [True, {"type": None}]}}},
        {"properties": {"x": None, "y": {"items": None, "patternProperties": [None]}}},
    ],
)
def test_schemas_that_singer_sdk_accepts_are_accepted(schema):
    parse_catalog(json.dumps({"streams": [{"tap_stream_id": "a", "schema": schema}]}), "c.json")
