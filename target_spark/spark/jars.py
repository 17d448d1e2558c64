"""Jars and Spark settings that table formats and object storage (S3, Azure) need beyond Spark.

`jar_versions` lists the jars for each supported minor version of Spark. Spark's resolver downloads
them once, without dependencies that Spark includes; later runs use the cache offline. Of Amazon's
SDK only the modules that Hadoop uses (10 MB) are downloaded, not the bundle of all services
(640 MB).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from target_spark.errors import SparkUnavailableError
from target_spark.spark.format_settings import get_format_settings
from target_spark.spark.jar_cache import (
    cached,
    fetch,
    get_jar_path,
    ivy_folder,
    locked,
    remove_incomplete_jars,
)
from target_spark.spark.jar_versions import ARTIFACTS, HADOOP_AWS, SHA256
from target_spark.storage.uris import is_azure, is_s3

__all__ = [
    "EXCLUDES",
    "Library",
    "azure_library",
    "every_library",
    "find_class_path_jars",
    "format_conf",
    "format_library",
    "get_minor_version",
    "jars_hint",
    "required_jars",
    "required_storage_jars",
    "resolve_lock",
    "s3_library",
    "uses_azure",
    "uses_s3",
    "with_fetched",
]

EXCLUDES = (
    "io.unitycatalog:unitycatalog-hadoop",
    "io.unitycatalog:unitycatalog-client",
    "io.delta:delta-kernel-api",
    "io.delta:delta-kernel-defaults",
    "io.delta:delta-kernel-unitycatalog",
    "com.fasterxml.jackson.datatype:jackson-datatype-jdk8",
    "com.fasterxml.jackson.core:jackson-databind",
    "com.fasterxml.jackson.core:jackson-core",
    "com.fasterxml.jackson.core:jackson-annotations",
    "com.google.code.findbugs:jsr305",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.logging.log4j:log4j-api",
    "org.apache.logging.log4j:log4j-core",
    "org.apache.logging.log4j:log4j-slf4j2-impl",
    "org.slf4j:slf4j-api",
    "org.apache.parquet:parquet-hadoop",
    "org.roaringbitmap:RoaringBitmap",
    "org.antlr:antlr4-runtime",
)
"""Dependencies, without versions, that Spark's resolver must not download. Spark includes them, or
tables at paths never use them."""

_HADOOP_AWS = "org.apache.hadoop:hadoop-aws"
_HADOOP_AZURE = "org.apache.hadoop:hadoop-azure"
_S3A_SETTINGS = "spark.hadoop.fs.s3a."
_AZURE_SETTINGS = "spark.hadoop.fs.azure."
_S3_RETRY_SETTINGS = {f"{_S3A_SETTINGS}retry.limit": "4"}
"""Hadoop setting for the number of retries of a failed S3 request. With the default of 7, the
retries take two minutes in each of the five attempts that the loader makes."""

_SDK_GROUP = "software.amazon.awssdk"
_REQUESTED_MODULES = ("s3", "s3-transfer-manager", "sts")
"""The modules of Amazon's SDK that hadoop-aws uses."""

_NEEDED_MODULES = (
    "annotations",
    "apache-client",
    "arns",
    "auth",
    "aws-core",
    "aws-query-protocol",
    "aws-xml-protocol",
    "checksums",
    "checksums-spi",
    "crt-core",
    "endpoints-spi",
    "http-auth",
    "http-auth-aws",
    "http-auth-aws-eventstream",
    "http-auth-spi",
    "http-client-spi",
    "identity-spi",
    "json-utils",
    "metrics-spi",
    "netty-nio-client",
    "profiles",
    "protocol-core",
    "regions",
    "retries",
    "retries-spi",
    "sdk-core",
    "third-party-jackson-core",
    "utils",
)
"""The modules of Amazon's SDK that the modules in `_REQUESTED_MODULES` depend on."""

_OTHER_DEPENDENCIES = (
    "org.reactivestreams:reactive-streams:1.0.4",
    "software.amazon.eventstream:eventstream:1.0.1",
)
"""Dependencies of Amazon's SDK that have other versions than its modules."""

