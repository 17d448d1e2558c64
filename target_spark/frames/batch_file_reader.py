"""Conversion of the files of BATCH messages (JSONL or Parquet) to spool files, by Spark.

- Spool files keep uncommitted rows as lines of JSON. A row of a batch file becomes the same line as
  a RECORD message, and is converted, quarantined and counted in the same way.
- Rows are ordered by message, by file in the message's manifest, and by position in the file. Spark
  reads the blocks of a file in parallel. The first pass counts the lines of each block, and the
  second pass numbers them.
- An invalid JSON line, or one with an unpaired surrogate, is written as a JSON string, so that it
  is quarantined later. NaN and infinities become null. A line that does not start with ``{`` and
  end with ``}`` is an error, because the file is truncated or has another format.
- Parquet timestamps become ISO 8601 strings in UTC (without a zone if the file has none), and
  binary values become base64. If the JSON Schema allows other types than string for a property that
  the file stores as text, the text is parsed as JSON: taps write values, such as objects, in this
  way if Parquet has no type for them.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from target_spark.columns import DELETED_AT
from target_spark.errors import TargetSparkError
from target_spark.frames.json_reader import WHOLE_FILES
from target_spark.loader.batch_file_checks import (
    JSONL,
    BatchFile,
    get_file_key,
    make_unreadable_error,
)
from target_spark.spark.row_counts import get_observation
from target_spark.storage.commit_retry import FailureKind, classify_failure, first_error_line
from target_spark.tables.identifiers import quote, sql_literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

__all__ = ["BatchFileFrame", "assign_ordinals", "reading_files", "spool_lines_from_files"]

_ONE_VALUE: Final = "(json_array_length(concat('[', {0}, ',0]')) <=> 2)"
"""SQL condition that the text ``{0}`` is exactly one valid JSON value.

The text is inserted into ``[…,0]``, which must then be a valid JSON array of two items.
"""

_STRING: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_WITHOUT_NAN: Final = rf"""
    replace(replace(regexp_replace(`value`, r'({_STRING})|-?Infinity|NaN', '$1\u0001'),
        '"\u0001', '"'), '\u0001', 'null')"""
"""SQL that replaces NaN and infinities in the JSON text ``value`` by null, except inside strings.

First the control character ``\\u0001``, which JSON text cannot contain, is added after each string
and replaces each NaN and infinity. Then it is removed after strings, and becomes null elsewhere.
"""

_ESCAPE_SEQUENCE: Final = r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)"
"""Regular expression for an escape sequence in JSON text, such as ``\\n``.

Its group 1 matches only an unpaired surrogate, such as a single ``\\ud800``.
"""

_HAS_UNPAIRED_SURROGATE: Final = rf"""
    (`value` RLIKE r'\\u[dD][89a-fA-F]'
        AND exists(regexp_extract_all(`value`, r'{_ESCAPE_SEQUENCE}', 1), `x` -> `x` != ''))"""

_SINGER_RECORD: Final = r'\A\{\s*+"type"\s*+:\s*+"RECORD"\s*+,.*"record"\s*+:\s*+\{'
"""Regular expression for a line that is a Singer RECORD message, and not a plain record."""

_READ_FAILURES: Final = re.compile(r"reading file (\S+?)\.(?:\s|$)|Path does not exist: (\S+)\. ")
_INCOMPATIBLE_TYPES: Final = "CANNOT_MERGE_SCHEMAS"
"""Spark's error for Parquet files whose columns have the same name and incompatible types."""

_CORRUPT_FILE: Final = re.compile(
    r"Unexpected end of (?:input stream|ZLIB input stream)|not a (?:gzip|Parquet) file"
    r"|incorrect (?:header|data|length) check"
)
"""Error texts of a corrupt or truncated file. The exceptions themselves are the same as for
temporary storage failures, which are retried."""

_TO_JSON_OPTIONS: Final = (
    r"map('timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX',"
    r" 'timestampNTZFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSS')"
)
"""SQL of the ``to_json`` options that define the text format of timestamps."""


