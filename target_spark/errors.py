"""What can go wrong in the target, in words for the person who runs it.

Rules of the room: an error here carries a whole message (what happened, what it means
for the data, what to do); the door prints that message without a traceback.

    TargetSparkError
    ├── SparkUnavailableError    no Java, no jars, or the JVM did not start
    ├── LeaseError               another run of the same job is alive
    ├── UnsupportedError         the table format cannot do what was asked
    ├── TableError               a folder is no table of ours, or cannot be written
    ├── CommitLostError          a write ended without its commit in the table
    ├── CountError               rows written and set aside are not the rows that came
    ├── QuarantineError          more rows were set aside than the user allows
    ├── IncompleteError          an overwrite was not swapped in: its stream may be cut off
    └── OutletError              the reader of the states is gone
"""

from __future__ import annotations

__all__ = [
    "CommitLostError",
    "CountError",
    "IncompleteError",
    "LeaseError",
    "OutletError",
    "QuarantineError",
    "SparkUnavailableError",
    "TableError",
    "TargetSparkError",
    "UnsupportedError",
]


class TargetSparkError(Exception):
    """The target cannot go on; the message says why and what helps."""


class SparkUnavailableError(TargetSparkError):
    """Spark could not be started: Java, the jars or the settings are not as needed."""


class LeaseError(TargetSparkError):
    """Another run of the same job holds its lease."""


class UnsupportedError(TargetSparkError):
    """The table format cannot do what was asked."""


class TableError(TargetSparkError):
    """A folder is not a table that the target may write, or cannot be written."""


class CommitLostError(TargetSparkError):
    """A write came back without an error, but its batch is not in the table."""


class CountError(TargetSparkError):
    """The rows that were written and set aside are not as many as came in."""


class QuarantineError(TargetSparkError):
    """More rows had to be set aside than ``max_quarantined`` allows."""


class IncompleteError(TargetSparkError):
    """A stream that overwrites its table was not known to be complete; the old table stays."""


class OutletError(TargetSparkError):
    """The states cannot leave: the reader of the standard output is gone."""
