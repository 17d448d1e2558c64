"""Test runners, which create a tap or a target, run it and collect its messages.

A runner can run its plugin several times; it then contains only the messages of the last run.
Public names are those of singer_sdk (version 0.54).
"""

from __future__ import annotations

import abc
import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar

from tap_core.plugin_base import PluginBase
from tap_core.tap_base import Tap
from tap_core.testing.capture import capture_output, parse_messages
from tap_core.testing.config import SuiteConfig
from tap_core.testing.legacy import target_sync_test
from tap_core.types import Record

if TYPE_CHECKING:
    from importlib.abc import Traversable
    from pathlib import Path

    from tap_core.target_base import Target

__all__ = ["SingerTestRunner", "TapTestRunner", "TargetTestRunner"]

_T = TypeVar("_T", bound=PluginBase)


class SingerTestRunner(abc.ABC, Generic[_T]):
    """Base class of test runners, which run a plugin (tap or target) and collect its messages.

    Args:
        singer_class: Class of the plugin.
        config: Configuration of the plugin.
        suite_config: Options of the tests, such as record limits.
        **kwargs: Further arguments of the plugin.

    Attributes:
        raw_messages: All messages of the last run, as dicts.
        schema_messages: SCHEMA messages of the last run.
        record_messages: RECORD messages of the last run.
        state_messages: STATE messages of the last run.
        records: Records of the last run by stream name.
    """

    def __init__(
        self,
        singer_class: type[_T],
        config: Mapping[str, Any] | None = None,
        suite_config: SuiteConfig | None = None,
        **kwargs: Any,
    ) -> None:
        self.singer_class: type[_T] = singer_class
        self.config: Mapping[str, Any] = config or {}
        self.default_kwargs = kwargs
        self.suite_config: SuiteConfig = suite_config or SuiteConfig()
        self._reset()

    def _reset(self) -> None:
        """Clear the collected messages before a run."""
        self.raw_messages: list[dict[str, Any]] = []
        self.schema_messages: list[dict[str, Any]] = []
        self.record_messages: list[dict[str, Any]] = []
        self.state_messages: list[dict[str, Any]] = []
        self.records: defaultdict[str, list[Record]] = defaultdict(list)

    def create(self, kwargs: Mapping[str, Any] | None = None) -> _T:
        """Create an instance of the plugin (tap or target).

        Args:
            kwargs: Arguments of the plugin besides ``config``; None to use the arguments that were
                passed to the runner.
        """
        return self.singer_class(config=self.config, **(kwargs or self.default_kwargs))

    @abc.abstractmethod
    def sync_all(self, **kwargs: Any) -> None:
        """Run a new instance of the plugin and collect its messages."""