_EXCLUDES_FOR_S3 = (
    f"{_SDK_GROUP}:bundle",
    "software.amazon.s3.analyticsaccelerator:*",
    "org.wildfly.openssl:*",
    "org.apache.httpcomponents:*",
    "commons-codec:*",
    "commons-logging:*",
    "io.netty:*",
)
"""Dependencies of hadoop-aws that Spark's resolver must not download. They are optional: a user who
needs them can add them."""

_EXCLUDES_FOR_AZURE = (
    "com.microsoft.azure:*",
    "org.eclipse.jetty:*",
    "org.wildfly.openssl:*",
    "org.apache.hadoop.thirdparty:*",
    "org.apache.httpcomponents:*",
    "com.google.guava:*",
    "commons-codec:*",
    "commons-logging:*",
)
"""Dependencies of hadoop-azure that Spark's resolver must not download. Spark includes them, or
only URLs with the old scheme ``wasb`` need them."""

_OTHER_JAR_SETTINGS = (
    "spark.jars.packages",
    "spark.driver.extraClassPath",
    "spark.executor.extraClassPath",
    "spark.driver.userClassPathFirst",
    "spark.executor.userClassPathFirst",
)
"""Spark settings that make Spark load jars in addition to those in ``spark.jars``, or in another
order."""

_SETTING_VARIABLES = ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR")
"""Environment variables that contain Spark settings, or name a folder of them."""

_REMEDIES = (
    "Remedies: let this machine reach Maven Central once, afterwards the cache is enough;"
    " or name a mirror in an Ivy settings file (spark.jars.ivySettings);"
    " or download the jars and set their paths in the setting jars;"
    " or set format to parquet, which needs no jar in folders of this machine."
    " If the messages above say 'download failed' for a jar that was 'found in"
    " local-m2-cache', remove that entry from ~/.m2/repository: it has no jar."
)


class Library(NamedTuple):
    """A set of jars that are used together, given by their Maven coordinates.

    Attributes:
        requested: The jars to request from Spark's resolver, which adds their dependencies.
        all_jars: The requested jars and all their dependencies.
        excludes: Dependencies that the resolver must not download.
    """

    requested: tuple[str, ...]
    all_jars: tuple[str, ...]
    excludes: tuple[str, ...] = EXCLUDES


def format_library(artifacts: tuple[str, ...]) -> Library:
    """Return the `Library` (set of jars) of a table format.

    ``artifacts`` are Maven coordinates: first the jar to request, then its dependencies.
    """
    return Library(artifacts[:1], artifacts)


def s3_library(hadoop: str, sdk: str) -> Library:
    """Return the `Library` (set of jars) for S3.

    Args:
        hadoop: The version of hadoop-aws, such as ``3.4.2``.
        sdk: The version of Amazon's SDK for Java, such as ``2.29.52``.
    """
    modules = tuple(
        f"{_SDK_GROUP}:{name}:{sdk}" for name in (*_REQUESTED_MODULES, *_NEEDED_MODULES)
    )
    all_jars = (f"{_HADOOP_AWS}:{hadoop}", *modules, *_OTHER_DEPENDENCIES)
    return Library(all_jars[: 1 + len(_REQUESTED_MODULES)], all_jars, _EXCLUDES_FOR_S3)


def azure_library(hadoop: str) -> Library:
    """Return the `Library` (set of jars) for Azure storage.

    ``hadoop`` is the version of hadoop-azure, such as ``3.4.2``.
    """
    jars = (f"{_HADOOP_AZURE}:{hadoop}",)
    return Library(jars, jars, _EXCLUDES_FOR_AZURE)


def every_library() -> Iterator[Library]:
    """Yield the `Library` (set of jars) of each format and object storage, per Spark version."""
    yield from map(format_library, ARTIFACTS.values())
    for hadoop, sdk in HADOOP_AWS.values():
        yield s3_library(hadoop, sdk)
        yield azure_library(hadoop)


