"""Jinja environment for the templates of a manifest, with limits on time and memory.

Every operation that can make a large result from small input, or take long, is intercepted:
operators, ``~``, comparisons, lists and dicts, slices, calls, filters, tests, loop iterations, and
the joining of output. For each, the template's running time and the size of the result are checked.
Filters that future Jinja versions add are limited too.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from functools import cache, wraps
from types import BuiltinFunctionType, MethodType
from typing import Any, Final

from jinja2 import nodes, pass_context
from jinja2.sandbox import SandboxedEnvironment
from jinja2.visitor import NodeTransformer

from tap_core.exceptions import LimitExceededError
from tap_core.limits.bounded_operations import (
    TEMPLATE_LENGTH,
    TEMPLATE_SECONDS,
    Bounds,
    measure_size,
)
from tap_core.manifest.decimal_conversion import as_float, convert_each, decimals_to_floats
from tap_core.manifest.macros import FILTERS, MACROS

__all__ = ["Sandbox", "limit_rendering"]

# Names of internal filters. They contain spaces, so that no template can use them.
_LOOP_FILTER: Final = "each round"
_CONTAINER_FILTER: Final = "created container"
_JOIN_FILTER: Final = "joined text"
_SLICE_FILTER: Final = "part of a value"
_COMPARED_FILTER: Final = "compared value"

_MAX_NUMBER: Final = 100_000
"""Maximum of a number in a filter's arguments, such as a width or a precision."""
_TOTAL_FACTOR: Final = 4
"""Maximum total size of all values in one rendering, as a multiple of the length limit."""
_UNITS_PER_CALL: Final = 12
"""Units that each call and each new container adds to the total size of a rendering.

A unit is 8 bytes, the size of a list item.
"""
_UNITS_PER_MEMBER: Final = 5
"""Units that each member of a new dict adds to the total size of a rendering."""
_UNITS_PER_JSON_CHARACTER: Final = 4
"""Units that each character of parsed JSON adds to the total size: ``{},`` becomes 72 bytes."""
_UNITS_PER_TEXT: Final = 10
"""Units that a new short text adds to the total size, also a character outside of ASCII."""
_COMPARED_FACTOR: Final = 10
"""Maximum size of the values that a filter compares, as a multiple of the length limit."""
_MAX_COMPARED: Final = 1_000_000
"""Maximum number of items that a filter compares."""
_MAX_PATH_LENGTH: Final = 1_000
"""Maximum number of characters in an attribute path that a filter such as ``sort`` compares by."""

_CONTAINERS: Final = (dict, list, tuple, set, frozenset)
_NUMBER_FILTERS: Final = frozenset(
    {"d", "default", "float", "format", "int", "sum", "abs", "min", "max"}
)
"""Filters with numbers as values, whose size is not limited by `_MAX_NUMBER`."""
_ITEM_FILTERS: Final = frozenset(
    {
        *("attr", "batch", "count", "d", "default", "dictsort", "first", "groupby", "items"),
        *("last", "length", "list", "map", "max", "min", "random", "reject", "rejectattr"),
        *("reverse", "select", "selectattr", "slice", "sort", "unique"),
    }
)
"""Filters that return items of a container unchanged; other filters may convert them to text."""
_COMPARING_FILTERS: Final = frozenset(
    {"dictsort", "groupby", "max", "min", "sort", "sum", "unique"}
)
"""Filters that compare or add the items of a container."""
_LISTING_FILTERS: Final = frozenset({"batch", "groupby", "list", "slice", "sort"})
"""Filters that convert a text to a list of its characters."""
_COMPARING_METHODS: Final = frozenset({"count", "index", "remove", "sort"})
"""Methods of a list that compare its items."""
_MAX_SCANNED: Final[Mapping[str, int]] = {
    "pprint": 100_000,
    "striptags": 1_000_000,
    "title": 1_000_000,
    "urlize": 1_000_000,
    "wordwrap": 100_000,
    "xmlattr": 1_000_000,
}
"""Maximum number of input characters, for filters that read their input more than once."""


@cache
def _bounds() -> Bounds:
    hint = f"make it smaller, or raise {TEMPLATE_LENGTH.variable}"
    return Bounds(TEMPLATE_LENGTH.whole, hint)