class TapTestRunner(SingerTestRunner[Tap]):
    """Test runner for a tap; a sync stops at the record limits of ``suite_config``."""

    def __init__(
        self,
        tap_class: type[Tap],
        config: Mapping[str, Any] | None = None,
        suite_config: SuiteConfig | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(tap_class, config, suite_config, **kwargs)

    def new_tap(self) -> Tap:
        """Return a new tap with the configuration of this runner."""
        return self.create()

    def run_discovery(self) -> str:
        """Run discovery with a new tap and return the catalog as JSON text."""
        return self.new_tap().run_discovery()

    def run_connection_test(self) -> bool:
        """Sync one record of each stream with a new tap; return True, or raise the tap's error."""
        return self.new_tap().run_connection_test()

    def run_sync_dry_run(self) -> bool:
        """Sync every stream of a new tap up to its record limit.

        Returns:
            Always True. Errors of the tap are raised.

        Raises:
            ValueError: ``max_records_limit_by_stream`` names a stream that the tap does not have.
        """
        tap, config = self.new_tap(), self.suite_config
        if not config.max_records_limit_by_stream:
            return tap.run_sync_dry_run(dry_run_record_limit=config.max_records_limit)
        _check_limit_names(config.max_records_limit_by_stream, tap.streams)
        # A parent syncs its children, so their limits must be set first.
        for stream in sorted(
            tap.streams.values(), key=lambda stream: not stream.parent_stream_type
        ):
            tap.run_sync_dry_run(config.get_limit(stream.name), streams=[stream])
        return True

    def sync_all(self, **kwargs: Any) -> None:  # noqa: ARG002  other runners take some
        """Sync a new tap up to the record limits, and collect its messages.

        Raises:
            ValueError: Standard output contains a line that is not JSON, or a record limit names
                an unknown stream.
        """
        out, _ = capture_output(self.run_sync_dry_run)
        self._reset()
        self._collect(parse_messages(out.read()))

    def _collect(self, messages: list[dict[str, Any]]) -> None:
        """Store the messages of a run in attributes by type, and the records by stream."""
        kinds = {
            "SCHEMA": self.schema_messages,
            "RECORD": self.record_messages,
            "STATE": self.state_messages,
        }
        self.raw_messages = messages
        for message in messages:
            if (collected := kinds.get(message["type"])) is not None:
                collected.append(message)
        for message in self.record_messages:
            self.records[message["stream"]].append(message["record"])


class TargetTestRunner(SingerTestRunner["Target"]):
    """Test runner for a target, whose input is a file of Singer messages.

    Args:
        target_class: Class of the target.
        config: Configuration of the target.
        suite_config: Options of the tests.
        input_filepath: File with the input messages, one per line.
        input_io: Open file with the input messages; takes precedence over ``input_filepath``.
        **kwargs: Further arguments of the target.

    Attributes:
        stdout: Standard output of the last run.
        stderr: Standard error of the last run.
    """

    def __init__(
        self,
        target_class: type[Target],
        config: Mapping[str, Any] | None = None,
        suite_config: SuiteConfig | None = None,
        input_filepath: Path | Traversable | None = None,
        input_io: IO[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(target_class, config, suite_config, **kwargs)
        self.input_filepath = input_filepath
        self.input_io = input_io
        self.stdout: str | None = None
        self.stderr: str | None = None
        self._input: IO[str] | None = None

    def new_target(self) -> Target:
        """Return a new target with the configuration of this runner."""
        return self.create()

    @property
    def target_input(self) -> IO[str] | None:
        """Open file with the target's input messages, or None for no input.

        If only ``input_filepath`` was passed, the first access opens that file.
        """
        if self._input is None:
            if self.input_io is not None:
                self._input = self.input_io
            elif self.input_filepath is not None:
                self._input = self.input_filepath.open(encoding="utf-8")
        return self._input

    @target_input.setter
    def target_input(self, value: IO[str] | None) -> None:
        self._input = value

    def sync_all(self, *, finalize: bool = True, **kwargs: Any) -> None:  # noqa: ARG002
        """Run a new target on the input, and collect the states that it emits.

        Args:
            finalize: True to signal the end of the input, so that the target loads buffered
                records. False to omit that signal.
            **kwargs: Not used.
        """
        target = self.new_target()
        self._reset()
        with self._open_input() as messages:
            out, err = target_sync_test(target, messages, finalize=finalize)
        self.stdout, self.stderr = out.read(), err.read()
        self.state_messages.extend(parse_messages(self.stdout))

    @contextlib.contextmanager
    def _open_input(self) -> Iterator[IO[str] | None]:
        """Context manager that yields the open input file, or None for no input.

        At the end, the file is closed if this method has opened it.
        """
        was_given = self._input is not None or self.input_io is not None
        messages = self.target_input
        try:
            yield messages
        finally:
            if messages is not None and not was_given:
                messages.close()
                self._input = None


def _check_limit_names(limits: Iterable[str], streams: Iterable[str]) -> None:
    """Raise ValueError if a name in ``limits`` is not among the tap's ``streams``."""
    stream_names = list(streams)
    unknown = [name for name in limits if name not in stream_names]
    if unknown:
        raise ValueError(
            f"max_records_limit_by_stream names streams that the tap does not have:"
            f" {', '.join(unknown)}. It has {', '.join(stream_names)}."
        )
