"""Jinja's environment for templates: a sandbox in which time and memory have bounds.

Every operation that can make much of little passes through here: operators, ``~``, calls,
filters, rounds of loops, and the joining of output. Each checks how long the template has run and
how large its result would be. Filters that Jinja adds one day are bounded as all others are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, wraps
from types import BuiltinFunctionType, MethodType
from typing import Any, Final

from jinja2 import nodes, pass_context
from jinja2.sandbox import SandboxedEnvironment
from jinja2.visitor import NodeTransformer

from tap_core.exceptions import LimitExceededError
from tap_core.limits.expressions import TEMPLATE_LENGTH, TEMPLATE_SECONDS, Bounds, weight
from tap_core.manifest.float_literals import as_float, decimals_to_floats
from tap_core.manifest.macros import FILTERS, MACROS

__all__ = ["Sandbox", "bounded", "running"]

_EACH: Final = "each round"
_JOINED: Final = "joined text"
"""Names of filters that no template can write."""

_MOST_COUNT: Final = 100_000
"""What a width, a precision or a number of parts may be."""
_MOST_IN_ALL: Final = 4
"""How many values of the greatest length a template may make."""

_HOLDERS: Final = (dict, list, tuple, set, frozenset)
_ANY_NUMBER: Final = frozenset({"d", "default", "float", "int", "sum", "abs", "min", "max"})
_KEEPS_PARTS: Final = frozenset(
    {
        *("attr", "batch", "count", "d", "default", "dictsort", "first", "groupby", "items"),
        *("last", "length", "list", "map", "max", "min", "random", "reject", "rejectattr"),
        *("reverse", "select", "selectattr", "slice", "sort", "unique"),
    }
)
"""Filters that hand on what a list or mapping holds; all others may write it out."""
_MOST_SCANNED: Final[Mapping[str, int]] = {
    "pprint": 100_000,
    "striptags": 1_000_000,
    "urlize": 1_000_000,
    "wordwrap": 100_000,
    "xmlattr": 1_000_000,
}
"""Characters that a filter may be given which goes through them more than once."""


@cache
def _bounds() -> Bounds:
    hint = f"make less of it, or raise {TEMPLATE_LENGTH.variable}"
    return Bounds(TEMPLATE_LENGTH.whole, hint)


class _Run:
    """One rendering of a template."""

    __slots__ = ("bounds", "deadline", "made")

    def __init__(self) -> None:
        self.deadline = time.monotonic() + TEMPLATE_SECONDS.value
        self.bounds = _bounds()
        self.made = 0


_present: Final = threading.local()


@contextmanager
def running() -> Iterator[_Run]:
    """Bound everything that this thread renders, as one rendering."""
    outer = getattr(_present, "run", None)
    _present.run = run = _Run() if outer is None else outer
    try:
        yield run
    finally:
        _present.run = outer


def bounded(
    render: Callable[[Mapping[str, Any]], str],
) -> Callable[[Mapping[str, Any]], str]:
    """Return a function that renders within bounds."""

    def run(scope: Mapping[str, Any]) -> str:
        with running():
            return render(scope)

    return run


def _step() -> Bounds:
    """Count a step of the present rendering; return what bounds its result.

    Raises:
        LimitExceededError: the rendering takes too long.
    """
    run: _Run = getattr(_present, "run", None) or _Run()
    if time.monotonic() > run.deadline:
        raise LimitExceededError(
            f"A template takes longer than {TEMPLATE_SECONDS.value:g} seconds: simplify it, or"
            f" raise {TEMPLATE_SECONDS.variable}."
        )
    return run.bounds


def _taken(value: Any) -> Any:
    """Count a value that a template made, and pass it on."""
    run: _Run | None = getattr(_present, "run", None)
    if run is not None and isinstance(value, (str, bytes, *_HOLDERS)):
        run.made += len(value)
        if run.made > _MOST_IN_ALL * run.bounds.most:
            run.bounds.check(run.made)
    return value


def _join(parts: Iterable[str]) -> str:
    """Join the output of a template."""
    items = list(parts)
    _step().check(sum(map(len, items)))
    text: str = _taken("".join(items))
    return text


class Sandbox(SandboxedEnvironment):
    """The environment in which all templates are compiled."""

    intercepted_binops = frozenset({"+", "*", "%", "**"})
    concat = staticmethod(_join)

    def __init__(self, finalize: Callable[[Any], Any] = decimals_to_floats) -> None:
        super().__init__(finalize=lambda value: finalize(_finished(value)))
        self.filters.update(FILTERS)
        self.filters = {name: _bounded_filter(name, one) for name, one in self.filters.items()}
        self.filters[_EACH] = _each
        self.filters[_JOINED] = _joined
        self.globals.update(MACROS)
        for name in ("range", "lipsum"):
            self.globals.pop(name)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Return whether an attribute may be seen; old manifests ask slices for this one."""
        return attr == "_partition" or super().is_safe_attribute(obj, attr, value)

    # Templates reckon with fractions as floats.

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return what ``obj[argument]`` means."""
        return as_float(super().getitem(obj, argument))

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return what ``obj.attribute`` means."""
        return as_float(super().getattr(obj, attribute))

    def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call what a template calls."""
        bounds = _step()
        if isinstance(obj, (BuiltinFunctionType, MethodType)) and self.is_safe_callable(obj):
            for name in ("_loop_vars", "_block_vars"):  # Jinja's own, for functions that ask
                kwargs.pop(name, None)
            return as_float(_taken(bounds.call(obj, *args, **kwargs)))
        return as_float(_taken(super().call(context, obj, *args, **kwargs)))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Return what formats a text in the sandbox, None where the value is no such method."""
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None
        text = value.__self__
        fill = wrapped

        def format_text(*args: Any, **kwargs: Any) -> str:
            _step().check_format(text, args, kwargs)
            return fill(*args, **kwargs)

        return format_text

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Return what an operator gives."""
        bounds = _step()
        if operator == "+":
            return _taken(bounds.add(left, right))
        if operator == "*":
            return _taken(bounds.multiply(left, right))
        if operator == "%":
            return _taken(bounds.modulo(left, right))
        if operator == "**":
            return bounds.power(left, right)
        return super().call_binop(context, operator, left, right)

    def compiled(self, tree: nodes.Template) -> Any:
        """Compile a parsed template, its loops and joined texts within bounds."""
        return self.from_string(_Bounding().visit(tree))


class _Bounding(NodeTransformer):
    """Puts filters of ours around what a template goes through, and in the place of ``~``."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802  Jinja's name
        """Count the rounds of a loop."""
        self.generic_visit(node)
        node.iter = _filtered(_EACH, node.iter)
        return node

    def visit_Concat(self, node: nodes.Concat) -> Any:  # noqa: N802  Jinja's name
        """Join texts by a filter."""
        self.generic_visit(node)
        return _filtered(_JOINED, nodes.List(node.nodes, lineno=node.lineno))