def required_jars(table_format: str, spark_version: str) -> tuple[str, ...]:
    """Return the Maven coordinates of the jars that a table format needs; () for Parquet.

    ``spark_version`` is the version of Spark, such as ``4.1.1``.

    Raises:
        SparkUnavailableError: The format does not support this version of Spark.
    """
    if table_format == "parquet":
        return ()
    artifacts = ARTIFACTS.get((table_format, get_minor_version(spark_version)))
    if artifacts is None:
        versions = sorted(version for name, version in ARTIFACTS if name == table_format)
        raise SparkUnavailableError(
            f"There is no {table_format} library for Spark {spark_version}"
            f" (supported: {', '.join(versions) or 'none'}). Install one of these versions,"
            " for example: pip install 'pyspark>=4.1.4,<4.2'; or set format to parquet."
        )
    return artifacts


def uses_s3(addresses: Iterable[str], conf: Mapping[str, str]) -> bool:
    """Return True if a URL in ``addresses``, or a setting in ``conf``, refers to S3.

    An example is ``s3a://bucket/tables``.
    """
    has_settings = any(key.startswith(_S3A_SETTINGS) for key in conf)
    return has_settings or any(map(is_s3, (*addresses, *conf.values())))


def uses_azure(addresses: Iterable[str], conf: Mapping[str, str]) -> bool:
    """Return True if a URL in ``addresses``, or a setting in ``conf``, refers to Azure storage.

    An example is ``abfss://container@account.dfs.core.windows.net/tables``.
    """
    has_settings = any(key.startswith(_AZURE_SETTINGS) for key in conf)
    return has_settings or any(map(is_azure, (*addresses, *conf.values())))


def required_storage_jars(
    addresses: Sequence[str], conf: Mapping[str, str], spark_version: str
) -> list[str]:
    """Return the Maven coordinates of the jars for the object storage that a run uses.

    These are hadoop-aws for S3 and hadoop-azure for Azure storage. The list is empty if the run
    uses neither.

    Args:
        addresses: The paths and URLs of the run's tables and files.
        conf: The user's Spark settings.
        spark_version: The version of Spark.

    Raises:
        SparkUnavailableError: No version of such a jar is known for this version of Spark.
    """
    libraries = _find_storage_libraries(addresses, conf, (), spark_version)
    return [library.requested[0] for library in libraries]


def _find_storage_libraries(
    addresses: Sequence[str],
    conf: Mapping[str, str],
    user_jars: Sequence[str | None],
    spark_version: str,
) -> Iterator[Library]:
    """Yield the `Library` (set of jars) of each object storage that the run uses, such as S3.

    The URLs in ``addresses`` and the Spark settings ``conf`` show which are used. A library is left
    out if ``user_jars``, the jars that the user provides, contain the first of its requested jars.

    Raises:
        SparkUnavailableError: No version of an object storage's jars is known for this version of
            Spark.
    """
    if uses_s3(addresses, conf) and not _has_artifact(_HADOOP_AWS, user_jars):
        yield s3_library(*_get_versions("hadoop-aws", "s3a", spark_version))
    if uses_azure(addresses, conf) and not _has_artifact(_HADOOP_AZURE, user_jars):
        yield azure_library(_get_versions("hadoop-azure", "abfss", spark_version)[0])


def _get_versions(artifact: str, scheme: str, spark_version: str) -> tuple[str, str]:
    """Return the versions of Hadoop and of Amazon's SDK that are used with a version of Spark.

    ``artifact`` and ``scheme``, such as hadoop-aws and s3a, are for the error message.

    Raises:
        SparkUnavailableError: No versions are known for this version of Spark.
    """
    releases = HADOOP_AWS.get(get_minor_version(spark_version))
    if releases is None:
        raise SparkUnavailableError(
            f"No {artifact} version is known for Spark {spark_version} (supported:"
            f" {', '.join(HADOOP_AWS)}), so {scheme}:// addresses cannot be reached. Set the paths"
            " of its jars and of those it depends on in the setting jars; or install one of these"
            " versions, for example: pip install 'pyspark>=4.1.4,<4.2'."
        )
    return releases


