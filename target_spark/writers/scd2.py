"""SCD2 history: the row versions that a batch begins and ends.

The records of a key are processed in order. A record whose values differ from the key's current row
version begins a new row version; a delete record ends the current one; an equal record changes
nothing. Only columns of the stream are compared, not metadata columns; null equals null. The row
versions of a key do not overlap: each begins when the previous one ends. If the times of records do
not increase, a row version begins one microsecond after the previous one.

A record that a source sends again changes nothing. Earlier records of the same key in the batch
change nothing either, unless they are newer than the table. A record counts as sent again if one of
these is true:

- it equals the current row version, and its time is not later;
- it equals an older row version, and either its time is the start time of that row version, or its
  replication key is lower than that of the key's last row version;
- it is a delete record with the time of an earlier deletion, and the row version that this deletion
  ended does not equal the current one;
- with hard delete: it is a delete record of a key without a current row version, and its time is
  not later than that of the key's last change;
- it equals the last row version, which has ended, and is followed in the batch by the delete record
  that ended it;
- it has no time and equals the key's row version from before the run, and the batch so far has only
  row versions of the key that the table already contains.

A real change back to earlier values differs from a repeated record only by its time or replication
key, so only the last rule applies to records without a time.

The result is a DataFrame of changes (`target_spark.writers.history_merge`). An ``end`` change has
the end time. A ``touch`` change sets a newer table version on the current row version.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812

from target_spark.columns import IS_CURRENT, VALID_FROM, VALID_TO
from target_spark.tables.identifiers import quote
from target_spark.writers.base import MergeKeys
from target_spark.writers.deduplication import sort_rows
from target_spark.writers.history_merge import ACTION, BEGIN, END, TOUCH, HistoryMerge
from target_spark.writers.merge_statement import Merge, source_column

__all__ = [
    "build_conversion_sql",
    "build_scd2_merge",
    "compute_changes",
    "initial_versions",
]

# Columns of the records of a batch (r) and of the row versions in the table (v). Times without a
# type are in microseconds since 1970.
_KEY = "__target_spark_key"  # v: prefix of the copies of the key columns
_STATE = "__target_spark_state"  # r, v: struct of the values to compare; null in a delete record
_MICROS = "__target_spark_micros"  # r: time of the record; v: start time
_MARK = "__target_spark_mark"  # r, v: deletion time, a timestamp, or null
_CURRENT = "__target_spark_current"  # v: true in the current row version
_SINCE = "__target_spark_since"  # r: time of the last change of its key in the table; v: end time
_BEFORE = "__target_spark_before"  # r: `_STATE` of the current row version, or null
_VERSION_BEFORE = "__target_spark_version_before"  # r, v: Singer table version of the row version
_CURSOR_BEFORE = "__target_spark_cursor_before"  # r: replication key of the last row version
_TIMES = "__target_spark_times"  # r: start times of the row versions with the same key and state
_MARKS = "__target_spark_marks"  # r: times of the key's deletions in the table (delete records)
_ENDED = "__target_spark_ended"  # r: time and ended state of each of these deletions
_OLD = "__target_spark_old"  # r: true if it repeats an older row version or deletion
_NEWER = "__target_spark_newer"  # r: true if its time is later than the last change of its key
_KNOWN = "__target_spark_known"  # r: ordinal of the last record of its key that the table contains
_CHANGED = "__target_spark_changed"  # r: true if its state differs from the one before it
_NUMBER = "__target_spark_number"  # r: number of such changes of its key up to this record
_LAST = "__target_spark_last"  # r: true in the last record of its key
_TOUCHES = "__target_spark_touches"  # r: true if only the Singer table version changes
_AT = "__target_spark_at"  # r: time at which its row version begins, a timestamp

_MAX_SHIFT = 1000
"""Maximum microseconds by which a row version may begin after the time of its record. Start times
are moved so that they differ within a key."""


def compute_changes(
    batch: DataFrame, table: DataFrame, keys: MergeKeys, run_started: int
) -> DataFrame:
    """Return the changes that a batch makes to the row versions in an SCD2 table.

    Args:
        batch: The rows of the batch.
        table: The rows of the table.
        keys: The key columns, and the columns to sort and compare rows by.
        run_started: The start of the run, in microseconds since 1970.

    Returns:
        A DataFrame of changes: the columns of the batch, and a column with the action, such as
        ``begin`` or ``end`` of a row version (see `HistoryMerge`).
    """
    events = _add_times_and_values(batch, keys)
    versions = _get_versions(events, table, keys)
    compared = _join_equal_versions(_join_current_state(events, versions, keys), versions, keys)
    new_events = _drop_repeated_events(compared, keys, run_started)
    return _build_changes(new_events, keys, _get_written_columns(batch, keys))


def initial_versions(batch: DataFrame, keys: MergeKeys) -> DataFrame:
    """Return the row versions that a batch inserts into an empty SCD2 table."""
    null = F.lit(None)
    events = _add_times_and_values(batch, keys)
    compared = events.withColumns(
        {
            _BEFORE: null.cast(events.schema[_STATE].dataType),
            _VERSION_BEFORE: null.cast("bigint"),
            _SINCE: null.cast("bigint"),
        }
    )
    first_versions = _build_changes(compared, keys, _get_written_columns(batch, keys)).where(
        F.col(ACTION) == BEGIN
    )
    return sort_rows(first_versions.drop(ACTION, _AT, _MARK), keys.sort_by)


def build_scd2_merge(target: str, batch: DataFrame, keys: MergeKeys) -> Merge:
    """Return the MERGE that applies the changes of a batch to an SCD2 table.

    An SCD2 table keeps all versions of each row.

    Args:
        target: The SQL name of the table.
        batch: The rows of the batch, from which `compute_changes` computes the changes.
        keys: The key columns, and the columns to sort and compare rows by.
    """
    columns = _get_written_columns(batch, keys)
    ended = {VALID_TO: source_column(_AT), IS_CURRENT: "false"}
    if keys.deleted is not None and not keys.hard_delete:
        ended[keys.deleted] = source_column(_MARK)
    touched = {} if keys.version is None else {keys.version: source_column(keys.version)}
    history = HistoryMerge(columns, keys.columns, ended, touched, current=IS_CURRENT)
    return history.merge(target, {BEGIN, END, TOUCH} if touched else {BEGIN, END})


def build_conversion_sql(target: str, micros: int, deleted: str | None) -> str:
    """Return the UPDATE statement that fills empty SCD2 columns, so that each row is a row version.

    Rows without values in these columns were loaded in another write mode before.

    Args:
        target: The SQL name of the table.
        micros: The start time of the versions, in microseconds since 1970.
        deleted: The column that marks a row as deleted, or None. A marked row becomes a row version
            that has already ended.
    """
    start = f"timestamp_micros({micros}L)"
    is_current = quote(IS_CURRENT)
    not_deleted = "true" if deleted is None else f"{quote(deleted)} IS NULL"
    return (
        f"UPDATE {target} SET {is_current} = {not_deleted},"  # noqa: S608
        f" {quote(VALID_FROM)} = {start}, {quote(VALID_TO)} = if({not_deleted}, NULL, {start})"
        f" WHERE {is_current} IS NULL"
    )


def _add_times_and_values(batch: DataFrame, keys: MergeKeys) -> DataFrame:
    """Add to each record its time in microseconds since 1970, and the values to compare.

    The values are a struct of the columns ``keys.compared``. It is null for a record that deletes a
    row.
    """
    state = _make_value_struct(keys.compared)
    if keys.deleted is not None:
        state = F.when(_col(keys.deleted).isNull(), state)
    return batch.withColumns({_STATE: state, _MICROS: F.unix_micros(_col(VALID_FROM))})


def _make_value_struct(compared: Sequence[str]) -> Column:
    """Return a struct of the columns ``compared``, which is not null even if all values are."""
    named = (_col(name).alias(f"c{number}") for number, name in enumerate(compared))
    return F.struct(F.lit(0).alias("c"), *named)


def _get_versions(events: DataFrame, table: DataFrame, keys: MergeKeys) -> DataFrame:
    """Return the row versions of an SCD2 table whose keys occur in the records ``events``."""
    cursor = F.lit(None).cast("string") if keys.cursor is None else _col(keys.cursor)
    deleted = F.lit(None).cast("string") if keys.deleted is None else _col(keys.deleted)
    no_version = F.lit(None).cast("bigint")
    table_version = no_version if keys.version is None else _col(keys.version)
    rows = table.select(
        *(
            _col(key).alias(name)
            for key, name in zip(keys.columns, _get_key_aliases(keys), strict=True)
        ),
        _make_value_struct(keys.compared).alias(_STATE),
        _col(IS_CURRENT).alias(_CURRENT),
        F.unix_micros(_col(VALID_FROM)).alias(_MICROS),
        F.unix_micros(_col(VALID_TO)).alias(_SINCE),
        deleted.alias(_MARK),
        table_version.alias(_VERSION_BEFORE),
        cursor.alias(_CURSOR_BEFORE),
    )
    return rows.join(events.select(*map(_col, keys.columns)), _same_key(keys), "left_semi")


def _join_current_state(events: DataFrame, versions: DataFrame, keys: MergeKeys) -> DataFrame:
    """Add to each record the current row version of its key in the SCD2 table.

    The added columns are the compared values of that row version (a struct), its Singer table
    version, the time of the key's last change in the table, and the replication key of the key's
    latest row version. A value that the table does not have is null.
    """
    names = _get_key_aliases(keys)
    state, started = F.struct(_STATE, _VERSION_BEFORE), F.coalesce(_MICROS, F.lit(0))
    latest = versions.groupBy(*names).agg(
        F.max(F.greatest(_MICROS, _SINCE)).alias(_SINCE),
        F.max_by(F.when(F.col(_CURRENT), state), F.when(F.col(_CURRENT), started)).alias(_CURRENT),
        F.max_by(_CURSOR_BEFORE, started).alias(_CURSOR_BEFORE),
    )
    latest = latest.select(
        *names,
        _SINCE,
        F.col(f"{_CURRENT}.{_STATE}").alias(_BEFORE),
        F.col(f"{_CURRENT}.{_VERSION_BEFORE}").alias(_VERSION_BEFORE),
        _CURSOR_BEFORE,
    )
    return events.join(latest, _same_key(keys), "left").drop(*names)


def _join_equal_versions(events: DataFrame, versions: DataFrame, keys: MergeKeys) -> DataFrame:
    """Add columns to each record that show if the SCD2 table already contains it.

    A record gets the start times of the row versions with the same key and values. A delete record
    gets the times of the earlier deletions of its key, and the values of the row versions that they
    ended.
    """
    names, equal_state, state = _get_key_aliases(keys), f"{_STATE}2", F.col(_STATE)
    ended = F.struct(F.col(_MARK).alias("mark"), state.alias("state"))
    none, no_mark = (F.lit(None).cast(versions.schema[name].dataType) for name in (_STATE, _MARK))
    no_end = F.when(F.lit(False), ended)  # noqa: FBT003
    steps = versions.select(
        *names, state.alias(equal_state), _MICROS, no_mark.alias(_MARK), no_end.alias(_ENDED)
    )
    if keys.deleted is not None:
        deleted = versions.where(F.col(_SINCE if keys.hard_delete else _MARK).isNotNull())
        steps = steps.unionAll(
            deleted.select(
                *names,
                none.alias(equal_state),
                F.col(_SINCE).alias(_MICROS),
                _MARK,
                ended.alias(_ENDED),
            )
        )
    equal = steps.groupBy(*names, equal_state).agg(
        F.collect_set(_MICROS).alias(_TIMES),
        F.collect_set(_MARK).alias(_MARKS),
        F.collect_list(_ENDED).alias(_ENDED),
    )
    same = [*_same_key(keys), state.eqNullSafe(F.col(equal_state))]
    return events.join(equal, same, "left").drop(*names, equal_state)


def _same_key(keys: MergeKeys) -> list[Column]:
    pairs = zip(keys.columns, _get_key_aliases(keys), strict=True)
    return [_col(key).eqNullSafe(F.col(name)) for key, name in pairs]


def _get_key_aliases(keys: MergeKeys) -> list[str]:
    """Return the names of the table's key columns in the join with the batch."""
    return [f"{_KEY}{number}" for number in range(len(keys.columns))]


