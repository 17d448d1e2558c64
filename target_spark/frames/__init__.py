"""From spooled lines to rows that fit their table, and those that do not."""

from __future__ import annotations

from target_spark.frames.files import lines_of_files as lines_of_files
from target_spark.frames.files import renumbered as renumbered
from target_spark.frames.frame import Counts as Counts
from target_spark.frames.frame import Frame as Frame
from target_spark.frames.frame import Metadata as Metadata
from target_spark.frames.frame import newest as newest
from target_spark.frames.frame import read_spool as read_spool
from target_spark.frames.reading import READER_OPTIONS as READER_OPTIONS
from target_spark.frames.reading import WHOLE_FILES as WHOLE_FILES
from target_spark.frames.rows import BAD_ROWS as BAD_ROWS
