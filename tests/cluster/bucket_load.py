"""Loads into object storage: target-spark as a process, its tables read by another Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.cluster.loads import PATIENCE, Load
from tests.cluster.s3_server import S3Server

__all__ = ["BucketLoad", "print_rows"]

_READ: Final = "from tests.cluster.bucket_load import print_rows; print_rows()"
_ROOT: Final = Path(__file__).parents[2]


@dataclass(kw_only=True)
class BucketLoad(Load):
    """One job whose tables and staged rows are in a bucket; it may have no cluster."""

    server: S3Server
    bucket: str
    on_cluster: bool = False

    def config(self, **more: Any) -> Path:
        """Write the job's settings; return the path of the file."""
        given: dict[str, Any] = {
            "path": f"s3a://{self.bucket}/lake/tables",
            "staging": f"s3a://{self.bucket}/staging",
            "format": self.form,
            "small_runs": True,
            **self.settings,
            **more,
        }
        given["spark"] = {**self.server.spark, **given.get("spark", {})}
        if self.on_cluster:
            given["master"] = self.cluster.master
            given["spark"] |= self.cluster.spark
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "config.json"
        path.write_text(json.dumps({key: value for key, value in given.items() if value}))
        return path

    def rows(self, *names: str) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of the job's tables."""
        done = subprocess.run(
            [sys.executable, "-c", _READ, str(self.config()), *names],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_ROOT,
            timeout=PATIENCE,
        )
        found: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
        return found

    def left(self) -> list[str]:
        """Return the keys below the job's staging address."""
        return self.server.keys(self.bucket, "staging/")


def print_rows() -> None:
    """Print the rows of the tables named on the command line after a settings file."""
    from target_spark.config import settings
    from target_spark.spark.session import Session
    from target_spark.tables.table import Table
    from target_spark.writers import get_writer

    document = json.loads(Path(sys.argv[1]).read_text())
    session = Session.start(settings.spark_settings({**document, "master": "local[1]"}))
    try:
        spark, writer, found = session.spark(), get_writer(document["format"]), {}
        for name in sys.argv[2:]:
            table = Table(f"{document['path']}/{name}", name)
            known = writer.get_column_types(spark, table) is not None
            rows = writer.rows(spark, table).collect() if known else []
            found[name] = [row.asDict(recursive=True) for row in rows]
        print(json.dumps(found, default=str))
    finally:
        session.stop()
