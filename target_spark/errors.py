"""What can go wrong in the target, in words for the person who runs it.

Rules of the room: an error here carries a whole message (what happened, what it means
for the data, what to do); the door prints that message without a traceback.

    TargetSparkError
    ├── SparkUnavailableError    no Java, no jars, or the JVM did not start
    ├── SparkDiedError           the JVM ended in the middle of the run
    ├── LeaseError               another run of the same job is alive
    ├── UnsupportedError         the table format cannot do what was asked
    ├── TableError               a folder is no table of ours, or cannot be written
    ├── OwnerError               a table is loaded by another job
    ├── CommitLostError          a write ended without its commit in the table
    ├── ConflictError            another writer changed a table at the same time
    ├── StorageError             the storage or the catalog failed for longer than we wait
    ├── DiskFullError            no room for rows that wait, or for a table
    ├── FilesError               a file that a BATCH message names cannot be read
    ├── BatchFileError           a batch file of Fivetran cannot be read, or does not fit
    ├── CountError               rows written and set aside are not the rows that came
    ├── QuarantineError          more rows were set aside than the user allows
    ├── IncompleteError          an overwrite was not swapped in: its stream may be cut off
    ├── PermitsError             requests cannot be counted for the whole job
    ├── FrameError               a tap's stream cannot be read as a frame
    ├── ReadingError             a tap that is read by the same process failed
    └── OutletError              the reader of the states is gone
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
    """The target cannot go on; the message says why and what helps."""


class SparkUnavailableError(TargetSparkError):
    """Spark could not be started: Java, the jars or the settings are not as needed."""


class SparkDiedError(TargetSparkError):
    """Spark's JVM ended while it was needed."""


class JobLockError(TargetSparkError):
    """Another run of the same job holds its lease, or another user controls the lease."""


class UnsupportedError(TargetSparkError):
    """The table format cannot do what was asked."""


class TableError(TargetSparkError):
    """A folder is not a table that the target may write, or cannot be written."""


class TableOwnerError(TargetSparkError):
    """A table's last commit is of another job."""


class CommitLostError(TargetSparkError):
    """A write came back without an error, but its batch is not in the table."""


class ConflictError(TargetSparkError):
    """A batch must be committed again: the table is another one now, and has nothing of it."""


class StorageError(TargetSparkError):
    """The storage, the catalog or another writer kept a commit from being made."""


class DiskFullError(TargetSparkError):
    """A disk has no room for rows that wait, or for those of a table."""


class FilesError(TargetSparkError):
    """A file of a BATCH message is not there, is cut off, or is not what the message says."""


class ReadingError(TargetSparkError):
    """A tap that is read by the same process failed; what came before is good."""


class BatchFileLoadError(TargetSparkError):
    """A batch file is not there, does not open, or has what does not fit its table."""


class RowCountError(TargetSparkError):
    """The rows that were written and set aside are not as many as came in."""


class QuarantineError(TargetSparkError):
    """More rows had to be set aside than ``max_quarantined`` allows."""


class IncompleteError(TargetSparkError):
    """A stream that overwrites its table was not known to be complete; the old table stays."""


class StateOutputError(TargetSparkError):
    """The states cannot leave: the reader of the standard output is gone."""


class RateLimitServerError(TargetSparkError):
    """The driver of a job cannot be asked when the next request may be sent."""


class FrameError(TargetSparkError):
    """A stream of a tap could not be read, or a value in it does not fit its column."""
