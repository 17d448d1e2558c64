"""Every key of Spark, Delta Lake, Iceberg and Parquet with other values, on real tables.

Rows of every type are appended and upserted with a user's setting, and read with default ones: they
are equal to those sent, or the load fails with an error, or the setting is rejected. Many settings
are tried in one load; if that load fails or changes values, each half of them is tried.
"""

from __future__ import annotations

import base64
import logging
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tap_core.protocols.singer.reader import SingerReader
from target_spark.spark.exact_value_conf import find_conflicts
from target_spark.storage.uris import to_spark_uri
from tests.one_spark import COMPILED, INTERPRETED, ConfiguredSession
from tests.target.spark.spark_keys import EXCLUDED_KEYS, Key, list_keys
from tests.target.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from target_spark.spark.session import Session

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

UTC = timezone.utc
Setting = tuple[str, str]
Row = dict[str, Any]

AT = {"type": ["null", "string"], "format": "date-time"}
MONEY = {"type": ["null", "number"], "multipleOf": 1e-10}
INNER = {"type": ["null", "object"], "properties": {"at": AT, "money": MONEY}}
PROPERTIES: dict[str, Any] = {
    "id": {"type": "string"},
    "part": {"type": "string", "format": "date"},
    "flag": {"type": ["null", "boolean"]},
    "whole": {"type": ["null", "integer"]},
    "large": {"type": ["null", "integer"], "maximum": 10**37},
    "money": MONEY,
    "double": {"type": ["null", "number"]},
    "text": {"type": ["null", "string"]},
    "Text": {"type": ["null", "string"]},
    "at": AT,
    "day": {"type": ["null", "string"], "format": "date"},
    "time": {"type": ["null", "string"], "format": "time"},
    "bytes": {"type": ["null", "string"], "contentEncoding": "base64"},
    "inner": {
        "type": ["null", "object"],
        "properties": {"deep": INNER, "list": {"type": "array", "items": {"type": "integer"}}},
    },
    "list": {"type": ["null", "array"], "items": INNER},
    "free": {"type": "object"},
    "odd.${spark.app.name} 'name'": {"type": ["null", "string"]},
}

VALUES: dict[str, Sequence[Any]] = {
    "part": ("0900-02-28", "1582-10-10"),
    "flag": (True, False, None),
    "whole": (2**63 - 1, -(2**63), 0, None, 2**53 + 1),
    "large": (10**37 - 1, 1 - 10**37, None, 2**64 + 1),
    "money": (Decimal("1234567890123456789012345678.0123456789"), Decimal("-1E-10"), None),
    "double": (-0.0, 1e308, 5e-324, 0.1, None, -1.7976931348623157e308, 123456789.12345679),
    "text": ("\x00 and blanks  ", "", None, "🦀\r\n\t'\"\\", "${env:HOME}", "NULL", "1.50", "%s"),
    "Text": ("other", None, " "),
    "at": (
        "1582-10-04T23:59:59.999999+00:00",
        "0001-01-01T00:00:00.000001+00:00",
        "1899-12-31T23:59:59.123456+00:00",
        "9999-12-31T23:59:59.999999+00:00",
        "2024-03-31T02:30:00",
        "2024-10-27T02:30:00.100000+01:00",
        None,
    ),
    "day": ("0001-01-01", "0900-02-28", "1582-10-04", "1582-10-15", "9999-12-31", None),
    "time": ("23:59:59.999999", None),
    "bytes": (base64.b64encode(bytes(range(256))).decode(), "", None),
    "inner": (
        {"deep": {"at": "1700-02-28T00:00:00.000001", "money": Decimal("0.1")}, "list": [1, None]},
        None,
        {"deep": None, "list": []},
        {"deep": {"at": None, "money": None}, "list": [-(2**63)]},
    ),
    "list": (
        [{"at": "1500-03-01T12:00:00+00:00", "money": 3}, None],
        [],
        None,
        [{"at": None, "money": None}],
    ),
    "free": ({"b": 1, "a": Decimal("1.50")}, {"n": Decimal("12345678901234567890.10")}, {"": 1}),
    "odd.${spark.app.name} 'name'": ("${spark.app.name}", None),
}
"""The values of each property, which records use in rotation."""

