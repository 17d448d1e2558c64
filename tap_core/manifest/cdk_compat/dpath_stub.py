"""The few functions of the package ``dpath`` that connectors use, for where it is not installed.

Rules of the room: a path is a text of steps (``a/*/c``) or a list of them; ``*`` stands for any
one step, ``**`` for any number. A number is a place in a list.
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


def _found(holder: Any, steps: Sequence[str], way: tuple[Any, ...] = ()) -> Iterator[_Found]:
    """Yield the ways to all values that a path leads to, and the values."""
    if not steps:
        yield way, holder
        return
    step, rest = steps[0], steps[1:]
    if step == "**":
        if way or rest:
            yield from _found(holder, rest, way)
        for name, value in _members(holder):
            yield from _found(value, steps, (*way, name))
        return
    for name, value in _members(holder):
        if fnmatchcase(str(name), step):
            yield from _found(value, rest, (*way, name))


def get(obj: Any, glob: Any, separator: str = "/", default: Any = _MISSING) -> Any:
    """Return the one value at a path.

    Raises:
        KeyError: there is none.
        ValueError: there are several.
    """
    found = [value for _, value in _found(obj, _steps(glob, separator))]
    if len(found) > 1:
        raise ValueError(f"The path {glob!r} leads to several values.")
    if found:
        return found[0]
    if default is _MISSING:
        raise KeyError(glob)
    return default


def values(
    obj: Any, glob: Any, separator: str = "/", afilter: Callable[[Any], bool] | None = None
) -> list[Any]:
    """Return all values at a path."""
    found = (value for _, value in _found(obj, _steps(glob, separator)))
    return [value for value in found if afilter is None or afilter(value)]


def search(
    obj: Any,
    glob: Any,
    yielded: bool = False,
    separator: str = "/",
    afilter: Callable[[Any], bool] | None = None,
) -> Any:
    """Return what of a document a path leads to; ``yielded`` gives pairs of path and value."""
    found = [
        (way, value)
        for way, value in _found(obj, _steps(glob, separator))
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
    """Replace all values at a path; return how many there are."""
    count = 0
    for way, old in list(_found(obj, _steps(glob, separator))):
        if way and (afilter is None or afilter(old)):
            _holder(obj, way)[way[-1]] = value
            count += 1
    return count


def new(obj: Any, path: Any, value: Any, separator: str = "/", creator: Any = None) -> Any:  # noqa: ARG001
    """Put a value at a path; objects on the way to it are made."""
    *way, last = _steps(path, separator)
    at: Any = obj
    for step in way:
        at = at[int(step)] if is_list(at) else at.setdefault(step, {})
    at[int(last) if is_list(at) else last] = value


def delete(
    obj: Any, glob: Any, separator: str = "/", afilter: Callable[[Any], bool] | None = None
) -> int:
    """Remove all values at a path; return how many there were.

    Raises:
        KeyError: there is none.
    """
    found = [
        way
        for way, value in _found(obj, _steps(glob, separator))
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
