"""Environments of other projects' software that tests and benchmarks compare with.

One environment per peer, below `.venv-peers/`, because peers bring versions
that clash with ours and with each other. A test asks `peer_python` and skips, saying why, when
the peer is not there; it never installs anything. `python -m tests.peers [NAME ...]` makes them.
Peers are pinned by version, not by hash: nothing of them reaches a user, or the project's own
environment; the tests start them as programs.
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
    # The peer of tap_core: same classes, same names. msgspec is its fast writer.
    "singer_sdk": ("singer-sdk[msgspec]==0.54.9", "pyarrow>=20,<26"),
    # A source framework of another protocol, for the benchmarks.
    "airbyte_cdk": ("airbyte-cdk==7.39.1",),
    # Its last series with the classes that cursors of connectors extend.
    "airbyte_cdk_6": ("airbyte-cdk==6.60.12",),
    # Connectors of others that are a manifest and nothing else; what they depend on is not needed.
    "airbyte_sources": (
        "--no-deps",
        "--ignore-requires-python",
        "airbyte-source-freshsales==1.0.14",
        "airbyte-source-k6-cloud==0.1.15",
        "airbyte-source-launchdarkly==0.1.13",
        "airbyte-source-ringcentral==0.1.15",
        "airbyte-source-statuspage==0.1.13",
        "airbyte-source-tempo==0.3.14",
        "airbyte-source-timely==0.3.15",
        "airbyte-source-toggl==0.1.14",
    ),
    # The messages of that protocol as classes: tests hold every line of ours against them.
    "airbyte_models": ("airbyte-protocol-models-pdv2==0.18.0",),
    # The client of that protocol that needs no container: it runs our commands as programs.
    "pyairbyte": ("airbyte==0.71.3",),
    # The oldest releases that Fivetran's interface is served with here: the floors.
    "fivetran_wire": ("grpcio==1.68.1", "protobuf==5.29.6"),
    # A loader, for the benchmarks: to Parquet and to Delta Lake.
    "dlt": ("dlt[deltalake,parquet]==1.31.0", "deltalake==1.6.6"),
    # A tap of the same database as the sample's, with its fast writer, for the benchmarks.
    "tap_postgres": ("meltanolabs-tap-postgres[msgspec]==0.10.0",),
    # Fivetran's own library for connectors, for the benchmarks: this release and no later one,
    # since those that follow bring software under another licence.
    "fivetran_sdk": ("fivetran-connector-sdk==2.6.2",),
    # A client of Spark Connect without Spark itself: neither its jars nor Java.
    "spark_connect": ("pyspark-client==4.1.3", "--editable", f"{ROOT}[connect,report]"),
    # Tables read without PySpark. pandas is here and not in the extra `dev`, because pyarrow and
    # PySpark import it wherever it is installed, which would change what benchmarks measure.
    "readers": ("pandas==2.3.3", "--editable", f"{ROOT}[read]"),
    # An S3 server without a container, for tests of object storage.
    # It serves AWS Glue and S3 Tables too, for tests of catalogs.
    "s3_server": ("moto[s3,glue]==5.2.5", "flask==3.1.3", "flask-cors==6.0.5"),
    # Another writer of Iceberg tables, which knows nothing of Spark.
    "pyiceberg": ("pyiceberg[pyarrow,sql-sqlite]==0.12.0",),
    # A reader of Iceberg catalogs. DuckDB downloads extensions from a server of its own; these
    # packages contain the same files, which a test installs before a page asks for them.
    "duckdb": (
        "duckdb==1.5.5",
        "duckdb-extension-avro==1.5.5",
        "duckdb-extension-delta==1.5.5",
        "duckdb-extension-httpfs==1.5.5",
        "duckdb-extension-iceberg==1.5.5",
        "duckdb-extension-unity-catalog==1.5.5",
    ),
    # A tap, a target and a mapper of others, which run unchanged: docs/tried.md.
    "public_plugins": (
        "tap-jsonfile==0.1.2",
        "meltanolabs-target-csv==0.5.0",
        "meltano-map-transform==0.12.3",
        "--editable",
        str(ROOT),
    ),
    # The orchestrator that runs taps and targets.
    "meltano": ("meltano==4.4.1",),
    # What checks distributions before they are uploaded to a package index.
    "twine": ("twine==7.0.0",),
    # The schedulers of the recipes in docs/scheduling.md, each with what it needs alone.
    "dagster": ("dagster==1.13.29",),
    "prefect": ("prefect==3.9.1",),
    "airflow": ("apache-airflow==3.3.2",),
}
"""Name of a peer to what pip installs for it."""

_OVERRIDES = {"singer_sdk": "TAP_CORE_PEER_PYTHON"}


def peer_python(name: str) -> Path | None:
    """Return the interpreter that has the peer installed, or None when there is none.

    ``TAP_CORE_PEER_PYTHON`` names another interpreter for singer_sdk; for any peer
    ``TAP_CORE_PEER_<NAME>`` does.
    """
    if name not in PEERS:
        message = f"no such peer: {name!r}; there are {', '.join(PEERS)}"
        raise ValueError(message)
    for variable in (f"TAP_CORE_PEER_{name.upper()}", _OVERRIDES.get(name, "")):
        if variable and os.environ.get(variable):
            return Path(os.environ[variable])
    python = _find_python(HOME / name)
    return python if python.exists() and _stamp(name).exists() else None


def missing_reason(name: str) -> str:
    """Say why a test is skipped and how to get what it needs."""
    return f"the peer {name} is not installed: python -m tests.peers {name}"


def make_peer(name: str) -> Path:
    """Make the environment of one peer, unless it is there as asked; return its interpreter."""
    python = _find_python(HOME / name)
    wanted = "\n".join(PEERS[name])
    if _stamp(name).exists() and _stamp(name).read_text() == wanted:
        return python
    _stamp(name).unlink(missing_ok=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(HOME / name)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *PEERS[name]], check=True)
    _stamp(name).write_text(wanted)
    return python


def _find_python(environment: Path) -> Path:
    if os.name == "nt":
        return environment / "Scripts" / "python.exe"
    return environment / "bin" / "python"


def _stamp(name: str) -> Path:
    return HOME / name / ".ready"


def main(names: list[str]) -> int:
    """Make the named peers, or all of them."""
    for name in names or list(PEERS):
        if (given := peer_python(name)) and HOME not in given.parents:
            print(f"{name}: taken from {given}")
            continue
        print(f"{name}: {make_peer(name)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