@dataclass(frozen=True, slots=True)
class BatchFileFrame:
    """Description of the spool files that Spark has written from the files of BATCH messages.

    Spool files have rows as lines of JSON. An ordinal is the position of a row or message in the
    input.

    Attributes:
        paths: The folders of the spool files.
        rows: The number of rows in the spool files.
        ordinal_offsets: For each BATCH message, a tuple of its ordinal and the number of lines in
            its files, by which the ordinals of all later messages must be increased.
        nans_replaced: The number of rows where NaN or an infinity was replaced by null.
        has_deletes: True if some rows may be delete records (with ``_sdc_deleted_at``).
    """

    paths: tuple[str, ...]
    rows: int
    ordinal_offsets: tuple[tuple[int, int], ...]
    nans_replaced: int
    has_deletes: bool


@dataclass(frozen=True, slots=True)
class _Block:
    """The section of a file that one Spark task reads.

    Attributes:
        file: The URL of the file.
        offset: The offset of the block in the file, in bytes; 0 for Parquet.
        first_id: Spark's id (``monotonically_increasing_id``) of the first line. The ids within a
            block are consecutive.
        line_count: The number of lines, including blank lines.
        rows: The number of lines that are not blank.
        deletes: The number of lines that may be delete records (with ``_sdc_deleted_at``).
        broken_id: Spark's id of the first line that is not a JSON object; None if all lines are
            JSON objects.
        is_singer: True if all lines are Singer RECORD messages instead of plain records.
    """

    file: str
    offset: int
    first_id: int
    line_count: int
    rows: int
    deletes: int = 0
    broken_id: int | None = None
    is_singer: bool = False


class _BlockStart(NamedTuple):
    """First ordinal (input position) and table version of the lines in one section of a file."""

    ordinal: int
    version: int | None


_BlockStarts: TypeAlias = dict[_Block, list[_BlockStart]]
"""Starts of each block: one for each BATCH message that names the block's file."""

_Indexes: TypeAlias = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class _Scan:
    """A group of batch files that Spark reads as one DataFrame.

    A file that several messages name is read only once.

    Attributes:
        indexes: The indexes of each file in the list of all files, by the file's normalized URL.
            A file has several indexes if several messages name it.
        lines: The lines, with the columns ``file`` (its URL), ``block`` (the offset of the line's
            block in the file), ``id`` (Spark's number of the line) and ``value`` (the record as
            JSON).
        blocks: The blocks of the files, which are the sections that single Spark tasks read.
    """

    indexes: _Indexes
    lines: DataFrame
    blocks: Sequence[_Block]


def spool_lines_from_files(
    spark: SparkSession,
    files: Sequence[BatchFile],
    path: str,
    ordinal_shift: int,
) -> BatchFileFrame:
    """Read the files of BATCH messages, and write their rows to spool files (JSON lines).

    Args:
        spark: The session of the calling thread.
        files: The files, in the order of the messages.
        path: The path or URL of the folder for the spool files.
        ordinal_shift: The number of lines in the files of earlier batches. It is added to the
            ordinal of each row, which is the row's position in the input.

    Raises:
        FilesError: A file is missing or truncated, or does not have the declared format.
    """
    with reading_files(files):
        scans = [
            scan for group in _group_files(files) for scan in _create_scans(spark, files, group)
        ]
        starts, ordinal_offsets = _compute_ordinals(files, scans, ordinal_shift)
        nans_replaced = 0
        paths: list[str] = []
        for scan, scan_starts in zip(scans, starts, strict=True):
            if scan.blocks:
                paths.append(f"{path}/{len(paths)}")
                nans_replaced += _write_spool_lines(
                    spark, scan.lines, _build_starts_table(scan_starts), paths[-1]
                )
    reads = [item for scan_starts in starts for item in scan_starts.items()]
    rows = sum(block.rows * len(block_starts) for block, block_starts in reads)
    deletes = any(block.deletes for block, _ in reads)
    return BatchFileFrame(tuple(paths), rows, ordinal_offsets, nans_replaced, deletes)


