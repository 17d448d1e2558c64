"""Write target_spark/spark/jar_versions.py: versions of jars by line of Spark, and their hashes.

Versions are changed here and nowhere else. Run it in the repository's folder after a change:

    .venv/bin/python scripts/write_jar_versions.py

Every jar is fetched anew, by Spark's resolver, from the Maven repository that this machine is set
up for, and its SHA-256 is written beside its name. The resolver compares what it gets with the
checksums that the repository publishes. Review the difference before you commit it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from target_spark.spark.jar_cache import fetch, locked, sha256
from target_spark.spark.jars import EXCLUDES, Library, format_library, s3_library
from target_spark.spark.jvm import spark_home

DELTA = "4.4.0"
DELTA_LINES = ("4.0", "4.1", "4.2")
ICEBERG = {"4.0": "1.11.0", "4.1": "1.12.0"}
HADOOP_AWS = {"4.1": ("3.4.2", "2.29.52")}

OUTPUT = Path(__file__).parents[1] / "target_spark" / "jar_versions.py"
HEAD = '''\
"""Versions of the jars for each minor version of Spark, and the SHA-256 of each jar.

Written by scripts/write_jar_versions.py, where versions are changed.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ARTIFACTS", "HADOOP_AWS", "SHA256"]

'''


def artifacts() -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the artifacts of each format and line of Spark."""
    delta = {
        ("delta", line): (
            f"io.delta:delta-spark_{line}_2.13:{DELTA}",
            f"io.delta:delta-storage:{DELTA}",
        )
        for line in DELTA_LINES
    }
    iceberg = {
        ("iceberg", line): (f"org.apache.iceberg:iceberg-spark-runtime-{line}_2.13:{version}",)
        for line, version in ICEBERG.items()
    }
    return delta | iceberg


def hashes(library: Library) -> Iterator[tuple[str, str]]:
    """Fetch a library; yield the coordinates and the SHA-256 of each of its jars.

    Raises:
        SystemExit: it cannot be fetched, or brings other jars than it should.
    """
    with tempfile.TemporaryDirectory() as folder:
        conf = {
            "spark.jars.packages": ",".join(library.requested),
            "spark.jars.excludes": ",".join((*EXCLUDES, *library.excludes)),
            "spark.jars.ivy": folder,
            # No local repository of Maven's, which others may have filled.
            "spark.driver.extraJavaOptions": f"-Duser.home={folder}",
        }
        with locked(Path(folder)) as lock:
            if not fetch(conf, spark_home("local", metadata.version("pyspark")), lock):
                sys.exit(f"{library.requested[0]} could not be fetched: see above.")
        jars = {jar.name: jar for jar in Path(folder, "jars").glob("*.jar")}
        for name in library.all_jars:
            jar = jars.pop(f"{name.replace(':', '_', 1).replace(':', '-')}.jar", None)
            if jar is None:
                sys.exit(
                    f"{library.requested[0]} does not bring {name}:"
                    " change target_spark/spark/jars.py."
                )
            with jar.open("rb") as file:
                yield name, sha256(file)
        if jars:
            sys.exit(
                f"{library.requested[0]} brings {sorted(jars)} too:"
                " change target_spark/spark/jars.py."
            )


def rendered(found: dict[str, str]) -> str:
    """Return the source of the module."""
    lines = ["ARTIFACTS: Mapping[tuple[str, str], tuple[str, ...]] = {"]
    for (form, line), names in artifacts().items():
        lines += [
            f'    ("{form}", "{line}"): (',
            *(f'        "{name}",' for name in names),
            "    ),",
        ]
    lines += [
        "}",
        '"""Format and line of Spark: the artifact, then what it needs beside it."""',
        "",
    ]
    lines += ["HADOOP_AWS: Mapping[str, tuple[str, str]] = {"]
    lines += [f'    "{line}": ("{one}", "{two}"),' for line, (one, two) in HADOOP_AWS.items()]
    lines += [
        "}",
        '"""Line of Spark: the release of hadoop-aws, which must be that of the Hadoop in',
    ]
    lines += ['Spark, and of Amazon\'s SDK with which it was built."""', ""]
    lines += ["SHA256: Mapping[str, str] = {"]
    lines += [
        f'    "{name}": (\n        "{digest}"\n    ),' for name, digest in sorted(found.items())
    ]
    lines += ["}", '"""The SHA-256 of each jar, by its Maven coordinates."""', ""]
    return HEAD + "\n".join(lines)


def main() -> None:
    """Fetch every library and write the module."""
    libraries = [*map(format_library, artifacts().values())]
    libraries += [s3_library(*releases) for releases in HADOOP_AWS.values()]
    found = {name: digest for library in libraries for name, digest in hashes(library)}
    OUTPUT.write_text(rendered(found), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", str(OUTPUT)], check=True)
    print(f"{OUTPUT}: {len(found)} jars")


if __name__ == "__main__":
    main()