def _drop_repeated_events(events: DataFrame, keys: MergeKeys, run_started: int) -> DataFrame:
    """Remove records that the source has sent again and that the SCD2 table already contains.

    The docstring of this module lists the rules.

    Args:
        events: The records, joined with the row versions of their keys.
        keys: The key columns, and the columns to sort and compare rows by.
        run_started: The start of the run, in microseconds since 1970.
    """
    micros, since, order = F.col(_MICROS), F.col(_SINCE), _col(keys.order)
    is_current = F.col(_STATE).eqNullSafe(F.col(_BEFORE))
    is_same = is_current & (F.col(_STATE).isNotNull() | _is_recorded_deletion(keys))
    timeless = micros.eqNullSafe(F.unix_micros(F.lit(keys.received).cast("timestamp")))
    judged = events.withColumns({_OLD: _is_outdated(keys), _NEWER: ~timeless & (micros > since)})
    all_known = F.min(_is_known(keys) & timeless).over(_make_window_so_far(keys))
    repeated = is_current & all_known & (since < run_started)
    known = F.col(_OLD) | (is_same & (micros <= since)) | repeated
    with_last_known = judged.withColumn(_KNOWN, F.when(known, order)).withColumn(
        _KNOWN, F.max(_KNOWN).over(_make_key_window(keys))
    )
    last_known, is_new = F.col(_KNOWN), F.col(_NEWER) & ~F.col(_OLD)
    return with_last_known.where(
        last_known.isNull() | (order > last_known) | ((order == last_known) & ~F.col(_OLD)) | is_new
    )


