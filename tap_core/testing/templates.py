"""Base classes ("templates") of tests for taps, streams, properties and targets.

Authors subclass them for tests of their own. Each test runs on a new instance of its class, so
tests share no data. Names are those of singer_sdk (version 0.54).
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from tap_core.streams import Stream
from tap_core.tap_base import Tap
from tap_core.testing.config import SuiteConfig
from tap_core.testing.record_validation import find_invalid_values
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
    "ValueType",
]

_MESSAGES = Path(__file__).parent / "target_test_streams"

_R = TypeVar("_R", bound=SingerTestRunner[Any])


class TestTemplate(Generic[_R]):
    """Base class of the standard tests. Subclasses set ``name`` and usually override `test`.

    Attributes:
        name: Name of the test, such as ``discovery``.
        config: Options of the tests.
        resource: External resource: the value of the fixture ``resource``, by default None.
        runner: Test runner, which creates and runs the plugin (tap or target).
    """

    __test__ = False  # pytest would collect it wherever it is imported

    name: str | None = None

    config: SuiteConfig
    resource: Any
    runner: _R

    @property
    def id(self) -> str:
        """Identifier of the test, such as ``tap__discovery``. Subclasses must define it."""
        raise NotImplementedError("A template must define its id.")

    def setup(self) -> None:
        """Prepare external resources before the test; do nothing by default."""

    def test(self) -> None:
        """Run the test; by default, run the tap or target and expect no error."""
        self.runner.sync_all()

    def validate(self) -> None:
        """Check external resources after the test, such as loaded tables; do nothing by default."""

    def teardown(self) -> None:
        """Clean up external resources, also after a failure; do nothing by default."""

    def run(self, config: SuiteConfig, resource: Any, runner: _R) -> None:
        """Run `setup`, `test`, `validate` and `teardown`, in this order.

        A `NotImplementedError` is ignored, unless `test` raises it.

        Args:
            config: Options of the tests.
            resource: External resource: the value of the fixture ``resource``, by default None.
            runner: Test runner of the plugin.

        Raises:
            ValueError: The template has no name.
        """
        __tracebackhide__ = True
        if not self.name:
            raise ValueError(f"{type(self).__name__} must define `name`, the name of the test.")
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
    """Base class of tests that run once per tap; ``self.tap`` is a new tap for each test."""

    tap: Tap

    @property
    def id(self) -> str:
        """Identifier of the test, such as ``tap__discovery``."""
        return f"tap__{self.name}"

    def run(self, config: SuiteConfig, resource: Any, runner: TapTestRunner) -> None:
        """Create a tap with ``runner``, and run the test on it with the options ``config``.

        ``resource`` is the value of the fixture ``resource``, by default None.
        """
        __tracebackhide__ = True
        self.tap = runner.new_tap()
        super().run(config, resource, runner)


class StreamTestTemplate(TestTemplate[TapTestRunner]):
    """Base class of tests that run once per stream of a tap.

    ``self.stream`` is the stream, and ``self.stream_records`` are the records read from it.
    """

    required_kwargs: ClassVar[list[str]] = ["stream"]

    stream: Stream
    stream_records: list[Record]

    @property
    def id(self) -> str:
        """Identifier of the test, such as ``users__primary_keys``."""
        return f"{self.stream.name}__{self.name}"

    @property
    def ignore_no_records(self) -> bool:
        """True if the test must not fail when the stream has no records."""
        return self.config.may_be_empty(self.stream.name)

    def run(  # type: ignore[override]  # pytest passes fixtures by name
        self, config: SuiteConfig, resource: Any, runner: TapTestRunner, stream: Stream
    ) -> None:
        """Run the test on one stream and on its records, which ``runner`` has already read."""
        __tracebackhide__ = True
        self.stream = stream
        self.stream_records = runner.records[stream.name]
        super().run(config, resource, runner)


@dataclass(frozen=True, slots=True)
class ValueType:
    """Type of values, such as boolean, that a standard test requires.

    The test applies to every property whose schema allows the type.
    """

    kind: str
    """Name of the type in error messages, such as ``boolean``."""
    complaint: str
    """Error message for an invalid value, with the placeholder ``{}`` for the value."""
    is_declared: Callable[[JsonSchema], bool | None]
    """Function that returns True if a property's schema allows the type."""
    fits: Callable[[Any], object]
    """Function that returns true for a valid value, and otherwise returns false or raises an
    error."""


