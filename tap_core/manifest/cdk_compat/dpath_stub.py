"""Substitute for the functions of the package ``dpath`` that connectors use.

Connectors get it only if dpath is not installed. A path is a string of steps (``a/*/c``) or a list
of steps. ``*`` matches any one step, ``**`` any number of steps; a number is an index into a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, cast

from tap_core.manifest.cdk_compat.type_guards import is_list, is_mapping

__all__ = ["delete", "get", "new", "search", "set", "values"]

_MISSING: Any = object()
_Found = tuple[tuple[Any, ...], Any]


def _steps(glob: Any, separator: str) -> list[str]:
    if isinstance(glob, str):
        return [step for step in glob.strip(separator).split(separator) if step]
    return [str(step) for step in cast("Sequence[Any]", glob)]


def _members(holder: Any) -> Iterator[tuple[Any, Any]]:
    if is_mapping(holder):
        yield from list(holder.items())
    elif is_list(holder):
        yield from enumerate(list(holder))


def _iterate_matches(
    holder: Any, steps: Sequence[str], way: tuple[Any, ...] = ()
) -> Iterator[_Found]:
    """Yield the path and the value of each match of a glob in nested mappings and lists.

    Args:
        holder: The mapping or list to search.
        steps: The parts of the glob; ``**`` matches any number of levels.
        way: The path from the document's root to ``holder``.
    """
    if not steps:
        yield way, holder
        return
    step, rest = steps[0], steps[1:]
    if step == "**":
        if way or rest:
            yield from _iterate_matches(holder, rest, way)
        for name, value in _members(holder):
            yield from _iterate_matches(value, steps, (*way, name))
        return
    for name, value in _members(holder):
        if fnmatchcase(str(name), step):
            yield from _iterate_matches(value, rest, (*way, name))


def get(obj: Any, glob: Any, separator: str = "/", default: Any = _MISSING) -> Any:
    """Return the one value that matches a glob, such as ``a/*/b``.

    Raises:
        KeyError: no value matches, and there is no default.
        ValueError: several values match.
    """
    found = [value for _, value in _iterate_matches(obj, _steps(glob, separator))]
    if len(found) > 1:
        raise ValueError(f"The path {glob!r} matches several values.")
    if found:
        return found[0]
    if default is _MISSING:
        raise KeyError(glob)
    return default


def values(
    obj: Any, glob: Any, separator: str = "/", afilter: Callable[[Any], bool] | None = None
) -> list[Any]:
    """Return all values that match a glob and for which ``afilter`` returns True."""
    found = (value for _, value in _iterate_matches(obj, _steps(glob, separator)))
    return [value for value in found if afilter is None or afilter(value)]


def search(
    obj: Any,
    glob: Any,
    yielded: bool = False,
    separator: str = "/",
    afilter: Callable[[Any], bool] | None = None,
) -> Any:
    """Return the part of a document that matches a glob.

    With ``yielded``, return an iterator of (path, value) pairs instead.
    """
    found = [
        (way, value)
        for way, value in _iterate_matches(obj, _steps(glob, separator))
        if afilter is None or afilter(value)
    ]
    if yielded:
        return iter([(separator.join(map(str, way)), value) for way, value in found])
    part: dict[Any, Any] = {}
    for way, value in found:
        new(part, [str(step) for step in way], value)
    return part


def set(  # noqa: A001  (dpath's name)
    obj: Any,
    glob: Any,
    value: Any,
    separator: str = "/",
    afilter: Callable[[Any], bool] | None = None,
) -> int:
    """Replace all values that match a glob, in place; return the number of replaced values."""
    count = 0
    for way, old in list(_iterate_matches(obj, _steps(glob, separator))):
        if way and (afilter is None or afilter(old)):
            _holder(obj, way)[way[-1]] = value
            count += 1
    return count


def new(obj: Any, path: Any, value: Any, separator: str = "/", creator: Any = None) -> Any:  # noqa: ARG001
    """Set the value at a path in place; missing parent objects are created."""
    *way, last = _steps(path, separator)
    at: Any = obj
    for step in way:
        at = at[int(step)] if is_list(at) else at.setdefault(step, {})
    at[int(last) if is_list(at) else last] = value


def delete(
    obj: Any, glob: Any, separator: str = "/", afilter: Callable[[Any], bool] | None = None
) -> int:
    """Delete all values that match a glob, in place; return the number of deleted values.

    Raises:
        KeyError: no value matches.
    """
    found = [
        way
        for way, value in _iterate_matches(obj, _steps(glob, separator))
        if way and (afilter is None or afilter(value))
    ]
    if not found:
        raise KeyError(glob)
    for way in reversed(found):
        del _holder(obj, way)[way[-1]]
    return len(found)


def _holder(obj: Any, way: Sequence[Any]) -> Any:
    for step in way[:-1]:
        obj = obj[step]
    return obj
