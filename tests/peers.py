"""Environments with software of other projects ("peers"), for comparisons in tests and benchmarks.

Each peer has a separate environment below `.venv-peers/`, because their versions conflict with
those of the project and of each other. A test gets the interpreter from `peer_python` and is
skipped with a reason if the peer is not installed; `python -m tests.peers [NAME ...]` installs it.
Peers are pinned by version and not by hash, because they are only started as programs by tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["PEERS", "make_peer", "missing_reason", "peer_python"]

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".venv-peers"

PEERS: dict[str, tuple[str, ...]] = {
    # The SDK whose classes and names tap_core has; msgspec is its fast writer.
    "singer_sdk": ("singer-sdk[msgspec]==0.54.9", "pyarrow>=20,<26"),
    # Airbyte's framework for sources, for benchmarks.
    "airbyte_cdk": ("airbyte-cdk==7.39.1",),
    # Its last minor version with the classes that cursors of connectors extend.
    "airbyte_cdk_6": ("airbyte-cdk==6.60.12",),
    # Public connectors that consist of a manifest only; their dependencies are not needed.
    "airbyte_sources": (
        "--no-deps",
        # The packages exclude newer Pythons, but tests only read their manifests.
        "--python-version=3.11",
        "airbyte-source-freshsales==1.0.14",
        "airbyte-source-k6-cloud==0.1.15",
        "airbyte-source-launchdarkly==0.1.13",
        "airbyte-source-ringcentral==0.1.15",
        "airbyte-source-statuspage==0.1.13",
        "airbyte-source-tempo==0.3.14",
        "airbyte-source-timely==0.3.15",
        "airbyte-source-toggl==0.1.14",
    ),
    # Models of the messages of Airbyte's protocol, against which tests validate each line.
    "airbyte_models": ("airbyte-protocol-models-pdv2==0.18.0",),
    # Airbyte's client that runs connectors as programs, without containers.
    "pyairbyte": ("airbyte==0.71.3",),
    # The oldest supported releases of the libraries for Fivetran's interface.
    "fivetran_wire": ("grpcio==1.68.1", "protobuf==5.29.6"),
    # A loader to Parquet and Delta Lake, for benchmarks.
    "dlt": ("dlt[deltalake,parquet]==1.31.0", "deltalake==1.6.6"),
    # Another tap for PostgreSQL, with its fast writer, for benchmarks.
    "tap_postgres": ("meltanolabs-tap-postgres[msgspec]==0.10.0",),
    # Fivetran's library for connectors, for benchmarks. Later releases depend on software with
    # another licence.
    "fivetran_sdk": ("fivetran-connector-sdk==2.6.2",),
    # A client of Spark Connect without Spark's jars and without Java.
    "spark_connect": ("pyspark-client==4.1.3", "--editable", f"{ROOT}[connect,report]"),
    # Tables read without PySpark. pandas is here and not in the extra `dev`, because pyarrow and
    # PySpark import it wherever it is installed, which would change what benchmarks measure.
    "readers": ("pandas==2.3.3", "--editable", f"{ROOT}[read]"),
    # An S3 server for tests of object storage. It also serves AWS Glue and S3 Tables, for tests of
    # catalogs.
    "s3_server": ("moto[s3,glue]==5.2.5", "flask==3.1.3", "flask-cors==6.0.5"),
    # Another writer of Iceberg tables, independent of Spark.
    "pyiceberg": ("pyiceberg[pyarrow,sql-sqlite]==0.12.0",),
    # A reader of Iceberg catalogs. DuckDB downloads extensions from its own server; these packages
    # contain the same files, which a test installs before it runs the code blocks of a page.
    "duckdb": (
        "duckdb==1.5.5",
        "duckdb-extension-avro==1.5.5",
        "duckdb-extension-delta==1.5.5",
        "duckdb-extension-httpfs==1.5.5",
        "duckdb-extension-iceberg==1.5.5",
        "duckdb-extension-unity-catalog==1.5.5",
    ),
    # A public tap, target and mapper, which run unchanged: docs/tried.md.
    "public_plugins": (
        "tap-jsonfile==0.1.2",
        "meltanolabs-target-csv==0.5.0",
        "meltano-map-transform==0.12.3",
        "--editable",
        str(ROOT),
    ),
    # The orchestrator that runs taps and targets.
    "meltano": ("meltano==4.4.1",),
    # A checker of distributions before they are uploaded to a package index.
    "twine": ("twine==7.0.0",),
    # The schedulers of the recipes in docs/scheduling.md, each in a separate environment.
    "dagster": ("dagster==1.13.29",),
    "prefect": ("prefect==3.9.1",),
    "airflow": ("apache-airflow==3.3.2",),
}
"""Arguments of `uv pip install` by name of the peer."""

_OVERRIDES = {"singer_sdk": "TAP_CORE_PEER_PYTHON"}


def peer_python(name: str) -> Path | None:
    """Return the interpreter of the peer's environment, or None if it is not installed.

    The variable ``TAP_CORE_PEER_<NAME>``, or ``TAP_CORE_PEER_PYTHON`` for singer_sdk, selects
    another interpreter.
    """
    if name not in PEERS:
        message = f"unknown peer {name!r}; the peers are {', '.join(PEERS)}"
        raise ValueError(message)
    for variable in (f"TAP_CORE_PEER_{name.upper()}", _OVERRIDES.get(name, "")):
        if variable and os.environ.get(variable):
            return Path(os.environ[variable])
    python = _find_python(HOME / name)
    return python if python.exists() and _stamp(name).exists() else None


def missing_reason(name: str) -> str:
    """Return the reason for which tests are skipped, with the command that installs the peer."""
    return f"the peer {name} is not installed: .venv/bin/python -m tests.peers {name}"


def make_peer(name: str) -> Path:
    """Create or update the environment of a peer if necessary, and return its interpreter."""
    python = _find_python(HOME / name)
    requirements = "\n".join(PEERS[name])
    if _stamp(name).exists() and _stamp(name).read_text() == requirements:
        return python
    _stamp(name).unlink(missing_ok=True)
    uv = [sys.executable, str(ROOT / "scripts" / "run_uv.py")]
    create = ["venv", "--quiet", "--clear", "--python", sys.executable, str(HOME / name)]
    subprocess.run([*uv, *create], check=True)
    install = ["pip", "install", "--quiet", "--python", str(python)]
    subprocess.run([*uv, *install, *PEERS[name]], check=True)
    _stamp(name).write_text(requirements)
    return python


def _find_python(environment: Path) -> Path:
    if os.name == "nt":
        return environment / "Scripts" / "python.exe"
    return environment / "bin" / "python"


def _stamp(name: str) -> Path:
    return HOME / name / ".ready"


def main(names: list[str]) -> int:
    """Create the environments of the named peers, or of all peers."""
    for name in names or list(PEERS):
        if (python := peer_python(name)) and HOME not in python.parents:
            print(f"{name}: taken from {python}")
            continue
        print(f"{name}: {make_peer(name)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
