"""Loads into object storage: target-spark as a process, its tables read by another Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.loads import Load
from tests.cluster.s3_server import S3Server
from tests.cluster.tables import read_by_spark

__all__ = ["BucketLoad"]


@dataclass(kw_only=True)
class BucketLoad(Load):
    """One job whose tables and staged rows are in a bucket; it may have no cluster."""

    server: S3Server
    bucket: str
    on_cluster: bool = False

    def config(self, **kwargs: Any) -> Path:
        """Write the job's settings; return the path of the file."""
        settings: dict[str, Any] = {
            "path": f"s3a://{self.bucket}/lake/tables",
            "staging": f"s3a://{self.bucket}/staging",
            "format": self.form,
            "small_runs": True,
            **self.settings,
            **kwargs,
        }
        settings["spark"] = {**self.server.spark, **settings.get("spark", {})}
        if self.on_cluster:
            settings["master"] = self.cluster.master
            settings["spark"] |= self.cluster.small_application_conf
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "config.json"
        path.write_text(json.dumps({key: value for key, value in settings.items() if value}))
        return path

    def rows(self, *names: str) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of the job's tables."""
        return read_by_spark(json.loads(self.config().read_text()), *names)

    def list_staging(self) -> list[str]:
        """Return the keys below the job's staging address."""
        return self.server.keys(self.bucket, "staging/")