def assign_ordinals(
    spark: SparkSession,
    paths: Sequence[str],
    path: str,
    ordinal_offsets: Sequence[tuple[int, int]],
    ordinal_shift: int,
) -> None:
    """Copy spool files, and increase each row's ordinal by the line count of earlier batch files.

    Spool files have rows as lines of JSON. The ordinal of a row is its position in the input. In
    the original files, a BATCH message counts as one position. In the copy, each line of its files
    counts as one.

    Args:
        spark: The session of the calling thread.
        paths: The spool files to copy.
        path: The path or URL of the folder for the copies.
        ordinal_offsets: For each BATCH message, a tuple of its ordinal and the number of lines in
            its files.
        ordinal_shift: The number of lines in the files of earlier batches of the table.
    """
    lines = spark.read.option("lineSep", "\n").text(list(paths))
    digits = r"""regexp_extract(`value`, r'\A\{"n":([0-9]+)', 1) AS `digits`"""
    with_digits = lines.selectExpr("`value`", digits)
    counted = with_digits.selectExpr("*", "CAST(`digits` AS BIGINT) AS `n`")
    ordinal = f"`n` + {ordinal_shift} + {_build_offset_sql(ordinal_offsets)}"
    rest = "substring(`value`, 6 + length(`digits`))"  # after `{"n":` and the digits
    counted.selectExpr(f"""concat('{{"n":', {ordinal}, {rest})""").write.text(path)


# Groups of files that are read together, and the ordinals of their rows


def _group_files(files: Sequence[BatchFile]) -> list[list[int]]:
    """Return groups of files that Spark can read as one DataFrame, as indexes into ``files``.

    The files of a group have the same format, and the same string columns that contain JSON.
    """
    groups: dict[tuple[str, frozenset[str]], list[int]] = defaultdict(list)
    for index, file in enumerate(files):
        groups[file.format, file.json_properties].append(index)
    return list(groups.values())


def _create_scans(
    spark: SparkSession, files: Sequence[BatchFile], group: Sequence[int]
) -> Iterator[_Scan]:
    """Yield `_Scan` objects with the DataFrames that read one group of files.

    ``group`` has the indexes of the group's files in ``files``. One DataFrame reads all of them,
    unless they are Parquet files with incompatible column types: then each file has its DataFrame.
    """
    indexes: dict[str, list[int]] = defaultdict(list)
    for index in group:
        indexes[get_file_key(files[index].read_url)].append(index)
    patterns = [files[first].read_pattern for first, *_ in indexes.values()]
    if files[group[0]].format == JSONL:
        lines = _select_text_lines(spark.read.options(**WHOLE_FILES).text(patterns, lineSep="\n"))
        blocks = _find_text_blocks(lines)
    else:
        try:
            frame = spark.read.options(**WHOLE_FILES).parquet(*patterns, mergeSchema=True)
        except Exception as error:
            if len(indexes) == 1 or _INCOMPATIBLE_TYPES not in str(error):
                raise
            for same_file in indexes.values():
                yield from _create_scans(spark, files, same_file)
            return
        lines = _select_parquet_lines(frame, files[group[0]].json_properties)
        blocks = _find_parquet_blocks(frame)
    _check_formats(files, indexes, blocks)
    yield _Scan(indexes, lines, blocks)


def _check_formats(files: Sequence[BatchFile], indexes: _Indexes, blocks: Sequence[_Block]) -> None:
    """Check that each file contains records in the format that its BATCH message declares.

    Args:
        files: The files of all BATCH messages.
        indexes: The files to check, as indexes into ``files``, by normalized URL.
        blocks: The blocks that Spark found in the files to check.

    Raises:
        FilesError: A file is a folder, contains Singer messages, or has a line that is not a JSON
            object.
    """
    lines_before: dict[str, int] = defaultdict(int)
    for block in blocks:
        key = get_file_key(block.file, escaped=True)
        if key not in indexes:
            raise make_unreadable_error(files[0].stream, block.file, "it is a folder, not a file")
        file = files[indexes[key][0]]
        if block.is_singer:
            reason = "it contains Singer messages instead of plain records"
            raise make_unreadable_error(file.stream, file.address, reason)
        if block.broken_id is not None:
            line = lines_before[key] + block.broken_id - block.first_id + 1
            reason = f"line {line} is not a JSON object, or was cut off"
            raise make_unreadable_error(file.stream, file.address, reason)
        lines_before[key] += block.line_count