def _is_known(keys: MergeKeys) -> Column:
    """Return a boolean column that is true if the SCD2 table already contains a record.

    A record is contained if a row version has the same key and values. A delete record is contained
    if its key was deleted at the same time. With hard delete, any deletion of the key counts.
    """
    known = F.col(_TIMES).isNotNull()
    return known & (F.col(_STATE).isNotNull() | _is_recorded_deletion(keys))


def _is_recorded_deletion(keys: MergeKeys) -> Column:
    """Return a boolean column that is true if the key of a delete record was deleted at its time.

    With hard delete, the table has no deletion times, so it is true for each record.
    """
    if keys.deleted is None or keys.hard_delete:
        return F.lit(True)  # noqa: FBT003
    recorded = F.array_contains(_MARKS, _col(keys.deleted))
    return F.coalesce(recorded, F.lit(False))  # noqa: FBT003


def _is_outdated(keys: MergeKeys) -> Column:
    """Return a boolean column that is true if a record repeats an older row version (SCD2).

    It is also true if a delete record repeats an earlier deletion of a key that exists again. The
    caller ignores such records, because they would undo later changes.
    """
    micros, since, times = F.col(_MICROS), F.col(_SINCE), F.col(_TIMES)
    has_begun = F.exists(times, lambda time: time.between(micros, micros + _MAX_SHIFT))
    older = has_begun & (micros < since - _MAX_SHIFT)
    if keys.cursor is not None:
        older |= times.isNotNull() & (_col(keys.cursor) < F.col(_CURSOR_BEFORE))
    if keys.deleted is not None:
        mark = _col(keys.deleted)
        recorded = F.col(_STATE).isNull() & F.array_contains(_MARKS, mark)
        older |= _is_outdated_deletion(mark, recorded) | _is_outdated_by_deletion(keys, recorded)
    return F.coalesce(older, F.lit(False))  # noqa: FBT003


