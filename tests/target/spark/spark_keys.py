"""Setting keys of Spark, Delta Lake, Iceberg and Parquet, each with values to try.

The keys come from the libraries themselves, so a new release brings its new keys. The values of a
key are those that its own check accepts: a switch reversed, each other choice of an enumeration,
and small and large numbers, sizes and times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from target_spark.spark.exact_value_conf import get_required
from target_spark.writers.iceberg.catalog import DEFAULT_CATALOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["EXCLUDED_KEYS", "Key", "list_keys", "list_static_keys"]

_DELTA: Final = "spark.databricks.delta."
_ICEBERG: Final = "spark.sql.iceberg."
_TABLE_DEFAULTS: Final = f"{_DELTA}properties.defaults."
_ICEBERG_TABLES: Final = f"spark.sql.catalog.{DEFAULT_CATALOG}.table-override."

_ALLOWED_VALUES: Final = re.compile(r"should be one of '([^']*)'")
_EXPECTED_TYPE: Final = re.compile(r"should be a/an '(\w+)")
_NUMBER: Final = re.compile(r"(-?[0-9]+)(\.[0-9]+)?([a-zA-Z]*)")
_SIZES: Final = frozenset({"b", "k", "kb", "m", "mb", "g", "gb"})

_VALUES_BY_TYPE: Final[Mapping[str, tuple[str, ...]]] = {
    "boolean": ("true", "false"),
    "int": ("1", "1000"),
    "long": ("1", "1000"),
    "double": ("0.1", "10.0"),
    "bytes": ("1k", "64m"),
    "time": ("1s", "1h"),
}
"""Values of keys without a default."""

_VALUES_BY_KEY: Final[Mapping[str, tuple[str, ...]]] = {
    f"{_TABLE_DEFAULTS}checkpointPolicy": ("v2",),
    f"{_TABLE_DEFAULTS}columnMapping.mode": ("name", "id"),
    f"{_TABLE_DEFAULTS}dataSkippingStatsColumns": ("id",),
    f"{_TABLE_DEFAULTS}parquet.format.version": ("2.12.0",),
    f"{_TABLE_DEFAULTS}minReaderVersion": ("1", "2", "3"),
    f"{_TABLE_DEFAULTS}minWriterVersion": ("3", "5", "7"),
    f"{_TABLE_DEFAULTS}dataSkippingStringPrefixLength": ("1",),
    f"{_TABLE_DEFAULTS}universalFormat.enabledFormats": ("iceberg",),
    f"{_DELTA}checkpointV2.topLevelFileFormat": ("json", "parquet"),
    f"{_DELTA}commitInfo.userMetadata": ("mine",),
    f"{_DELTA}conflictDetection.partitionLevelConcurrency.widenNonDeterministicPredicates": (
        "off",
    ),
    f"{_DELTA}merge.materializeSource": ("none", "all"),
    f"{_DELTA}write.txnAppId": ("mine",),
    f"{_DELTA}write.txnVersion": ("1", "1000"),
    f"{_ICEBERG}compression-codec": ("gzip", "uncompressed"),
    f"{_ICEBERG}compression-level": ("1",),
    f"{_ICEBERG}data-planning-mode": ("distributed", "local"),
    f"{_ICEBERG}delete-planning-mode": ("distributed", "local"),
    f"{_ICEBERG}distribution-mode": ("none", "hash", "range"),
    f"{_ICEBERG}view.schema-binding-mode": ("COMPENSATION", "BINDING"),
    f"{_DELTA}autoCompact.enabled": ("true", "false"),
    f"{_DELTA}merge.materializeSource.rddStorageLevel": ("MEMORY_ONLY",),
    f"{_DELTA}merge.materializeSource.rddStorageLevelFirstRetry": ("MEMORY_ONLY",),
    f"{_DELTA}merge.materializeSource.rddStorageLevelRetry": ("MEMORY_ONLY",),
    f"{_DELTA}snapshotPartitions": ("1", "8"),
    f"{_DELTA}snapshotCache.storageLevel": ("MEMORY_ONLY",),
    f"{_TABLE_DEFAULTS}checkpointRetentionDuration": ("interval 1 hour",),
    f"{_TABLE_DEFAULTS}deletedFileRetentionDuration": ("interval 1 hour",),
    f"{_TABLE_DEFAULTS}logRetentionDuration": ("interval 1 hour",),
    f"{_TABLE_DEFAULTS}setTransactionRetentionDuration": ("interval 0 seconds",),
    "spark.sql.adaptive.optimizer.excludedRules": (
        "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    ),
    "spark.sql.codegen.aggregate.fastHashMap.capacityBit": ("10",),
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.ConstantFolding",
        "org.apache.spark.sql.catalyst.optimizer.NullPropagation",
    ),
    "spark.wap.branch": ("other",),
    "spark.wap.id": ("other",),
    "spark.sql.sources.default": ("orc", "csv"),
    "spark.sql.sources.useV1SourceList": ("",),
    "spark.sql.columnNameOfCorruptRecord": ("r", "id"),
    "spark.sql.timeTravelTimestampKey": ("mode",),
    "spark.sql.timeTravelVersionKey": ("mode",),
    "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources": ("",),
    "spark.sql.parquet.output.committer.class": (
        "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter",
    ),
    "spark.sql.sources.outputCommitterClass": (
        "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter",
    ),
    "parquet.compression": ("GZIP", "UNCOMPRESSED"),
    "parquet.writer.version": ("v2",),
    "parquet.summary.metadata.level": ("ALL",),
    "mapreduce.fileoutputcommitter.algorithm.version": ("1", "2"),
}
"""Values of keys whose check does not list them."""

_LISTENER: Final = "org.apache.spark.sql.util.ExecutionListenerBus"
STATIC_VALUES_BY_KEY: Final[Mapping[str, tuple[str, ...]]] = {
    "spark.databricks.delta.testOnly.dataFileNamePrefix": ("mine%-",),
    "spark.databricks.delta.testOnly.dvFileNamePrefix": ("mine%-",),
    "spark.sql.cache.serializer": ("org.apache.iceberg.spark.SparkCatalog",),
    "spark.sql.catalog.spark_catalog.defaultDatabase": ("mine",),
    "spark.sql.catalogImplementation": ("hive",),
    "spark.sql.extensions": ("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",),
    "spark.sql.globalTempDatabase": ("mine",),
    "spark.sql.queryExecutionListeners": (_LISTENER,),
    "spark.sql.sources.disabledJdbcConnProviderList": ("db2",),
    "spark.sql.streaming.streamingQueryListeners": (_LISTENER,),
    "spark.sql.streaming.ui.enabledCustomMetricList": ("mine",),
    "spark.sql.warehouse.dir": ("{folder}/warehouse",),
}
"""Values of static keys whose default suggests no other value; ``{folder}`` is a new folder."""

_ICEBERG_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    r"format-version": ("1", "3"),
    r"write\.(delete\.)?format\.default": ("orc", "avro"),
    r".*\.parquet\.page-version": ("v2",),
    r".*\.parquet\.compression-codec": ("snappy", "uncompressed"),
    r".*\.(avro|manifest|metadata)\.compression-codec": ("gzip",),
    r".*\.orc\.compression-codec": ("none", "snappy"),
    r".*\.compression-level": ("1",),
    r".*\.compression-strategy": ("compression",),
    r".*\.(delete|update|merge)\.mode": ("merge-on-read",),
    r".*\.isolation-level": ("snapshot",),
    r".*\.distribution-mode": ("none", "hash", "range"),
    r".*\.granularity": ("file",),
    r".*-planning-mode": ("local", "distributed"),
    r".*\.metrics\.default": ("none", "counts", "full"),
    r".*\.advisory-partition-size-bytes": ("1", "1000000"),
    r".*\.bloom\.filter\.columns": ("id",),
}
"""Values of properties of Iceberg tables, by patterns of their names."""

EXCLUDED_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "of a whole process, on threads, caches, sizes and pages": (
        "spark.databricks.delta.catalog.update.threadPoolSize",
        "spark.databricks.delta.checkpointV2.threadpool.size",
        "spark.databricks.delta.clusteredTable.numClusteringColumnsLimit",
        "spark.databricks.delta.command.fileMaterializationLimit.softMax",
        "spark.databricks.delta.commitMetrics.threadPoolSize",
        "spark.databricks.delta.coordinatedCommits.getCommits.threadPoolSize",
        "spark.databricks.delta.merge.materializeSource.maxAttempts",
        "spark.python.sql.dataFrameDebugging.enabled",
        "spark.sql.broadcastExchange.maxThreadThreshold",
        "spark.sql.codegen.cache.maxEntries",
        "spark.sql.filesourceTableRelationCacheSize",
        "spark.sql.metadataCacheTTLSeconds",
        "spark.sql.resultQueryStage.maxThreadThreshold",
        "spark.sql.shuffleExchange.maxThreadThreshold",
        "spark.sql.sources.schemaStringLengthThreshold",
        "spark.sql.subquery.maxThreadThreshold",
        "spark.sql.ui.retainedExecutions",
    ),
    "of a whole process, on where tables without an address are": (
        "spark.sql.catalog.spark_catalog.defaultDatabase",
        "spark.sql.catalogImplementation",
        "spark.sql.globalTempDatabase",
        "spark.sql.warehouse.dir",
    ),
    "names classes, functions or programs of the user's own": (
        "spark.databricks.delta.coordinatedCommits.commitCoordinator.dynamodb.awsCredentialsProviderName",
        "spark.databricks.delta.skipping.partitionLikeDataSkipping.additionalSupportedExpressions",
        "spark.sql.adaptive.customCostEvaluatorClass",
        "spark.sql.cache.serializer",
        "spark.sql.catalog.spark_catalog",
        "spark.sql.defaultColumn.allowedProviders",
        "spark.sql.defaultUrlStreamHandlerFactory.enabled",
        "spark.sql.execution.pyspark.python",
        "spark.sql.extendedExplainProviders",
        "spark.sql.extensions",
        "spark.sql.maven.additionalRemoteRepositories",
        "spark.sql.queryExecutionListeners",
        "spark.sql.sources.commitProtocolClass",
        "spark.sql.sources.disabledJdbcConnProviderList",
        "spark.sql.streaming.commitProtocolClass",
        "spark.sql.streaming.streamingQueryListeners",
        "spark.sql.udt.allowedDynamicUDTClasses",
    ),
    "names folders, classes, columns or keys of tables of Iceberg": (
        f"{_ICEBERG_TABLES}encryption.key-id",
        f"{_ICEBERG_TABLES}schema.name-mapping.default",
        f"{_ICEBERG_TABLES}write.data.path",
        f"{_ICEBERG_TABLES}write.folder-storage.path",
        f"{_ICEBERG_TABLES}write.location-provider.impl",
        f"{_ICEBERG_TABLES}write.metadata.path",
        f"{_ICEBERG_TABLES}write.object-storage.path",
    ),
    "of streaming, of servers and of other commands, which a load does not use": (
        "spark.databricks.delta.changeDataFeed.defaultSchemaModeForColumnMappingTable",
        "spark.databricks.delta.dummyFileManager.prefix",
        "spark.databricks.delta.properties.defaults.dropFeatureTruncateHistory.retentionDuration",
        "spark.sql.hive.thriftServer.singleSession",
        "spark.sql.streaming.checkpointLocation",
        "spark.sql.streaming.disabledV2MicroBatchReaders",
        "spark.sql.streaming.disabledV2Writers",
        "spark.sql.streaming.multipleWatermarkPolicy",
        "spark.sql.streaming.sessionWindow.stateFormatVersion",
        "spark.sql.streaming.ui.enabled",
        "spark.sql.streaming.ui.enabledCustomMetricList",
        "spark.sql.streaming.ui.retainedProgressUpdates",
        "spark.sql.streaming.ui.retainedQueries",
        "spark.sql.thriftserver.scheduler.pool",
    ),
    "says how much is logged, explained or hidden": (
        "spark.sql.adaptive.logLevel",
        "spark.sql.codegen.comments",
        "spark.sql.codegen.logLevel",
        "spark.sql.dataframeCache.logLevel",
        "spark.sql.debug",
        "spark.sql.event.truncate.length",
        "spark.sql.expressionTreeChangeLog.level",
        "spark.sql.nameResolutionLog.level",
        "spark.sql.planChangeLog.batches",
        "spark.sql.planChangeLog.level",
        "spark.sql.planChangeLog.rules",
        "spark.sql.redaction.options.regex",
        "spark.sql.redaction.string.regex",
        "spark.sql.ui.explainMode",
    ),
    "for the tests of Spark and of Delta Lake": (
        "spark.databricks.delta.testOnly.dataFileNamePrefix",
        "spark.databricks.delta.testOnly.dvFileNamePrefix",
        "spark.sql.extensions.test.loadFromCp",
        "spark.sql.streaming.stateStore.compression.codec",
        "spark.sql.streaming.stateStore.encodingFormat",
        "spark.sql.streaming.stateStore.providerClass",
        "spark.sql.variant.forceShreddingSchemaForTest",
    ),
    "set by Spark for each of its jobs": (
        "mapreduce.input.fileinputformat.inputdir",
        "mapreduce.input.fileinputformat.numinputfiles",
        "mapreduce.input.pathFilter.class",
        "mapreduce.output.fileoutputformat.compress.codec",
        "mapreduce.output.fileoutputformat.compress.type",
        "mapreduce.output.fileoutputformat.outputdir",
        "parquet.private.read.filter.predicate",
        "parquet.read.filter",
        "parquet.read.support.class",
        "parquet.write.support.class",
    ),
    "says which commits, catalogs or tables replace these": (
        "spark.databricks.delta.properties.defaults.coordinatedCommits.commitCoordinator-preview",
        "spark.databricks.delta.properties.defaults.coordinatedCommits.commitCoordinatorConf-preview",
        "spark.databricks.delta.properties.defaults.coordinatedCommits.tableConf-preview",
        "spark.databricks.delta.properties.defaults.inCommitTimestampEnablementTimestamp",
        "spark.databricks.delta.properties.defaults.inCommitTimestampEnablementVersion",
        "spark.databricks.delta.properties.defaults.redirectReaderWriter-preview",
        "spark.databricks.delta.properties.defaults.redirectWriterOnly-preview",
        "spark.sql.defaultCatalog",
    ),
    "has no other value than the default": (
        "spark.databricks.delta.properties.defaults.isolationLevel",
        "spark.databricks.delta.properties.defaults.sampleRetentionDuration",
        "spark.sql.sources.useListFilesFileSystemList",
    ),
}
"""Keys that are not tried, by reason; a key of a whole process needs its own Spark."""

_SWITCHES: Final = re.compile(
    r"enabled?\b|validation$|\bestimate$|typing$|task\.side|split\.files|cleanup|marksuccess"
    r"|recursive|check-|identifier-fields|shred-|merge-schema|preserve|report-|compress$"
)
"""Parts of names of keys without a default that mark the key as a switch."""

_LOG_LEVEL: Final = re.compile(r"log\.?level$", re.IGNORECASE)
_CLASS_OR_FOLDER: Final = re.compile(
    r"class$|codec$|filter$|predicate$|dir$|inputfiles$|type$|property$"
)
"""Suffixes of keys whose values name a class or a folder."""

_HADOOP_CLASSES: Final = (
    "org.apache.parquet.hadoop.ParquetOutputFormat",
    "org.apache.parquet.hadoop.ParquetInputFormat",
    "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter",
)
_ICEBERG_PROPERTIES: Final = "org.apache.iceberg.TableProperties"
_ICEBERG_CLASS: Final = "org.apache.iceberg.spark.SparkSQLProperties"


@dataclass(frozen=True, slots=True)
class Key:
    """A key and the values to try; a key that applies to a whole process has none."""

    name: str
    values: tuple[str, ...]


def list_keys(spark: SparkSession) -> list[Key]:
    """Return all keys whose values are not checked by the settings check, ordered by name."""
    keys = [
        *list_spark_keys(spark),
        *_list_delta_keys(spark),
        *_list_iceberg_keys(spark),
        *(
            Key(name, tuple(_guess_values(name)))
            for name in _list_constants(spark, [_ICEBERG_CLASS])
        ),
        *(
            Key(name, tuple(_guess_values(name)))
            for name in _list_constants(spark, _HADOOP_CLASSES)
        ),
    ]
    return sorted({key.name: key for key in keys}.values(), key=lambda key: key.name)


def list_spark_keys(spark: SparkSession) -> Iterator[Key]:
    """Yield the keys of Spark SQL and Delta Lake, including internal ones."""
    _load_class(
        spark, "org.apache.spark.sql.delta.sources.DeltaSQLConf$"
    )  # loading the class registers Delta's keys
    conf = (
        _load_class(spark, "org.apache.spark.sql.internal.SQLConf$").getField("MODULE$").get(None)
    )
    entries = conf.getConfigEntries().iterator()
    while entries.hasNext():
        entry = entries.next()
        name, default = str(entry.key()), str(entry.defaultValueString())
        if get_required(name) is None:
            is_static = conf.isStaticConfigKey(name)
            yield Key(name, () if is_static else tuple(_list_accepted_values(spark, name, default)))


def _list_delta_keys(spark: SparkSession) -> Iterator[Key]:
    """Yield the keys of default properties of Delta tables."""
    delta_configs = (
        _load_class(spark, "org.apache.spark.sql.delta.DeltaConfigs$").getField("MODULE$").get(None)
    )
    configs = delta_configs.getAllConfigs().valuesIterator()
    while configs.hasNext():
        config = configs.next()
        name = _TABLE_DEFAULTS + str(config.key()).removeprefix("delta.")
        default = str(config.defaultValue())
        is_switch = re.search("boolean|true,false", str(config.helpMessage()))
        switch_values = ("true", "false") if default == "None" and is_switch else ()
        yield Key(
            name, _VALUES_BY_KEY.get(name) or tuple(_list_other_values(default)) or switch_values
        )


def _list_iceberg_keys(spark: SparkSession) -> Iterator[Key]:
    """Yield the keys of default properties of tables in the target's Iceberg catalogs."""
    fields = {
        field.getName(): field for field in _load_class(spark, _ICEBERG_PROPERTIES).getFields()
    }
    reserved = set(fields["RESERVED_PROPERTIES"].get(None)) - {"format-version"}
    for constant, field in fields.items():
        is_text = field.getType().getName() == "java.lang.String"
        name = str(field.get(None)) if is_text else ""
        is_default = re.search(r"_DEFAULT(_SINCE|$)", constant)
        if not re.fullmatch(r"[a-z]+[.-][\w.-]*\w", name) or name in reserved or is_default:
            continue
        values = next((w for known, w in _ICEBERG_VALUES.items() if re.fullmatch(known, name)), ())
        data_file_constant = constant.removeprefix(
            "DELETE_"
        )  # delete files have the defaults of data files
        default = fields.get(f"{constant}_DEFAULT") or fields.get(f"{data_file_constant}_DEFAULT")
        default_text = "" if default is None else str(default.get(None)).lower()
        yield Key(_ICEBERG_TABLES + name, values or tuple(_list_other_values(default_text)))


