"""Errors of the target; each message states the cause, the effect on data, and the remedy.

The entry points print such a message without a traceback.

  TargetSparkError
  ├── SparkUnavailableError    no Java, no jars, or the JVM did not start
  ├── SparkDiedError           the JVM ended during the run
  ├── EngineLostError          the engine ended; the run continues with its own Spark
  ├── JobLockError             another run of the same job is alive
  ├── UnsupportedError         the table format or the target does not support a request
  ├── SchemaChangeError        a schema needs a change of its table that the settings forbid
  ├── TableError               a folder is not a target table, or cannot be written
  ├── TableOwnerError          a table is loaded by another job
  ├── CommitLostError          a write ended without its commit in the table
  ├── ConflictError            another writer changed a table at the same time
  ├── StorageError             the storage or the catalog failed in all attempts
  ├── DiskFullError            no space for waiting rows or for a table
  ├── FilesError               a file that a BATCH message names cannot be read
  ├── BatchFileLoadError       a Fivetran batch file cannot be read or does not fit
  ├── RowCountError            rows written and quarantined differ from the rows received
  ├── QuarantineError          more rows were quarantined than the user allows
  ├── IncompleteError          an overwrite was not swapped in: its stream may be incomplete
  ├── RateLimitServerError     requests cannot be counted for the whole job
  ├── FrameError               a tap's stream cannot be read as a DataFrame
  ├── ReadingError             a tap that runs in the same process failed
  ├── AfterLoadError           an action after a load failed; the load itself is not affected
  └── StateOutputError         the reader of the states is gone
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "AfterLoadError",
    "BatchFileLoadError",
    "CommitLostError",
    "ConflictError",
    "DiskFullError",
    "EngineLostError",
    "FilesError",
    "FrameError",
    "IncompleteError",
    "JobLockError",
    "QuarantineError",
    "RateLimitServerError",
    "ReadingError",
    "RowCountError",
    "SchemaChangeError",
    "SparkDiedError",
    "SparkUnavailableError",
    "StateOutputError",
    "StorageError",
    "TableError",
    "TableOwnerError",
    "TargetSparkError",
    "UnsupportedError",
]


class TargetSparkError(Exception):
    """Base class of the target's errors. The message explains the reason and the remedy."""


class SparkUnavailableError(TargetSparkError):
    """Spark could not be started, or a Spark Connect server could not be used.

    The cause may be Java, Spark's jars, the settings or the server.
    """


class SparkDiedError(TargetSparkError):
    """Spark ended before the run was finished.

    Either its JVM ended, or a cluster ended its application.
    """


class EngineLostError(TargetSparkError):
    """The engine that a run used has ended. The work is repeated with the run's own Spark."""


class JobLockError(TargetSparkError):
    """The job cannot be locked.

    Either another run of the job is active, or another user controls the lock file.
    """


class UnsupportedError(TargetSparkError):
    """The table format or the target does not support a requested operation."""


class SchemaChangeError(TargetSparkError):
    """A schema needs a change of its table that the setting ``on_schema_change`` forbids.

    Attributes:
        refused: For each refused change, the path of the column, the type in the schema as DDL, and
            the type in the table, or None if the table has no such column.
    """

    def __init__(self, message: str, refused: Iterable[tuple[str, str, str | None]] = ()) -> None:
        super().__init__(message)
        self.refused = tuple(refused)


class TableError(TargetSparkError):
    """The target cannot write to a table, or must not, or the location has no valid table."""


class TableOwnerError(TargetSparkError):
    """The table belongs to another job, because that job loaded it last."""


class CommitLostError(TargetSparkError):
    """A commit was reported as successful, but its rows are not in the table."""


class ConflictError(TargetSparkError):
    """Another writer changed a table during a commit.

    The commit wrote nothing, and can be tried again.
    """


class StorageError(TargetSparkError):
    """A commit failed in all attempts, because of the storage, the catalog or another writer."""


class DiskFullError(TargetSparkError):
    """A disk has no free space for uncommitted rows or for a table."""


class FilesError(TargetSparkError):
    """A file named by a BATCH message is missing, truncated, or not of the declared format."""


class ReadingError(TargetSparkError):
    """The tap that runs in this process failed. Rows before the failure are still committed."""


class BatchFileLoadError(TargetSparkError):
    """A Fivetran batch file is missing, cannot be opened, or has invalid values."""


class RowCountError(TargetSparkError):
    """The number of rows written and quarantined is not equal to the number of rows received."""


class QuarantineError(TargetSparkError):
    """More rows are invalid than the setting ``max_quarantined`` allows."""


class IncompleteError(TargetSparkError):
    """An overwrite was not completed, because the input did not confirm that it has all rows.

    The old rows stay in the table.
    """


class AfterLoadError(TargetSparkError):
    """An action of the setting ``after_load`` failed. The rows and states of the load stay."""


class StateOutputError(TargetSparkError):
    """States cannot be written, because standard output is closed.

    Either this process or the reader of the output has closed it.
    """


class RateLimitServerError(TargetSparkError):
    """The server that counts a job's HTTP requests cannot be started or reached."""


class FrameError(TargetSparkError):
    """A tap's stream could not be read as a Spark DataFrame.

    The tap failed, or a value does not fit its column.
    """
