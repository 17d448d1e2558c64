"""The file of ``--catalog``: read, and compared with what the tap has.

Rules of the room: a file that holds no catalog is refused with its name and place; a
catalog that speaks of what the tap does not have is used, and each stranger is named. No
schema is asked for here that an author's code computes: it may send requests, and a catalog
is given so that a sync need not discover.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from inspect import getattr_static
from typing import Any, Final, Protocol

from tap_core.exceptions import CatalogFileError
from tap_core.io.json_lines import repair_surrogates
from tap_core.singerlib.catalog import CatalogEntry
from tap_core.singerlib.json import load_json

__all__ = ["CatalogStream", "find_unknown_streams", "parse_catalog"]


class CatalogStream(Protocol):
    """A stream, as far as a catalog can be compared with it."""

    @property
    def tap_stream_id(self) -> str:
        """What the catalog calls it."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """Its JSON Schema, as the tap has it."""


def parse_catalog(text: str | bytes, source: str) -> dict[str, Any]:
    """Read a catalog; ``source`` is its name for messages. A lone surrogate becomes U+FFFD.

    Raises:
        CatalogFileError: it is not JSON, not an object with a list of ``streams``, or one of
            these cannot be read.
    """
    content = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    try:
        whole = repair_surrogates(content)
        found = load_json(whole.decode(json.detect_encoding(whole)))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise CatalogFileError(f"Catalog '{source}' is not JSON: {error.msg} ({place})") from None
    except UnicodeDecodeError:
        raise CatalogFileError(f"Catalog '{source}' is not UTF-8 text") from None
    streams = found.get("streams") if isinstance(found, dict) else None
    if not isinstance(streams, list) or not all(isinstance(each, dict) for each in streams):
        raise CatalogFileError(f"Catalog '{source}' has no list of 'streams'")
    for number, each in enumerate(streams, 1):
        _check_entry(each, f"Catalog '{source}', stream {number}")
    catalog: dict[str, Any] = found
    return catalog


_TEXTS: Final = ("tap_stream_id", "stream", "replication_key", "replication_method")


def _check_entry(entry: Mapping[str, Any], place: str) -> None:
    """Raise CatalogFileError unless an entry can be read as a stream's."""
    _check_keys(entry, place)
    for name in _TEXTS:
        if not isinstance(entry.get(name), str | None):
            raise CatalogFileError(f"{place}: '{name}' is not a text")
    try:
        CatalogEntry.from_dict(entry)
        _check_schema(entry.get("schema"), place)
        _check_breadcrumbs(entry.get("metadata") or (), place)
    except KeyError as error:
        raise CatalogFileError(f"{place}: {error} is missing") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise CatalogFileError(f"{place}: a value is not of the right type: {error}") from None
    except RecursionError:
        raise CatalogFileError(f"{place}: the schema is nested too deeply") from None


def _check_keys(entry: Mapping[str, Any], place: str) -> None:
    """Raise CatalogFileError for several replication keys, and for keys that are no names."""
    metadata = entry.get("metadata")
    listed = metadata if isinstance(metadata, list) else []
    roots = [one for one in listed if isinstance(one, Mapping) and not one.get("breadcrumb")]
    about = roots[0].get("metadata") if roots else None
    in_metadata = about.get("replication-key") if isinstance(about, Mapping) else None
    for key in (entry.get("replication_key"), in_metadata):
        if isinstance(key, list):
            told = f"{str(key)[:100]} as the replication key; a stream has one, which is a text"
            raise CatalogFileError(f"{place}: {told}")
    keys = entry.get("key_properties") or []
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise CatalogFileError(f"{place}: 'key_properties' is not a list of texts")


_DEEPEST: Final = 500
"""Names that a breadcrumb may have: twice the depth of a schema that Python can walk through."""


def _check_breadcrumbs(metadata: Iterable[Any], place: str) -> None:
    """Raise CatalogFileError if metadata names its property by something else than a list."""
    for each in metadata:
        breadcrumb = each.get("breadcrumb") or []
        if not isinstance(breadcrumb, list) or len(breadcrumb) > _DEEPEST:
            raise CatalogFileError(
                f"{place}: a 'breadcrumb' in the metadata is not a list of at most {_DEEPEST} names"
            )


_NAMED_SCHEMAS: Final = ("properties", "patternProperties")
_LISTED_SCHEMAS: Final = ("anyOf", "oneOf", "allOf")


def _check_schema(schema: Any, place: str) -> None:
    """Raise CatalogFileError if a type or format, here or in an inner schema, is not a text."""
    if not isinstance(schema, Mapping):
        return
    types = schema.get("type", [])
    names = types if isinstance(types, list) else [] if types is None else [types]
    if not all(isinstance(name, str) for name in names):
        raise CatalogFileError(f"{place}: a 'type' in the schema is not a text or a list of texts")
    if not isinstance(schema.get("format"), str | None):
        raise CatalogFileError(f"{place}: a 'format' in the schema is not a text")
    for one in _inner_schemas(schema):
        _check_schema(one, place)


def _inner_schemas(schema: Mapping[str, Any]) -> Iterator[Any]:
    yield schema.get("items")
    yield schema.get("additionalProperties")
    for key in _NAMED_SCHEMAS:
        yield from (schema.get(key) or {}).values()
    for key in _LISTED_SCHEMAS:
        yield from schema.get(key) or ()


def find_unknown_streams(
    catalog: Mapping[str, Any], streams: Mapping[str, CatalogStream]
) -> Iterator[str]:
    """Say, in a sentence each, what a catalog has that the tap's streams (by name) have not."""
    known = {stream.tap_stream_id: stream for stream in streams.values()}
    unknown = []
    for entry in catalog["streams"]:
        name = entry.get("tap_stream_id") or entry.get("stream")
        stream = known.get(name) or streams.get(name)
        if stream is None:
            unknown.append(str(name))
            continue
        schema = _at_hand(stream)
        new = _properties(entry.get("schema")) - _properties(schema)
        if schema is not None and new:
            yield f"The catalog's stream '{name}' has unknown properties: {', '.join(sorted(new))}"
    if unknown:
        yield f"The catalog has streams that this tap does not: {', '.join(unknown)}"


def _at_hand(stream: CatalogStream) -> Mapping[str, Any] | None:
    """Return the schema of a stream that was given one, None where an author computes it."""
    found = getattr_static(stream, "schema", None)
    if isinstance(found, Mapping):
        return found
    getter = getattr(found, "fget", None)
    ours = getattr(getter, "__module__", "").partition(".")[0] == __name__.partition(".")[0]
    return stream.schema if ours else None


def _properties(schema: Any) -> set[str]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return set(properties or ())