class AttributeTestTemplate(StreamTestTemplate):
    """Base class of tests that run once per property of a stream.

    ``self.attribute_name`` is the name of the property. Subclasses set `value_type`, or override
    both `evaluate` (which chooses the properties) and `test`.
    """

    attribute_name: str

    value_type: ClassVar[ValueType | None] = None
    """Type that all values except null must have; None if a subclass overrides `test`."""

    @property
    def id(self) -> str:
        """Identifier of the test, such as ``users__id__not_null``."""
        return f"{self.stream.name}__{self.attribute_name}__{self.name}"

    def run(  # type: ignore[override]  # pytest passes fixtures by name
        self,
        config: SuiteConfig,
        resource: Any,
        runner: TapTestRunner,
        stream: Stream,
        attribute_name: str,
    ) -> None:
        """Run the test on the property ``attribute_name`` in the records of one stream."""
        __tracebackhide__ = True
        self.attribute_name = attribute_name
        super().run(config, resource, runner, stream)

    @cached_property
    def non_null_attribute_values(self) -> list[Any]:
        """Values except null of the tested property in all records. Warn if there are no values."""
        all_values = (record.get(self.attribute_name) for record in self.stream_records)
        values = [value for value in all_values if value is not None]
        if not values and not self.ignore_no_records:
            warnings.warn(
                f"No records were available to test: stream '{self.stream.name}' gave"
                f" {len(self.stream_records)}, none with a value of '{self.attribute_name}'.",
                stacklevel=3,  # the caller that reads the values
            )
        return values

    @classmethod
    def evaluate(
        cls,
        stream: Stream,  # noqa: ARG003  for overrides
        property_name: str,  # noqa: ARG003
        property_schema: JsonSchema,
    ) -> bool:
        """Return True if the test applies to a property.

        By default, the test applies if the property's schema allows the type `value_type`.

        Raises:
            NotImplementedError: The test has no `value_type` and does not override this method.
        """
        if cls.value_type is None:
            raise NotImplementedError(
                f"{cls.__name__} must define `evaluate`: the properties to test."
            )
        return bool(cls.value_type.is_declared(property_schema))

    def test(self) -> None:
        """Check that all values except null have the type `value_type`.

        If the class has no `value_type`, only check that a sync runs without an error.
        """
        __tracebackhide__ = True
        if self.value_type is None:
            super().test()
            return
        values = self.non_null_attribute_values
        invalid = find_invalid_values(values, self.value_type.fits, self.value_type.complaint)
        if invalid:
            count, message = invalid
            raise AssertionError(
                f"{message} Property '{self.attribute_name}' of stream '{self.stream.name}':"
                f" {count} of {len(values)} values are no {self.value_type.kind}. To fix it:"
                " declare the type that the source sends, or convert the value in post_process()."
            )


class TargetTestTemplate(TestTemplate[TargetTestRunner]):
    """Base class of target tests; ``self.target`` is a new target for each test."""

    target: Target

    @property
    def id(self) -> str:
        """Identifier of the test, such as ``target__cli_prints``."""
        return f"target__{self.name}"

    def run(self, config: SuiteConfig, resource: Any, runner: TargetTestRunner) -> None:
        """Create a target with ``runner``, and run the test on it with the options ``config``.

        ``resource`` is the value of the fixture ``resource``, by default None.
        """
        __tracebackhide__ = True
        self.target = runner.new_target()
        super().run(config, resource, runner)


class TargetFileTestTemplate(TargetTestTemplate):
    """Base class of target tests that read their input messages from a file."""

    @property
    def singer_filepath(self) -> Traversable:
        """Path of the message file; by default ``<name>.singer`` in `target_test_streams`."""
        return _MESSAGES / f"{self.name}.singer"

    def run(self, config: SuiteConfig, resource: Any, runner: TargetTestRunner) -> None:
        """Run the test with the messages of `singer_filepath` as the target's input.

        Raises:
            AssertionError: The file does not exist.
        """
        __tracebackhide__ = True
        path = self.singer_filepath
        if not path.is_file():
            raise AssertionError(f"{path} does not exist: it must contain the test's messages.")
        runner.input_filepath = path
        super().run(config, resource, runner)
