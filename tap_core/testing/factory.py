"""Makes a class of tests out of the class of a tap or a target.

Rules of the room: the class is what pytest collects, and everything about it is decided
when it is made: names, ids, which property gets which test. It carries its own hook, so no
pytest plugin is needed. Names are singer_sdk's (version 0.54).
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
    """What a test of a stream is called with."""

    stream: Stream


class StreamAttributeTestParams(NamedTuple):
    """What a test of a property is called with."""

    stream: Stream
    attribute_name: str


@dataclass(frozen=True)
class TestParam:
    """One call of a test: its id, and the arguments by name."""

    __test__ = False  # pytest would collect it wherever it is imported

    id: str
    values: StreamTestParams | StreamAttributeTestParams


class BaseTestClass:
    """A class of generated tests; ``params`` says which test is called with what."""

    params: ClassVar[dict[str, list[TestParam]]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if BaseTestClass in cls.__bases__:  # an author's subclass has the same
            cls.params = {}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Call each test with its parameters; an author's override of a test too."""
        parametrize(metafunc, type(self))


def parametrize(metafunc: pytest.Metafunc, cls: type[BaseTestClass]) -> None:
    """Call a test of a generated class with its parameters.

    An author's override that asks for none of them is called once.
    """
    params = cls.params.get(metafunc.definition.originalname)
    if params:
        names = params[0].values._fields
        if set(names) & set(metafunc.fixturenames):
            metafunc.parametrize(names, [pytest.param(*p.values, id=p.id) for p in params])


class TapTestClassFactory:
    """Makes classes of tests of one tap."""

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
        """Make a class; the arguments are those of `get_tap_test_class`."""
        standard = (
            (include_tap_tests, tap_tests),
            (include_stream_tests, tap_stream_tests),
            (include_stream_attribute_tests, tap_stream_attribute_tests),
        )
        suites = [*(custom_suites or ()), *(suite for wanted, suite in standard if wanted)]
        kwargs.setdefault("parse_env_config", True)
        runner = TapTestRunner(self.tap_class, self.config, suite_config, **kwargs)
        made = _tap_test_class(runner, suite_config or SuiteConfig())
        streams = list(runner.new_tap().streams.values()) if _any_of_streams(suites) else []
        for suite in suites:
            _add_suite(made, suite, streams)
        return made


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
    """Make a class of tests that pytest collects under a name that begins with ``Test``.

    Streams are discovered here, and read once per class when its first test runs.
    ``kwargs`` are what the tap is called with, such as ``catalog`` and ``state``.
    """
    return TapTestClassFactory(tap_class, config=config).new_test_class(
        include_tap_tests=include_tap_tests,
        include_stream_tests=include_stream_tests,
        include_stream_attribute_tests=include_stream_attribute_tests,
        custom_suites=custom_suites,
        suite_config=suite_config,
        **kwargs,
    )


def _tap_test_class(test_runner: TapTestRunner, suite_config: SuiteConfig) -> type[BaseTestClass]:
    """Make a class with its fixtures and no test yet."""

    class TapTestClass(BaseTestClass):
        """Tests of a tap."""

        @pytest.fixture
        def config(self) -> SuiteConfig:
            """What was asked of the tests."""
            return suite_config

        @pytest.fixture
        def resource(self) -> Any:
            """Nothing; for authors whose tests need something outside."""

        @pytest.fixture
        def stream(self) -> Stream:
            """Fail: tests of streams are called with one, unless there is none."""
            name = test_runner.singer_class.name
            raise AssertionError(f"'{name}' has no streams to test: discover_streams() is empty.")

        @pytest.fixture(scope="class")
        @classmethod
        def runner(cls) -> TapTestRunner:
            """The runner, after it has read all streams once."""
            test_runner.sync_all()
            return test_runner

    return TapTestClass