def _list_accepted_values(spark: SparkSession, name: str, default: str) -> Iterator[str]:
    """Yield the values of a key that Spark's own check accepts."""
    if _LOG_LEVEL.search(name):
        return
    message = _get_refusal(spark, name, "no such value")
    allowed_match, type_match = _ALLOWED_VALUES.search(message), _EXPECTED_TYPE.search(message)
    candidates: Iterable[str] = _VALUES_BY_KEY.get(name, ())
    if allowed_match is not None:
        candidates = [
            word for word in allowed_match[1].split(", ") if word.lower() != default.lower()
        ]
    elif not candidates:
        candidates = list(_list_other_values(default)) or (
            _VALUES_BY_TYPE.get(type_match[1], ()) if type_match else ()
        )
    for value in candidates:
        if not _get_refusal(spark, name, value):
            yield value


def _get_refusal(spark: SparkSession, name: str, value: str) -> str:
    try:
        spark.conf.set(name, value)
    except PySparkException as error:
        return str(error)
    finally:
        spark.conf.unset(name)
    return ""


def _list_other_values(default: str) -> Iterator[str]:
    """Yield values that differ from a default whose type is recognized."""
    if default in {"true", "false"}:
        yield "false" if default == "true" else "true"
    number = _NUMBER.fullmatch(default)
    if number is None:
        return
    integer, fraction, unit = int(number[1]), number[2], number[3]
    if fraction:
        yield from ("0.1", f"{integer * 4 + 1}.0")
    elif unit.lower() in _SIZES:
        yield from ("1k", f"{integer * 4}{unit}")
    else:
        yield f"{int(integer != 1)}{unit}"
        large = integer * 4 if integer > 0 else 1000
        yield f"{large if large < 2**31 else integer // 4}{unit}"