class _Rendering:
    """Deadline and size limits of one rendering of a template.

    `total_size` is the size of all values that the rendering has created so far.
    """

    __slots__ = ("bounds", "deadline", "total_size")

    def __init__(self) -> None:
        self.deadline = time.monotonic() + TEMPLATE_SECONDS.value
        self.bounds = _bounds()
        self.total_size = 0


_current: Final = threading.local()


@contextmanager
def limit_rendering() -> Iterator[_Rendering]:
    """Context manager that limits the time and size of all template renderings of this thread.

    The limits apply to all renderings inside the block together. A nested block shares the limits
    of the outer block. As a decorator, ``@limit_rendering()`` limits each call of a function.
    """
    outer = getattr(_current, "run", None)
    _current.run = run = _Rendering() if outer is None else outer
    try:
        yield run
    finally:
        _current.run = outer


def _check_deadline() -> Bounds:
    """Raise LimitExceededError if the current rendering takes too long; return its size limits."""
    run: _Rendering | None = getattr(_current, "run", None)
    if run is None:  # outside of a rendering
        return _bounds()
    if time.monotonic() > run.deadline:
        raise LimitExceededError(
            f"A template takes longer than {TEMPLATE_SECONDS.value:g} seconds: simplify it, or"
            f" raise {TEMPLATE_SECONDS.variable}."
        )
    return run.bounds


def _count_size(value: Any) -> Any:
    """Add the length of an intermediate result to the total size of a rendering; return the result.

    Raises:
        LimitExceededError: The total size exceeds its limit.
    """
    if isinstance(value, (str, bytes, *_CONTAINERS)):
        _count(len(value))
    return value


def _count(units: int) -> None:
    """Add a number of units to the total size of all values in the current rendering.

    Raises:
        LimitExceededError: The total exceeds its limit.
    """
    run: _Rendering | None = getattr(_current, "run", None)
    if run is not None:
        run.total_size += units
        if run.total_size > _TOTAL_FACTOR * run.bounds.most:
            run.bounds.check(run.total_size)


def _join(parts: Iterable[str]) -> str:
    """Join the output texts of a template, if their total size is within the limit.

    Raises:
        LimitExceededError: The total size or the running time exceeds its limit.
    """
    items = list(parts)
    _check_deadline().check(sum(map(len, items)))
    text: str = _count_size("".join(items))
    return text


class Sandbox(SandboxedEnvironment):
    """Jinja environment for untrusted templates, with limits on their time and memory."""

    intercepted_binops = frozenset({"+", "*", "%", "**", "//"})
    concat = staticmethod(_join)

    def __init__(self, finalize: Callable[[Any], Any] = decimals_to_floats) -> None:
        super().__init__(finalize=lambda value: finalize(_check_size(value)))
        for name, function in {**self.filters, **FILTERS}.items():
            self.filters[name] = _limit_filter(name, function)
        self.filters[_LOOP_FILTER] = _iterate_checked
        self.filters[_CONTAINER_FILTER] = _count_container
        self.filters[_JOIN_FILTER] = _join_values
        self.filters[_SLICE_FILTER] = _count_size
        self.filters[_COMPARED_FILTER] = _check_size
        self.tests["divisibleby"] = _is_divisible
        tests: Any = self.tests
        self.tests = {name: _limit_test(test) for name, test in tests.items()}
        self.policies["json.dumps_kwargs"] = {"sort_keys": True, "default": _encode_decimal}
        self.globals.update(MACROS)
        for name in ("range", "lipsum"):
            self.globals.pop(name)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Return True if a template may read an attribute of an object.

        ``_partition`` is allowed because templates of older manifests read it from slices.
        """
        return attr == "_partition" or super().is_safe_attribute(obj, attr, value)

    # Templates calculate with floats, not with Decimals.

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return ``obj[argument]`` for a template; a Decimal becomes a float for calculations.

        Filters such as ``map(attribute=…)`` call it for each item and each part of a path.
        """
        _check_deadline()
        return as_float(super().getitem(obj, _check_size(argument)))

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return ``obj.attribute`` for a template; a Decimal becomes a float for calculations."""
        return as_float(super().getattr(obj, attribute))

    def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a function or method for a template; raise an error if a limit is exceeded."""
        bounds = _check_deadline()
        _check_call(obj, [*args, *kwargs.values()])
        if isinstance(obj, (BuiltinFunctionType, MethodType)) and self.is_safe_callable(obj):
            for name in ("_loop_vars", "_block_vars"):  # set by Jinja
                kwargs.pop(name, None)
            result = _count_size(bounds.call(obj, *args, **kwargs))
            if isinstance(result, list) and isinstance(obj.__self__, (str, bytes)):  # of split()
                _count(_UNITS_PER_TEXT * len(result))
            return as_float(result)
        return as_float(_count_size(super().call(context, obj, *args, **kwargs)))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Return a replacement for a ``str.format`` method that limits the size of its result.

        Jinja calls this for each attribute that a template reads. Return None if ``value`` is not a
        ``str.format`` method.
        """
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None
        text = value.__self__
        fill = wrapped

        def format_text(*args: Any, **kwargs: Any) -> str:
            _check_deadline().check_format(text, args, kwargs)
            return fill(*convert_each(args), **convert_each(kwargs))

        return format_text

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Return the result of a binary operator such as ``+`` in a template.

        Raises:
            LimitExceededError: The result would be too large.
        """
        bounds = _check_deadline()
        if operator == "+":
            return _count_size(bounds.add(left, right))
        if operator == "*":
            return _count_size(bounds.multiply(left, right))
        if operator == "%":
            convert = convert_each if right.__class__ in {tuple, dict} else decimals_to_floats
            return _count_size(bounds.modulo(left, convert(right)))
        if operator == "//":
            return bounds.floor_divide(left, right)
        if operator == "**":
            return bounds.power(left, right)
        return super().call_binop(context, operator, left, right)

    def compiled(self, tree: nodes.Template) -> Any:
        """Compile a parsed template so that its operations check the limits of time and size."""
        return self.from_string(_LimitInserter().visit(tree))


