"""Catalogs, metadata and the rules of stream and property selection."""

from __future__ import annotations

import json
import logging

import pytest

from tap_core.singerlib.catalog import (
    Catalog,
    CatalogEntry,
    Metadata,
    MetadataMapping,
    Schema,
    SelectionMask,
    StreamMetadata,
    deselect_all_streams,
    set_catalog_stream_selected,
)
from tests.catalog.catalog_cases import ENTRIES, SCHEMA

A = ("properties", "a")
B = ("properties", "a", "properties", "b")


def create_mask(stream=None, a=None, b=None) -> SelectionMask:
    metadata_by_breadcrumb = {(): stream, A: a, B: b}
    mapping = MetadataMapping.from_iterable(
        {"breadcrumb": list(breadcrumb), "metadata": metadata}
        for breadcrumb, metadata in metadata_by_breadcrumb.items()
        if metadata is not None
    )
    return mapping.resolve_selection()


def test_missing_metadata_selects_everything():
    mask = MetadataMapping().resolve_selection()
    assert mask == {}
    assert [mask[()], mask[A], mask[B]] == [True, True, True]


def test_metadata_without_a_stream_entry_selects_nothing():
    assert create_mask(a={}) == {A: False}


def test_deselected_parent_deselects_its_properties():
    mask = create_mask(stream={"selected": False}, a={"inclusion": "automatic", "selected": True})
    assert mask[A] is False


def test_unsupported_is_never_selected(caplog):
    caplog.set_level(logging.DEBUG, "tap_core.singerlib.catalog")
    mask = create_mask(stream={"selected": True}, a={"inclusion": "unsupported", "selected": True})
    assert mask[A] is False
    assert any("properties:a" in text for text in caplog.messages)


def test_automatic_property_is_selected_even_if_deselected(caplog):
    caplog.set_level(logging.DEBUG, "tap_core.singerlib.catalog")
    mask = create_mask(stream={"selected": True}, a={"inclusion": "automatic", "selected": False})
    assert mask[A] is True
    assert any("properties:a" in text for text in caplog.messages)


def test_selected_takes_precedence_over_selected_by_default():
    mask = create_mask(
        stream={"selected": True}, a={"selected": False, "selected-by-default": True}
    )
    assert mask[A] is False


def test_selected_by_default_takes_precedence_over_the_parent():
    mask = create_mask(stream={"selected": True}, a={"selected-by-default": False})
    assert mask[A] is False


def test_property_without_flags_inherits_from_its_parent_at_every_depth():
    assert create_mask(stream={"selected": True}, a={}, b={})[B] is True
    assert create_mask(stream={"selected": True}, a={"selected": False}, b={})[B] is False
    assert create_mask(stream={"selected": True}, b={"selected": False}) == {(): True, B: False}


def test_stream_without_selection_flags_is_not_selected():
    assert create_mask(stream={"inclusion": "available"}, a={}) == {(): False, A: False}


def test_breadcrumb_missing_from_the_mask_inherits_from_its_parent():
    mask = SelectionMask({A: False})
    assert mask[(*A, "properties", "x", "properties", "y")] is False
    assert mask["properties", "z"] is True
    assert mask["properties",] is True
    assert list(mask) == [A]


def test_standard_metadata_of_a_stream_and_all_its_properties():
    metadata = MetadataMapping.get_standard_metadata(
        schema=SCHEMA,
        schema_name="public",
        key_properties=["id"],
        valid_replication_keys=["at"],
        replication_method="INCREMENTAL",
        selected_by_default=True,
    )
    automatic = [b for b, m in metadata.items() if m.inclusion == "automatic"]
    assert automatic == [("properties", "id"), ("properties", "at")]
    assert metadata[(*A, "properties", "id")].inclusion == "available"
    assert ("properties", "list", "items", "properties", "y") not in metadata
    assert metadata.root.to_dict() == {
        "inclusion": "available",
        "selected-by-default": True,
        "table-key-properties": ["id"],
        "replication-key": "at",
        "forced-replication-method": "INCREMENTAL",
        "valid-replication-keys": ["at"],
        "schema-name": "public",
    }


def test_several_valid_replication_keys_set_no_replication_key():
    metadata = MetadataMapping.get_standard_metadata(
        schema=SCHEMA, valid_replication_keys=["a", "b"]
    )
    assert metadata.root.replication_key is None


def test_property_with_schema_true_has_metadata():
    metadata = MetadataMapping.get_standard_metadata(schema={"properties": {"a": True}})
    assert metadata[A].inclusion is Metadata.InclusionType.AVAILABLE


def test_metadata_lookup_creates_missing_entries():
    mapping = MetadataMapping()
    mapping[A].selected = False
    mapping.root.selected = True
    assert mapping == {A: Metadata(selected=False), (): StreamMetadata(selected=True)}


def test_standard_metadata_can_be_written_as_json():
    metadata = MetadataMapping.get_standard_metadata(schema=SCHEMA, key_properties=("id",))
    written = json.loads(json.dumps(metadata.to_list()))
    assert MetadataMapping.from_iterable(written).to_list() == written


def test_catalog_survives_a_json_round_trip():
    document = {"streams": [ENTRIES[1]]}
    catalog = Catalog.from_dict(document)
    written = catalog.to_dict()
    expected = json.loads(json.dumps(ENTRIES[1]))
    del expected["metadata"][0]["metadata"]["not-known"]
    assert written == {"streams": [expected]}
    assert Catalog.from_dict(written) == catalog


def test_get_stream_finds_a_stream_only_by_its_id():
    catalog = Catalog.from_dict({"streams": list(ENTRIES)})
    assert catalog.get_stream("public-whole") is catalog["public-whole"]
    assert catalog.get_stream("whole") is None
    assert [entry.tap_stream_id for entry in catalog.streams] == ["plain", "public-whole", "empty"]


def test_catalog_is_created_from_entries_without_metadata():
    catalog = Catalog.from_entries([CatalogEntry("a"), CatalogEntry("b", stream="old")])
    catalog["a"].metadata.root.selected = True
    assert catalog["b"].metadata == {}
    assert list(Catalog.from_entries([*catalog.streams, CatalogEntry("b")])) == ["a", "b"]
    assert catalog.to_dict() == Catalog.from_dict(catalog.to_dict()).to_dict()


def test_streams_are_added_and_selected():
    catalog = Catalog()
    entry = CatalogEntry("s", MetadataMapping(), Schema())
    catalog.add_stream(entry)
    set_catalog_stream_selected(catalog, "s", selected=True)
    set_catalog_stream_selected(catalog, "s", selected=False, breadcrumb=A)
    assert entry.metadata.resolve_selection() == {(): True, A: False}
    deselect_all_streams(catalog)
    assert entry.metadata.root.selected is False
    with pytest.raises(ValueError, match="Catalog entry missing for 'nowhere'"):
        set_catalog_stream_selected(catalog, "nowhere", selected=True)
