"""A real Spark Connect server on loopback, from PySpark's own package.

It has Delta Lake and Iceberg. It can be killed and started again at the same address, and ends with
the process that started it.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Final

from typing_extensions import Self

from target_spark.spark.jars import format_conf
from tests.cluster.standalone import (
    _get_spark_home,
    _start_supervised,
    _stop_supervisor,
    _wait_until,
)

__all__ = ["ConnectServer"]

_SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass
class ConnectServer:
    """A Spark Connect server on ``local[2]``, as a context manager.

    ``conf`` is added to its settings. It has the jars and extensions of ``formats``; with none,
    it is a plain Spark.
    """

    folder: Path
    formats: tuple[str, ...] = ("delta", "iceberg")
    conf: Mapping[str, str] = field(default_factory=dict)
    python: str = ""
    port: int = field(default=0, init=False)
    _supervisor: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _starts: int = field(default=0, init=False)

    def __enter__(self) -> Self:
        """Start the server, and wait until it accepts connections."""
        self.port = self.port or _free_port()
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        """The server's address."""
        return f"sc://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """The log file since the last start."""
        return self.folder / f"start-{self._starts}" / "log"

    def start(self) -> None:
        """Start the server, the first time or again, at the same address."""
        self._starts += 1
        self.log.parent.mkdir()
        command = [str(_get_spark_home() / "bin" / "spark-submit"), "--class", _SERVER]
        for key, value in self._conf().items():
            command += ["--conf", f"{key}={value}"]
        environ = {"SPARK_LOCAL_DIRS": str(self.folder / "local"), "SPARK_DAEMON_MEMORY": "1g"}
        if self.python:
            environ["PYSPARK_PYTHON"] = self.python
        self._supervisor = _start_supervised(command, self.log.parent, environ)
        _wait_until(self._is_up, 600, self._read_log)

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        if self._supervisor is not None:
            _stop_supervisor(self._supervisor)
        self._supervisor = None

    def _is_up(self) -> bool:
        assert self._supervisor is not None
        assert self._supervisor.poll() is None, self._read_log()
        return self.log.exists() and "Spark Connect server started at" in self._read_log()

    def _read_log(self) -> str:
        return self.log.read_text(errors="replace")[-5000:] if self.log.exists() else ""

    def _conf(self) -> dict[str, str]:
        conf = {
            "spark.master": "local[2]",
            "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.sql.shuffle.partitions": "2",
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
        }
        version = metadata.version("pyspark")
        for name in self.formats:
            conf |= format_conf(name, conf, (), version)
        return conf | dict(self.conf)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
