"""Table formats: one writer each, of one shape."""

from __future__ import annotations

from target_spark.writers.base import Keys as Keys
from target_spark.writers.base import Writer as Writer
from target_spark.writers.base import newest_by_key as newest_by_key
from target_spark.writers.formats import FORMATS as FORMATS
from target_spark.writers.formats import writer_for as writer_for
