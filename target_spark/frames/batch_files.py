r"""The rows of files as lines of the spool, made by Spark alone.

Rules of the room:

- A row of a file becomes the very line that a RECORD message would have become, so that
  conversions, quarantine and counts are the same for both. JSON's reader keeps every digit
  only where it reads files, so the lines are written before they are read.
- Which of two rows is newer is decided by the order of messages, of the files in a
  manifest, and of the rows in a file. Spark reads a file in blocks side by side: a first
  pass counts the lines of each block, a second one numbers them and checks for every line
  that it is where it was counted.
- A line that is no JSON goes on as a JSON text of itself, as the decoder of messages does
  it: whoever reads it must set it aside. So does one with half of a letter. NaN and the
  infinities become null. A line that does not even begin and end as an object is taken
  for the end of a file that was cut off, or for another kind of file: an error.
- Parquet's rows are written as JSON: points in time as ISO 8601 in UTC (without a zone
  where the file has none), binary as base64. A text where the schema has more than text
  is JSON, which taps put where Parquet's types end; if it is none, it is a text.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from target_spark.columns import DELETED_AT
from target_spark.errors import TargetSparkError
from target_spark.frames.json_reader import WHOLE_FILES
from target_spark.loader.batch_files import JSONL, BatchFile, explain_unreadable, get_file_key
from target_spark.spark.observation import get_observation as surely_seen
from target_spark.storage.retry import FailureKind, classify_failure, first_error_line
from target_spark.tables.identifiers import quote, sql_literal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

__all__ = ["BatchFileFrame", "assign_ordinals", "reading_files", "spool_lines_from_files"]

_ONE_VALUE: Final = "(json_array_length(concat('[', {0}, ',0]')) <=> 2)"
"""A text that is one JSON value and nothing else: then an array of it and 0 has two items."""

_STRING: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_WITH_NULLS: Final = rf"""
    replace(replace(regexp_replace(`value`, r'({_STRING})|-?Infinity|NaN', '$1\u0001'),
        '"\u0001', '"'), '\u0001', 'null')"""
"""Every text and every NaN is followed by a character that JSON cannot hold; behind a text
it is taken away again, elsewhere it is where the NaN was."""

_HALVES: Final = r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)"
"""Escapes one after the other; the group is half of a pair without its other half."""

_HAS_HALVES: Final = rf"""
    (`value` RLIKE r'\\u[dD][89a-fA-F]'
        AND exists(regexp_extract_all(`value`, r'{_HALVES}', 1), `half` -> `half` != ''))"""
_SINGER: Final = r'\A\{\s*+"type"\s*+:\s*+"RECORD"\s*+,.*"record"\s*+:\s*+\{'

_READ_FAILURES: Final = re.compile(r"reading file (\S+?)\.(?:\s|$)|Path does not exist: (\S+)\. ")
_CLASH: Final = "CANNOT_MERGE_SCHEMAS"
_TORN: Final = re.compile(
    r"Unexpected end of (?:input stream|ZLIB input stream)|not a (?:gzip|Parquet) file"
    r"|incorrect (?:header|data|length) check"
)
"""What is wrong with a file itself, though its exception is one of the storage."""

_TO_JSON: Final = (
    r"map('timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX',"
    r" 'timestampNTZFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSS')"
)


@dataclass(frozen=True, slots=True)
class BatchFileFrame:
    """Rows of files that stand as lines in the folders ``paths``, and how many they are.

    ``moves`` says of each BATCH message, by its ordinal, how far its rows move the ordinals
    of all that comes after it. ``mended`` counts the rows in which a NaN became null. With
    ``has_deletes`` some may be delete records.
    """

    paths: tuple[str, ...]
    rows: int
    moves: tuple[tuple[int, int], ...]
    mended: int
    has_deletes: bool


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a file that is read in one go; its lines are numbered from ``first``.

    ``broken`` is the first line that is no object at all.
    """

    file: str
    block: int
    first: int
    places: int
    rows: int
    deletes: int = 0
    broken: int | None = None
    is_singer: bool = False


_Begins: TypeAlias = dict[_Part, list[tuple[int, int | None]]]
"""The ordinal of the first line of each part, and the version of its rows; for each time that
its file is named."""


_Numbers: TypeAlias = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class _Scan:
    """Files that are read together, each once, and their parts.

    ``numbers`` are the places of each file among all that are named. ``lines`` has the columns
    ``file``, ``block``, ``id`` and ``value``, the record.
    """

    numbers: _Numbers
    lines: DataFrame
    parts: Sequence[_Part]