def _compute_ordinals(
    files: Sequence[BatchFile], scans: Sequence[_Scan], ordinal_shift: int
) -> tuple[list[_BlockStarts], tuple[tuple[int, int], ...]]:
    """Compute the ordinals (positions in the input) of all lines in the files of BATCH messages.

    The lines of a file have consecutive ordinals. The first one is the position of the BATCH
    message plus the number of lines in all preceding files.

    Args:
        files: The files of all BATCH messages, in order.
        scans: The DataFrames that read the files, with their blocks (sections read by one task).
        ordinal_shift: The number of lines in the files of earlier batches of the table.

    Returns:
        A tuple of two items. The first is a list with one mapping for each scan: the first ordinal
        and the table version of each block. The second has a tuple for each BATCH message: its
        ordinal, and the number of lines in its files.
    """
    parts_by_file: dict[int, list[tuple[int, _Block]]] = defaultdict(list)
    for scan_number, scan in enumerate(scans):
        for block in scan.blocks:
            for index in scan.indexes[get_file_key(block.file, escaped=True)]:
                parts_by_file[index].append((scan_number, block))
    starts: list[_BlockStarts] = [defaultdict(list) for _ in scans]
    ordinal_offsets: dict[int, int] = defaultdict(int)
    for index, file in enumerate(files):
        for scan_number, block in parts_by_file[index]:
            start = _BlockStart(file.ordinal + ordinal_shift, file.version)
            starts[scan_number][block].append(start)
            ordinal_shift += block.line_count
            ordinal_offsets[file.ordinal] += block.line_count
    return starts, tuple(ordinal_offsets.items())


def _build_offset_sql(ordinal_offsets: Sequence[tuple[int, int]], base_offset: int = 0) -> str:
    """Return SQL for the number that is added to an input position to get the ordinal of a row.

    The SQL reads the position from the column ``n``. A BATCH message counts as one in positions; in
    ordinals, each line of its files counts as one.

    Args:
        ordinal_offsets: For each BATCH message, in order, a tuple of its position in the input and
            the number of lines in its files.
        base_offset: The number of lines before the first of these messages.
    """
    # The SQL is a binary search.
    if not ordinal_offsets:
        return str(base_offset)
    middle = len(ordinal_offsets) // 2
    middle_ordinal, _ = ordinal_offsets[middle]
    lines_before = base_offset + sum(count for _, count in ordinal_offsets[: middle + 1])
    after = _build_offset_sql(ordinal_offsets[middle + 1 :], lines_before)
    before = _build_offset_sql(ordinal_offsets[:middle], base_offset)
    return f"if(`n` > {middle_ordinal}, {after}, {before})"


# Lines


def _select_text_lines(text: DataFrame) -> DataFrame:
    return text.selectExpr(
        "`_metadata`.`file_path` AS `file`",
        "`_metadata`.`file_block_start` AS `block`",
        "monotonically_increasing_id() AS `id`",
        r"btrim(`value`, ' \t\r\uFEFF') AS `value`",
    )


