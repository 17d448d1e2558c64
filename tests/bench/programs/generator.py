"""The generator of records for all programs, with their schemas and catalogs.

It uses only the standard library, because it runs in the environment of each peer. Each record is a
new dict of prepared values, so that generating it costs little. All values depend only on the
number of the record, so that the output of a program can be checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

__all__ = [
    "CHILD_SCHEMA",
    "DESELECTED",
    "NARROW_SCHEMA",
    "NESTED_SCHEMA",
    "PARENT_SCHEMA",
    "PARTITION_SCHEMA",
    "WIDE_SCHEMA",
    "catalog",
    "narrow",
    "nested",
    "parents",
    "partition",
    "wide",
]

VARIETY = 1_000

_TEXT = {"type": ["string", "null"]}
_NUMBER = {"type": ["number", "null"]}
_INTEGER = {"type": ["integer", "null"]}
_BOOLEAN = {"type": ["boolean", "null"]}
_INSTANT = {"type": ["string", "null"], "format": "date-time"}


def _format_values(pattern: str, variety: int = VARIETY) -> list[str]:
    return [pattern.format(n) for n in range(variety)]


@cache
def _minutes(count: int) -> list[str]:
    """Return the minutes, in order, that this number of records covers with one per second."""
    hours = count // 3600 + 1
    return [
        f"{2000 + h // 8064}-{h // 672 % 12 + 1:02}-{h // 24 % 28 + 1:02}T{h % 24:02}:{m:02}:"
        for h in range(hours)
        for m in range(60)
    ]


_SECONDS = [f"{second:02}+00:00" for second in range(60)]


# Eight columns, about 350 bytes per RECORD message

NARROW_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": _TEXT,
        "email": _TEXT,
        "amount": _NUMBER,
        "active": _BOOLEAN,
        "quantity": _INTEGER,
        "updated_at": _INSTANT,
        "note": _TEXT,
    },
}

_NAMES = _format_values("Customer number {0:04}")
_EMAILS = _format_values("customer.{0:04}@example.com")
_AMOUNTS = [n * 12.25 for n in range(VARIETY)]
_NOTES = _format_values("note {0:04}: " + "the quick brown fox jumps over " * 2)


def narrow(count: int) -> Iterator[dict[str, Any]]:
    """Yield records of eight columns, sorted by ``updated_at``."""
    minutes = _minutes(count)
    for n in range(count):
        k = n % VARIETY
        yield {
            "id": n,
            "name": _NAMES[k],
            "email": _EMAILS[k],
            "amount": _AMOUNTS[k],
            "active": k < 500,
            "quantity": k,
            "updated_at": minutes[n // 60] + _SECONDS[n % 60],
            "note": _NOTES[k],
        }


# Eight columns: an address with coordinates instead of the note

_GEO = {"type": ["object", "null"], "properties": {"lat": _NUMBER, "lon": _NUMBER}}
_ADDRESS = {"street": _TEXT, "city": _TEXT, "zip": _TEXT, "geo": _GEO}
NESTED_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        **{name: field for name, field in NARROW_SCHEMA["properties"].items() if name != "note"},
        "address": {"type": ["object", "null"], "properties": _ADDRESS},
    },
}

_STREETS = _format_values("{0} Long Road")
_CITIES = _format_values("City {0:04}")
_ZIPS = _format_values("{0:05}")


def nested(count: int) -> Iterator[dict[str, Any]]:
    """Yield records of eight columns, one of which is an object that contains an object."""
    minutes = _minutes(count)
    for n in range(count):
        k = n % VARIETY
        yield {
            "id": n,
            "name": _NAMES[k],
            "email": _EMAILS[k],
            "amount": _AMOUNTS[k],
            "active": k < 500,
            "quantity": k,
            "updated_at": minutes[n // 60] + _SECONDS[n % 60],
            "address": {
                "street": _STREETS[k],
                "city": _CITIES[k],
                "zip": _ZIPS[k],
                "geo": {"lat": _AMOUNTS[k], "lon": 0.5},
            },
        }


# Sixty columns: eight are objects that contain an object, and four are lists; about 1.7 kB per
# RECORD message

_TYPES = [_TEXT, _NUMBER, _INTEGER, _BOOLEAN]
WIDE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "updated_at": _INSTANT,
        **{f"field_{c:02}": _TYPES[c % 4] for c in range(46)},
        **{f"place_{c}": {"type": ["object", "null"], "properties": _ADDRESS} for c in range(8)},
        **{f"tags_{c}": {"type": ["array", "null"], "items": _TEXT} for c in range(4)},
    },
}

DESELECTED = (*(f"field_{c:02}" for c in range(0, 40, 4)), "place_3", "tags_1")
"""A fifth of the columns of the wide stream."""

_WIDE_VARIETY = 50


def _wide_fields(k: int) -> dict[str, Any]:
    values = (f"value {k:03} of text", k * 0.25, k * 1000, k % 2 == 0)
    return {"id": 0, "updated_at": "", **{f"field_{c:02}": values[c % 4] for c in range(46)}}


def _place(k: int, c: int) -> dict[str, Any]:
    return {"street": f"{k} Road", "city": f"City {c}", "zip": f"{k:05}"}


def wide(count: int) -> Iterator[dict[str, Any]]:
    """Yield records of sixty columns, each with new objects and lists."""
    minutes = _minutes(count)
    variety = range(_WIDE_VARIETY)
    fields = [_wide_fields(k) for k in variety]
    places = [[(f"place_{c}", _place(k, c)) for c in range(8)] for k in variety]
    geos = [{"lat": k / 2, "lon": 0.5} for k in variety]
    lists = [[(f"tags_{c}", ["red", f"tag {k}"]) for c in range(4)] for k in variety]
    for n in range(count):
        k = n % _WIDE_VARIETY
        record = fields[k].copy()
        record["id"] = n
        record["updated_at"] = minutes[n // 60] + _SECONDS[n % 60]
        for name, place in places[k]:
            record[name] = {**place, "geo": geos[k].copy()}
        for name, tags in lists[k]:
            record[name] = tags.copy()
        yield record


# Partitions, parents and children

PARTITION_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"part": {"type": "integer"}, **NARROW_SCHEMA["properties"]},
}
PARENT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"part": {"type": "integer"}, "name": _TEXT},
}
CHILD_SCHEMA = PARTITION_SCHEMA


def partition(part: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield the records of one partition or of one parent."""
    for record in narrow(count):
        record["part"] = part
        yield record


def parents(count: int) -> Iterator[dict[str, Any]]:
    """Yield the records of a parent stream."""
    for part in range(count):
        yield {"part": part, "name": _NAMES[part % VARIETY]}


def catalog(stream: str, schema: dict[str, Any], deselected: Iterable[str] = ()) -> dict[str, Any]:
    """Return a Singer catalog that selects a stream without the deselected columns."""
    deselected_names = set(deselected)
    metadata = [{"breadcrumb": [], "metadata": {"selected": True, "inclusion": "available"}}]
    metadata += [
        {
            "breadcrumb": ["properties", name],
            "metadata": {"selected": name not in deselected_names, "inclusion": "available"},
        }
        for name in schema["properties"]
    ]
    entry = {
        "tap_stream_id": stream,
        "stream": stream,
        "replication_method": "INCREMENTAL",
        "replication_key": "updated_at",
        "key_properties": ["id"],
        "schema": schema,
        "metadata": metadata,
    }
    return {"streams": [entry]}