def spool_lines_from_files(
    spark: SparkSession,
    files: Sequence[BatchFile],
    path: str,
    moved: int,
) -> BatchFileFrame:
    """Write the rows of files, in their order, as lines of the spool below ``path``.

    ``moved`` is how far the files of earlier batches move their ordinals.

    Raises:
        FilesError: a file is not there, cut off, or of another kind.
    """
    with reading_files(files):
        scans = [scan for group in _groups(files) for scan in _scans(spark, files, group)]
        starts, moves = _places(files, scans, moved)
        mended = 0
        paths: list[str] = []
        for scan, begins in zip(scans, starts, strict=True):
            if scan.parts:
                paths.append(f"{path}/{len(paths)}")
                mended += _write(spark, scan.lines, _build_begins_table(begins), paths[-1])
    begun = [(part, len(times)) for begins in starts for part, times in begins.items()]
    rows = sum(part.rows * times for part, times in begun)
    deletes = any(part.deletes for part, _ in begun)
    return BatchFileFrame(tuple(paths), rows, moves, mended, deletes)


def assign_ordinals(
    spark: SparkSession,
    paths: Sequence[str],
    path: str,
    moves: Sequence[tuple[int, int]],
    moved: int,
) -> None:
    """Write the spool's lines once more below ``path``, their ordinals moved by files."""
    lines = spark.read.option("lineSep", "\n").text(list(paths))
    digits = r"""regexp_extract(`value`, r'\A\{"n":([0-9]+)', 1) AS `digits`"""
    known = lines.selectExpr("`value`", digits)
    counted = known.selectExpr("*", "CAST(`digits` AS BIGINT) AS `n`")
    place = f"`n` + {moved} + {_moved_before(moves)}"
    rest = "substring(`value`, 6 + length(`digits`))"
    counted.selectExpr(f"""concat('{{"n":', {place}, {rest})""").write.text(path)


# Which files are read together, and where their rows stand


def _groups(files: Sequence[BatchFile]) -> list[list[int]]:
    """Return numbers of files of one kind each."""
    groups: dict[tuple[str, frozenset[str]], list[int]] = defaultdict(list)
    for number, file in enumerate(files):
        groups[file.format, file.in_json].append(number)
    return list(groups.values())