def _find_text_blocks(lines: DataFrame) -> list[_Block]:
    """Return the blocks of JSONL files with their line counts, sorted by file and offset.

    A block is the section of a file that one Spark task reads. ``lines`` are the lines of all
    files, with the columns of `_Scan.lines`.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the usual name

    is_blank = "`value` = ''"
    has_rows = f"count_if(NOT {is_blank}) > 0"
    is_object = "startswith(`value`, '{') AND endswith(`value`, '}')"
    blocks = lines.groupBy("file", "block").agg(
        *map(
            F.expr,
            (
                "min(`id`)",
                "count(*)",
                f"count_if(NOT {is_blank})",
                f"count_if(contains(`value`, '\"{DELETED_AT}\"'))",
                f"min(if({is_blank} OR {is_object}, NULL, `id`))",
                f"bool_and({is_blank} OR `value` RLIKE r'{_SINGER_RECORD}') AND {has_rows}",
            ),
        )
    )
    return sorted((_Block(*row) for row in blocks.collect()), key=attrgetter("file", "offset"))


def _select_parquet_lines(frame: DataFrame, json_properties: Collection[str]) -> DataFrame:
    return frame.selectExpr(
        "`_metadata`.`file_path` AS `file`",
        "0L AS `block`",
        "`_metadata`.`row_index` AS `id`",
        f"{_build_record_sql(frame.schema, json_properties)} AS `value`",
    )


def _find_parquet_blocks(frame: DataFrame) -> list[_Block]:
    """Return one `_Block` per Parquet file in ``frame``, with its row count, sorted by file."""
    deletes = int(DELETED_AT in frame.columns)
    files = frame.selectExpr("`_metadata`.`file_path` AS `file`").groupBy("file").count()
    blocks = (_Block(row[0], 0, 0, row[1], row[1], deletes) for row in files.collect())
    return sorted(blocks, key=attrgetter("file"))


def _write_spool_lines(spark: SparkSession, read: DataFrame, starts: str, path: str) -> int:
    """Write rows as lines of JSON; return the number of rows where NaN or an infinity became null.

    ``read`` has the rows, with the columns of `_Scan.lines`. ``starts`` is the SQL of a table with
    the first ordinal (position in the input) of each block. ``path`` is the folder to write to.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812 - the usual name

    blocks = F.broadcast(spark.sql(starts))
    lines = read.join(blocks, ["file", "block"], "left").where("`value` != ''")
    is_one_value, observed = _ONE_VALUE.format("`value`"), Observation()
    record = (
        f"CASE WHEN {is_one_value} THEN `value`"
        f" WHEN `value` RLIKE 'NaN|Infinity' THEN {_WITHOUT_NAN} END"
    )
    parsed = lines.selectExpr("*", f"{record} AS `record`").observe(
        observed, F.expr("count_if(`record` != `value`)").alias("replaced")
    )
    is_valid = (
        f"`record` IS NOT NULL AND is_valid_utf8(`value`) AND NOT {_HAS_UNPAIRED_SURROGATE}"
        f" AND (`record` = `value` OR {_ONE_VALUE.format('`record`')})"
    )
    is_in_block = "`id` - `first` BETWEEN 0 AND `line_count` - 1"
    changed_error = "raise_error('a file was changed while it was read')"
    ordinal = f"if({is_in_block}, `start` + `id` - `first`, {changed_error})"
    version = "coalesce(CAST(`version` AS STRING), 'null')"
    body = f"if({is_valid}, `record`, {_encode_as_json('`value`')})"
    line = f"""concat('{{"n":', {ordinal}, ',"t":null,"v":', {version}, ',"r":', {body}, '}}')"""
    parsed.selectExpr(line).write.text(path)
    recount = parsed.selectExpr("count_if(`record` != `value`) AS `replaced`")
    nans_replaced: int = get_observation(spark, observed, lambda: recount)["replaced"]
    return nans_replaced


def _build_starts_table(starts: _BlockStarts) -> str:
    """Return the SQL of an inline table with the first ordinal and the table version of each block.

    An ordinal is the position of a row in the input. A block is a section of a file.
    """
    rows = []
    for block, block_starts in starts.items():
        for start in block_starts:
            numbers = (block.offset, block.first_id, block.line_count, start.ordinal)
            values = [sql_literal(block.file), *(f"{number}L" for number in numbers)]
            values.append("CAST(NULL AS BIGINT)" if start.version is None else f"{start.version}L")
            rows.append(f"({', '.join(values)})")
    return f"VALUES {', '.join(rows)} AS part(file, block, first, line_count, start, version)"


def _encode_as_json(value: str) -> str:
    """Return the SQL that encodes a text as a JSON string, with quotes.

    ``value`` is the SQL expression of the text.
    """
    encoded = f"to_json(named_struct('r', make_valid_utf8({value})))"
    return f"substring({encoded}, 6, length({encoded}) - 6)"  # without `{"r":` and `}`


# Parquet's rows as JSON


