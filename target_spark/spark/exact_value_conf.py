"""Required values of the Spark settings that affect stored data, each with its reason.

Any other value of such a setting is rejected, because data would be shifted, cut, rounded or lost
without an error. Settings that never change stored data are not listed. All settings of Spark 4.1
(``SQLConf``), Delta Lake 4.4 (``DeltaSQLConf``) and Iceberg 1.12 (``SparkSQLProperties``) were
reviewed for this list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

__all__ = [
    "REQUIRED",
    "ZONE",
    "ZONE_KEY",
    "Required",
    "describe_conflict",
    "exact_conf",
    "find_conflicts",
    "get_required",
]


@dataclass(frozen=True, slots=True)
class Required:
    """Required value of a Spark setting. Any other value would change stored data.

    Attributes:
        value: The required value.
        why: The effect of any other value, for messages.
        is_set: True if target-spark sets the value in every session, because Spark's default
            differs or depends on the environment. False if Spark's default is the required value.
    """

    value: str
    why: str
    is_set: bool = False


_CALENDAR: Final = (
    "another calendar moves days before 1582-10-15 and times before 1900, and other readers do not"
    " correct for it"
)
_MICROS: Final = "microseconds would be cut, or files would have no bounds of date-times"
_STRUCTS: Final = "objects that are null would become objects of nulls"
_FILES: Final = "rows of a file that cannot be read would be left out without an error"
_LIMITED: Final = "texts in CHAR and VARCHAR columns would be padded, cut or compared differently"
_FROM_FILES: Final = (
    "values in Parquet files of BATCH messages would be shifted, or change their type"
)

ZONE_KEY: Final = "spark.sql.session.timeZone"
ZONE: Final = "UTC"

REQUIRED: Final[Mapping[str, Required]] = MappingProxyType(
    {
        # Dates and times.
        ZONE_KEY: Required(
            ZONE, "with another time zone all date-times would be shifted", is_set=True
        ),
        "spark.sql.timestampType": Required(
            "TIMESTAMP_LTZ", "a date-time is a point in time, not a local time without a zone"
        ),
        "spark.sql.parquet.outputTimestampType": Required("TIMESTAMP_MICROS", _MICROS, is_set=True),
        "spark.databricks.delta.table.parquetV2.timestampOutputType": Required(
            "TIMESTAMP_MICROS", _MICROS
        ),
        **{
            f"spark.sql.parquet.{key}": Required("CORRECTED", _CALENDAR, is_set=True)
            for key in (
                "datetimeRebaseModeInRead",
                "datetimeRebaseModeInWrite",
                "int96RebaseModeInRead",
                "int96RebaseModeInWrite",
            )
        },
        "spark.sql.avro.datetimeRebaseModeInRead": Required("CORRECTED", _CALENDAR),
        "spark.sql.avro.datetimeRebaseModeInWrite": Required("CORRECTED", _CALENDAR),
        "spark.sql.parquet.int96AsTimestamp": Required("true", _FROM_FILES),
        "spark.sql.parquet.int96TimestampConversion": Required("false", _FROM_FILES),
        "spark.sql.parquet.inferTimestampNTZ.enabled": Required("true", _FROM_FILES),
        "spark.sql.datetime.java8API.enabled": Required(
            "false", "Spark would return dates and date-times as objects of other Java classes"
        ),
        "spark.databricks.delta.write.utcTimestampPartitionValues": Required(
            "true", "date-times in partition columns would be read in each reader's time zone"
        ),
        # Names, and the SQL in which values are converted.
        "spark.sql.caseSensitive": Required(
            "true", "properties that differ only in case would be treated as one", is_set=True
        ),
        "spark.sql.variable.substitute": Required(
            "false", "`${env:X}` in a name or text would be replaced", is_set=True
        ),
        "spark.sql.parser.escapedStringLiterals": Required(
            "false", "backslashes in names and texts would be read differently"
        ),
        "spark.sql.parser.quotedRegexColumnNames": Required(
            "false", "column names would be interpreted as regular expressions"
        ),
        # Conversions.
        "spark.sql.ansi.enabled": Required(
            "true", "values that overflow or cannot be cast would become null or wrap", is_set=True
        ),
        "spark.sql.storeAssignmentPolicy": Required(
            "ANSI", "values would be truncated to a column's type, or rejected although they fit"
        ),
        "spark.sql.mapKeyDedupPolicy": Required("EXCEPTION", "entries of maps would be dropped"),
        "spark.sql.json.enableExactStringParsing": Required(
            "true", "objects that are kept as text would be rewritten, their numbers rounded"
        ),
        "spark.sql.json.enablePartialResults": Required(
            "true", "the valid values of a record with an invalid value would be lost"
        ),
        "spark.sql.jsonGenerator.ignoreNullFields": Required(
            "true", "rows of Parquet files would differ from the same records in messages"
        ),
        "spark.sql.parquet.binaryAsString": Required("false", _FROM_FILES),
        "spark.sql.charAsVarchar": Required("false", _LIMITED),
        "spark.sql.preserveCharVarcharTypeInfo": Required("false", _LIMITED),
        "spark.sql.readSideCharPadding": Required("true", _LIMITED),
        "spark.databricks.delta.insert.preserveNullSourceStructs": Required("true", _STRUCTS),
        "spark.databricks.delta.merge.preserveNullSourceStructs": Required("true", _STRUCTS),
        "spark.databricks.delta.merge.preserveNullSourceStructs.updateStar": Required(
            "true", _STRUCTS
        ),
        "spark.sql.iceberg.check-ordering": Required(
            "true", "values could be written to another column"
        ),
        "spark.sql.iceberg.check-nullability": Required(
            "true", "nulls could be written to NOT NULL columns"
        ),
        # Rows.
        "spark.sql.files.ignoreCorruptFiles": Required("false", _FILES),
        "spark.sql.files.ignoreMissingFiles": Required("false", _FILES),
        "spark.sql.files.ignoreInvalidPartitionPaths": Required("false", _FILES),
        "spark.sql.sources.partitionOverwriteMode": Required(
            "STATIC", "an overwrite would leave old rows in partitions without new ones"
        ),
        "spark.sql.execution.sortBeforeRepartition": Required(
            "true", "a retried task could write rows twice and omit others"
        ),
    }
)

_MERGE_ISOLATION: Final = re.compile(
    r"spark\.sql\.catalog\..+\.table-(default|override)\.write\.merge\.isolation-level"
)
_SERIALIZABLE: Final = Required(
    "serializable", "a key that another writer adds during a MERGE could be in the table twice"
)

_LEGACY: Final = "spark.sql.legacy."
_WHY_LEGACY: Final = "it restores the behavior of earlier releases of Spark, which changes values"
_LEGACY_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        f"{_LEGACY}{key}": value
        for key, value in {
            "ctePrecedencePolicy": "CORRECTED",
            "execution.pandas.groupedMap.assignColumnsByName": "true",
            "followThreeValuedLogicInArrayExists": "true",
            "histogramNumericPropagateInputType": "true",
            "literal.pickMinimumPrecision": "true",
            "replaceDatabricksSparkAvro.enabled": "true",
            "setCommandRejectsSparkCoreConfs": "true",
            "sizeOfNull": "true",
            "timeParserPolicy": "CORRECTED",
            "viewSchemaBindingMode": "true",
            "viewSchemaCompensation": "true",
        }.items()
    }
)
"""Spark's default values of the settings ``spark.sql.legacy.*``, by name. Settings that are not
listed have the default ``false``."""


def get_required(key: str) -> Required | None:
    """Return the value that a Spark setting must have, since any other changes stored data.

    Return None if the setting may have any value.
    """
    if _MERGE_ISOLATION.fullmatch(key):
        return _SERIALIZABLE
    if not key.startswith(_LEGACY):
        return REQUIRED.get(key)
    former_name = REQUIRED.get(f"spark.sql.{key.removeprefix(_LEGACY)}")
    return former_name or Required(_LEGACY_DEFAULTS.get(key, "false"), _WHY_LEGACY)


def exact_conf() -> dict[str, str]:
    """Return the Spark settings that every session sets; other values would change stored data."""
    return {key: required.value for key, required in REQUIRED.items() if required.is_set}


def find_conflicts(conf: Mapping[str, str]) -> Iterator[tuple[str, Required]]:
    """Yield each setting in ``conf`` whose value could change stored data.

    Each item is a tuple of the setting's name and its `Required` value. Case is ignored.
    """
    for key, value in conf.items():
        required = get_required(key)
        if required is not None and value.strip().lower() != required.value.lower():
            yield key, required


def describe_conflict(key: str, value: str, required: Required) -> str:
    """Return the error message for a Spark setting whose value could change stored data.

    ``key`` is the name of the setting. The message states the effect of the value, and the required
    value.
    """
    return (
        f"{key} is {value!r} and must be {required.value!r}: {required.why}. Remove it, or set it"
        f" to {required.value}"
    )
