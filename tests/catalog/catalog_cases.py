"""Cases of catalogs, metadata and selections, evaluated with tap_core and with singer_sdk.

Run as a script, it uses the package named in its first argument, reads cases from standard input,
and prints their results. It must not import other modules of this project.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from typing import Any

FLAGS = (None, True, False)
INCLUSIONS = (None, "available", "automatic", "unsupported")
BREADCRUMBS: tuple[tuple[str, ...], ...] = (
    (),
    ("properties", "a"),
    ("properties", "a", "properties", "b"),
    ("properties", "a", "properties", "c"),
    ("properties", "a", "properties", "c", "properties", "d"),
    ("properties", "absent", "properties", "x"),
    ("properties", "list", "items", "properties", "y"),
    ("odd",),
)
PROBES = (
    *BREADCRUMBS,
    ("properties", "a", "properties", "new"),
    ("properties", "new"),
    ("properties", "absent"),
    ("properties",),
)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": ["string", "null"], "format": "date-time"},
        "a": {
            "type": ["object", "null"],
            "properties": {
                "id": {"type": "integer"},
                "b": {"type": "string", "x-sql-datatype": "text"},
                "c": {"type": "object", "properties": {"d": {"type": "string"}}},
            },
            "required": ["b", "c"],
        },
        "list": {
            "type": "array",
            "items": {"type": "object", "properties": {"y": {"type": "string"}}},
        },
        "either": {"anyOf": [{"type": "object", "properties": {}}, {"type": "null"}]},
        "untyped": {"properties": {"z": {"type": "string"}}},
        "empty": {},
    },
    "required": ["id", "a", "nowhere"],
}

RECORD: dict[str, Any] = {
    "id": 1,
    "at": "2021-01-01",
    "a": {"id": 2, "b": "x", "c": {"d": 1, "e": 2}, "new": 3},
    "list": [{"y": 1}],
    "untyped": {"z": 1, "y": 2},
    "absent": {"x": 1, "y": 2},
    "new": {"n": 1},
}

STANDARD: tuple[dict[str, Any], ...] = tuple(
    {
        "schema": schema,
        "schema_name": name,
        "key_properties": keys,
        "valid_replication_keys": cursors,
        "replication_method": method,
        "selected_by_default": default,
    }
    for schema, name, keys, cursors, method, default in itertools.product(
        (None, {}, SCHEMA, {"type": "object"}),
        (None, "public"),
        (None, [], ["id"], ["id", "missing"]),
        (None, [], ["at"], ["at", "id"]),
        (None, "FULL_TABLE"),
        FLAGS,
    )
)

ENTRIES: tuple[dict[str, Any], ...] = (
    {"tap_stream_id": "plain"},
    {
        "tap_stream_id": "public-whole",
        "stream": "whole",
        "database_name": "db",
        "table_name": "t",
        "key_properties": ["id"],
        "replication_key": "at",
        "replication_method": "INCREMENTAL",
        "is_view": False,
        "row_count": 0,
        "stream_alias": "w",
        "schema": {
            "$id": "x",
            "$schema": "y",
            **SCHEMA,
            "additionalProperties": False,
            "oneOf": [{"required": ["id"]}],
            "default": {},
            "minimum": 0,
        },
        "metadata": [
            {
                "breadcrumb": [],
                "metadata": {
                    "inclusion": "available",
                    "selected": True,
                    "table-key-properties": ["id"],
                    "forced-replication-method": "INCREMENTAL",
                    "valid-replication-keys": ["at"],
                    "schema-name": "public",
                    "not-known": 1,
                },
            },
            {"breadcrumb": ["properties", "a"], "metadata": {"selected-by-default": False}},
        ],
    },
    {"tap_stream_id": "empty", "database_name": "", "table_name": "", "key_properties": []},
)


def selections() -> list[list[dict[str, Any]]]:
    """Return metadata lists: every flag on a stream and a property, and deeper ones."""
    values = [
        {
            key: value
            for key, value in zip(
                ("inclusion", "selected", "selected-by-default"), combination, strict=True
            )
            if value is not None
        }
        for combination in itertools.product(INCLUSIONS, FLAGS, FLAGS)
    ]
    pairs = [
        [
            {"breadcrumb": [], "metadata": stream},
            {"breadcrumb": ["properties", "a"], "metadata": part},
            {"breadcrumb": ["properties", "a", "properties", "b"], "metadata": {}},
        ]
        for stream, part in itertools.product(values, values)
    ]
    deep = [
        [
            {
                "breadcrumb": list(breadcrumb),
                "metadata": values[(7 * start + 5 * index) % len(values)],
            }
            for index, breadcrumb in enumerate(BREADCRUMBS)
            if (start + index) % 3 or not index
        ]
        for start in range(200)
    ]
    return [[], [{"breadcrumb": ["properties", "a"], "metadata": {}}], *pairs, *deep]


def selected(package: str, metadata: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the selection mask of metadata, and a schema and a record after selection."""
    singer = importlib.import_module(f"{package}.singerlib")
    helpers = importlib.import_module(f"{package}.helpers._catalog")
    mask = singer.MetadataMapping.from_iterable(metadata).resolve_selection()
    return {
        "mask": sorted((list(breadcrumb), value) for breadcrumb, value in mask.items()),
        "probes": [mask[breadcrumb] for breadcrumb in PROBES],
        **reduce_to_selected(helpers, mask, SCHEMA, RECORD),
    }