def _is_outdated_deletion(mark: Column, recorded: Column) -> Column:
    """Return a boolean column that is true for a repeated delete record to ignore.

    The table already contains the deletion. Applying the record again would delete a row that was
    inserted since then.

    The column is false if the current row version (SCD2) equals the one that the deletion ended:
    the source has probably only sent that row again, so the deletion must be applied again too. If
    an equal row was really inserted after the deletion, the source sends it once more after the
    delete record.

    Args:
        mark: Column with the deletion time.
        recorded: Boolean column that is true for a delete record whose time is in the table.
    """
    before = F.col(_BEFORE)
    is_copy = F.exists(
        _ENDED, lambda ended: (ended["mark"] == mark) & ended["state"].eqNullSafe(before)
    )
    return before.isNotNull() & recorded & ~is_copy


def _is_outdated_by_deletion(keys: MergeKeys, recorded: Column) -> Column:
    """Return a boolean column that is true for a repeated record that is deleted again later.

    Such a record is ignored. It meets all of these conditions:

    - The table has no current row version (SCD2) of its key.
    - It equals an ended row version of its key.
    - A delete record of its key follows in the batch, and the table already contains this deletion.
    - If the stream has a replication key, the record has the newest value of it in the table.

    With hard delete, the table has no deletion times, so any later delete record in the batch
    counts. The column is then false for a stream without a replication key.

    Args:
        keys: The key columns, and the columns to sort and compare rows by.
        recorded: Boolean column that is true for a delete record whose time is in the table.
    """
    if keys.hard_delete and keys.cursor is None:
        return F.lit(False)  # noqa: FBT003
    deletion = F.col(_STATE).isNull() if keys.hard_delete else recorded
    order = _col(keys.order)
    is_followed = order < F.max(F.when(deletion, order)).over(_make_key_window(keys))
    outdated = F.col(_BEFORE).isNull() & F.col(_TIMES).isNotNull() & is_followed
    if keys.cursor is None:
        return outdated
    return outdated & _col(keys.cursor).eqNullSafe(F.col(_CURSOR_BEFORE))


