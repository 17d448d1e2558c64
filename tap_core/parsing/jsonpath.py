"""Evaluation of JSONPath expressions that select, for example, the records of a response.

- This module evaluates simple paths of names, indices and wildcards (``$.data.items[*]``).
  jsonpath-ng evaluates other paths; it is imported on first use, because the import takes longer
  than parsing a page.
- Results equal those of jsonpath-ng 1.11 to 1.15: names without ``$`` are valid, and a wildcard on
  an object selects its values. For other paths, the results are those of the installed version (1.8
  on Python 3.10).
- As in singer_sdk, a final ``[*]`` selects a value that is not an array as a whole, and nothing for
  null.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from tap_core.exceptions import SingerSDKPendingDeprecationWarning

if TYPE_CHECKING:
    from jsonpath_ng import JSONPath

__all__ = ["extract_jsonpath"]

_Find: TypeAlias = Callable[[Any], list[Any]]
"""Function that takes a JSON document and returns the list of values that a path matches."""

_Step: TypeAlias = Callable[[list[Any]], list[Any]]
"""Function that applies one step of a path, such as ``.name``, to all values matched so far."""

_ABSENT: Any = object()

_ELEMENTS = "[*]"

_STEP = re.compile(
    r"""
      \. (?P<name> @?[A-Za-z_][A-Za-z0-9_@-]* )
    | \.?\[ (?P<quote>['"]) (?P<quoted> [^'"\\*]* ) (?P=quote) \]
    | \.?\[ (?P<index> -?[0-9]{1,9} ) \]
    | (?P<elements> \.?\[\*\] )
    | (?P<members> \.\* )
    """,
    re.VERBOSE,
)
"""One step of a simple path. A name has exactly the characters that jsonpath-ng allows."""

_KEYWORDS = frozenset({"where", "wherenot"})
"""Keywords of jsonpath-ng; as names they must be quoted."""


@dataclass(frozen=True)
class _Path:
    """Compiled JSONPath expression.

    Attributes:
        find: Function that returns the matches in a document.
        of_arrays: True if the expression ended in ``[*]``. ``find`` then returns whole arrays,
            whose elements are the result.
    """

    find: _Find
    of_arrays: bool


def extract_jsonpath(expression: str, input: dict[str, Any] | list[Any]) -> Iterator[Any]:
    """Yield all values that a JSONPath expression matches in a JSON document, in order.

    Args:
        expression: The JSONPath; a leading ``$.`` may be omitted.
        input: Parsed JSON document.

    Raises:
        JSONPathError: The expression is invalid (jsonpath-ng's exception).
    """
    path = _parse_path(expression)
    values = path.find(input)
    if path.of_arrays:
        values, has_other = _unpack_arrays(values)
        if has_other:
            warnings.warn(
                f"JSONPath {expression!r} selects the elements of an array but matched a non-array"
                " value, which is treated as the only element. Write the path of the value"
                " itself, without the [*].",
                SingerSDKPendingDeprecationWarning,
                stacklevel=2,
            )
    return iter(values)


def _unpack_arrays(values: list[Any]) -> tuple[list[Any], bool]:
    """Return ``values`` with arrays replaced by their elements; nulls outside arrays are left out.

    Also return True if ``values`` contains a value that is neither an array nor null.
    """
    if len(values) == 1 and isinstance(values[0], list):
        return values[0], False
    elements: list[Any] = []
    has_other = False
    for value in values:
        if isinstance(value, list):
            elements += value
        elif value is not None:
            elements.append(value)
            has_other = True
    return elements, has_other


@lru_cache(maxsize=512)
def _parse_path(expression: str) -> _Path:
    return _compile_simple(expression) or _compile_with_library(expression)


# Other paths: jsonpath-ng


def _compile_with_library(expression: str) -> _Path:
    """Compile any JSONPath expression with jsonpath-ng.

    A final ``[*]`` is removed, and the attribute ``of_arrays`` set instead.
    """
    path = _compile_jsonpath(expression)
    arrays = _remove_final_wildcard(path) if expression.rstrip().endswith(_ELEMENTS) else None
    evaluated = arrays or path
    return _Path(lambda document: [match.value for match in evaluated.find(document)], bool(arrays))


def _remove_final_wildcard(path: JSONPath) -> JSONPath | None:
    """Return a jsonpath-ng path without its final ``[*]``, or None if it ends otherwise."""
    from jsonpath_ng import Child

    # str() of a final [*] is `[*]` (a slice) up to jsonpath-ng 1.15, `*` (a wildcard) since 1.16.
    return path.left if isinstance(path, Child) and str(path.right) in {"[*]", "*"} else None


@lru_cache(maxsize=512)
def _compile_jsonpath(expression: str) -> JSONPath:
    """Parse a JSONPath expression with jsonpath-ng; results are cached, as in singer_sdk.

    Plugins import this function through `tap_core.helpers.jsonpath`.

    Raises:
        JSONPathError: The expression is invalid; the message contains the expression.
    """
    from jsonpath_ng.exceptions import JSONPathError
    from jsonpath_ng.ext.parser import parse

    try:
        return parse(expression)
    except JSONPathError as error:
        raise type(error)(f"{expression!r} is not a valid JSONPath: {error}") from error


# Simple paths: no library


def _compile_simple(expression: str) -> _Path | None:
    """Compile a JSONPath of names, indices and wildcards; return None for any other path."""
    steps = _parse_steps(expression)
    if steps is None:
        return None
    is_bare = len(steps) == 1 and not expression.startswith("$")  # no path before `[*]`
    of_arrays = expression.endswith(_ELEMENTS) and not is_bare
    return _Path(_compile_steps(steps[:-1] if of_arrays else steps), of_arrays)


def _parse_steps(expression: str) -> list[_Step] | None:
    """Return a function for each step of a JSONPath, such as ``.name`` or ``[0]``.

    Return None if there is a step other than a name, an index or a wildcard.
    """
    rest = expression[1:]
    if not expression.startswith("$"):
        # The `$` may be omitted: `a.b` is `$.a.b`, and `[0]` is `$[0]`. But `.a` is no simple path.
        rest = expression if expression.startswith("[") else f".{expression}"
    steps, position = [], 0
    while position < len(rest):
        match = _STEP.match(rest, position)
        if match is None or match["name"] in _KEYWORDS:
            return None
        steps.append(_make_step(match))
        position = match.end()
    return steps


def _make_step(match: re.Match[str]) -> _Step:
    kind = str(match.lastgroup)
    if kind == "index":
        return _make_index_step(int(match[kind]))
    if kind == "elements":
        return _select_elements
    return _select_members if kind == "members" else _make_name_step(match[kind])


def _compile_steps(steps: list[_Step]) -> _Find:
    def find(document: Any) -> list[Any]:
        values = [document]
        for step in steps:
            values = step(values)
        return values

    return find


def _make_name_step(name: str) -> _Step:
    def step(values: list[Any]) -> list[Any]:
        return [member for value in values if (member := _get_member(value, name)) is not _ABSENT]

    return step


def _get_member(value: Any, name: str) -> Any:
    """Return the value of an object's property, or `_ABSENT` if the property is missing.

    An object is a dict or anything else with a method ``get``.
    """
    try:
        return value.get(name, _ABSENT)
    except (AttributeError, TypeError):
        return _ABSENT


def _make_index_step(index: int) -> _Step:
    """Return a function for the JSONPath step ``[index]``: one element of each array."""

    def step(values: list[Any]) -> list[Any]:
        return [
            value[index]
            for value in values
            if isinstance(value, (list, tuple)) and -len(value) <= index < len(value)
        ]

    return step


def _select_elements(values: list[Any]) -> list[Any]:
    """Evaluate the JSONPath step ``[*]``: return all elements of arrays and values of objects."""
    elements: list[Any] = []
    for value in values:
        if isinstance(value, dict):
            elements += value.values()
        elif isinstance(value, (list, tuple)):
            elements += value
    return elements


def _select_members(values: list[Any]) -> list[Any]:
    """Evaluate the JSONPath step ``.*``: return all elements of arrays and values of objects.

    In contrast to ``[*]``, an object may be any mapping with a method ``keys``.
    """
    elements: list[Any] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            elements += value
        elif hasattr(value, "keys"):
            members = [_get_member(value, name) for name in tuple(value.keys())]
            elements += [member for member in members if member is not _ABSENT]
    return elements