def format_conf(
    table_format: str,
    conf: Mapping[str, str],
    jars: Sequence[str],
    spark_version: str,
    addresses: Sequence[str] = (),
) -> dict[str, str]:
    """Return the Spark settings that enable a table format, and object storage if it is used.

    The settings contain the paths of the user's jars and of cached jars. All other required jars
    are listed in ``spark.jars.packages``, for download. The user's values of these settings are
    kept and extended.

    Args:
        table_format: The table format.
        conf: The user's Spark settings.
        jars: Paths of local jars, from the target's setting ``jars``.
        spark_version: The version of Spark.
        addresses: The paths and URLs of the run's tables and files, to detect object storage.
    """
    out = get_format_settings(table_format, conf)
    packages, ivy = conf.get("spark.jars.packages"), conf.get("spark.jars.ivy")
    user_jars = (*jars, conf.get("spark.jars"), packages)
    local = list(jars)
    missing: list[str] = []
    excludes = list(EXCLUDES)
    for library in _find_required_libraries(
        table_format, conf, addresses, user_jars, spark_version
    ):
        paths = cached(ivy_folder(ivy), library.all_jars)
        local += paths or []
        if paths is None:
            missing += library.requested
            excludes += library.excludes
    if uses_s3(addresses, conf):
        out |= {key: conf.get(key, value) for key, value in _S3_RETRY_SETTINGS.items()}
    if local:
        out["spark.jars"] = _join(*local, conf.get("spark.jars"))
    if missing or packages:
        out["spark.jars.ivy"] = str(ivy_folder(ivy))
        out["spark.jars.packages"] = _join(*missing, packages)
        unneeded = (*dict.fromkeys(excludes), conf.get("spark.jars.excludes"))
        out["spark.jars.excludes"] = _join(*unneeded)
    return out


def _find_required_libraries(
    table_format: str,
    conf: Mapping[str, str],
    addresses: Sequence[str],
    user_jars: Sequence[str | None],
    spark_version: str,
) -> Iterator[Library]:
    """Yield the `Library` (set of jars) of the table format and of each storage that the run uses.

    A library is left out if ``user_jars``, the jars that the user provides, contain the first of
    its requested jars.
    """
    artifacts = required_jars(table_format, spark_version)
    if artifacts and not _has_artifact(artifacts[0], user_jars):
        yield format_library(artifacts)
    yield from _find_storage_libraries(addresses, conf, user_jars, spark_version)


def with_fetched(conf: Mapping[str, str], home: Path) -> dict[str, str]:
    """Download and verify the jars that ``spark.jars.packages`` lists; return updated settings.

    In the result, ``spark.jars`` has their local paths. Packages that are not part of a known
    `Library` stay in ``spark.jars.packages``, and Spark downloads them when it starts.

    Args:
        conf: The Spark settings.
        home: The installation folder of Spark.

    Raises:
        SparkUnavailableError: A jar cannot be downloaded, or differs from the published one.
    """
    packages = conf.get("spark.jars.packages", "").split(",")
    libraries = [library for library in every_library() if set(library.requested) <= set(packages)]
    if not libraries:
        return dict(conf)
    folder = ivy_folder(conf.get("spark.jars.ivy"))
    requested = [name for library in libraries for name in library.requested]
    excludes = dict.fromkeys(
        (*EXCLUDES, *(name for library in libraries for name in library.excludes))
    )
    resolver_conf = {
        **conf,
        "spark.jars.ivy": str(folder),
        "spark.jars.packages": _join(*requested),
        "spark.jars.excludes": _join(*excludes, conf.get("spark.jars.excludes")),
    }
    jars = _get_verified_jars(resolver_conf, libraries, home)
    remaining = _join(*(name for name in packages if name not in requested))
    out = {**conf, "spark.jars": _join(*jars, conf.get("spark.jars"))}
    return out | {"spark.jars.packages": remaining} if remaining else _without_packages(out)