def reduce_to_selected(helpers: Any, mask: Any, schema: Any, record: Any) -> dict[str, Any]:
    """Return a schema and a record reduced to the selected properties."""
    copy = json.loads(json.dumps(record))
    helpers.pop_deselected_record_properties(copy, schema, mask)
    return {"schema": helpers.get_selected_schema("stream", schema, mask), "record": copy}


def catalogs(package: str) -> dict[str, Any]:
    """Return the results of reading, querying, changing and writing catalogs."""
    singer = importlib.import_module(f"{package}.singerlib")
    helpers = importlib.import_module(f"{package}.helpers._catalog")
    catalog = singer.Catalog.from_dict({"streams": list(ENTRIES)})
    documents: dict[str, Any] = {
        "read": catalog.to_dict(),
        "ids": list(catalog),
        "by id": catalog.get_stream("public-whole").stream,
        "by name": catalog.get_stream("whole") is None,
        "entries": [entry.tap_stream_id for entry in catalog.streams],
    }
    helpers.set_catalog_stream_selected(
        catalog, "plain", selected=True, breadcrumb=("properties", "x")
    )
    helpers.deselect_all_streams(catalog)
    catalog.add_stream(singer.CatalogEntry.from_dict({"tap_stream_id": "added", "stream": "s"}))
    documents["changed"] = catalog.to_dict()
    try:
        helpers.set_catalog_stream_selected(catalog, "missing", selected=True)
    except ValueError:
        documents["missing"] = "ValueError"
    return documents


def outcomes(package: str, masks: list[Any]) -> dict[str, Any]:
    """Return the results of all cases; ``masks`` are (mask items, schema, record)."""
    singer = importlib.import_module(f"{package}.singerlib")
    helpers = importlib.import_module(f"{package}.helpers._catalog")
    results = {
        "standard": [singer.MetadataMapping.get_standard_metadata(**s).to_list() for s in STANDARD],
        "selected": [selected(package, metadata) for metadata in selections()],
        "catalogs": catalogs(package),
        "masked": [
            reduce_to_selected(
                helpers, singer.SelectionMask((tuple(b), v) for b, v in mask), schema, record
            )
            for mask, schema, record in masks
        ],
    }
    return dict(json.loads(json.dumps(results)))


if __name__ == "__main__":
    print(json.dumps(outcomes(sys.argv[1], json.load(sys.stdin))))