def _scans(
    spark: SparkSession, files: Sequence[BatchFile], group: Sequence[int]
) -> Iterator[_Scan]:
    """Yield scans of a group: one, unless the types of Parquet files exclude each other."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for number in group:
        numbers[get_file_key(files[number].place)].append(number)
    patterns = [files[first].pattern for first, *_ in numbers.values()]
    if files[group[0]].format == JSONL:
        lines = _text_lines(spark.read.options(**WHOLE_FILES).text(patterns, lineSep="\n"))
        found = _parts_of_text(lines)
    else:
        try:
            frame = spark.read.options(**WHOLE_FILES).parquet(*patterns, mergeSchema=True)
        except Exception as error:
            if len(numbers) == 1 or _CLASH not in str(error):
                raise
            for same in numbers.values():
                yield from _scans(spark, files, same)
            return
        lines, found = _parquet_lines(frame, files[group[0]].in_json), _parts_of_parquet(frame)
    _check(files, numbers, found)
    yield _Scan(numbers, lines, found)


def _check(files: Sequence[BatchFile], numbers: _Numbers, parts: Sequence[_Part]) -> None:
    """Raise where a file is not what its message says."""
    before: dict[str, int] = defaultdict(int)
    for part in parts:
        key = get_file_key(part.file, escaped=True)
        if key not in numbers:
            raise explain_unreadable(files[0].stream, part.file, "it is not one file, but a folder")
        file = files[numbers[key][0]]
        if part.is_singer:
            reason = "it holds Singer messages, where bare records belong"
            raise explain_unreadable(file.stream, file.address, reason)
        if part.broken is not None:
            line = before[key] + part.broken - part.first + 1
            reason = f"line {line} is no JSON object, or was cut off"
            raise explain_unreadable(file.stream, file.address, reason)
        before[key] += part.places


def _places(
    files: Sequence[BatchFile], scans: Sequence[_Scan], moved: int
) -> tuple[list[_Begins], tuple[tuple[int, int], ...]]:
    """Return where the parts of each scan begin, and how far files move what follows."""
    found: dict[int, list[tuple[int, _Part]]] = defaultdict(list)
    for at, scan in enumerate(scans):
        for part in scan.parts:
            for number in scan.numbers[get_file_key(part.file, escaped=True)]:
                found[number].append((at, part))
    starts: list[_Begins] = [defaultdict(list) for _ in scans]
    moves: dict[int, int] = defaultdict(int)
    for number, file in enumerate(files):
        for at, part in found[number]:
            starts[at][part].append((file.ordinal + moved, file.version))
            moved += part.places
            moves[file.ordinal] += part.places
    return starts, tuple(moves.items())


def _moved_before(moves: Sequence[tuple[int, int]], sure: int = 0) -> str:
    """Return the SQL of how far message `n` is moved by those before it."""
    if not moves:
        return str(sure)
    middle = len(moves) // 2
    more = sure + sum(places for _, places in moves[: middle + 1])
    after = _moved_before(moves[middle + 1 :], more)
    return f"if(`n` > {moves[middle][0]}, {after}, {_moved_before(moves[:middle], sure)})"


# Lines


def _text_lines(text: DataFrame) -> DataFrame:
    return text.selectExpr(
        "`_metadata`.`file_path` AS `file`",
        "`_metadata`.`file_block_start` AS `block`",
        "monotonically_increasing_id() AS `id`",
        r"btrim(`value`, ' \t\r\uFEFF') AS `value`",
    )


def _parts_of_text(lines: DataFrame) -> list[_Part]:
    """Count the lines of each block, and look at what they are."""
    blank = "`value` = ''"
    whole = "startswith(`value`, '{') AND endswith(`value`, '}')"
    found = lines.groupBy("file", "block").agg(
        *map(
            _expression,
            (
                "min(`id`)",
                "count(*)",
                f"count_if(NOT {blank})",
                f"count_if(contains(`value`, '\"{DELETED_AT}\"'))",
                f"min(if({blank} OR {whole}, NULL, `id`))",
                f"bool_and({blank} OR `value` RLIKE r'{_SINGER}') AND count_if(NOT {blank}) > 0",
            ),
        )
    )
    return sorted((_Part(*row) for row in found.collect()), key=_order)


def _parquet_lines(frame: DataFrame, in_json: Collection[str]) -> DataFrame:
    return frame.selectExpr(
        "`_metadata`.`file_path` AS `file`",
        "0L AS `block`",
        "`_metadata`.`row_index` AS `id`",
        f"{_record(frame.schema, in_json)} AS `value`",
    )


def _parts_of_parquet(frame: DataFrame) -> list[_Part]:
    """Count the rows of each file."""
    deletes = int(DELETED_AT in frame.columns)
    found = frame.selectExpr("`_metadata`.`file_path` AS `file`").groupBy("file").count()
    parts = (_Part(row[0], 0, 0, row[1], row[1], deletes) for row in found.collect())
    return sorted(parts, key=_order)


def _order(part: _Part) -> tuple[str, int]:
    return part.file, part.block


def _expression(sql: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's world does

    return F.expr(sql)


def _write(spark: SparkSession, read: DataFrame, begins: str, path: str) -> int:
    """Write lines that were read; return in how many a NaN became null.

    Spark would copy what is made once into all that looks at it; it moves nothing past an
    observation.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's world does

    parts = F.broadcast(spark.sql(begins))
    lines = read.join(parts, ["file", "block"], "left").where("`value` != ''")
    one, seen = _ONE_VALUE.format("`value`"), Observation()
    maybe = f"CASE WHEN {one} THEN `value` WHEN `value` RLIKE 'NaN|Infinity' THEN {_WITH_NULLS} END"
    judged = lines.selectExpr("*", f"{maybe} AS `record`").observe(
        seen, _expression("count_if(`record` != `value`)").alias("mended")
    )
    whole = (
        f"`record` IS NOT NULL AND is_valid_utf8(`value`) AND NOT {_HAS_HALVES}"
        f" AND (`record` = `value` OR {_ONE_VALUE.format('`record`')})"
    )
    here = "`id` - `first` BETWEEN 0 AND `places` - 1"
    moved = "raise_error('a file was changed while it was read')"
    place = f"if({here}, `start` + `id` - `first`, {moved})"
    version = "coalesce(CAST(`version` AS STRING), 'null')"
    body = f"if({whole}, `record`, {_as_text('`value`')})"
    line = f"""concat('{{"n":', {place}, ',"t":null,"v":', {version}, ',"r":', {body}, '}}')"""
    judged.selectExpr(line).write.text(path)
    again = judged.selectExpr("count_if(`record` != `value`) AS `mended`")
    mended: int = surely_seen(spark, seen, lambda: again)["mended"]
    return mended


