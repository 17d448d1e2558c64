"""Templates: what a test is, for a tap, its streams and their properties, and for a target.

Rules of the room: names are singer_sdk's (version 0.54), and authors subclass them. Every
test runs on an object of its own, so nothing is left over from another stream. A hook that
raises `NotImplementedError` counts as one that is not there.
"""

from __future__ import annotations

import contextlib
import warnings
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from tap_core.streams import Stream
from tap_core.tap_base import Tap
from tap_core.testing.config import SuiteConfig
from tap_core.testing.runners import SingerTestRunner, TapTestRunner, TargetTestRunner
from tap_core.types import JsonSchema, Record

if TYPE_CHECKING:
    from importlib.abc import Traversable

    from tap_core.target_base import Target

__all__ = [
    "AttributeTestTemplate",
    "StreamTestTemplate",
    "TapTestTemplate",
    "TargetFileTestTemplate",
    "TargetTestTemplate",
    "TestTemplate",
]

_MESSAGES = Path(__file__).parent / "target_test_streams"

_R = TypeVar("_R", bound=SingerTestRunner[Any])


class TestTemplate(Generic[_R]):
    """A test: say its ``name``, override `test`, and the steps around it where needed."""

    __test__ = False  # pytest would collect it wherever it is imported

    name: str | None = None

    config: SuiteConfig
    resource: Any
    runner: _R

    @property
    def id(self) -> str:
        """What the test is called beside others."""
        raise NotImplementedError("A template says its id.")

    def setup(self) -> None:
        """Prepare something outside, before `test`."""

    def test(self) -> None:
        """Test; by default it is enough that the plugin runs."""
        self.runner.sync_all()

    def validate(self) -> None:
        """Look at what the test left outside, after `test`."""

    def teardown(self) -> None:
        """Clean up, whatever happened."""

    def run(self, config: SuiteConfig, resource: Any, runner: _R) -> None:
        """Run all steps; the arguments are fixtures.

        Raises:
            ValueError: the test has no name.
        """
        __tracebackhide__ = True
        if not self.name:
            raise ValueError(f"{type(self).__name__} needs a `name`: tests are called by it.")
        self.config = config
        self.resource = resource
        self.runner = runner
        try:
            with contextlib.suppress(NotImplementedError):
                self.setup()
            self.test()
            with contextlib.suppress(NotImplementedError):
                self.validate()
        finally:
            with contextlib.suppress(NotImplementedError):
                self.teardown()


class TapTestTemplate(TestTemplate[TapTestRunner]):
    """A test of a tap, which is made for it: ``self.tap``."""

    tap: Tap

    @property
    def id(self) -> str:
        """What the test is called beside others."""
        return f"tap__{self.name}"

    def run(self, config: SuiteConfig, resource: Any, runner: TapTestRunner) -> None:
        """Run with a new tap."""
        __tracebackhide__ = True
        self.tap = runner.new_tap()
        super().run(config, resource, runner)


class StreamTestTemplate(TestTemplate[TapTestRunner]):
    """A test of a stream, ``self.stream``, and of the records read: ``self.stream_records``."""

    required_kwargs: ClassVar[list[str]] = ["stream"]

    stream: Stream
    stream_records: list[Record]

    @property
    def id(self) -> str:
        """What the test is called beside others."""
        return f"{self.stream.name}__{self.name}"

    @property
    def ignore_no_records(self) -> bool:
        """Whether the stream may be empty."""
        return self.config.may_be_empty(self.stream.name)

    def run(  # type: ignore[override]  # pytest calls it by what it asks for
        self, config: SuiteConfig, resource: Any, runner: TapTestRunner, stream: Stream
    ) -> None:
        """Run with a stream."""
        __tracebackhide__ = True
        self.stream = stream
        self.stream_records = runner.records[stream.name]
        super().run(config, resource, runner)


class AttributeTestTemplate(StreamTestTemplate):
    """A test of one property of a stream: ``self.attribute_name``."""

    attribute_name: str

    @property
    def id(self) -> str:
        """What the test is called beside others."""
        return f"{self.stream.name}__{self.attribute_name}__{self.name}"

    def run(  # type: ignore[override]  # pytest calls it by what it asks for
        self,
        config: SuiteConfig,
        resource: Any,
        runner: TapTestRunner,
        stream: Stream,
        attribute_name: str,
    ) -> None:
        """Run with a property of a stream."""
        __tracebackhide__ = True
        self.attribute_name = attribute_name
        super().run(config, resource, runner, stream)

    @cached_property
    def non_null_attribute_values(self) -> list[Any]:
        """The values of the property, without the nulls; warns when there are none."""
        found = (record.get(self.attribute_name) for record in self.stream_records)
        values = [value for value in found if value is not None]
        if not values and not self.ignore_no_records:
            warnings.warn(
                f"No records were available to test: stream '{self.stream.name}' gave"
                f" {len(self.stream_records)}, none with a value of '{self.attribute_name}'.",
                stacklevel=3,  # the line that asked for the values
            )
        return values

    @classmethod
    def evaluate(cls, stream: Stream, property_name: str, property_schema: JsonSchema) -> bool:
        """Tell whether a property is to be tested."""
        raise NotImplementedError(f"{cls.__name__} needs an `evaluate`: which properties it tests.")


class TargetTestTemplate(TestTemplate[TargetTestRunner]):
    """A test of a target, which is made for it: ``self.target``."""

    target: Target

    @property
    def id(self) -> str:
        """What the test is called beside others."""
        return f"target__{self.name}"

    def run(self, config: SuiteConfig, resource: Any, runner: TargetTestRunner) -> None:
        """Run with a new target."""
        __tracebackhide__ = True
        self.target = runner.new_target()
        super().run(config, resource, runner)


class TargetFileTestTemplate(TargetTestTemplate):
    """A test that feeds a target the messages of a file."""

    @property
    def singer_filepath(self) -> Traversable:
        """The file; by default the one of `target_test_streams` that is called as the test."""
        return _MESSAGES / f"{self.name}.singer"

    def run(self, config: SuiteConfig, resource: Any, runner: TargetTestRunner) -> None:
        """Run with the file as the target's input."""
        __tracebackhide__ = True
        path = self.singer_filepath
        if not path.is_file():
            raise AssertionError(f"{path} is not there: it should hold the test's messages.")
        runner.input_filepath = path
        super().run(config, resource, runner)
