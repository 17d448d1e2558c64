"""Conversion of JSON lines from spool files into table rows, and detection of invalid rows."""

from __future__ import annotations

from target_spark.frames.batch_file_reader import assign_ordinals as assign_ordinals
from target_spark.frames.batch_file_reader import reading_files as reading_files
from target_spark.frames.batch_file_reader import spool_lines_from_files as spool_lines_from_files
from target_spark.frames.combined_frame import CombinedFrame as CombinedFrame
from target_spark.frames.json_reader import READER_OPTIONS as READER_OPTIONS
from target_spark.frames.json_reader import WHOLE_FILES as WHOLE_FILES
from target_spark.frames.spool_frame import BatchMetadata as BatchMetadata
from target_spark.frames.spool_frame import Counts as Counts
from target_spark.frames.spool_frame import SpoolFrame as SpoolFrame
from target_spark.frames.sql_plan import BAD_ROWS_MARKER as BAD_ROWS_MARKER