COLUMNS: Final = {"text": "text_2", "odd.${spark.app.name} 'name'": "odd.$_spark.app.name__'name'"}
"""Column names that differ from the property's name."""

TYPE: Final = (
    "struct<id:string,part:date,flag:boolean,whole:bigint,large:decimal(38,0),"
    "money:decimal(38,10),double:double,text_2:string,Text:string,at:timestamp,day:date,"
    "time:string,bytes:binary,inner:struct<deep:struct<at:timestamp,money:decimal(38,10)>,"
    "list:array<bigint>>,list:array<struct<at:timestamp,money:decimal(38,10)>>,free:string,"
    "odd.$_spark.app.name__'name':string>"
)

FIRST: Final = ("a", "a ", "A", "á", "a\u0301", "", "\x00", "🦀", "r8", "r9", "r10")
SECOND: Final = ("a", "A", "🦀", "new", "r9")
MISFITS: Final = ({"whole": 2**63}, {"at": "2024-02-30T00:00:00"}, {"money": Decimal("1e-11")})

PROBES: Final[Mapping[str, str]] = {
    "part": "part = DATE '0900-02-28'",
    "whole": f"whole = {2**53 + 1}",
    "large": f"large = {10**37 - 1}",
    "money": "money = -0.0000000001",
    "double": "double = 1e308D",
    "text": "text_2 = '1.50'",
    "at": "at = TIMESTAMP '1582-10-04 23:59:59.999999'",
    "day": "day = DATE '1582-10-15'",
}
"""A predicate per property, which exercises the bounds and statistics of files."""

SOUGHT: Final = {
    "part": 0,
    "whole": 4,
    "large": 0,
    "money": 1,
    "double": 1,
    "text": 6,
    "at": 0,
    "day": 3,
}
"""The index in `VALUES` of the value that a probe matches."""


def make_record(key: str, shift: int) -> Row:
    return {"id": key} | {name: values[shift % len(values)] for name, values in VALUES.items()}


BATCHES: Final = (
    [make_record(key, number) for number, key in enumerate(FIRST)],
    [make_record(key, number + 3) for number, key in enumerate(SECOND)],
)
ENCODE: Final = msgspec.json.Encoder(decimal_format="number").encode


def messages(*, keyed: bool) -> Iterator[bytes]:
    keys = ["id"] if keyed else []
    schema = {"type": "object", "properties": PROPERTIES}
    yield line({"type": "SCHEMA", "stream": "a", "schema": schema, "key_properties": keys})
    for row in (*BATCHES[0], *BATCHES[1], *([] if keyed else misfits())):
        yield line({"type": "RECORD", "stream": "a", "record": row})


def line(message: Row) -> bytes:
    return ENCODE(message) + b"\n"


def misfits() -> list[Row]:
    return [{**make_record("odd", 0), **misfit} for misfit in MISFITS]


def to_stored_value(name: str, value: Any) -> Any:
    """Return the value that a reader finds for a value that was sent."""
    if name == "free":
        return ENCODE(value).decode()
    if name == "bytes" and value is not None:
        return base64.b64decode(value)
    if name in {"day", "part"} and value is not None:
        return date.fromisoformat(value)
    if name == "at" and value is not None:
        time = datetime.fromisoformat(value)
        return time if time.tzinfo else time.replace(tzinfo=UTC)
    if isinstance(value, dict):
        return {inner: to_stored_value(inner, item) for inner, item in value.items()}
    return [to_stored_value("", item) for item in value] if isinstance(value, list) else value


