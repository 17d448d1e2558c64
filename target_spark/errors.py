"""Exceptions of the target. Each message states the cause, the effect on data, and the remedy.

The command line prints these messages without a traceback. All exceptions are direct subclasses of
`TargetSparkError`.
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
    """Base class of the exceptions of target-spark. The message states the cause and the remedy."""


class SparkUnavailableError(TargetSparkError):
    """Spark could not be started, or a Spark Connect server could not be used.

    The cause may be Java, Spark's jars, the settings or the server.
    """


class SparkDiedError(TargetSparkError):
    """Spark ended during the run: the JVM exited, or a cluster ended the application."""


class EngineLostError(TargetSparkError):
    """A background Spark process, shared by several runs, has ended.

    The failed commit is repeated with a Spark process that the run starts itself.
    """


class JobLockError(TargetSparkError):
    """The lock that prevents parallel runs of a job cannot be acquired.

    Another run of the job is active, or another user could change the lock file.
    """


class UnsupportedError(TargetSparkError):
    """A requested operation is not supported by the target or by the table format."""


class SchemaChangeError(TargetSparkError):
    """A stream's schema needs a table change that the setting ``on_schema_change`` forbids.

    Attributes:
        refused: One tuple per forbidden change: the path of the column, its type (DDL) in the
            stream's schema, and its type in the table, which is None for a new column.
    """

    def __init__(self, message: str, refused: Iterable[tuple[str, str, str | None]] = ()) -> None:
        super().__init__(message)
        self.refused = tuple(refused)


class TableError(TargetSparkError):
    """A table cannot be written or read, for example because it was removed during the load."""


class TableOwnerError(TargetSparkError):
    """A table was last loaded by another job, so this job must not write to it."""


class CommitLostError(TargetSparkError):
    """A write succeeded without an error, but the table does not contain its commit."""


class ConflictError(TargetSparkError):
    """Another writer changed the table at the same time as a commit.

    The commit wrote nothing, and can be tried again.
    """


class StorageError(TargetSparkError):
    """A commit failed in all attempts, because of the storage, the catalog or another writer."""


class DiskFullError(TargetSparkError):
    """A disk has no free space for temporary files of uncommitted rows or for a table."""


class FilesError(TargetSparkError):
    """A file of a BATCH message is missing, truncated, or not in the declared format."""


class ReadingError(TargetSparkError):
    """The tap that runs in this process failed. Rows read before the failure are committed."""


class BatchFileLoadError(TargetSparkError):
    """A batch file from Fivetran is missing, cannot be opened, or contains invalid values."""


class RowCountError(TargetSparkError):
    """The number of received rows differs from the number of written and quarantined rows."""


class QuarantineError(TargetSparkError):
    """The number of quarantined rows exceeds the setting ``max_quarantined``."""


class IncompleteError(TargetSparkError):
    """An overwrite was not committed, because the input may not have contained all rows.

    The old rows stay in the table.
    """


class AfterLoadError(TargetSparkError):
    """An action of the setting ``after_load`` failed. The load itself is not affected."""


class StateOutputError(TargetSparkError):
    """State messages cannot be written, because standard output is closed.

    Either this process or the process that reads the output has closed the pipe.
    """


class RateLimitServerError(TargetSparkError):
    """The server that limits the HTTP requests of a job cannot be started or reached."""


class FrameError(TargetSparkError):
    """A tap's stream could not be read as a Spark DataFrame.

    The tap failed, or a value cannot be converted to the type of its column.
    """