def find_class_path_jars(
    table_format: str, conf: Mapping[str, str], spark_version: str
) -> dict[str, str]:
    """Return the jars of a table format, if the JVM can start with them on its class path.

    The result is empty if Spark loads other jars too, because classes on the class path cannot use
    classes of jars that Spark loads later.

    Args:
        table_format: The table format.
        conf: All Spark settings of the run, as `with_fetched` returns them.
        spark_version: The version of Spark.

    Returns:
        The path of each jar, with the SHA-256 of the published jar.
    """
    jars = [jar for jar in conf.get("spark.jars", "").split(",") if jar]
    if (
        not jars
        or any(map(conf.get, _OTHER_JAR_SETTINGS))
        or any(map(os.environ.get, _SETTING_VARIABLES))
    ):
        return {}
    digests = {
        get_jar_path(ivy_folder(conf.get("spark.jars.ivy")), name): SHA256[name]
        for name in required_jars(table_format, spark_version)
    }
    if {Path(jar) for jar in jars} != set(digests):
        return {}
    return {str(jar): digest for jar, digest in digests.items()}


def _get_verified_jars(
    conf: Mapping[str, str], libraries: Sequence[Library], home: Path
) -> list[str]:
    """Download missing jars, verify all jars by SHA-256, and return their paths in the cache.

    Raises:
        SparkUnavailableError: A jar cannot be downloaded, or differs from the published one.
    """
    folder = Path(conf["spark.jars.ivy"])

    def in_cache() -> list[list[str] | None]:
        return [cached(folder, library.all_jars) for library in libraries]

    with locked(folder) as lock:
        jars_by_library = in_cache()
        if None in jars_by_library:
            remove_incomplete_jars(
                folder, [name for library in libraries for name in library.all_jars]
            )
            jars_by_library = in_cache() if fetch(conf, home, lock) else jars_by_library
    if None in jars_by_library:
        raise SparkUnavailableError(
            f"Spark's jars could not be fetched ({conf['spark.jars.packages']}, cache {folder}; the"
            f" resolver's messages are above). {_REMEDIES}"
        )
    return [jar for jars in jars_by_library for jar in jars or ()]


def _without_packages(conf: Mapping[str, str]) -> dict[str, str]:
    left_out = ("spark.jars.packages", "spark.jars.excludes")
    return {key: value for key, value in conf.items() if key not in left_out}


@contextmanager
def resolve_lock(conf: Mapping[str, str]) -> Iterator[None]:
    """Context manager: lock the jar cache if Spark has to download packages into it.

    ``conf`` are the Spark settings; without ``spark.jars.packages`` nothing is locked.
    """
    if "spark.jars.packages" not in conf or "spark.jars.ivy" not in conf:
        yield
        return
    with locked(Path(conf["spark.jars.ivy"])):
        yield


def jars_hint(table_format: str, conf: Mapping[str, str]) -> str:
    """Return a hint that Spark may not have started because jars could not be downloaded.

    The hint lists the jars to download and the remedies. It is "" if the Spark settings ``conf``
    list no such jars.
    """
    packages = conf.get("spark.jars.packages")
    if not packages:
        return ""
    return (
        f" Most likely {_describe_jars(table_format, packages)} could not be fetched ({packages},"
        f" cache {conf.get('spark.jars.ivy')}; the resolver's messages are above). {_REMEDIES}"
    )


def _describe_jars(table_format: str, packages: str) -> str:
    description = f"the jars of {table_format}"
    has_storage = _HADOOP_AWS in packages or _HADOOP_AZURE in packages
    return f"{description} or those of object storage" if has_storage else description


def get_minor_version(spark_version: str) -> str:
    """Return the minor version of a full version of Spark: ``4.1.4`` -> ``4.1``."""
    return ".".join(spark_version.split(".")[:2])


def _has_artifact(coordinates: str, jars: Iterable[str | None]) -> bool:
    """Return True if ``jars`` (paths or coordinates) contain the artifact of ``coordinates``.

    Its version is ignored. A file name may begin with the group, as in the cache of Spark's
    resolver: ``io.delta_delta-spark_4.1_2.13-4.4.0.jar``.
    """
    group, name = coordinates.split(":")[:2]
    artifact = re.escape(re.split(r"[-_]\d", name)[0])
    pattern = rf"(?<![\w.-])({re.escape(group)}_)?{artifact}([-_]?[\d*]|\.jar|[:,\s]|$)"
    return any(re.search(pattern, jar) for jar in jars if jar)


def _join(*parts: str | None) -> str:
    return ",".join(part for part in parts if part)
