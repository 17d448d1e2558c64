"""Parsing and validation of the ``--catalog`` file, and its comparison with the tap's streams.

An invalid file raises an error with the file's name and the position of the invalid value. Streams
and properties that the tap does not have only cause a warning. Schemas that the tap's code computes
are not compared, because computing them may send requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from inspect import getattr_static
from typing import TYPE_CHECKING, Any, Final, cast

from tap_core.config.similar_names import find_similar
from tap_core.exceptions import CatalogFileError
from tap_core.protocols.catalog_entries import get_properties
from tap_core.singerlib.catalog import (
    REPLICATION_FULL_TABLE,
    REPLICATION_INCREMENTAL,
    REPLICATION_LOG_BASED,
    CatalogEntry,
)
from tap_core.singerlib.json import (
    describe_json_error,
    describe_non_utf8,
    is_utf8,
    load_json,
)

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream

__all__ = ["find_unknown_streams", "parse_catalog"]

_MOST_SUGGESTIONS: Final = 10
"""Number of unknown streams for which a similar one is searched, which takes long for thousands."""

_MAX_BREADCRUMB: Final = 500
"""Maximum length of a breadcrumb: twice the schema depth that Python's recursion allows."""

_METHODS: Final = (REPLICATION_FULL_TABLE, REPLICATION_INCREMENTAL, REPLICATION_LOG_BASED)
_STRING_KEYS: Final = ("tap_stream_id", "stream", "replication_key", "replication_method")
_SCHEMA_DICT_KEYWORDS: Final = ("properties", "patternProperties")
_SCHEMA_LIST_KEYWORDS: Final = ("anyOf", "oneOf", "allOf")
_OPTION_TYPES: Final = (Mapping, str, list, bool)
"""Types of an option of ``anyOf``: singer_sdk also accepts names of types instead of schemas."""


def parse_catalog(text: str | bytes, source: str) -> dict[str, Any]:
    """Parse and validate a Singer catalog. Lone surrogates in strings become U+FFFD.

    Args:
        text: Content of the catalog file.
        source: Name of the file, for error messages.

    Raises:
        CatalogFileError: The content is not UTF-8, not JSON or not an object with a list of
            ``streams``, or one of the streams is invalid.
    """
    from tap_core.io.json_lines import repair_surrogates

    content = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    try:
        repaired = repair_surrogates(content)
        catalog = load_json(repaired.decode(json.detect_encoding(repaired)))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        is_text = is_utf8(content)
        reason = (
            f"not JSON: {describe_json_error(error)}" if is_text else describe_non_utf8(content)
        )
        raise CatalogFileError(f"Catalog '{source}' is {reason}") from None
    streams = catalog.get("streams") if isinstance(catalog, dict) else None
    if not isinstance(streams, list) or not all(isinstance(stream, dict) for stream in streams):
        raise CatalogFileError(f"Catalog '{source}' has no list of 'streams'")
    for number, stream in enumerate(streams, 1):
        name = stream.get("tap_stream_id") or stream.get("stream")
        suffix = f" ({name})" if isinstance(name, str) else ""
        _check_entry(stream, f"Catalog '{source}', stream {number}{suffix}")
    return cast("dict[str, Any]", catalog)


def _check_entry(entry: Mapping[str, Any], location: str) -> None:
    """Raise CatalogFileError if a catalog entry is invalid.

    ``location`` is the position of the entry for the message: "Catalog 'c.json', stream 1 (a)".
    """
    metadata = entry.get("metadata", [])
    if not isinstance(metadata, list) or not all(isinstance(item, dict) for item in metadata):
        raise CatalogFileError(f"{location}: 'metadata' is not a list of objects")
    _check_keys(entry, metadata, location)
    for name in _STRING_KEYS:
        if not isinstance(entry.get(name), str | None):
            raise CatalogFileError(f"{location}: '{name}' is not a string")
    if not isinstance(entry.get("schema", {}), Mapping):
        raise CatalogFileError(f"{location}: 'schema' is not an object")
    try:
        _check_schema(entry.get("schema"), location, "")
        _check_metadata(metadata, location)
        CatalogEntry.from_dict(entry)
    except KeyError as error:
        raise CatalogFileError(f"{location}: {error} is missing") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise CatalogFileError(f"{location}: a value is not of the right type: {error}") from None
    except RecursionError:
        raise CatalogFileError(f"{location}: the schema is nested too deeply") from None


def _check_keys(entry: Mapping[str, Any], metadata: list[dict[str, Any]], location: str) -> None:
    """Raise CatalogFileError if a stream has several replication keys, or a key is not a string.

    ``metadata`` is the list in the catalog ``entry``. ``location`` is the position of the entry,
    for the message.
    """
    roots = [item.get("metadata") for item in metadata if not item.get("breadcrumb")]
    root = roots[0] if roots else None
    root_key = root.get("replication-key") if isinstance(root, Mapping) else None
    for key in (entry.get("replication_key"), root_key):
        if isinstance(key, list):
            reason = f"the replication key {str(key)[:100]} is a list; a stream has one, a string"
            raise CatalogFileError(f"{location}: {reason}")
    keys = entry.get("key_properties") or []
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise CatalogFileError(f"{location}: 'key_properties' is not a list of strings")


