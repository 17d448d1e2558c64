"""Factory of test classes for taps and targets.

pytest collects a generated class like a handwritten one. The names, ids and parameters of its
tests are determined when the class is created. The class has its own ``pytest_generate_tests``
hook, so no pytest plugin is needed. Public names are those of singer_sdk (version 0.54).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pytest

from tap_core.streams import Stream
from tap_core.tap_base import Tap
from tap_core.testing.config import SuiteConfig
from tap_core.testing.runners import TapTestRunner, TargetTestRunner
from tap_core.testing.suites import (
    SingerTestSuite,
    tap_stream_attribute_tests,
    tap_stream_tests,
    tap_tests,
    target_tests,
)
from tap_core.testing.templates import AttributeTestTemplate, TestTemplate

if TYPE_CHECKING:
    from tap_core.target_base import Target

__all__ = [
    "BaseTestClass",
    "StreamAttributeTestParams",
    "StreamTestParams",
    "TapTestClassFactory",
    "TargetTestClassFactory",
    "TestParam",
    "get_tap_test_class",
    "get_target_test_class",
    "parametrize",
]


class StreamTestParams(NamedTuple):
    """Arguments that pytest passes to a test of one stream."""

    stream: Stream


class StreamAttributeTestParams(NamedTuple):
    """Arguments that pytest passes to a test of one property (attribute) of a stream."""

    stream: Stream
    attribute_name: str


@dataclass(frozen=True)
class TestParam:
    """Arguments for one run of a parametrized test method.

    ``id`` is the name that pytest shows for the run, such as ``users.email``.
    """

    __test__ = False  # pytest would collect it wherever it is imported

    id: str
    values: StreamTestParams | StreamAttributeTestParams


class BaseTestClass:
    """Base class of the generated pytest classes with the standard tests of a tap or target.

    The dict ``params`` contains a list of `TestParam` for each test method, by the name of the
    method. pytest runs the method once per `TestParam`.
    """

    params: ClassVar[dict[str, list[TestParam]]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if BaseTestClass in cls.__bases__:  # an author's subclass inherits them
            cls.params = {}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrize a test method with its arguments in ``params``. pytest calls this hook."""
        parametrize(metafunc, type(self))


def parametrize(metafunc: pytest.Metafunc, cls: type[BaseTestClass]) -> None:
    """Parametrize a test method of a generated class with its arguments in ``cls.params``.

    If a subclass overrides the method with one that has none of these parameters, it is not
    parametrized, and pytest runs it once.
    """
    params = cls.params.get(metafunc.definition.originalname)
    if params:
        names = params[0].values._fields
        if set(names) & set(metafunc.fixturenames):
            metafunc.parametrize(names, [pytest.param(*p.values, id=p.id) for p in params])


class TapTestClassFactory:
    """Factory of pytest classes that run the standard tests on one tap."""

    def __init__(self, tap_class: type[Tap], *, config: Mapping[str, Any] | None = None) -> None:
        self.tap_class = tap_class
        self.config = config

    def new_test_class(
        self,
        *,
        include_tap_tests: bool = True,
        include_stream_tests: bool = True,
        include_stream_attribute_tests: bool = True,
        custom_suites: Iterable[SingerTestSuite[Any]] | None = None,
        suite_config: SuiteConfig | None = None,
        **kwargs: Any,
    ) -> type[BaseTestClass]:
        """Return a new pytest class with the standard tests that the ``include_…`` flags select.

        ``custom_suites`` are added to these tests, ``suite_config`` has the options of the tests,
        and ``kwargs`` are further arguments of the tap.
        """
        standard = (
            (include_tap_tests, tap_tests),
            (include_stream_tests, tap_stream_tests),
            (include_stream_attribute_tests, tap_stream_attribute_tests),
        )
        suites = [
            *(custom_suites or ()),
            *(suite for is_included, suite in standard if is_included),
        ]
        kwargs.setdefault("parse_env_config", True)
        runner = TapTestRunner(self.tap_class, self.config, suite_config, **kwargs)
        test_class = _make_tap_test_class(runner)
        streams = list(runner.new_tap().streams.values()) if _has_stream_tests(suites) else []
        for suite in suites:
            _add_suite(test_class, suite, streams)
        return test_class


