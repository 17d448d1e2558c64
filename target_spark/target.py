"""target-spark: settings, signals, and the way from standard input to tables.

Rules of the room: whatever happens, the run ends in one of three ways, and says which.
Complete: exit code 0. Stopped by a signal: what was in flight is committed, its state
let out, 0. Gone wrong: what came whole before a broken input is committed, after any
other failure nothing new is; 1. A second signal ends the process at once. Spark's
libraries are not imported before there are rows.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import Any, BinaryIO, ClassVar, Final

from tap_core.capabilities import CapabilitiesEnum, PluginCapabilities
from tap_core.exceptions import InvalidInputLine, SingerSDKError
from tap_core.intake import WakeUp, blocks
from tap_core.plugin_base import Command, PluginBase
from tap_core.protocols.singer.decode import Decoder
from tap_core.types import JsonSchema
from target_spark import settings
from target_spark.engine import SparkEngine
from target_spark.errors import TableError, TargetSparkError, UnsupportedError
from target_spark.loader import Loader
from target_spark.options import LoadOptions, Run
from target_spark.outlet import StateOutlet
from target_spark.report import COMPLETE, STOPPED, Report
from target_spark.session import load_libraries
from target_spark.spool import SpoolFolder
from target_spark.work import Commits

__all__ = ["TargetSpark"]

_BEAT_SECONDS: Final = 0.5
_PROGRESS_SECONDS: Final = 10.0

_FAULTS_OF_THE_INPUT: Final = (InvalidInputLine, SingerSDKError, UnsupportedError)
"""What the input itself can be guilty of: what stood before it is still good."""

_SAID_IN_WORDS: Final = (*_FAULTS_OF_THE_INPUT, TargetSparkError, OSError)
"""Errors whose message is enough; all others are shown with their traceback."""


class TargetSpark(PluginBase):
    """Loads a Singer stream into tables through Apache Spark."""

    name = "target-spark"
    package_name = "tap-core-sdk"
    config_jsonschema: ClassVar[JsonSchema] = settings.SCHEMA
    capabilities: ClassVar[Sequence[CapabilitiesEnum]] = [
        PluginCapabilities.ABOUT,
        PluginCapabilities.STRUCTURED_LOGGING,
    ]

    def __init__(
        self,
        *,
        config: Mapping[str, Any] | None = None,
        parse_env_config: bool = False,
        validate_config: bool = True,
    ) -> None:
        """Take the settings and check them.

        Raises:
            ConfigValidationError: for every fault at once.
        """
        self._signals: list[int] = []
        self._wake_up: WakeUp | None = None
        self._engine: SparkEngine | None = None
        super().__init__(
            config=dict(config or {}),
            parse_env_config=parse_env_config,
            validate_config=validate_config,
        )

    @classmethod
    def get_singer_command(cls) -> Command:
        """Make the Singer command."""
        from tap_core.protocols.singer.door import target_command

        return target_command(cls)

    def _faults_beyond_schema(self) -> list[str]:
        return [*super()._faults_beyond_schema(), *settings.faults(self.config)]

    def listen(self, source: BinaryIO) -> int:
        """Load everything that comes from ``source``; return the exit code."""
        report = Report()
        faults: list[BaseException] = []
        with contextlib.closing(WakeUp()) as wake_up:
            self._wake_up = wake_up
            try:
                with StateOutlet.open() as outlet, self._opened(outlet, report) as loader:
                    faults += self._load(source, wake_up, loader, report)
            except Exception as error:  # noqa: BLE001  every failure ends in the report
                faults.append(error)
            self._wake_up = None
        self._say(report, faults)
        return 1 if faults else 0

    # The run

    @contextlib.contextmanager
    def _opened(self, outlet: StateOutlet, report: Report) -> Iterator[Loader]:
        """Give a loader, and close what it used in the order in which it can be closed."""
        run = Run(settings.job_of(self.config), uuid.uuid4().hex, self.initialized_at)
        options = settings.load_options(self.config)
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(contextlib.closing(self._folder()))
            engine = SparkEngine(settings.spark_settings(self.config), options.path, run)
            self._engine = stack.enter_context(contextlib.closing(engine))
            commits = partial(_commits, engine, options, run, folder)
            loader = Loader(
                options, engine, folder, commits, report, outlet.emit, self._is_stopping
            )
            yield stack.enter_context(contextlib.closing(loader))
        self._engine = None

    def _folder(self) -> SpoolFolder:
        staging = self.config.get("staging")
        try:
            return SpoolFolder(staging)
        except OSError as error:
            raise TableError(
                f"The folder for rows that wait cannot be written: {error}. Set staging to a"
                " folder that can."
            ) from error

    def _load(
        self, source: BinaryIO, wake_up: WakeUp, loader: Loader, report: Report
    ) -> list[BaseException]:
        """Fold the input and finish; return what was wrong with the input and its end."""
        faults: list[BaseException] = []
        try:
            self._fold_all(source, wake_up, loader, report)
        except _FAULTS_OF_THE_INPUT as error:
            faults.append(error)
        if self._is_stopping():
            self.logger.info("Stopping: what is in flight is committed, nothing new is begun.")
            loader.stop()
            return faults
        try:
            loader.finish(whole=not faults)
        except TargetSparkError as error:
            if error not in faults:
                faults.append(error)
        return faults

    def _fold_all(self, source: BinaryIO, wake_up: WakeUp, loader: Loader, report: Report) -> None:
        decoder = Decoder()
        progress_due = time.monotonic() + _PROGRESS_SECONDS
        for block in blocks(source, wake_up, _BEAT_SECONDS):
            for event in decoder.feed(block) if block else ():
                loader.fold(event)
            loader.beat()
            if self._is_stopping():
                return
            if time.monotonic() >= progress_due:
                progress_due = time.monotonic() + _PROGRESS_SECONDS
                self.logger.info("Progress: %s", report.progress())
        for event in decoder.close():
            loader.fold(event)

    # Signals

    def _is_stopping(self) -> bool:
        return bool(self._signals)

    def _handle_termination(self, signum: int, frame: FrameType | None) -> None:
        """Note the first signal; end at once on the second."""
        if self._wake_up is None:
            super()._handle_termination(signum, frame)
        if self._signals:
            if self._engine is not None:
                self._engine.kill()
            os._exit(128 + signum)
        self._signals.append(signum)
        if self._wake_up is not None:
            self._wake_up.ring()

    # The report

    def _say(self, report: Report, faults: Sequence[BaseException]) -> None:
        """Tell what was done and what went wrong, to people and to programs."""
        for fault in faults:
            shown = None if isinstance(fault, _SAID_IN_WORDS) else fault
            self.logger.error("%s", str(fault) or type(fault).__name__, exc_info=shown)
        done = STOPPED if self._is_stopping() else COMPLETE
        report.ended(" ".join(map(str, faults)) if faults else done)
        path = self.config.get("report")
        if path:
            try:
                report.save(path)
            except OSError as error:
                self.logger.warning("The report could not be written: %s", error)
        with contextlib.suppress(OSError, ValueError):  # nobody reads standard error
            text = json.dumps(report.as_dict(), separators=(",", ":"))
            sys.stderr.write("\n".join([*report.lines(), f"REPORT: {text}", ""]))
            sys.stderr.flush()


def _commits(engine: SparkEngine, options: LoadOptions, run: Run, folder: SpoolFolder) -> Commits:
    """Make what writes; Spark's libraries come with it."""
    load_libraries()
    from target_spark.batches import BatchWriter

    return BatchWriter(engine, options, run, folder)
