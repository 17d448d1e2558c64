"""Spark settings that name a class, a folder or a commit coordinator, or hold for a whole process.

As in `test_every_setting`, real tables are loaded with them: the rows read back are those sent, or
the load fails with an error, or the setting is refused. A load with a static setting needs a new
process, so several static settings are tested in one load.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from target_spark.config import settings as config_settings
from tests.target.spark.spark_keys import list_static_keys
from tests.target.spark.test_every_setting import FIRST, Setting, Sweep, messages

if TYPE_CHECKING:
    from target_spark.spark.session import Session

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

HADOOP: Final = "org.apache.hadoop.mapreduce.lib.output."
PROTOCOL: Final = "spark.sql.sources.commitProtocolClass"
COMMITTER: Final = "spark.sql.parquet.output.committer.class"
FACTORY: Final = "mapreduce.outputcommitter.factory.class"
NAMED: Final = "mapreduce.outputcommitter.named.classname"
TABLES: Final = "spark.sql.catalog.target_spark.table-override."
DEFAULTS: Final = "spark.databricks.delta.properties.defaults."

CLASSES: Final[Sequence[Sequence[Setting]]] = [
    [(PROTOCOL, "org.apache.spark.internal.io.HadoopMapReduceCommitProtocol")],
    [(PROTOCOL, "org.apache.spark.sql.execution.streaming.ManifestFileCommitProtocol")],
    [(PROTOCOL, "org.apache.spark.sql.delta.files.DelayedCommitProtocol")],
    [(PROTOCOL, "org.apache.spark.internal.io.HadoopMapRedCommitProtocol")],
    [(COMMITTER, f"{HADOOP}PartialFileOutputCommitter")],
    [(COMMITTER, f"{HADOOP}BindingPathOutputCommitter")],
    [(COMMITTER, f"{HADOOP}committer.manifest.ManifestCommitter")],
    [(COMMITTER, "org.apache.hadoop.mapred.FileOutputCommitter")],
    [("spark.sql.sources.outputCommitterClass", f"{HADOOP}PartialFileOutputCommitter")],
    [
        ("spark.sql.sources.outputCommitterClass", f"{HADOOP}BindingPathOutputCommitter"),
        (FACTORY, f"{HADOOP}committer.manifest.ManifestCommitterFactory"),
    ],
    [
        (COMMITTER, f"{HADOOP}BindingPathOutputCommitter"),
        (FACTORY, f"{HADOOP}NamedCommitterFactory"),
        (NAMED, f"{HADOOP}FileOutputCommitter"),
    ],
    [
        ("spark.sql.adaptive.customCostEvaluatorClass", "org.apache.spark.sql.Row"),
    ],
    [("spark.sql.defaultCatalog", "mine")],
    [("spark.sql.catalog.spark_catalog", "org.apache.iceberg.spark.SparkSessionCatalog")],
    [(f"{DEFAULTS}coordinatedCommits.commitCoordinator-preview", "in-memory")],
    [(f"{DEFAULTS}coordinatedCommits.commitCoordinator-preview", "dynamodb")],
    [
        (f"{DEFAULTS}coordinatedCommits.commitCoordinator-preview", "in-memory"),
        (f"{DEFAULTS}coordinatedCommits.commitCoordinatorConf-preview", "{}"),
    ],
    [(f"{DEFAULTS}coordinatedCommits.tableConf-preview", "{}")],
    [(f"{DEFAULTS}inCommitTimestampEnablementTimestamp", "1")],
    [(f"{DEFAULTS}inCommitTimestampEnablementVersion", "1")],
    [(f"{DEFAULTS}redirectReaderWriter-preview", "{}")],
    [(f"{DEFAULTS}redirectWriterOnly-preview", "{}")],
    [(f"{DEFAULTS}feature.catalogManaged", "supported")],
    [(f"{TABLES}write.location-provider.impl", "org.apache.iceberg.BaseTable")],
    [(f"{TABLES}write.data.path", "{folder}/elsewhere")],
    [(f"{TABLES}write.metadata.path", "{folder}/elsewhere")],
    [(f"{TABLES}write.object-storage.path", "{folder}/elsewhere")],
    [(f"{TABLES}write.folder-storage.path", "{folder}/elsewhere")],
    [(f"{TABLES}schema.name-mapping.default", "[]")],
    [(f"{TABLES}encryption.key-id", "mine")],
    [(f"{TABLES}commit.retry.num-retries", "0")],
]
"""Groups of settings that are tried alone: classes, commit coordinators, folders."""

PROCESS: Final[Sequence[Sequence[Setting]]] = [
    [
        ("spark.serializer", "org.apache.spark.serializer.KryoSerializer"),
        ("spark.io.compression.codec", "snappy"),
        ("spark.rdd.compress", "true"),
        ("spark.shuffle.compress", "false"),
        ("spark.speculation", "true"),
        ("spark.task.maxFailures", "1"),
        ("spark.shuffle.sort.bypassMergeThreshold", "1"),
        ("spark.hadoop.mapreduce.fileoutputcommitter.task.cleanup.enabled", "true"),
        ("spark.hadoop.fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem"),
    ],
    [
        ("spark.io.compression.codec", "lzf"),
        ("spark.shuffle.checksum.enabled", "false"),
        ("spark.memory.offHeap.enabled", "true"),
        ("spark.memory.offHeap.size", "64m"),
        ("spark.hadoop.parquet.enable.dictionary", "false"),
        ("spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version", "2"),
    ],
]
"""Groups of settings of Spark's core and of Hadoop."""