def _build_changes(events: DataFrame, keys: MergeKeys, columns: Sequence[str]) -> DataFrame:
    """Return the changes that records make to an SCD2 table: row versions to begin, end or update.

    Args:
        events: The records, joined with the current row versions of their keys.
        keys: The key columns, and the columns to sort and compare rows by.
        columns: The columns of the batch to keep.
    """
    numbered = _number_changes(events, keys)
    timed = _set_version_times(numbered.where(F.col(_CHANGED) | F.col(_TOUCHES)), keys)
    begins = F.col(_CHANGED) & F.col(_STATE).isNotNull()
    ends = F.col(_CHANGED) & (F.col(_NUMBER) == 1) & F.col(_BEFORE).isNotNull()
    actions = F.array_compact(
        F.array(
            F.when(ends, F.lit(END)),
            F.when(begins, F.lit(BEGIN)),
            F.when(F.col(_TOUCHES), F.lit(TOUCH)),
        )
    )
    return timed.withColumn(ACTION, F.explode(actions)).select(
        *map(_col, columns), ACTION, _AT, _MARK
    )


def _number_changes(events: DataFrame, keys: MergeKeys) -> DataFrame:
    """Add columns that show which records change the row versions (SCD2) of their key.

    They are `_CHANGED`, `_NUMBER`, `_LAST` and `_TOUCHES`, which are described above.
    """
    by_key = _make_ordered_window(keys)
    before = F.when(F.row_number().over(by_key) == 1, F.col(_BEFORE)).otherwise(
        F.lag(_STATE).over(by_key)
    )
    numbered = events.withColumn(_CHANGED, ~F.col(_STATE).eqNullSafe(before))
    numbered = numbered.withColumns(
        {
            _NUMBER: F.sum(F.col(_CHANGED).cast("bigint")).over(_make_window_so_far(keys)),
            _LAST: F.lead(_col(keys.order)).over(by_key).isNull(),
        }
    )
    if keys.version is not None:  # of equal records, the last one sets the table version
        same = Window.partitionBy(*map(_col, keys.columns), F.col(_NUMBER)).orderBy(
            _col(keys.order)
        )
        whole_partition = same.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
        version = _col(keys.version)
        numbered = numbered.withColumn(keys.version, F.last(version).over(whole_partition))
        other = ~version.eqNullSafe(F.col(_VERSION_BEFORE))
        unchanged = (F.col(_NUMBER) == 0) & F.col(_LAST) & F.col(_STATE).isNotNull()
        return numbered.withColumn(_TOUCHES, unchanged & other)
    return numbered.withColumn(_TOUCHES, F.lit(False))  # noqa: FBT003


def _set_version_times(changed: DataFrame, keys: MergeKeys) -> DataFrame:
    """Set the start and end time of each SCD2 row version. Start times increase within each key."""
    by_key = _make_ordered_window(keys)
    earliest = F.max(F.col(_MICROS) - F.col(_NUMBER)).over(_make_window_so_far(keys))
    time = F.timestamp_micros(F.col(_NUMBER) + F.greatest(F.col(_SINCE), earliest))
    deleted = F.lit(None).cast("timestamp") if keys.deleted is None else _col(keys.deleted)
    timed = changed.withColumns({_AT: time, _MARK: deleted})
    until = F.lead(_AT).over(by_key)
    row = {VALID_FROM: F.col(_AT), VALID_TO: until, IS_CURRENT: until.isNull()}
    if keys.deleted is not None:
        null = F.lit(None).cast(changed.schema[keys.deleted].dataType)
        row[keys.deleted] = null if keys.hard_delete else F.lead(_MARK).over(by_key)
    return timed.withColumns(row)


def _get_written_columns(batch: DataFrame, keys: MergeKeys) -> list[str]:
    """Return the columns of a batch without ``keys.order``, which the table does not have."""
    return [name for name in batch.columns if name != keys.order]


def _make_key_window(keys: MergeKeys) -> WindowSpec:
    return Window.partitionBy(*map(_col, keys.columns))


def _make_ordered_window(keys: MergeKeys) -> WindowSpec:
    return _make_key_window(keys).orderBy(_col(keys.order))


def _make_window_so_far(keys: MergeKeys) -> WindowSpec:
    """Return the Spark window of a record: the records of its key up to this record."""
    return _make_ordered_window(keys).rowsBetween(Window.unboundedPreceding, Window.currentRow)


def _col(name: str) -> Column:
    return F.col(quote(name))