def to_text(value: Any) -> str:
    """Return a text of a value; equal texts mean equal values."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name!r}: {to_text(item)}' for name, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(to_text, value))}]"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y %m %d %H %M %S %f}"
    if isinstance(value, Decimal) and value.as_tuple().exponent:
        return f"{value:f}".rstrip("0").rstrip(".")
    return str(value) if isinstance(value, Decimal) else repr(value)


def expected(*, keyed: bool) -> list[Row]:
    rows = [*BATCHES[0], *BATCHES[1]]
    if keyed:
        rows = list({row["id"]: row for row in rows}.values())
    return [
        {COLUMNS.get(name, name): to_stored_value(name, row[name]) for name in PROPERTIES}
        for row in rows
    ]


@dataclass
class Sweep:
    """Loads into tables of one format, each with some settings."""

    session: Session
    folder: Path
    format: str
    loads: int = 0
    failed: dict[str, str] = field(default_factory=dict)

    def search(self, settings: Sequence[Setting]) -> Iterator[str]:
        """Yield each setting that changes values, with the difference."""
        fault, difference = self.load(settings)
        if not fault and not difference:
            return
        if len(settings) <= 1:
            if fault:
                self.failed.update({f"{key}={value}": fault for key, value in settings})
            else:
                yield f"{settings}: {difference}"
            return
        half = len(settings) // 2
        differences = [*self.search(settings[:half]), *self.search(settings[half:])]
        yield from differences or ([f"{settings} together: {difference}"] if difference else [])

    def load(self, settings: Sequence[Setting]) -> tuple[str, str]:
        """Return the error of a load, or the difference between its rows and those sent."""
        self.loads += 1
        folder = self.folder / str(self.loads)
        try:
            self.write(folder / "tables", settings)
        except Exception as error:  # noqa: BLE001  (a failed load emits no state)
            return str(error), ""
        try:
            return "", difference(self.plain(), folder / "tables", self.format)
        except (PySparkException, Py4JJavaError) as error:
            return "", f"what was written cannot be read: {error}"
        finally:
            shutil.rmtree(folder)

    def write(self, tables: Path, settings: Sequence[Setting]) -> None:
        """Load the messages; of a keyed table in two batches, the second of which is merged."""
        keyed = self.format != "parquet"
        # Code generation for a few wide rows would dominate the time of a MERGE.
        planned = (INTERPRETED if keyed else COMPILED) | dict(settings)
        configured = cast("Session", ConfiguredSession(self.session, planned))
        warehouse = Warehouse(configured, self.plain(), tables, self.format)
        config: dict[str, Any] = {"partition_by": ["part"]} if keyed else {}
        loader, spool = warehouse.open(flush_rows=len(FIRST), **config)
        try:
            decoder = SingerReader()
            for line in messages(keyed=keyed):
                for event in decoder.feed(line):
                    loader.process_event(event)
            loader.finish(whole=True)
        finally:
            loader.close()
            spool.close()

    def plain(self) -> SparkSession:
        """Return a session without user settings, for reading."""
        return self.session.spark().newSession()


def difference(plain: SparkSession, tables: Path, format: str) -> str:
    """Return the difference between the rows of tables and those sent; empty if there is none."""
    keyed = format != "parquet"
    jvm: Any = plain._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # the load's cache of the table

    def read(table: str) -> DataFrame:
        reader = plain.read.format(format).option("mergeSchema", "true")
        return reader.load(to_spark_uri(str(tables / table)))

    if read("a").schema.simpleString() != TYPE:
        return f"the type is {read('a').schema.simpleString()}"
    expected_rows = expected(keyed=keyed)
    loaded = sorted(map(to_text, read("a").toArrow().to_pylist()))
    sent = sorted(map(to_text, expected_rows))
    if loaded != sent:
        return f"found {set(loaded) - set(sent) or len(loaded)}, not {set(sent) - set(loaded)}"
    read("a").createOrReplaceTempView("a")
    probes = (f"SELECT '{name}' FROM a WHERE {is_met}" for name, is_met in PROBES.items())  # noqa: S608
    probe_names = [name for (name,) in plain.sql(" UNION ALL ".join(probes)).collect()]
    for name in PROBES:
        sought = to_stored_value(name, VALUES[name][SOUGHT[name]])
        expected_count = sum(
            to_text(row[COLUMNS.get(name, name)]) == to_text(sought) for row in expected_rows
        )
        assert expected_count
        if probe_names.count(name) != expected_count:
            return f"{probe_names.count(name)} rows have {PROBES[name]}, not {expected_count}"
    if keyed:
        return ""
    aside = sorted(row["raw"] for row in read("a__quarantine").toArrow().to_pylist())
    misfit_lines = sorted(ENCODE(row).decode() for row in misfits())
    return "" if aside == misfit_lines else f"set aside were {aside}"


ENDING: Final = frozenset(
    {
        "parquet.dictionary.page.size",
        "parquet.page.size",
        "spark.databricks.delta.properties.defaults.appendOnly",
        "spark.databricks.delta.properties.defaults.columnMapping.maxColumnId",
        "spark.databricks.delta.properties.defaults.enableIcebergCompatV1",
        "spark.databricks.delta.properties.defaults.universalFormat.enabledFormats",
        "spark.sql.analyzer.maxIterations",
        "spark.sql.analyzer.singlePassResolver.enabled",
        "spark.sql.ansi.enforceReservedKeywords",
        "spark.sql.catalog.target_spark.table-override.encryption.data-key-length",
        "spark.sql.catalog.target_spark.table-override.write.parquet.dict-size-bytes",
        "spark.sql.catalog.target_spark.table-override.write.parquet.row-group-check-max-record-count",
        "spark.sql.catalog.target_spark.table-override.write.spark.accept-any-schema",
        "spark.sql.maxBroadcastTableSize",
        "spark.sql.parquet.compression.codec",
        "spark.sql.retainGroupColumns",
    }
)
"""Keys with which some loads fail: each is tried alone, which is faster."""


def rounds(keys: Sequence[Key], size: int) -> Iterator[list[Setting]]:
    """Yield groups of accepted settings to try together, with each key at most once."""
    mixed = sorted(keys, key=lambda key: zlib.crc32(key.name.encode()))
    for number in range(max(len(key.values) for key in keys)):
        settings = [(key.name, key.values[number]) for key in mixed if number < len(key.values)]
        tried = [setting for setting in settings if not list(find_conflicts(dict([setting])))]
        yield from ([setting] for setting in tried if setting[0] in ENDING)
        combinable = [setting for setting in tried if setting[0] not in ENDING]
        yield from (combinable[begin : begin + size] for begin in range(0, len(combinable), size))


@pytest.fixture(scope="module")
def keys(spark_session: Session) -> list[Key]:
    return list_keys(spark_session.spark().newSession())


@pytest.fixture
def sweep(
    request: pytest.FixtureRequest, spark_session: Session, tmp_path: Path
) -> Iterator[Sweep]:
    logging.disable(logging.CRITICAL)  # hundreds of loads, some of which may fail
    yield Sweep(spark_session, tmp_path, request.param)
    logging.disable(logging.NOTSET)


FAMILIES: Final = {
    "parquet": ("parquet", r"spark\.sql\.(?!iceberg\.|catalog\.)|parquet\.|mapreduce\.", 48),
    "delta": ("delta", r"spark\.databricks\.(?!delta\.properties\.)", 64),
    "properties": ("delta", r"spark\.databricks\.delta\.properties\.", 16),
    "iceberg": ("iceberg", r"spark\.sql\.iceberg\.|spark\.wap\.", 16),
    "overrides": ("iceberg", r"spark\.sql\.catalog\.target_spark\.", 24),
}
"""Groups to try: a format, a pattern of keys, and the number of keys per load.

