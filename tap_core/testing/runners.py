"""Runners: make a tap or a target with the author's settings, run it, keep what it wrote.

Rules of the room: a plugin is driven by its public members only. Each run starts with
empty lists, so that a runner can be used again. Names are singer_sdk's (version 0.54).
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
from tap_core.types import Record

if TYPE_CHECKING:
    from importlib.abc import Traversable
    from pathlib import Path

    from tap_core.target_base import Target

__all__ = ["SingerTestRunner", "TapTestRunner", "TargetTestRunner"]

_T = TypeVar("_T", bound=PluginBase)


class SingerTestRunner(abc.ABC, Generic[_T]):
    """Runs a plugin; ``kwargs`` are what its class is called with, beside ``config``."""

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
        self._forget()

    def _forget(self) -> None:
        """Start with no messages."""
        self.raw_messages: list[dict[str, Any]] = []
        self.schema_messages: list[dict[str, Any]] = []
        self.record_messages: list[dict[str, Any]] = []
        self.state_messages: list[dict[str, Any]] = []
        self.records: defaultdict[str, list[Record]] = defaultdict(list)

    def create(self, kwargs: Mapping[str, Any] | None = None) -> _T:
        """Make the plugin, with ``kwargs`` instead of the runner's own if there are any."""
        return self.singer_class(config=self.config, **(kwargs or self.default_kwargs))

    @abc.abstractmethod
    def sync_all(self, **kwargs: Any) -> None:
        """Run the plugin and keep its messages."""


class TapTestRunner(SingerTestRunner[Tap]):
    """Runs a tap, at most so many records of each stream as `SuiteConfig` says."""

    def __init__(
        self,
        tap_class: type[Tap],
        config: Mapping[str, Any] | None = None,
        suite_config: SuiteConfig | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(tap_class, config, suite_config, **kwargs)

    def new_tap(self) -> Tap:
        """Make a tap."""
        return self.create()

    def run_discovery(self) -> str:
        """Discover with a new tap; return the catalog's text."""
        return self.new_tap().run_discovery()

    def run_connection_test(self) -> bool:
        """Sync one record of each stream with a new tap."""
        return self.new_tap().run_connection_test()

    def run_sync_dry_run(self) -> bool:
        """Sync every stream of a new tap up to its limit.

        Raises:
            ValueError: a limit is for a stream that the tap does not have.
        """
        tap, config = self.new_tap(), self.suite_config
        if not config.max_records_limit_by_stream:
            return tap.run_sync_dry_run(dry_run_record_limit=config.max_records_limit)
        _refuse_unknown(config.max_records_limit_by_stream, tap.streams)
        # A child is synced by its parent, so it must have its limit before.
        for stream in sorted(tap.streams.values(), key=lambda each: not each.parent_stream_type):
            tap.run_sync_dry_run(config.get_limit(stream.name), streams=[stream])
        return True

    def sync_all(self, **kwargs: Any) -> None:  # noqa: ARG002  other runners take some
        """Run the tap and keep its messages, records by the name of their stream.

        Raises:
            ValueError: the tap wrote something else to standard output.
        """
        out, _ = capture_output(self.run_sync_dry_run)
        self._forget()
        self._keep(parse_messages(out.read()))

    def _keep(self, messages: list[dict[str, Any]]) -> None:
        kinds = {
            "SCHEMA": self.schema_messages,
            "RECORD": self.record_messages,
            "STATE": self.state_messages,
        }
        self.raw_messages = messages
        for message in messages:
            if (kept := kinds.get(message["type"])) is not None:
                kept.append(message)
        for message in self.record_messages:
            self.records[message["stream"]].append(message["record"])


class TargetTestRunner(SingerTestRunner["Target"]):
    """Runs a target on messages from a file (``input_filepath``) or an open one (``input_io``)."""

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
        """Make a target."""
        return self.create()

    @property
    def target_input(self) -> IO[str] | None:
        """The messages that are fed to the target."""
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
        """Run the target and keep the states that it let out.

        Without ``finalize`` the end of the input is not the end of the data: what the
        target holds back stays there.
        """
        target = self.new_target()
        self._forget()
        with self._open_input() as messages:
            out, err = capture_output(lambda: _feed(target, messages, finalize=finalize))
        self.stdout, self.stderr = out.read(), err.read()
        self.state_messages.extend(parse_messages(self.stdout))

    @contextlib.contextmanager
    def _open_input(self) -> Iterator[IO[str] | None]:
        """Open the input, and close it if it was opened here."""
        was_given = self._input is not None or self.input_io is not None
        messages = self.target_input
        try:
            yield messages
        finally:
            if messages is not None and not was_given:
                messages.close()
                self._input = None


def _feed(target: Target, messages: IO[str] | None, *, finalize: bool) -> None:
    if messages is not None:
        target.process_lines(messages)
    if finalize:
        target.process_endofpipe()


def _refuse_unknown(limits: Iterable[str], streams: Iterable[str]) -> None:
    known = list(streams)
    unknown = [name for name in limits if name not in known]
    if unknown:
        raise ValueError(
            f"max_records_limit_by_stream names streams that the tap does not have:"
            f" {', '.join(unknown)}. It has {', '.join(known)}."
        )