def _build_begins_table(begins: _Begins) -> str:
    """Return the SQL of where each part of the files begins."""
    rows = []
    for part, start, version in ((part, *each) for part, times in begins.items() for each in times):
        numbers = (part.block, part.first, part.places, start)
        known = "CAST(NULL AS BIGINT)" if version is None else f"{version}L"
        rows.append(f"({sql_literal(part.file)}, {', '.join(f'{n}L' for n in numbers)}, {known})")
    return f"VALUES {', '.join(rows)} AS part(file, block, first, places, start, version)"


def _as_text(value: str) -> str:
    """Return a text as JSON writes it: what remains of an object without all but its value."""
    made = f"to_json(named_struct('r', make_valid_utf8({value})))"
    return f"substring({made}, 6, length({made}) - 6)"


# Parquet's rows as JSON


def _record(schema: StructType, in_json: Collection[str]) -> str:
    """Return the SQL of a row as a JSON object."""
    texts = [
        each.name
        for each in schema
        if each.dataType.typeName() == "string" and each.name in in_json
    ]
    values = [
        f"{_finite(quote(each.name), each.dataType)} AS {quote(each.name)}"
        for each in schema
        if each.name not in texts
    ]
    plain = f"to_json(struct({', '.join(values)}), {_TO_JSON})" if values else "'{}'"
    if not texts:
        return plain
    more = ", ".join(map(_spliced, texts))
    together = f"concat(left({plain}, length({plain}) - 1), {more}, '}}')"
    return rf"regexp_replace({together}, r'\A\{{,', '{{')"


def _spliced(name: str) -> str:
    value, key = quote(name), json.dumps(name, ensure_ascii=False)
    is_json = f"{value} != 'null' AND {_ONE_VALUE.format(value)}"
    body = f"if({is_json}, {value}, {_as_text(value)})"
    return f"if({value} IS NULL, '', concat({sql_literal(f',{key}:')}, {body}))"


def _finite(value: str, type_: DataType, depth: int = 0) -> str:
    """Return a value in which NaN and the infinities are null, since JSON has none."""
    kind: Any = type_
    name = type_.typeName()
    if name in {"double", "float"}:
        return f"if(isnan({value}) OR abs({value}) = double('Infinity'), NULL, {value})"
    item = f"`i{depth}`"
    if name == "array":
        inner = _finite(item, kind.elementType, depth + 1)
        return value if inner == item else f"transform({value}, {item} -> {inner})"
    if name == "map":
        inner = _finite(item, kind.valueType, depth + 1)
        return value if inner == item else f"transform_values({value}, (`k`, {item}) -> {inner})"
    if name == "struct":
        fields = [(quote(each.name), f"{value}.{quote(each.name)}", each.dataType) for each in kind]
        inner = ", ".join(f"{_finite(at, each, depth)} AS {own}" for own, at, each in fields)
        return f"if({value} IS NULL, NULL, struct({inner}))"
    return value


@contextmanager
def reading_files(files: Sequence[BatchFile]) -> Iterator[None]:
    """Turn what Spark says of files that it cannot read into words."""
    try:
        yield
    except TargetSparkError:
        raise
    except Exception as error:
        fault, is_torn = classify_failure(error), _TORN.search(str(error))
        if fault in {FailureKind.FULL, FailureKind.CUT, FailureKind.AWAY} or (
            fault is FailureKind.PASSING and not is_torn
        ):
            raise
        found = _READ_FAILURES.search(_of_copies(files, str(error)))
        where = (found[1] or found[2]) if found else ", ".join(file.address for file in files[:3])
        reason = _of_copies(files, first_error_line(error)).rstrip(". ")
        raise explain_unreadable(files[0].stream, where, reason) from error


def _of_copies(files: Sequence[BatchFile], text: str) -> str:
    """Return a text that names files where it named their copies."""
    names = {"/".join(Path(file.copy).parts[-2:]): file.shown for file in files if file.copy}
    for name, shown in names.items():
        text = re.sub(rf"(?:file:)?/\S*/{re.escape(name)}", shown.replace("\\", r"\\"), text)
    return text
