"""Faker's values in stream map expressions: its functions, and no access to its objects."""

from __future__ import annotations

import datetime as dt
import sys
from types import SimpleNamespace

import pytest

from tap_core.exceptions import MapExpressionError
from tap_core.mapper.expressions import ExpressionScope, compile_expression, parse_expression
from tap_core.mapper.fake_values import FakeValues
from tap_core.mapper.functions import map_functions
from tests.peers import HOME

GETTER = "fake.get_formatter('__class__').get_formatter"
"""The method of Faker 4 to 40 by which an expression reads any attribute of any object."""

EVAL = f"{GETTER}({GETTER}, '__globals__')['__builtins__']['eval']"


class Provider:
    """A provider of made-up values, with functions of the kinds that Faker has."""

    def __init__(self, generator):
        self.generator = generator

    def name(self):
        return "Ada"

    def pystr(self, min_chars=0, max_chars=20):
        return "x" * max(min_chars, max_chars)

    def pyint(self, min_value=0, max_value=9999):
        return max_value

    def json(self, data_columns):
        return self.generator.format(*data_columns)

    def pylist(self, value_types):
        return [self.generator.format(kind) for kind in value_types]

    def pyobject(self, kinds):
        return kinds

    def time_series(self, count):
        return iter(range(count))


class Generator:
    """The object behind `Faker`, which knows the functions of the providers."""

    def __init__(self):
        self.providers = [Provider(self)]

    def get_formatter(self, formatter):
        return getattr(self, formatter)

    def format(self, formatter, *args):
        return self.get_formatter(formatter)(*args)

    def seed_instance(self, seed):
        pass

    def __getattr__(self, name):
        return getattr(self.providers[0], name)


class Faker:
    """A stand-in for Faker's class of this name, with its objects and ways to them."""

    def __init__(self):
        self.factories = [Generator()]
        first_factory = self.factories[0]
        self.unique = SimpleNamespace(name=lambda: "only Ada", pylist=first_factory.pylist)

    def __getitem__(self, locale):
        return self.factories[0]

    def __getattr__(self, name):
        return getattr(self.factories[0], name)


def evaluate(text, faker=None):
    scope = ExpressionScope(map_functions(), {"fake": FakeValues(faker or Faker())})
    tree = parse_expression(text, "a test")
    return compile_expression(text, tree.value, scope, "a test").run({})


@pytest.mark.parametrize(
    "text, value",
    [
        ("fake.name()", "Ada"),
        ("fake.unique.name()", "only Ada"),
        ("fake['de_DE'].name()", "Ada"),
        ("fake.seed_instance(1) or fake.name()", "Ada"),
        ("fake.pyint(max_value=10**9)", 10**9),
        ("fake.pystr(max_chars=3)", "xxx"),
        ("fake.pyobject([str, list])", [str, list]),
        ("fake.pylist(['name', 'pyint'])", ["Ada", 9999]),
        ("fake.time_series(3)", [0, 1, 2]),
    ],
)
def test_functions_of_providers_are_available(text, value):
    assert evaluate(text) == value


@pytest.mark.parametrize(
    "text",
    [
        EVAL,
        "fake.factories[0]",
        "fake.generator",
        "fake.random",
        "fake.format('name')",
        "fake.unique.get_formatter('x')",
        "fake['de_DE'].get_formatter('x')",
        "fake.add_provider('x')",
        "fake.set_formatter('x', fake.name)",
        "fake.json(['name', fake.name])",
        "fake.json({'a': json.JSONEncoder})",
        "fake.pyobject(json)",
        "fake.pylist(['__class__'])",
        "fake.unique.pylist(['get_formatter'])",
        "fake.json(['get_formatter', '__class__'])",
    ],
)
def test_objects_of_faker_are_out_of_reach(text):
    """SEC14: no expression gets an object of Faker, or gives it a function."""
    with pytest.raises(MapExpressionError, match=r"is (not available|no argument)"):
        evaluate(text)


@pytest.mark.parametrize(
    "text",
    [
        "fake.pystr(100001)",
        "fake.pystr(max_chars=10**9)",
        "fake.pystr(1e9)",
        "fake.json([['pystr', {'max_chars': 10**9}]])",
    ],
)
def test_size_of_values_is_limited(text):
    """SEC14: no function of Faker makes a value of more than 100,000 characters or items."""
    with pytest.raises(MapExpressionError, match="more than 100,000 characters or items"):
        evaluate(text)


def test_series_without_end_is_limited(monkeypatch):
    """SEC14: items of an iterator are counted."""
    monkeypatch.setattr(Provider, "time_series", lambda _: iter(int, 1))
    with pytest.raises(MapExpressionError, match="more than 100,000 characters or items"):
        evaluate("fake.time_series()")


@pytest.mark.thorough
def test_real_faker_is_out_of_reach(monkeypatch, tmp_path):
    """SEC14: the same with the package itself, which other environments have."""
    package = next(HOME.glob("*/lib/python3*/site-packages/faker"), None)
    if package is None:
        pytest.skip("no environment has Faker")
    (tmp_path / "faker").symlink_to(package)
    monkeypatch.syspath_prepend(str(tmp_path))
    faker = pytest.importorskip("faker").Faker()
    try:
        assert isinstance(evaluate("fake.unique.email()", faker), str)
        assert isinstance(evaluate("fake.date_between('-30d', 'today')", faker), dt.date)
        assert len(evaluate("fake.random_letters(length=7)", faker)) == 7
        assert evaluate("fake.pystr_format('{{random_digit}}')", faker).isdigit()
        for text in (
            EVAL,
            "fake.random.choices('ab', k=10)",
            "fake.pystr(10**9, 10**9)",
            "fake.pylist(1, False, value_types=['__class__'])",
            "fake.json(['get_formatter', '__class__'])",
            "fake.json([{'a': 'get_formatter:x'}])",
            "fake.pystr_format('{{__getstate__}}')",
        ):
            with pytest.raises(MapExpressionError):
                evaluate(text, faker)
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "faker"]:
            del sys.modules[name]