def _build_record_sql(schema: StructType, json_properties: Collection[str]) -> str:
    """Return the SQL that converts a Parquet row to a JSON object.

    Args:
        schema: The schema of the Parquet file.
        json_properties: The names of string columns that may contain JSON. A valid JSON value is
            inserted as JSON, and any other value as a JSON string.
    """
    texts = [
        field.name
        for field in schema
        if field.dataType.typeName() == "string" and field.name in json_properties
    ]
    values = [
        f"{_replace_nan(quote(field.name), field.dataType)} AS {quote(field.name)}"
        for field in schema
        if field.name not in texts
    ]
    plain = f"to_json(struct({', '.join(values)}), {_TO_JSON_OPTIONS})" if values else "'{}'"
    if not texts:
        return plain
    spliced = ", ".join(map(_build_member_sql, texts))
    joined = f"concat(left({plain}, length({plain}) - 1), {spliced}, '}}')"
    return rf"regexp_replace({joined}, r'\A\{{,', '{{')"  # `{,` if all other values are null


def _build_member_sql(name: str) -> str:
    """Return the SQL of a member of a JSON object, such as ``,"a":1``, from a text column.

    The SQL returns "" if the value is null. A text that is not valid JSON becomes a JSON string.
    """
    value, key = quote(name), json.dumps(name, ensure_ascii=False)
    is_json = f"{value} != 'null' AND {_ONE_VALUE.format(value)}"
    body = f"if({is_json}, {value}, {_encode_as_json(value)})"
    return f"if({value} IS NULL, '', concat({sql_literal(f',{key}:')}, {body}))"


def _replace_nan(value: str, type_: DataType, depth: int = 0) -> str:
    """Return the SQL that replaces NaN and infinities in a value by null.

    JSON has neither. ``depth`` is the number of enclosing SQL lambda functions. It is part of the
    argument names, to make them unique.
    """
    kind: Any = type_
    name = type_.typeName()
    if name in {"double", "float"}:
        return f"if(isnan({value}) OR abs({value}) = double('Infinity'), NULL, {value})"
    item = f"`i{depth}`"
    if name == "array":
        inner = _replace_nan(item, kind.elementType, depth + 1)
        return value if inner == item else f"transform({value}, {item} -> {inner})"
    if name == "map":
        inner = _replace_nan(item, kind.valueType, depth + 1)
        return value if inner == item else f"transform_values({value}, (`k`, {item}) -> {inner})"
    if name == "struct":
        fields = [(quote(field.name), field.dataType) for field in kind]
        inner = ", ".join(
            f"{_replace_nan(f'{value}.{field}', field_type, depth)} AS {field}"
            for field, field_type in fields
        )
        return f"if({value} IS NULL, NULL, struct({inner}))"
    return value


@contextmanager
def reading_files(files: Sequence[BatchFile]) -> Iterator[None]:
    """Context manager that converts Spark's errors about unreadable files to `FilesError`.

    The error names the file and its stream. Errors that may be temporary, such as a storage that
    does not respond, are raised unchanged.

    Args:
        files: The files of BATCH messages that Spark reads meanwhile.
    """
    try:
        yield
    except TargetSparkError:
        raise
    except Exception as error:
        kind, is_corrupt = classify_failure(error), _CORRUPT_FILE.search(str(error))
        if kind in {FailureKind.DISK_FULL, FailureKind.JVM_LOST, FailureKind.SERVER_LOST} or (
            kind is FailureKind.TRANSIENT and not is_corrupt
        ):
            raise
        match = _READ_FAILURES.search(_restore_original_paths(files, str(error)))
        where = (match[1] or match[2]) if match else ", ".join(file.address for file in files[:3])
        reason = _restore_original_paths(files, first_error_line(error)).rstrip(". ")
        raise make_unreadable_error(files[0].stream, where, reason) from error


def _restore_original_paths(files: Sequence[BatchFile], text: str) -> str:
    """Replace paths of local file copies in an error text by the files' original paths or URLs."""
    names = {
        "/".join(Path(file.copy).parts[-2:]): file.redacted_address for file in files if file.copy
    }
    for name, redacted_address in names.items():
        text = re.sub(
            rf"(?:file:)?/\S*/{re.escape(name)}", redacted_address.replace("\\", r"\\"), text
        )
    return text
