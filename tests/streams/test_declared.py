"""What an author declares, and what a catalog changes of it."""

from __future__ import annotations

import json
import logging

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


def only(kind, **given):
    """Return the one stream of a tap."""
    [found] = make(kind, **given).streams.values()
    return found


# Names and schemas


def test_a_stream_needs_a_name():
    with pytest.raises(ValueError, match=r"set Bare\.name or pass name="):
        Bare(make())
    assert Bare(make(), name="x").name == "x"


def test_a_name_that_is_given_wins():
    assert stream("a", [])(make(), name="b").name == "b"


@pytest.mark.parametrize("given", [SCHEMA, Schema.from_dict(SCHEMA)], ids=["dict", "Schema"])
def test_a_schema_may_be_given(given):
    assert Bare(make(), schema=given, name="a").schema == SCHEMA


def test_a_schema_may_stand_in_a_file(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(SCHEMA))
    with pytest.warns(SingerSDKDeprecationWarning, match="deprecated"):
        found = Bare(make(), schema=str(path), name="a")
    assert (found.schema, found.schema_filepath) == (SCHEMA, path)


def test_a_class_may_name_the_file_of_its_schema(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(SCHEMA))

    class InFile(Bare):
        """A stream of an older kind."""

        name = "a"
        schema_filepath = path

    with pytest.warns(SingerSDKDeprecationWarning, match="deprecated"):
        assert InFile(make()).schema == SCHEMA


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no schema file .*nowhere\.json"):
        Bare(make(), schema=tmp_path / "nowhere.json", name="a")


def test_a_schema_of_another_type_is_refused():
    with pytest.raises(ValueError, match="Unexpected type int for arg 'schema'"):
        Bare(make(), schema=5, name="a")


def test_a_schema_that_is_missing_is_an_error_when_it_is_asked_for():
    with pytest.raises(DiscoveryError, match="schema for stream 'a' was not provided"):
        _ = Bare(make(), name="a").schema


# Settings and logs


def test_settings_are_read_only():
    tap = make(stream("a", []), config={"start_date": "x"})
    [found] = tap.streams.values()
    assert found.config["start_date"] == "x"
    with pytest.raises(TypeError):
        found.config["start_date"] = "y"
    assert found.tap_name == tap.name


def test_logs_stand_under_the_streams_name(caplog):
    only(stream("a", [])).log("%d of %d", 1, 2, level=logging.WARNING)
    [record] = caplog.records
    assert (record.name, record.getMessage()) == ("tap-test.a", "1 of 2")


# Replication


@pytest.mark.parametrize(
    "members, method",
    [({}, "FULL_TABLE"), ({"replication_key": "id"}, "INCREMENTAL")],
)
def test_the_method_follows_the_key(members, method):
    found = only(stream("a", [], schema=SCHEMA, **members))
    assert found.replication_method == method
    found.forced_replication_method = "LOG_BASED"
    assert found.replication_method == "LOG_BASED"


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
def test_the_schema_says_whether_a_key_is_a_timestamp(key, definition, is_timestamp):
    found = only(stream("a", [], schema=schema(k=definition), replication_key=key))
    assert found.is_timestamp_replication_key is is_timestamp


def test_a_key_that_the_schema_lacks_is_an_error():
    found = only(stream("a", [], schema=SCHEMA, replication_key="nope"))
    with pytest.raises(InvalidReplicationKeyException, match="'nope' is not in schema"):
        _ = found.is_timestamp_replication_key


@pytest.mark.parametrize("key", [["id", "u"], ("id", "u"), {"id": 1}])
@pytest.mark.parametrize("method", [None, "FULL_TABLE", "INCREMENTAL"])
def test_several_keys_are_an_error_that_says_so(key, method):
    """When it is discovered, when it is synced, and when a catalog names them."""
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


def test_a_key_without_a_type_is_an_error():
    found = only(stream("a", [], schema=schema(k={}), replication_key="k"))
    with pytest.raises(EmptySchemaTypeError):
        _ = found.is_timestamp_replication_key


# Catalogs


def catalog(**entry):
    metadata = entry.pop("metadata", {"selected": True})
    rest = {"schema": SCHEMA, "metadata": [{"breadcrumb": [], "metadata": metadata}], **entry}
    return {"streams": [{"tap_stream_id": "a", "stream": "a", **rest}]}


KEYED = {"schema": SCHEMA, "replication_key": "id", "primary_keys": ["id"]}


def test_without_a_catalog_the_default_decides():
    assert only(stream("a", [])).selected
    assert not only(stream("a", [], selected_by_default=False)).selected


def test_a_catalog_changes_keys_and_method():
    given = catalog(key_properties=["text"], replication_key="at", replication_method="FULL_TABLE")
    found = only(stream("a", [], **KEYED), catalog=given)
    assert found.primary_keys == ["text"]
    assert found.replication_key == "at"
    assert found.replication_method == "FULL_TABLE"


def test_metadata_says_what_an_entry_does_not():
    metadata = {
        "selected": True,
        "table-key-properties": ["text"],
        "replication-key": "at",
        "forced-replication-method": "LOG_BASED",
    }
    found = only(stream("a", [], **KEYED), catalog=catalog(metadata=metadata))
    assert (found.primary_keys, found.replication_key) == (["text"], "at")
    assert found.replication_method == "LOG_BASED"


def test_a_catalog_without_a_key_takes_the_taps_away():
    found = only(stream("a", [], **KEYED), catalog=catalog())
    assert found.replication_key is None
    assert found.replication_method == "FULL_TABLE"
    assert list(found.primary_keys) == []


def test_a_stream_that_the_catalog_lacks_is_not_selected():
    found = only(stream("b", [], **KEYED), catalog=catalog())
    assert not found.selected
    assert found.replication_key == "id"


def test_the_schema_of_a_catalog_rules_values_and_the_taps_stays():
    given = catalog(schema=schema(id=STRING))
    found = only(stream("a", [], **KEYED), catalog=given)
    assert found.effective_schema == schema(id=STRING)
    assert found.schema == SCHEMA


def test_selection_may_be_changed_after_all():
    found = only(stream("a", []), catalog=catalog(metadata={"selected": False}))
    assert not found.selected
    found.selected = True
    assert found.selected
    assert found.mask[()]


def test_a_stream_has_a_catalog_of_its_own():
    found = only(stream("a", [], **KEYED))
    assert list(found._singer_catalog) == ["a"]
    entry = Catalog.from_dict(found._tap.catalog_dict).get_stream("a")
    assert (entry.key_properties, entry.replication_key) == (["id"], "id")
    assert entry.replication_method == "INCREMENTAL"


@pytest.mark.parametrize("keys", [("id",), ["id"]])
def test_keys_stand_in_the_catalog_as_the_author_wrote_them(keys):
    found = only(stream("a", [], primary_keys=keys))
    entry = found._singer_catalog_entry
    assert entry.key_properties == keys
    assert found.metadata.root.table_key_properties == keys
    if isinstance(keys, list):  # a change to the catalog does not change the stream
        assert entry.key_properties is not keys