class _LimitInserter(NodeTransformer):
    """Transformer of a template's syntax tree that adds limit checks.

    The checks are added to loops, ``~``, comparisons, slices, and new lists, tuples and dicts.
    """

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802  Jinja's name
        """Wrap the iterable of a loop in a filter that checks the time at each iteration."""
        self.generic_visit(node)
        node.iter = _wrap_in_filter(_LOOP_FILTER, node.iter)
        return node

    def visit_Concat(self, node: nodes.Concat) -> Any:  # noqa: N802  Jinja's name
        """Replace a concatenation (``~``) with a filter that joins within the limits."""
        self.generic_visit(node)
        return _wrap_in_filter(_JOIN_FILTER, nodes.List(node.nodes, lineno=node.lineno))

    def visit_List(self, node: nodes.List | nodes.Dict) -> Any:  # noqa: N802  Jinja's name
        """Wrap the creation of a list or dict in a filter that checks its size."""
        self.generic_visit(node)
        return _wrap_in_filter(_CONTAINER_FILTER, node)

    visit_Dict = visit_List  # noqa: N815  Jinja's name

    def visit_Tuple(self, node: nodes.Tuple) -> Any:  # noqa: N802  Jinja's name
        """Wrap the creation of a tuple in a filter that checks its size."""
        self.generic_visit(node)
        return _wrap_in_filter(_CONTAINER_FILTER, node) if node.ctx == "load" else node

    def visit_Getitem(self, node: nodes.Getitem) -> Any:  # noqa: N802  Jinja's name
        """Wrap a slice in a filter that counts its size; Jinja calls no method for slices."""
        self.generic_visit(node)
        return _wrap_in_filter(_SLICE_FILTER, node) if isinstance(node.arg, nodes.Slice) else node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:  # noqa: N802  Jinja's name
        """Wrap the values of a comparison in filters that check their size.

        Nothing is added to a comparison with constants, because it is fast.
        """
        values = [node.expr, *(operand.expr for operand in node.ops)]
        is_fast = sum(not _is_constant(value) for value in values) < 2  # noqa: PLR2004  two values
        self.generic_visit(node)
        if not is_fast:
            node.expr = _wrap_in_filter(_COMPARED_FILTER, node.expr)
            for operand in node.ops:
                operand.expr = _wrap_in_filter(_COMPARED_FILTER, operand.expr)
        return node


def _is_constant(node: nodes.Expr) -> bool:
    if isinstance(node, (nodes.List, nodes.Tuple)):
        return all(map(_is_constant, node.items))
    return isinstance(node, nodes.Const)


def _wrap_in_filter(name: str, node: Any) -> Any:
    wrapped = nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
    return wrapped.set_environment(node.environment)