def get_tap_test_class(
    tap_class: type[Tap],
    *,
    config: Mapping[str, Any] | None = None,
    include_tap_tests: bool = True,
    include_stream_tests: bool = True,
    include_stream_attribute_tests: bool = True,
    custom_suites: Iterable[SingerTestSuite[Any]] | None = None,
    suite_config: SuiteConfig | None = None,
    **kwargs: Any,
) -> type[BaseTestClass]:
    """Return a pytest class with the standard tests of a tap.

    Assign the class to a name that begins with ``Test``, so that pytest collects it. This call
    discovers the streams. Their records are read once, before the first test of the class.

    Args:
        tap_class: Class of the tap.
        config: Configuration of the tap.
        include_tap_tests: True to include the tests of the tap.
        include_stream_tests: True to include the tests of each stream.
        include_stream_attribute_tests: True to include the tests of each property.
        custom_suites: Test suites to add to the standard ones.
        suite_config: Record limits, and streams that may be empty.
        **kwargs: Further arguments of the tap, such as ``catalog`` and ``state``.
    """
    return TapTestClassFactory(tap_class, config=config).new_test_class(
        include_tap_tests=include_tap_tests,
        include_stream_tests=include_stream_tests,
        include_stream_attribute_tests=include_stream_attribute_tests,
        custom_suites=custom_suites,
        suite_config=suite_config,
        **kwargs,
    )


def _make_tap_test_class(test_runner: TapTestRunner) -> type[BaseTestClass]:
    """Return a pytest class with the fixtures for the standard tests of a tap, but no tests yet."""

    class TapTestClass(BaseTestClass):
        """Generated pytest class with the standard tests of a tap."""

        @pytest.fixture
        def config(self) -> SuiteConfig:
            """Options of the tests, as passed in ``suite_config`` when the class was created."""
            return test_runner.suite_config

        @pytest.fixture
        def resource(self) -> Any:
            """External resource of the tests: None, unless the author overrides this fixture."""

        @pytest.fixture
        def stream(self) -> Stream:
            """Fail the test, because pytest uses this fixture only if the tap has no streams."""
            name = test_runner.singer_class.name
            raise AssertionError(f"'{name}' has no streams to test: discover_streams() is empty.")

        @pytest.fixture(scope="class")
        @classmethod
        def runner(cls) -> TapTestRunner:
            """Test runner of the tap, after it has synced all streams once for this class."""
            test_runner.sync_all()
            return test_runner

    return TapTestClass


class TargetTestClassFactory:
    """Factory of pytest classes that run the standard tests on one target."""

    def __init__(
        self, target_class: type[Target], *, config: Mapping[str, Any] | None = None
    ) -> None:
        self.target_class = target_class
        self.config = config

    def new_test_class(
        self,
        *,
        custom_suites: Iterable[SingerTestSuite[Any]] | None = None,
        suite_config: SuiteConfig | None = None,
        include_target_tests: bool = True,
        **kwargs: Any,
    ) -> type[BaseTestClass]:
        """Return a new pytest class with the tests of the target.

        ``custom_suites`` are added to the standard tests, ``suite_config`` has the options of the
        tests, and ``kwargs`` are further arguments of the target.
        """
        suites = [*(custom_suites or ()), *([target_tests] if include_target_tests else ())]
        kwargs.setdefault("parse_env_config", True)
        test_class = _make_target_test_class(self.target_class, self.config, suite_config, kwargs)
        for suite in suites:
            for template in suite.tests if suite.kind == "target" else ():
                name = f"test_{suite.kind}_{template.name}"
                setattr(test_class, name, staticmethod(_make_test_function(name, template)))
        return test_class