def _guess_values(name: str) -> Iterator[str]:
    """Yield values of a key that has no check."""
    if name in _VALUES_BY_KEY:
        yield from _VALUES_BY_KEY[name]
    elif _SWITCHES.search(name):
        yield from ("true", "false")
    elif not _CLASS_OR_FOLDER.search(name):
        yield from ("1", "1000000")


def _list_constants(spark: SparkSession, classes: Iterable[str]) -> Iterator[str]:
    """Yield the keys that classes define as constants."""
    for name in classes:
        for constant in _load_class(spark, name).getFields():
            if constant.getType().getName() == "java.lang.String":
                value = str(constant.get(None))
                if re.fullmatch(r"(spark|parquet|mapreduce)\.[\w.-]*\w", value):
                    yield value


def _load_class(spark: SparkSession, name: str) -> Any:
    jvm: Any = spark._jvm
    loader = jvm.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(name, True, loader)  # noqa: FBT003


def list_static_keys(spark: SparkSession) -> list[Key]:
    """Return the keys of Spark SQL and Delta Lake that apply to a whole process."""
    _load_class(spark, "org.apache.spark.sql.delta.sources.DeltaSQLConf$")
    conf = (
        _load_class(spark, "org.apache.spark.sql.internal.SQLConf$").getField("MODULE$").get(None)
    )
    entries, keys = conf.getConfigEntries().iterator(), []
    while entries.hasNext():
        entry = entries.next()
        name, default = str(entry.key()), str(entry.defaultValueString())
        if conf.isStaticConfigKey(name) and get_required(name) is None:
            keys.append(
                Key(name, STATIC_VALUES_BY_KEY.get(name) or tuple(_list_other_values(default)))
            )
    return sorted(keys, key=lambda key: key.name)