`properties` are default properties of Delta tables, `overrides` properties of Iceberg tables.
"""


@pytest.mark.parametrize(
    ("sweep", "pattern", "size"), FAMILIES.values(), ids=FAMILIES, indirect=["sweep"]
)
def test_no_accepted_setting_changes_values(
    sweep: Sweep, keys: list[Key], pattern: str, size: int
) -> None:
    assert sweep.load([]) == ("", "")
    concerned = [key for key in keys if re.match(pattern, key.name)]
    assert [
        mismatch for settings in rounds(concerned, size) for mismatch in sweep.search(settings)
    ] == []
    assert len(sweep.failed) < len(concerned) / 10  # otherwise the loads would prove little


FALSIFYING: Final = {
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.json.enableExactStringParsing": "false",
}


@pytest.mark.parametrize("sweep", ["parquet"], indirect=True)
@pytest.mark.parametrize("key", FALSIFYING)
def test_search_finds_a_value_changing_setting_among_others(sweep: Sweep, key: str) -> None:
    harmless = [("spark.sql.parquet.compression.codec", "gzip"), ("parquet.block.size", "4096")]
    [mismatch] = sweep.search([harmless[0], (key, FALSIFYING[key]), harmless[1]])
    assert key in mismatch
    assert harmless[0][0] not in mismatch


def test_keys_without_values_to_try_are_listed(keys: list[Key]) -> None:
    """A key of a new release without a value to try is noticed."""
    untried = {key.name for key in keys if not key.values}
    assert untried == {name for names in EXCLUDED_KEYS.values() for name in names}
