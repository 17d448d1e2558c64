"""Templates of tests for a tap, its streams, their properties, and a target.

Names are those of singer_sdk (version 0.54), and authors subclass them. Every test runs on a
new instance, so tests share no data. A hook that raises `NotImplementedError` is ignored.
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
    """Base class of tests; subclasses set ``name`` and override `test` or other methods.

    Attributes:
        name: Name of the test.
        config: Configuration of the tests.
        resource: External resource: the value of the fixture ``resource``, by default None.
        runner: Runner of the plugin.
    """

    __test__ = False  # pytest would collect it wherever it is imported

    name: str | None = None

    config: SuiteConfig
    resource: Any
    runner: _R

    @property
    def id(self) -> str:
        """Identifier of the test."""
        raise NotImplementedError("A template must define its id.")

    def setup(self) -> None:
        """Prepare external resources before `test`; does nothing by default."""

    def test(self) -> None:
        """Run the test. By default, check that the plugin runs without an error."""
        self.runner.sync_all()

    def validate(self) -> None:
        """Check the effects of `test` on external resources; does nothing by default."""

    def teardown(self) -> None:
        """Clean up after the test, even if it fails; does nothing by default."""

    def run(self, config: SuiteConfig, resource: Any, runner: _R) -> None:
        """Run `setup`, `test`, `validate` and `teardown`.

        Args:
            config: Configuration of the tests.
            resource: External resource: the value of the fixture ``resource``, by default None.
            runner: Runner of the plugin.

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
    """Base class of tap tests; ``self.tap`` is a new tap."""

    tap: Tap

    @property
    def id(self) -> str:
        """Identifier of the test, such as ``tap__discovery``."""
        return f"tap__{self.name}"

    def run(self, config: SuiteConfig, resource: Any, runner: TapTestRunner) -> None:
        """Run the test with a new tap; the arguments are those of `TestTemplate.run`."""
        __tracebackhide__ = True
        self.tap = runner.new_tap()
        super().run(config, resource, runner)


class StreamTestTemplate(TestTemplate[TapTestRunner]):
    """Base class of stream tests.

    ``self.stream`` is the stream, and ``self.stream_records`` are its records.
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
        """True if the stream may be empty."""
        return self.config.may_be_empty(self.stream.name)

    def run(  # type: ignore[override]  # pytest calls it by what it asks for
        self, config: SuiteConfig, resource: Any, runner: TapTestRunner, stream: Stream
    ) -> None:
        """Run the test with a stream and the records that the runner has read from it."""
        __tracebackhide__ = True
        self.stream = stream
        self.stream_records = runner.records[stream.name]
        super().run(config, resource, runner)


@dataclass(frozen=True, slots=True)
class ValueType:
    """Type that a test requires of a property's values: they have it or can be converted to it."""

    kind: str
    """Name of the type in messages, such as ``boolean``."""
    complaint: str
    """Message for a value of another type, with the placeholder ``{}`` for the value."""
    is_declared: Callable[[JsonSchema], bool | None]
    """Function that returns True if a property's schema allows the type."""
    fits: Callable[[Any], object]
    """Function that returns a true value for a valid value; any exception means an invalid one."""


class AttributeTestTemplate(StreamTestTemplate):
    """Base class of tests of one property, ``self.attribute_name``, of a stream.

    Set `value_type`, or override `evaluate` and `test`.
    """

    attribute_name: str

    value_type: ClassVar[ValueType | None] = None
    """Type that `test` requires of every value that is not null."""

    @property
    def id(self) -> str:
        """Identifier of the test, such as ``users__id__not_null``."""
        return f"{self.stream.name}__{self.attribute_name}__{self.name}"

    def run(  # type: ignore[override]  # pytest calls it by what it asks for
        self,
        config: SuiteConfig,
        resource: Any,
        runner: TapTestRunner,
        stream: Stream,
        attribute_name: str,
    ) -> None:
        """Run the test with a property of a stream."""
        __tracebackhide__ = True
        self.attribute_name = attribute_name
        super().run(config, resource, runner, stream)

    @cached_property
    def non_null_attribute_values(self) -> list[Any]:
        """Values of the property that are not null; without any, a warning is emitted."""
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
        """Return True if the test applies to a property, by default if its type is `value_type`.

        Raises:
            NotImplementedError: The test has no `value_type` and does not override this method.
        """
        if cls.value_type is None:
            raise NotImplementedError(
                f"{cls.__name__} must define `evaluate`: the properties to test."
            )
        return bool(cls.value_type.is_declared(property_schema))

    def test(self) -> None:
        """Check all values other than null; do nothing if the test has no `value_type`."""
        __tracebackhide__ = True
        if self.value_type is None:
            super().test()
            return
        values = self.non_null_attribute_values
        found = find_invalid_values(values, self.value_type.fits, self.value_type.complaint)
        if found:
            count, words = found
            raise AssertionError(
                f"{words} Property '{self.attribute_name}' of stream '{self.stream.name}': {count}"
                f" of {len(values)} values are no {self.value_type.kind}. To fix it: declare"
                " the type that the source sends, or convert the value in post_process()."
            )


class TargetTestTemplate(TestTemplate[TargetTestRunner]):
    """Base class of target tests; ``self.target`` is a new target."""

    target: Target

    @property
    def id(self) -> str:
        """Identifier of the test, such as ``target__cli_prints``."""
        return f"target__{self.name}"

    def run(self, config: SuiteConfig, resource: Any, runner: TargetTestRunner) -> None:
        """Run the test with a new target; the arguments are those of `TestTemplate.run`."""
        __tracebackhide__ = True
        self.target = runner.new_target()
        super().run(config, resource, runner)


class TargetFileTestTemplate(TargetTestTemplate):
    """Base class of target tests whose input messages are read from a file."""

    @property
    def singer_filepath(self) -> Traversable:
        """File with the messages; by default ``<name>.singer`` in `target_test_streams`."""
        return _MESSAGES / f"{self.name}.singer"

    def run(self, config: SuiteConfig, resource: Any, runner: TargetTestRunner) -> None:
        """Run the test with the file as the target's input.

        Raises:
            AssertionError: The file does not exist.
        """
        __tracebackhide__ = True
        path = self.singer_filepath
        if not path.is_file():
            raise AssertionError(f"{path} does not exist: it must contain the test's messages.")
        runner.input_filepath = path
        super().run(config, resource, runner)