def get_target_test_class(
    target_class: type[Target],
    *,
    config: Mapping[str, Any] | None = None,
    custom_suites: Iterable[SingerTestSuite[Any]] | None = None,
    suite_config: SuiteConfig | None = None,
    include_target_tests: bool = True,
    **kwargs: Any,
) -> type[BaseTestClass]:
    """Return a pytest class with the standard tests of a target.

    Assign the class to a name that begins with ``Test``, so that pytest collects it. Each test
    creates a new target.

    Args:
        target_class: Class of the target.
        config: Configuration of the target.
        custom_suites: Test suites to add to the standard ones.
        suite_config: Configuration of the tests.
        include_target_tests: True to include the standard tests.
        **kwargs: Further arguments of the target.
    """
    return TargetTestClassFactory(target_class, config=config).new_test_class(
        custom_suites=custom_suites,
        suite_config=suite_config,
        include_target_tests=include_target_tests,
        **kwargs,
    )


def _make_target_test_class(
    target_class: type[Target],
    settings: Mapping[str, Any] | None,
    suite_config: SuiteConfig | None,
    kwargs: Mapping[str, Any],
) -> type[BaseTestClass]:
    """Return a pytest class with the fixtures for the tests of a target, but no tests yet."""

    class TargetTestClass(BaseTestClass):
        """Generated pytest class with the standard tests of a target."""

        @pytest.fixture
        def config(self) -> SuiteConfig:
            """Options of the tests, as passed in ``suite_config`` when the class was created."""
            return suite_config or SuiteConfig()

        @pytest.fixture
        def resource(self) -> Any:
            """External resource of the tests: None, unless the author overrides this fixture."""

        @pytest.fixture
        def runner(self) -> TargetTestRunner:
            """New test runner for the target, one per test."""
            return TargetTestRunner(target_class, settings, suite_config, **kwargs)

    return TargetTestClass


def _has_stream_tests(suites: Iterable[SingerTestSuite[Any]]) -> bool:
    return any(suite.kind in {"tap_stream", "tap_stream_attribute"} for suite in suites)


def _add_suite(
    cls: type[BaseTestClass], suite: SingerTestSuite[Any], streams: Sequence[Stream]
) -> None:
    """Add the tests of a suite to a test class, as methods ``test_<kind>_<name>``.

    A stream test is parametrized with all ``streams``. A property test is parametrized with the
    properties to which it applies. Without such properties, the test is omitted.
    """
    for template in suite.tests:
        name = f"test_{suite.kind}_{template.name}"
        if suite.kind == "tap_stream":
            cls.params[name] = [
                TestParam(stream.name, StreamTestParams(stream)) for stream in streams
            ]
        elif suite.kind == "tap_stream_attribute":
            params = list(_iterate_attribute_params(template, streams))
            if not params:
                continue
            cls.params[name] = params
        elif suite.kind != "tap":
            continue
        setattr(cls, name, staticmethod(_make_test_function(name, template)))


def _iterate_attribute_params(
    template: type[AttributeTestTemplate], streams: Iterable[Stream]
) -> Iterator[TestParam]:
    """Yield a `TestParam` for each property that a property test applies to."""
    for stream in streams:
        schema = stream.stream_maps[-1].transformed_schema
        for name, definition in schema.get("properties", {}).items():
            if template.evaluate(stream=stream, property_name=name, property_schema=definition):
                yield TestParam(f"{stream.name}.{name}", StreamAttributeTestParams(stream, name))


def _make_test_function(name: str, template: type[TestTemplate[Any]]) -> Callable[..., None]:
    """Return a pytest function that runs a new instance of a test template.

    ``name`` is the name of the function. Its parameters are those of the template's method ``run``,
    so that pytest passes fixtures for them.
    """

    def test(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        template().run(*args, **kwargs)

    _, *parameters = inspect.signature(template.run).parameters.values()
    test.__dict__["__signature__"] = inspect.Signature(parameters)
    test.__name__ = test.__qualname__ = name
    test.__doc__ = template.__doc__
    return test