def _filtered(name: str, node: Any) -> Any:
    made = nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
    return made.set_environment(node.environment)


@pass_context
def _each(_context: Any, items: Iterable[Any]) -> Iterator[Any]:
    for one in items:
        _step()
        yield one


@pass_context
def _joined(_context: Any, parts: list[Any]) -> str:
    return _join(str(_finished(one)) for one in parts)


def _finished(value: Any) -> Any:
    """Pass on what is about to be written as text."""
    if isinstance(value, _HOLDERS):
        bounds = _step()
        bounds.check(weight(value, bounds.most))
    return value


def _bounded_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that checks what it is given and counts what it gives."""
    passed = getattr(getattr(function, "jinja_pass_arg", None), "name", "")

    @pass_context
    @wraps(function)
    def run(context: Any, value: Any = "", *args: Any, **kwargs: Any) -> Any:
        bounds = _step()
        _check_filter(bounds, name, value, [*args, *kwargs.values()])
        first = {"context": context, "environment": context.environment}.get(
            passed, context.eval_ctx
        )
        return _taken(function(*([first] if passed else []), value, *args, **kwargs))

    return run


def _check_filter(bounds: Bounds, name: str, value: Any, given: list[Any]) -> None:
    numbers = [abs(one) for one in given if isinstance(one, int)]
    if name not in _ANY_NUMBER and name != "format" and max((0, *numbers)) > _MOST_COUNT:
        raise LimitExceededError(
            f"A number given to the filter '{name}' is higher than {_MOST_COUNT:,}: make it lower."
        )
    if isinstance(value, _HOLDERS) and name not in _KEEPS_PARTS:
        bounds.check(weight(value, bounds.most))
    most = _MOST_SCANNED.get(name, bounds.most)
    if name in _MOST_SCANNED and weight(value, most) > most:
        raise LimitExceededError(
            f"The filter '{name}' takes {most:,} characters, and was given more: give it fewer."
        )
    estimate = _ESTIMATES.get(name)
    if estimate is not None:
        bounds.check(estimate(value, given, bounds))


def _estimate_format(value: Any, given: list[Any], bounds: Bounds) -> int:
    mapping = given[-1] if given and isinstance(given[-1], Mapping) else None
    bounds.check_percent(str(value), mapping if mapping is not None else tuple(given))
    return 0


def _estimate_replace(value: Any, given: list[Any], _bounds: Bounds) -> int:
    text, (old, new) = str(value), [str(one) for one in (*given, "", "")][:2]
    return len(text) + text.count(old) * max(0, len(new) - len(old))


def _estimate_join(value: Any, given: list[Any], bounds: Bounds) -> int:
    between = max((1, *(len(one) for one in given if isinstance(one, str))))
    count = len(value) if hasattr(value, "__len__") else 0
    return count * between + (weight(value, bounds.most) if isinstance(value, _HOLDERS) else 0)


def _estimate_lines(value: Any, given: list[Any], _bounds: Bounds) -> int:
    """Estimate what has more in each line, or around each word."""
    text = str(value)
    more = sum(one if isinstance(one, int) else len(str(one)) for one in given)
    return len(text) + (text.count("\n") + text.count(" ") + text.count("\t") + 1) * more


def _estimate_wrapped(value: Any, given: list[Any], _bounds: Bounds) -> int:
    return len(str(value)) * max((1, *(len(one) for one in given if isinstance(one, str))))


def _estimate_json(value: Any, given: list[Any], bounds: Bounds) -> int:
    return weight(value, bounds.most) * max((1, *(one for one in given if isinstance(one, int))))


def _estimate_sum(value: Any, given: list[Any], bounds: Bounds) -> int:
    is_of_lists = any(isinstance(one, (list, tuple, str)) for one in given)
    size = weight(value, bounds.most) if isinstance(value, _HOLDERS) else 1
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