def _check_call(function: Any, arguments: list[Any]) -> None:
    """Check the size of a call's arguments, and add the size of its possible result to the total.

    Raises:
        LimitExceededError: A size, or the total of a rendering, exceeds its limit.
    """
    _count(_UNITS_PER_CALL)
    for arg in arguments:
        _check_size(arg)
    if function is json.loads:
        characters = sum(len(arg) for arg in arguments if isinstance(arg, (str, bytes)))
        _count(_UNITS_PER_JSON_CHARACTER * characters)
    owner = getattr(function, "__self__", None)
    if isinstance(owner, list) and getattr(function, "__name__", "") in _COMPARING_METHODS:
        _check_size(owner)


@pass_context
def _iterate_checked(_context: Any, items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        _check_deadline()
        yield tuple(map(as_float, item)) if item.__class__ is tuple else as_float(item)


def _iterate_result(items: Iterator[Any]) -> Iterator[Any]:
    """Yield the items of a filter's lazy result.

    Check the running time at each item. Add the size of each list to the total size of a rendering.
    """
    for item in items:
        _check_deadline()
        if isinstance(item, (list, tuple)):
            _count(_UNITS_PER_TEXT + len(item))
        yield as_float(item)


def _count_container(value: Any) -> Any:
    """Return ``value``, a list, tuple or dict that a template created, if it is not too large.

    Without this limit, a short template could build a list that contains another list many times,
    and so on. Comparing or hashing such a list would take very long.

    Raises:
        LimitExceededError: The value, or the total of a rendering, exceeds its limit.
    """
    size = len(value) * (_UNITS_PER_MEMBER if isinstance(value, dict) else 1)
    _count(_UNITS_PER_CALL + size)
    return _check_size(value)


@pass_context
def _join_values(_context: Any, parts: list[Any]) -> str:
    return _join(str(decimals_to_floats(_check_size(part))) for part in parts)


def _check_size(value: Any) -> Any:
    """Check the size of a list, tuple, set or dict, and return it; return other values unchecked.

    Within the limit, the value can be written as text, compared and hashed in short time.

    Raises:
        LimitExceededError: The size of the collection, with nested values, exceeds its limit.
    """
    if isinstance(value, _CONTAINERS):
        bounds = _check_deadline()
        bounds.check(measure_size(value, bounds.most))
    return value


def _encode_decimal(value: Any) -> float:
    """Convert a Decimal to a float when a value is written as JSON.

    Raises:
        TypeError: The value is not a Decimal.
    """
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _is_divisible(value: Any, num: Any) -> bool:
    return bool(_check_deadline().modulo(value, num) == 0)


def _limit_test(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a Jinja test that calls ``function`` if its arguments are within the limits."""

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        _check_deadline()
        for arg in (*args, *kwargs.values()):
            _check_size(arg)
        return function(*args, **kwargs)

    return run


def _limit_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a Jinja filter that calls ``function`` if the size of its input is within the limits.

    The filter also counts the size of the result.
    """
    passed = getattr(getattr(function, "jinja_pass_arg", None), "name", "")  # as "context"

    @pass_context
    @wraps(function)
    def run(context: Any, value: Any = "", *args: Any, **kwargs: Any) -> Any:
        bounds = _check_deadline()
        if name in _COMPARING_FILTERS and isinstance(value, Iterator):
            value = list(_iterate_checked(context, value))
        _check_filter(bounds, name, value, [*args, *kwargs.values()])
        if name not in _ITEM_FILTERS:
            is_joined = name == "join" and not isinstance(value, str)
            value = map(decimals_to_floats, value) if is_joined else decimals_to_floats(value)
            args = convert_each(args) if args else args
            kwargs = convert_each(kwargs) if kwargs else kwargs
        first = {"context": context, "environment": context.environment}.get(
            passed, context.eval_ctx
        )
        result = function(*([first] if passed else []), value, *args, **kwargs)
        if isinstance(result, Iterator):
            return _iterate_result(result)
        if isinstance(result, list) and result and isinstance(result[0], (tuple, list)):
            _count(_UNITS_PER_TEXT * len(result))
        return as_float(_count_size(result))

    return run


def _check_filter(bounds: Bounds, name: str, value: Any, arguments: list[Any]) -> None:
    numbers = [abs(arg) for arg in arguments if isinstance(arg, int)]
    if name not in _NUMBER_FILTERS and max(numbers, default=0) > _MAX_NUMBER:
        raise LimitExceededError(
            f"A number in the filter '{name}' is higher than {_MAX_NUMBER:,}: make it lower."
        )
    if isinstance(value, _CONTAINERS) and name not in _ITEM_FILTERS:
        bounds.check(measure_size(value, bounds.most))
    if name in _COMPARING_FILTERS:
        _check_compared(bounds, name, value, arguments)
    if name in _LISTING_FILTERS and isinstance(value, str) and not value.isascii():
        bounds.check(len(value) * _UNITS_PER_TEXT)
        _count(len(value) * _UNITS_PER_TEXT)
    limit = _MAX_SCANNED.get(name)
    if limit is not None and measure_size(value, limit) > limit:
        raise LimitExceededError(
            f"The filter '{name}' accepts at most {limit:,} characters: shorten its input."
        )
    estimate = _ESTIMATES.get(name)
    if estimate is not None:
        bounds.check(estimate(value, arguments, bounds))


def _check_compared(bounds: Bounds, name: str, value: Any, arguments: list[Any]) -> None:
    """Check the arguments of a filter that compares items, such as ``sort``.

    Raises:
        LimitExceededError: The container has too many items or is too large, or an attribute path
            is too long.
    """
    if isinstance(value, (str, *_CONTAINERS)) and len(value) > _MAX_COMPARED:
        raise LimitExceededError(
            f"The filter '{name}' accepts at most {_MAX_COMPARED:,} items: shorten its input."
        )
    limit = bounds.most * _COMPARED_FACTOR
    if isinstance(value, _CONTAINERS) and measure_size(value, limit) > limit:
        bounds.check(limit)
    if any(isinstance(arg, str) and len(arg) > _MAX_PATH_LENGTH for arg in arguments):
        raise LimitExceededError(
            f"An argument of the filter '{name}' has more than {_MAX_PATH_LENGTH:,} characters:"
            " shorten it."
        )


def _estimate_format(value: Any, arguments: list[Any], bounds: Bounds) -> int:
    mapping = arguments[-1] if arguments and isinstance(arguments[-1], Mapping) else None
    bounds.check_percent(str(value), mapping if mapping is not None else tuple(arguments))
    return 0


def _estimate_replace(value: Any, arguments: list[Any], _bounds: Bounds) -> int:
    text = str(value)
    old, new = [str(arg) for arg in (*arguments, "", "")][:2]
    return len(text) + text.count(old) * max(0, len(new) - len(old))


def _estimate_join(value: Any, arguments: list[Any], bounds: Bounds) -> int:
    between = max((1, *(len(arg) for arg in arguments if isinstance(arg, str))))
    count = len(value) if hasattr(value, "__len__") else 0
    return count * between + (
        measure_size(value, bounds.most) if isinstance(value, _CONTAINERS) else 0
    )


def _estimate_lines(value: Any, arguments: list[Any], _bounds: Bounds) -> int:
    """Return an upper bound for the size of the result of the filter ``indent`` or ``urlize``.

    These filters may add each of their ``arguments`` to each line or word.
    """
    text = str(value)
    added_length = sum(arg if isinstance(arg, int) else len(str(arg)) for arg in arguments)
    return len(text) + (text.count("\n") + text.count(" ") + text.count("\t") + 1) * added_length


def _estimate_wrapped(value: Any, arguments: list[Any], _bounds: Bounds) -> int:
    return len(str(value)) * max((1, *(len(arg) for arg in arguments if isinstance(arg, str))))


def _estimate_json(value: Any, arguments: list[Any], bounds: Bounds) -> int:
    indent = max((1, *(arg for arg in arguments if isinstance(arg, int))))
    return measure_size(value, bounds.most) * indent


def _estimate_sum(value: Any, arguments: list[Any], bounds: Bounds) -> int:
    is_of_lists = any(isinstance(arg, (list, tuple, str)) for arg in arguments)
    size = measure_size(value, bounds.most) if isinstance(value, _CONTAINERS) else 1
    return size * len(value) if is_of_lists and hasattr(value, "__len__") else 0


_ESTIMATES: Final[Mapping[str, Callable[[Any, list[Any], Bounds], int]]] = {
    "format": _estimate_format,
    "indent": _estimate_lines,
    "join": _estimate_join,
    "replace": _estimate_replace,
    "sum": _estimate_sum,
    "tojson": _estimate_json,
    "urlize": _estimate_lines,
    "wordwrap": _estimate_wrapped,
}
