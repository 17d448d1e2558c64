"""Declarations of a stream by its author, and their overrides by a catalog."""

from __future__ import annotations

import json
import logging
import zipfile

import pytest

from tap_core.exceptions import (
    DiscoveryError,
    EmptySchemaTypeError,
    InvalidReplicationKeyException,
    SingerSDKDeprecationWarning,
)
from tap_core.singerlib.catalog import Catalog, Schema
from tap_core.streams.core import Stream
from tests.sync.syncing import DATETIME, INTEGER, STRING, make, schema, stream

SCHEMA = schema(id=INTEGER, at=DATETIME, text=STRING)


class Bare(Stream):
    """A stream that declares nothing."""

    def get_records(self, context):
        return []


def make_only_stream(kind, **provided):
    """Return the only stream of a tap with this stream class."""
    [declared] = make(kind, **provided).streams.values()
    return declared


# Names and schemas


def test_stream_without_a_name_is_an_error():
    with pytest.raises(ValueError, match=r"set Bare\.name or pass name="):
        Bare(make())
    assert Bare(make(), name="x").name == "x"


def test_name_argument_overrides_the_class_attribute():
    assert stream("a", [])(make(), name="b").name == "b"


@pytest.mark.parametrize("provided", [SCHEMA, Schema.from_dict(SCHEMA)], ids=["dict", "Schema"])
def test_schema_argument_accepts_a_dict_or_schema_object(provided):
    assert Bare(make(), schema=provided, name="a").schema == SCHEMA


def test_schema_argument_accepts_a_file_path(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(SCHEMA))
    with pytest.warns(SingerSDKDeprecationWarning, match="deprecated"):
        declared = Bare(make(), schema=str(path), name="a")
    assert (declared.schema, declared.schema_filepath) == (SCHEMA, path)


@pytest.mark.parametrize("is_zipped", [False, True])
def test_schema_filepath_attribute_is_read(tmp_path, is_zipped):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(SCHEMA))
    if is_zipped:  # as from importlib.resources.files of a package in a zip file
        with zipfile.ZipFile(tmp_path / "package.zip", "w") as archive:
            archive.write(path, "a.json")
        path = zipfile.Path(tmp_path / "package.zip", "a.json")

    class InFile(Bare):
        """A stream that uses the deprecated attribute."""

        name = "a"
        schema_filepath = path

    with pytest.warns(SingerSDKDeprecationWarning, match="deprecated"):
        assert InFile(make()).schema == SCHEMA


def test_missing_schema_file_is_named_in_the_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no schema file .*nowhere\.json"):
        Bare(make(), schema=tmp_path / "nowhere.json", name="a")


def test_schema_argument_of_another_type_is_rejected():
    with pytest.raises(ValueError, match="Unexpected type int for arg 'schema'"):
        Bare(make(), schema=5, name="a")


def test_missing_schema_is_an_error_when_it_is_accessed():
    with pytest.raises(DiscoveryError, match="schema for stream 'a' was not provided"):
        _ = Bare(make(), name="a").schema


# Settings and logs


def test_config_of_a_stream_is_read_only():
    tap = make(stream("a", []), config={"start_date": "x"})
    [declared] = tap.streams.values()
    assert declared.config["start_date"] == "x"
    with pytest.raises(TypeError):
        declared.config["start_date"] = "y"
    assert declared.tap_name == tap.name


def test_log_lines_have_the_logger_of_the_stream(caplog):
    make_only_stream(stream("a", [])).log("%d of %d", 1, 2, level=logging.WARNING)
    [record] = caplog.records
    assert (record.name, record.getMessage()) == ("tap-test.a", "1 of 2")


# Replication


@pytest.mark.parametrize(
    "members, method",
    [({}, "FULL_TABLE"), ({"replication_key": "id"}, "INCREMENTAL")],
)
def test_replication_key_makes_a_stream_incremental(members, method):
    declared = make_only_stream(stream("a", [], schema=SCHEMA, **members))
    assert declared.replication_method == method
    declared.forced_replication_method = "LOG_BASED"
    assert declared.replication_method == "LOG_BASED"


@pytest.mark.parametrize(
    "key, definition, is_timestamp",
    [
        ("k", {"type": "string", "format": "date-time"}, True),
        ("k", {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}, True),
        ("k", {"type": "string", "format": "date"}, False),
        ("k", {"type": "integer"}, False),
        (None, {"type": "string", "format": "date-time"}, False),
    ],
)
def test_timestamp_replication_key_is_found_in_the_schema(key, definition, is_timestamp):
    declared = make_only_stream(stream("a", [], schema=schema(k=definition), replication_key=key))
    assert declared.is_timestamp_replication_key is is_timestamp