def _check_metadata(metadata: Iterable[Any], location: str) -> None:
    """Raise CatalogFileError if an item of ``metadata`` is invalid.

    Its breadcrumb must be a list of at most 500 names, and its metadata an object. ``location`` is
    the position of the catalog entry, for the message.
    """
    for number, item in enumerate(metadata, 1):
        breadcrumb = item.get("breadcrumb", [])
        is_list = isinstance(breadcrumb, list) and len(breadcrumb) <= _MAX_BREADCRUMB
        if not is_list or any(isinstance(name, list | dict) for name in breadcrumb):
            raise CatalogFileError(
                f"{location}: the 'breadcrumb' in metadata {number} is not a list of at most"
                f" {_MAX_BREADCRUMB} names"
            )
        if not isinstance(item.get("metadata", {}), Mapping):
            raise CatalogFileError(
                f"{location}: the 'metadata' of breadcrumb {breadcrumb} is not an object"
            )


def _check_schema(schema: Any, location: str, path: str) -> None:
    """Raise CatalogFileError if a schema or a subschema has a value that cannot be used.

    These are a ``type`` or ``format`` that is not a string, ``properties`` that are not an object,
    and an option of ``anyOf`` that is neither a schema nor the name of a type.

    Args:
        schema: The schema.
        location: The position of the catalog entry, for the message.
        path: The position of a subschema in the entry's schema, such as ``properties.a``, or "".
    """
    if not isinstance(schema, Mapping):
        return
    where = f"'{path}' of the schema" if path else "the schema"
    types = schema.get("type", [])
    names = types if isinstance(types, list) else [] if types is None else [types]
    if not all(isinstance(name, str) for name in names):
        raise CatalogFileError(
            f"{location}: a 'type' in {where} is not a string or a list of strings"
        )
    if not isinstance(schema.get("format"), str | None):
        raise CatalogFileError(f"{location}: a 'format' in {where} is not a string")
    if not isinstance(schema.get("properties"), Mapping | None):
        raise CatalogFileError(f"{location}: 'properties' in {where} is not an object")
    options = schema.get("anyOf") or []
    if not isinstance(options, list) or not all(
        isinstance(option, _OPTION_TYPES) for option in options
    ):
        raise CatalogFileError(f"{location}: 'anyOf' in {where} is not a list of schemas")
    for position, subschema in _iterate_subschemas(schema):
        _check_schema(subschema, location, f"{path}.{position}" if path else position)


def _iterate_subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each subschema with its position in the schema, such as ``properties.a``."""
    for key in ("items", "additionalProperties"):
        yield key, schema.get(key)
    for key in _SCHEMA_DICT_KEYWORDS:
        subschemas = schema.get(key)
        if isinstance(subschemas, Mapping):
            yield from ((f"{key}.{name}", subschema) for name, subschema in subschemas.items())
    for key in _SCHEMA_LIST_KEYWORDS:
        subschemas = schema.get(key)
        if isinstance(subschemas, list):
            yield from (
                (f"{key}.{number}", subschema) for number, subschema in enumerate(subschemas)
            )


def find_unknown_streams(
    catalog: Mapping[str, Any], streams: Mapping[str, SyncStream]
) -> Iterator[str]:
    """Yield warnings about streams, properties and replication methods that the tap does not have.

    There is one warning for each stream with unknown properties or an unknown method. One more
    warning names all unknown streams, and suggests similar streams that the catalog lacks.
    ``streams`` are the tap's streams by name, with the catalog applied.
    """
    known = {stream.tap_stream_id: stream for stream in streams.values()}
    unknown = []
    listed = {entry.get("tap_stream_id") for entry in catalog["streams"]}
    for entry in catalog["streams"]:
        name = entry.get("tap_stream_id") or entry.get("stream")
        stream = known.get(name) or streams.get(name)
        if stream is None:
            unknown.append(str(name))
            continue
        schema = _get_known_schema(stream)
        extra = get_properties(entry.get("schema")).keys() - get_properties(schema)
        if schema is not None and extra:
            names = ", ".join(sorted(extra))
            yield f"The catalog's stream '{name}' has unknown properties: {names}"
        method = stream.forced_replication_method
        if method and method not in _METHODS:
            yield (
                f"Stream '{name}' has the replication method '{method}', so it is read in full and"
                f" has no bookmark. Use one of {', '.join(_METHODS)} in the catalog."
            )
    if unknown:
        unlisted = [name for name, stream in streams.items() if stream.tap_stream_id not in listed]
        similar = {name: find_similar(name, unlisted) for name in unknown[:_MOST_SUGGESTIONS]}
        shown = [
            f"{name} (did you mean {similar[name]!r}?)" if similar.get(name) else name
            for name in unknown
        ]
        yield f"The catalog has streams that this tap does not: {', '.join(shown)}"


def _get_known_schema(stream: SyncStream) -> Mapping[str, Any] | None:
    """Return a stream's schema, to compare it with a catalog.

    Return None if the tap's own code computes the schema in a property: this may send requests.
    """
    attribute = getattr_static(stream, "schema", None)
    if isinstance(attribute, Mapping):
        return attribute
    getter = getattr(attribute, "fget", None)
    package = getattr(getter, "__module__", "").partition(".")[0]
    return stream.schema if package == __name__.partition(".")[0] else None
