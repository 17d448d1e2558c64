"""Names: from a source's words to names that every table format takes.

Rules of the room: pure functions of the names alone. What a name becomes depends on the
set of names that stand beside it, never on the order in which they came. A name that can
stay is not touched: dots, emoji, upper case and words of SQL are good names, because
every reference goes through `quote`. Names that table formats refuse (white space and
``,;{}()=``, the list of Parquet and Delta Lake) and what breaks quoting or logs (back
ticks, control characters) become ``_``.
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
"""Names that a table format has for columns of its own, and takes from no table."""

_INTERNAL = ("__target_spark_", "__fivetran_")
"""How the columns begin that frames have on the way into a table, beside the table's own."""

_REFUSED = re.compile(r"[\s,;{}()=`\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

_REFUSED_IN_PATHS = re.compile(r"[\\/:*?\"<>|%#\s,;{}()=`\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Above, and what has a meaning in a folder's address on one of the file systems."""

_REFUSED_IN_CATALOGS = re.compile(r"[^a-z0-9_]")

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LONGEST_TABLE_NAME = 120
"""In bytes: folders take 255, and writers put their own words beside the name."""

_LONGEST_GIVEN_NAME = 200


def quote(*parts: str) -> str:
    """Return a reference to a column, or to a field of a struct, for Spark SQL."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def sql_literal(text: str) -> str:
    """Return a text as Spark SQL writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def format_instant(at: datetime) -> str:
    """Return an instant as Spark SQL writes it; one without a zone is in UTC."""
    known = at if at.tzinfo else at.replace(tzinfo=timezone.utc)
    return f"timestamp_micros({(known - _EPOCH) // timedelta(microseconds=1)}L)"


def fold_case(name: str) -> str:
    """Return the form in which two names are one name to a table: case does not count."""
    return name.lower()


def sanitize_names(names: Sequence[str], reserved: Collection[str] = ()) -> dict[str, str]:
    """Return the column name for each source name, all different whatever their case.

    Of names that would be one column the first in sorted order gets it, the others
    ``_2``, ``_3`` and so on; a name that needs no change goes before those that do.
    ``reserved`` names are given to nobody, nor those that are internal: these get one ``_`` more.
    """
    taken = {fold_case(name) for name in reserved}
    result: dict[str, str] = {}
    wanted = {name: _allowed(name) for name in set(names)}
    for name in sorted(wanted, key=lambda name: (wanted[name] != name, name)):
        if fold_case(wanted[name]) not in taken:
            result[name] = wanted[name]
            taken.add(fold_case(wanted[name]))
    numbers: dict[str, int] = {}  # the last one of each name: those before it stay taken
    for name in sorted(wanted.keys() - result.keys()):
        number = numbers.get(fold_case(wanted[name]), 1) + 1
        while fold_case(f"{wanted[name]}_{number}") in taken:
            number += 1
        numbers[fold_case(wanted[name])] = number
        result[name] = f"{wanted[name]}_{number}"
        taken.add(fold_case(result[name]))
    return {name: result[name] for name in names}


def is_internal(name: str) -> bool:
    """Tell whether a name begins as those of columns that no table has."""
    return fold_case(name).startswith(_INTERNAL)


def _allowed(name: str) -> str:
    allowed = _REFUSED.sub("_", name) or "_"
    return f"_{allowed}" if is_internal(allowed) else allowed


def table_name(stream: StreamId) -> str:
    """Return the name of a stream's table, which is also the name of its folder.

    A stream's name stays as it is wherever a folder can have it, with its namespace and
    two underscores before it. Where it had to be changed, or where another namespace and
    name could give the same, a hash of both keeps tables apart.
    """
    wanted = f"{stream.namespace}__{stream.name}" if stream.namespace else stream.name
    name = _REFUSED_IN_PATHS.sub("_", wanted)
    if name[:1] in {"", ".", "_"}:  # Spark takes such folders for hidden
        name = f"t{name}"
    ambiguous = bool(stream.namespace) and ("___" in wanted or wanted.count("__") > 1)
    if name == wanted and not ambiguous and len(name.encode()) <= _LONGEST_TABLE_NAME:
        return name
    return f"{_shortened(name)}_{_digest(stream)}"


def catalog_identifier(stream: StreamId) -> str:
    """Return the name of a stream's table in a catalog: small letters, digits and ``_``.

    Catalogs of Hive's kind take no other signs, and case does not count there. It is the
    folder's name in small letters, hyphens become ``_``; where anything else had to be
    changed, the hash keeps tables apart.
    """
    folder, digest = table_name(stream), _digest(stream)
    spelled = folder.lower().replace("-", "_")
    name = _REFUSED_IN_CATALOGS.sub("_", spelled)
    if name[0] == "_":  # Spark takes such folders for hidden
        name = f"t{name}"
    return name if name == spelled or folder.endswith(digest) else f"{name}_{digest}"


def is_valid_folder_name(name: str) -> bool:
    """Tell whether a name can be that of a table's folder, wherever it lies."""
    hidden = name[:1] in {"", ".", "_"}
    short = len(name.encode(errors="replace")) <= _LONGEST_GIVEN_NAME
    return short and not hidden and not _REFUSED_IN_PATHS.search(name)


def _shortened(name: str) -> str:
    return name.encode()[:_LONGEST_TABLE_NAME].decode(errors="ignore")


def _digest(stream: StreamId) -> str:
    # A JSON-like form, because joining the two by any sign would make two streams one.
    whole = repr((stream.namespace, stream.name)).encode("utf-8", "surrogatepass")
    return hashlib.sha256(whole).hexdigest()[:8]