def test_replication_key_missing_in_the_schema_is_an_error():
    declared = make_only_stream(stream("a", [], schema=SCHEMA, replication_key="nope"))
    with pytest.raises(InvalidReplicationKeyException, match="'nope' is not in schema"):
        _ = declared.is_timestamp_replication_key


@pytest.mark.parametrize("key", [["id", "u"], ("id", "u"), {"id": 1}])
@pytest.mark.parametrize("method", [None, "FULL_TABLE", "INCREMENTAL"])
def test_several_replication_keys_are_an_error_that_names_the_stream(key, method):
    """The error is raised in discovery, in a sync, and if a catalog contains the keys."""
    kind = stream("a", [{"id": 1}], replication_key=key, forced_replication_method=method)
    fault = pytest.raises(
        InvalidReplicationKeyException, match="Stream 'a': its replication key is"
    )
    with fault:
        _ = make(kind).catalog_dict
    with fault:
        make(kind).sync_all()
    plain = make(stream("a", [{"id": 1}]))
    catalog = plain.catalog_dict
    catalog["streams"][0]["replication_key"] = key
    catalog["streams"][0]["replication_method"] = method or "INCREMENTAL"
    with fault:
        make(stream("a", [{"id": 1}]), catalog=catalog).sync_all()


def test_replication_key_without_a_type_is_an_error():
    declared = make_only_stream(stream("a", [], schema=schema(k={}), replication_key="k"))
    with pytest.raises(EmptySchemaTypeError):
        _ = declared.is_timestamp_replication_key


# Catalogs


def catalog(**entry):
    metadata = entry.pop("metadata", {"selected": True})
    fields = {"schema": SCHEMA, "metadata": [{"breadcrumb": [], "metadata": metadata}], **entry}
    return {"streams": [{"tap_stream_id": "a", "stream": "a", **fields}]}


KEYED = {"schema": SCHEMA, "replication_key": "id", "primary_keys": ["id"]}


def test_selected_by_default_applies_without_a_catalog():
    assert make_only_stream(stream("a", [])).selected
    assert not make_only_stream(stream("a", [], selected_by_default=False)).selected


def test_catalog_overrides_keys_and_replication_method():
    provided = catalog(
        key_properties=["text"], replication_key="at", replication_method="FULL_TABLE"
    )
    declared = make_only_stream(stream("a", [], **KEYED), catalog=provided)
    assert declared.primary_keys == ["text"]
    assert declared.replication_key == "at"
    assert declared.replication_method == "FULL_TABLE"


def test_catalog_metadata_provides_what_the_entry_omits():
    metadata = {
        "selected": True,
        "table-key-properties": ["text"],
        "replication-key": "at",
        "forced-replication-method": "LOG_BASED",
    }
    declared = make_only_stream(stream("a", [], **KEYED), catalog=catalog(metadata=metadata))
    assert (declared.primary_keys, declared.replication_key) == (["text"], "at")
    assert declared.replication_method == "LOG_BASED"


def test_catalog_entry_without_keys_removes_the_keys_of_the_tap():
    declared = make_only_stream(stream("a", [], **KEYED), catalog=catalog())
    assert declared.replication_key is None
    assert declared.replication_method == "FULL_TABLE"
    assert list(declared.primary_keys) == []


def test_stream_missing_in_the_catalog_is_not_selected():
    declared = make_only_stream(stream("b", [], **KEYED), catalog=catalog())
    assert not declared.selected
    assert declared.replication_key == "id"


def test_catalog_schema_becomes_the_effective_schema():
    provided = catalog(schema=schema(id=STRING))
    declared = make_only_stream(stream("a", [], **KEYED), catalog=provided)
    assert declared.effective_schema == schema(id=STRING)
    assert declared.schema == SCHEMA


def test_selected_can_be_set_after_construction():
    declared = make_only_stream(stream("a", []), catalog=catalog(metadata={"selected": False}))
    assert not declared.selected
    declared.selected = True
    assert declared.selected
    assert declared.mask[()]


def test_stream_without_a_catalog_has_a_default_catalog_entry():
    declared = make_only_stream(stream("a", [], **KEYED))
    assert list(declared._singer_catalog) == ["a"]
    entry = Catalog.from_dict(declared._tap.catalog_dict).get_stream("a")
    assert (entry.key_properties, entry.replication_key) == (["id"], "id")
    assert entry.replication_method == "INCREMENTAL"


@pytest.mark.parametrize("keys", [("id",), ["id"]])
def test_catalog_entry_has_the_key_properties_of_the_author(keys):
    declared = make_only_stream(stream("a", [], primary_keys=keys))
    entry = declared._singer_catalog_entry
    assert entry.key_properties == keys
    assert declared.metadata.root.table_key_properties == keys
    if isinstance(keys, list):  # a change to the catalog does not change the stream
        assert entry.key_properties is not keys