class ProcessSweep(Sweep):
    """Sweep whose loads each run in a new process with its own Spark."""

    def write(self, tables: Path, settings: Sequence[Setting]) -> None:
        """Load the messages with the program `target-spark`."""
        tables.parent.mkdir(parents=True)
        keyed = self.format != "parquet"
        config = {"path": str(tables), "format": self.format, "small_runs": True}
        config |= {"flush_rows": len(FIRST), "spark": dict(fill_folder(settings, tables.parent))}
        config |= {"partition_by": ["part"]} if keyed else {}
        path = tables.parent / "config.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        process = subprocess.run(
            [sys.executable, "-m", "target_spark", "--config", str(path)],
            input=b"".join(messages(keyed=keyed)),
            capture_output=True,
            check=False,
            timeout=200,  # some settings make Spark wait for itself for ever
            cwd=tables.parent,  # for the metastore that Hive creates
        )
        if process.returncode:
            raise RuntimeError(process.stderr.decode()[-2000:])


def fill_folder(settings: Sequence[Setting], folder: Path) -> Iterator[Setting]:
    """Yield the settings with the path of ``folder`` in place of ``{folder}``."""
    for key, value in settings:
        yield key, value.replace("{folder}", str(folder))


@pytest.fixture(autouse=True)
def _without_logs() -> Iterator[None]:
    """Suppress the log: most of these loads fail with long errors of the JVM."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def applies_to(settings: Sequence[Setting], form: str) -> bool:
    """Return True if settings can have an effect on tables of a format."""
    of = {"delta": DEFAULTS, "iceberg": TABLES}
    return all(not settings[0][0].startswith(of[other]) for other in of if other != form)


@pytest.mark.parametrize("form", ["parquet", "delta", "iceberg"])
def test_accepted_classes_and_folders_do_not_change_values(
    spark_session: Session, tmp_path: Path, form: str
) -> None:
    sweep = Sweep(spark_session, tmp_path, form)
    differences, loaded = [], 0
    for settings in CLASSES:
        config = {"path": "/a", "format": form, "spark": dict(settings)}
        if not applies_to(settings, form) or config_settings.find_faults(config):
            continue
        fault, wrong = sweep.load(list(fill_folder(settings, tmp_path / "other")))
        differences += [f"{settings}: {wrong}"] if wrong else []
        loaded += not fault
    assert differences == []
    assert loaded >= 3, "nearly every load failed, so the settings were not tried"


@pytest.mark.parametrize("form", ["parquet", "delta", "iceberg"])
def test_accepted_settings_of_a_process_do_not_change_values(
    spark_session: Session, tmp_path: Path, form: str
) -> None:
    keys = list_static_keys(spark_session.spark().newSession())
    assert [key.name for key in keys if not key.values] == []
    sweep = ProcessSweep(spark_session, tmp_path, form)
    rounds = [
        [(key.name, key.values[number]) for key in keys if number < len(key.values)]
        for number in range(max(len(key.values) for key in keys))
    ]
    assert [
        difference for settings in (*rounds, *PROCESS) for difference in sweep.search(settings)
    ] == []
    assert len(sweep.failed) < len(keys) / 4, "too many loads failed to have tried the settings"
