"""Conversion of source names to names that every table format accepts.

The result depends only on the set of names in the same table or struct, never on their order.
Acceptable names stay unchanged: dots, emoji, upper case and SQL keywords are fine, because every
reference goes through `quote`. White space and ``,;{}()=``, which Parquet and Delta Lake reject,
and characters that break quoting or logs (backticks, control characters) become ``_``.
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
"""Names that a table format reserves for its own columns."""

_INTERNAL = ("__target_spark_", "__fivetran_")
"""Prefixes of internal columns that a DataFrame has besides the table's columns."""

_REFUSED = re.compile(r"[\s,;{}()=`\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

_REFUSED_IN_PATHS = re.compile(r"[\\/:*?\"<>|%#\s,;{}()=`\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""The characters above, and those with a special meaning in paths of any file system."""

_REFUSED_IN_CATALOGS = re.compile(r"[^a-z0-9_]")

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LONGEST_TABLE_NAME = 120
"""In bytes: folder names have at most 255, and writers append suffixes to the name."""

_LONGEST_GIVEN_NAME = 200


def quote(*parts: str) -> str:
    """Return a column name, or the dotted path of a struct field, quoted for Spark SQL."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def sql_literal(text: str) -> str:
    """Return a text as a Spark SQL string literal, with quotes and backslashes escaped."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def format_instant(at: datetime) -> str:
    """Return a datetime as a Spark SQL timestamp expression.

    A datetime without a time zone is taken as UTC.
    """
    aware = at if at.tzinfo else at.replace(tzinfo=timezone.utc)
    return f"timestamp_micros({(aware - _EPOCH) // timedelta(microseconds=1)}L)"


def fold_case(name: str) -> str:
    """Return a name in lower case, to compare names. Tables ignore the case of names."""
    return name.lower()


def sanitize_names(names: Sequence[str], reserved: Collection[str] = ()) -> dict[str, str]:
    """Return a valid column name for each source name. The names differ in more than case.

    Several source names may lead to the same column name. The source name that equals the column
    name gets it, or else the first source name in sorted order. The others get ``_2``, ``_3`` and
    so on appended. A name with the prefix of an internal column gets an additional ``_`` in front.

    Args:
        names: The source names.
        reserved: Column names that must not be used.
    """
    taken = {fold_case(name) for name in reserved}
    result: dict[str, str] = {}
    allowed = {name: _allowed(name) for name in set(names)}
    for name in sorted(allowed, key=lambda name: (allowed[name] != name, name)):
        if fold_case(allowed[name]) not in taken:
            result[name] = allowed[name]
            taken.add(fold_case(allowed[name]))
    numbers: dict[str, int] = {}  # the last number used for each name
    for name in sorted(allowed.keys() - result.keys()):
        number = numbers.get(fold_case(allowed[name]), 1) + 1
        while fold_case(f"{allowed[name]}_{number}") in taken:
            number += 1
        numbers[fold_case(allowed[name])] = number
        result[name] = f"{allowed[name]}_{number}"
        taken.add(fold_case(result[name]))
    return {name: result[name] for name in names}


def is_internal(name: str) -> bool:
    """Return True if a name starts with a prefix of target-spark's internal columns.

    Internal columns exist only in DataFrames, never in a table.
    """
    return fold_case(name).startswith(_INTERNAL)


def _allowed(name: str) -> str:
    allowed = _REFUSED.sub("_", name) or "_"
    return f"_{allowed}" if is_internal(allowed) else allowed


def table_name(stream: StreamId) -> str:
    """Return the name of a stream's table, which is also the name of its folder.

    The name is the stream's name. If the stream has a namespace, the namespace and two underscores
    precede it. If the result is not a valid folder name, or another stream could get the same name,
    it is made valid and a hash is appended.
    """
    plain = f"{stream.namespace}__{stream.name}" if stream.namespace else stream.name
    name = _REFUSED_IN_PATHS.sub("_", plain)
    if name[:1] in {"", ".", "_"}:  # Spark treats such folders as hidden
        name = f"t{name}"
    ambiguous = bool(stream.namespace) and ("___" in plain or plain.count("__") > 1)
    if name == plain and not ambiguous and len(name.encode()) <= _LONGEST_TABLE_NAME:
        return name
    return f"{_shortened(name)}_{_digest(stream)}"


def catalog_identifier(stream: StreamId) -> str:
    """Return the name of a stream's table in a catalog, with lower-case letters, digits and ``_``.

    Catalogs such as Hive's accept no other characters and ignore case. The name is the name of the
    table's folder in lower case, with hyphens replaced by ``_``. If other characters had to be
    replaced as well, a hash is appended.
    """
    folder, digest = table_name(stream), _digest(stream)
    candidate = folder.lower().replace("-", "_")
    name = _REFUSED_IN_CATALOGS.sub("_", candidate)
    if name[0] == "_":  # Spark treats such folders as hidden
        name = f"t{name}"
    return name if name == candidate or folder.endswith(digest) else f"{name}_{digest}"


def is_valid_folder_name(name: str) -> bool:
    """Return True if a name is a valid folder name for a table on every file system.

    It must not be hidden, contain special characters, or exceed 200 bytes.
    """
    hidden = name[:1] in {"", ".", "_"}
    short = len(name.encode(errors="replace")) <= _LONGEST_GIVEN_NAME
    return short and not hidden and not _REFUSED_IN_PATHS.search(name)


def _shortened(name: str) -> str:
    return name.encode()[:_LONGEST_TABLE_NAME].decode(errors="ignore")


def _digest(stream: StreamId) -> str:
    # repr of a tuple, because joining the two by a separator would be ambiguous.
    whole = repr((stream.namespace, stream.name)).encode("utf-8", "surrogatepass")
    return hashlib.sha256(whole).hexdigest()[:8]
