"""Conversion of stream and property names to table and column names of all table formats.

Names with dots, emoji, upper case or SQL keywords stay unchanged, because SQL always quotes them
with `quote`. White space, the characters ``,;{}()=`` (which Parquet and Delta Lake reject),
backticks and control characters become ``_``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from types import MappingProxyType

from tap_core.events import StreamId

__all__ = [
    "RESERVED",
    "catalog_identifier",
    "fold_case",
    "format_instant",
    "is_internal",
    "is_valid_folder_name",
    "quote",
    "sanitize_names",
    "sql_literal",
    "table_name",
]

RESERVED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "iceberg": frozenset(
            {
                "_change_ordinal",
                "_change_type",
                "_commit_snapshot_id",
                "_deleted",
                "_file",
                "_last_updated_sequence_number",
                "_partition",
                "_pos",
                "_row_id",
                "_spec_id",
            }
        )
    }
)
"""Column names that a table format reserves for itself, by the name of the format."""

_INTERNAL = ("__target_spark_", "__fivetran_")
"""Prefixes of the internal columns of a DataFrame, which are not in the table."""

_REFUSED = re.compile(r"[\s,;{}()=`\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

_REFUSED_IN_PATHS = re.compile(r"[\\/:*?\"<>|%#\s,;{}()=`\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Pattern of the characters that are replaced in the names of table folders: Parquet or Delta
reject them, or they have a special meaning in paths of some file system."""

_REFUSED_IN_CATALOGS = re.compile(r"[^a-z0-9_]")

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LONGEST_TABLE_NAME = 120
"""Maximum bytes of a table name without its hash. File systems limit folder names to 255 bytes, and
writers append suffixes."""

_LONGEST_GIVEN_NAME = 200


def quote(*parts: str) -> str:
    """Return a column name or a path quoted for Spark SQL: ``("a", "b c")`` -> `` `a`.`b c` ``."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def sql_literal(text: str) -> str:
    """Return a Spark SQL string literal for a text, with quotes and backslashes escaped."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def format_instant(instant: datetime) -> str:
    """Return the SQL expression ``timestamp_micros(...)`` for a datetime.

    A datetime without a time zone is interpreted as UTC.
    """
    aware = instant if instant.tzinfo else instant.replace(tzinfo=timezone.utc)
    return f"timestamp_micros({(aware - _EPOCH) // timedelta(microseconds=1)}L)"


def fold_case(name: str) -> str:
    """Return the form of a name by which names are compared, since tables ignore case.

    Two names have the same form if they are equal for Java's ``equalsIgnoreCase`` or
    ``toLowerCase``, which Spark and the table formats use. So both small sigmas are equal, and an i
    with and without a dot.
    """
    if name.isascii():
        return name.lower()
    return "".join(map(_fold_character, name)).replace("i\u0307", "i")


def _fold_character(character: str) -> str:
    upper = character.upper()
    return (upper if len(upper) == 1 else character).lower()[0]


def sanitize_names(names: Sequence[str], reserved: Collection[str] = ()) -> dict[str, str]:
    """Return a unique, valid column name for each property name, by property name.

    Invalid characters become ``_``. If several names lead to the same column name, ignoring case,
    ``_2``, ``_3`` and so on are appended: ``["a b", "a_b"]`` -> ``{"a b": "a_b_2", "a_b": "a_b"}``.
    The result does not depend on the order of the names.

    Args:
        names: The names of the properties in one table or struct.
        reserved: Column names that must not be used.
    """
    used = {fold_case(name) for name in reserved}
    result: dict[str, str] = {}
    allowed = {name: _replace_invalid_characters(name) for name in set(names)}
    for name in sorted(allowed, key=lambda name: (allowed[name] != name, name)):
        if fold_case(allowed[name]) not in used:
            result[name] = allowed[name]
            used.add(fold_case(allowed[name]))
    numbers: dict[str, int] = {}  # the last number used for each name
    for name in sorted(allowed.keys() - result.keys()):
        number = numbers.get(fold_case(allowed[name]), 1) + 1
        while fold_case(f"{allowed[name]}_{number}") in used:
            number += 1
        numbers[fold_case(allowed[name])] = number
        result[name] = f"{allowed[name]}_{number}"
        used.add(fold_case(result[name]))
    return {name: result[name] for name in names}


def is_internal(name: str) -> bool:
    """Return True if a name has the prefix of an internal column, such as ``__target_spark_``.

    Internal columns exist only in DataFrames, never in a table.
    """
    return fold_case(name).startswith(_INTERNAL)


def _replace_invalid_characters(name: str) -> str:
    """Return a valid column name, which is not that of an internal column."""
    allowed = _REFUSED.sub("_", name) or "_"
    return f"_{allowed}" if is_internal(allowed) else allowed


def table_name(stream: StreamId) -> str:
    """Return the name of a stream's table, which is also the name of its folder.

    The name is ``stream``, or ``namespace__stream`` if the stream has a namespace. If this is not a
    valid folder name, or another stream could get the same name, invalid characters are replaced
    and a hash is appended.
    """
    plain = f"{stream.namespace}__{stream.name}" if stream.namespace else stream.name
    name = _REFUSED_IN_PATHS.sub("_", plain)
    if name[:1] in {"", ".", "_"}:  # Spark treats such folders as hidden
        name = f"t{name}"
    ambiguous = bool(stream.namespace) and ("___" in plain or plain.count("__") > 1)
    if name == plain and not ambiguous and len(name.encode()) <= _LONGEST_TABLE_NAME:
        return name
    shortened = name.encode()[:_LONGEST_TABLE_NAME].decode(errors="ignore")
    return f"{shortened}_{_digest(stream)}"


def catalog_identifier(stream: StreamId) -> str:
    """Return the name of a stream's table in a catalog, with lower-case letters, digits and ``_``.

    Catalogs such as Hive's accept no other characters. The name is the result of `table_name` in
    lower case, with other characters replaced by ``_``. A hash is appended if a character other
    than a hyphen was replaced.
    """
    folder, digest = table_name(stream), _digest(stream)
    candidate = folder.lower().replace("-", "_")
    name = _REFUSED_IN_CATALOGS.sub("_", candidate)
    if name[0] == "_":  # Spark treats such folders as hidden
        name = f"t{name}"
    return name if name == candidate or folder.endswith(digest) else f"{name}_{digest}"


def is_valid_folder_name(name: str) -> bool:
    """Return True if a name is a valid folder name for a table on every file system.

    A valid name has at most 200 bytes and no special characters, and does not start with ``.`` or
    ``_``, because Spark ignores such folders.
    """
    hidden = name[:1] in {"", ".", "_"}
    short = len(name.encode(errors="replace")) <= _LONGEST_GIVEN_NAME
    return short and not hidden and not _REFUSED_IN_PATHS.search(name)


def _digest(stream: StreamId) -> str:
    # repr of a tuple, because joining the two by a separator would be ambiguous.
    names = repr((stream.namespace, stream.name)).encode("utf-8", "surrogatepass")
    return hashlib.sha256(names).hexdigest()[:8]
