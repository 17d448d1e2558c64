"""Errors of the target; each message states the cause, the effect on data, and the remedy.

The entry points print such a message without a traceback.

  TargetSparkError
  ├── SparkUnavailableError    no Java, no jars, or the JVM did not start
  ├── SparkDiedError           the JVM ended during the run
  ├── JobLockError             another run of the same job is alive
  ├── UnsupportedError         the table format or the target does not support a request
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
  └── StateOutputError         the reader of the states is gone
"""

from __future__ import annotations

__all__ = [
    "BatchFileLoadError",
    "CommitLostError",
    "ConflictError",
    "DiskFullError",
    "FilesError",
    "FrameError",
    "IncompleteError",
    "JobLockError",
    "QuarantineError",
    "RateLimitServerError",
    "ReadingError",
    "RowCountError",
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
    """Base class of the target's errors; the message has the reason and the remedy."""


class SparkUnavailableError(TargetSparkError):
    """Spark could not be started because of Java, the jars or the settings."""


class SparkDiedError(TargetSparkError):
    """Spark's JVM, or its application on a cluster, ended while it was needed."""


class JobLockError(TargetSparkError):
    """Another run of the same job holds its lock, or another user controls the lock file."""


class UnsupportedError(TargetSparkError):
    """The table format or the target does not support a requested operation."""


class TableError(TargetSparkError):
    """A folder is not a table that the target may write, or it cannot be written."""


class TableOwnerError(TargetSparkError):
    """A table was last loaded by another job."""


class CommitLostError(TargetSparkError):
    """A write returned without an error, but its batch is not in the table."""


class ConflictError(TargetSparkError):
    """Another writer changed a table during a commit; nothing was written, so it may be retried."""


class StorageError(TargetSparkError):
    """The storage, the catalog or another writer prevented a commit in all attempts."""


class DiskFullError(TargetSparkError):
    """A disk has no space for waiting rows or for a table."""


class FilesError(TargetSparkError):
    """A file that a BATCH message names is missing, truncated, or differs from its description."""


class ReadingError(TargetSparkError):
    """A tap that runs in the same process failed; the rows before the failure are valid."""


class BatchFileLoadError(TargetSparkError):
    """A Fivetran batch file is missing, cannot be opened, or has values that do not fit."""


class RowCountError(TargetSparkError):
    """The numbers of written and quarantined rows differ from the number of rows received."""


class QuarantineError(TargetSparkError):
    """More rows would be quarantined than the setting ``max_quarantined`` allows."""


class IncompleteError(TargetSparkError):
    """A stream that overwrites its table is not known to be complete; the old rows stay."""


class StateOutputError(TargetSparkError):
    """States cannot be emitted, because standard output is closed or its reader is gone."""


class RateLimitServerError(TargetSparkError):
    """The driver's server that counts the requests of a job cannot be started or reached."""


class FrameError(TargetSparkError):
    """A tap's stream could not be read as a DataFrame, or a value does not fit its column."""