class TargetTestClassFactory:
    """Makes classes of tests of one target."""

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
        """Make a class; the arguments are those of `get_target_test_class`."""
        suites = [*(custom_suites or ()), *([target_tests] if include_target_tests else ())]
        kwargs.setdefault("parse_env_config", True)
        made = _target_test_class(self.target_class, self.config, suite_config, kwargs)
        for suite in suites:
            for template in suite.tests if suite.kind == "target" else ():
                name = f"test_{suite.kind}_{template.name}"
                setattr(made, name, staticmethod(_test_function(name, template)))
        return made


def get_target_test_class(
    target_class: type[Target],
    *,
    config: Mapping[str, Any] | None = None,
    custom_suites: Iterable[SingerTestSuite[Any]] | None = None,
    suite_config: SuiteConfig | None = None,
    include_target_tests: bool = True,
    **kwargs: Any,
) -> type[BaseTestClass]:
    """Make a class of tests that pytest collects under a name that begins with ``Test``.

    Each test runs a new target, with a runner of its own. ``kwargs`` are what the target is
    called with.
    """
    return TargetTestClassFactory(target_class, config=config).new_test_class(
        custom_suites=custom_suites,
        suite_config=suite_config,
        include_target_tests=include_target_tests,
        **kwargs,
    )


def _target_test_class(
    target_class: type[Target],
    settings: Mapping[str, Any] | None,
    suite_config: SuiteConfig | None,
    kwargs: Mapping[str, Any],
) -> type[BaseTestClass]:
    """Make a class with its fixtures and no test yet."""

    class TargetTestClass(BaseTestClass):
        """Tests of a target."""

        @pytest.fixture
        def config(self) -> SuiteConfig:
            """What was asked of the tests."""
            return suite_config or SuiteConfig()

        @pytest.fixture
        def resource(self) -> Any:
            """Nothing; for authors whose tests need something outside."""

        @pytest.fixture
        def runner(self) -> TargetTestRunner:
            """A runner of the target, which has not run yet."""
            return TargetTestRunner(target_class, settings, suite_config, **kwargs)

    return TargetTestClass


def _any_of_streams(suites: Iterable[SingerTestSuite[Any]]) -> bool:
    return any(suite.kind in {"tap_stream", "tap_stream_attribute"} for suite in suites)


def _add_suite(
    cls: type[BaseTestClass], suite: SingerTestSuite[Any], streams: Sequence[Stream]
) -> None:
    """Add the tests of a suite; those of a property only where there is one."""
    for template in suite.tests:
        name = f"test_{suite.kind}_{template.name}"
        if suite.kind == "tap_stream":
            cls.params[name] = [TestParam(each.name, StreamTestParams(each)) for each in streams]
        elif suite.kind == "tap_stream_attribute":
            params = list(_attribute_params(template, streams))
            if not params:
                continue
            cls.params[name] = params
        elif suite.kind != "tap":
            continue
        setattr(cls, name, staticmethod(_test_function(name, template)))


def _attribute_params(
    template: type[AttributeTestTemplate], streams: Iterable[Stream]
) -> Iterator[TestParam]:
    """Yield each property that a test is for."""
    for stream in streams:
        schema = stream.stream_maps[-1].transformed_schema
        for name, definition in schema.get("properties", {}).items():
            if template.evaluate(stream=stream, property_name=name, property_schema=definition):
                yield TestParam(f"{stream.name}.{name}", StreamAttributeTestParams(stream, name))


def _test_function(name: str, template: type[TestTemplate[Any]]) -> Callable[..., None]:
    """Make the function that pytest calls: it runs the template, on an object of its own.

    It asks for the fixtures that the template's ``run`` asks for.
    """

    def test(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        template().run(*args, **kwargs)

    _, *asked = inspect.signature(template.run).parameters.values()
    test.__dict__["__signature__"] = inspect.Signature(asked)
    test.__name__ = test.__qualname__ = name
    test.__doc__ = template.__doc__
    return test
