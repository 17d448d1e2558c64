"""Substitute for the functions of the package ``dpath`` that connectors use.

Connectors get it only if dpath is not installed. A path is a string such as ``a/*/c``, or a list of
keys. ``*`` matches any one key, ``**`` any number of levels; a number is an index into a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, cast

from tap_core.manifest.cdk_compat.type_guards import is_list, is_mapping

__all__ = ["delete", "get", "new", "search", "set", "values"]

_MISSING: Any = object()
_Match = tuple[tuple[Any, ...], Any]


def _split_path(glob: Any, separator: str) -> list[str]:
    if isinstance(glob, str):
        return [step for step in glob.strip(separator).split(separator) if step]
    return [str(step) for step in cast("Sequence[Any]", glob)]


def _iterate_items(container: Any) -> Iterator[tuple[Any, Any]]:
    if is_mapping(container):
        yield from list(container.items())
    elif is_list(container):
        yield from enumerate(list(container))


def _iterate_matches(
    container: Any, steps: Sequence[str], keys: tuple[Any, ...] = ()
) -> Iterator[_Match]:
    """Yield the path and the value of each match of a glob in nested mappings and lists.

    Args:
        container: The mapping or list to search.
        steps: The parts of the glob; ``**`` matches any number of levels.
        keys: The path from the root of the document to ``container``.
    """
    if not steps:
        yield keys, container
        return
    step, rest = steps[0], steps[1:]
    if step == "**":
        if keys or rest:
            yield from _iterate_matches(container, rest, keys)
        for name, value in _iterate_items(container):
            yield from _iterate_matches(value, steps, (*keys, name))
        return
    for name, value in _iterate_items(container):
        if fnmatchcase(str(name), step):
            yield from _iterate_matches(value, rest, (*keys, name))


def get(obj: Any, glob: Any, separator: str = "/", default: Any = _MISSING) -> Any:
    """Return the only value in ``obj`` that matches the path ``glob``, such as ``a/*/b``.

    If no value matches, return ``default``.

    Raises:
        KeyError: No value matches, and there is no default.
        ValueError: Several values match.
    """
    matches = [value for _, value in _iterate_matches(obj, _split_path(glob, separator))]
    if len(matches) > 1:
        raise ValueError(f"The path {glob!r} matches several values.")
    if matches:
        return matches[0]
    if default is _MISSING:
        raise KeyError(glob)
    return default


def values(
    obj: Any, glob: Any, separator: str = "/", afilter: Callable[[Any], bool] | None = None
) -> list[Any]:
    """Return the values in ``obj`` that match the path ``glob``, such as ``a/*/b``.

    ``afilter`` is a function that returns True for each value to include; None includes all values.
    """
    matches = _iterate_matches(obj, _split_path(glob, separator))
    return [value for _, value in matches if afilter is None or afilter(value)]


def search(
    obj: Any,
    glob: Any,
    yielded: bool = False,
    separator: str = "/",
    afilter: Callable[[Any], bool] | None = None,
) -> Any:
    """Return a nested dict with only those values of ``obj`` that match the path ``glob``.

    If ``yielded`` is True, return an iterator of (path, value) pairs instead. ``afilter`` is a
    function that returns True for each value to include; None includes all values.
    """
    matches = [
        (keys, value)
        for keys, value in _iterate_matches(obj, _split_path(glob, separator))
        if afilter is None or afilter(value)
    ]
    if yielded:
        return iter([(separator.join(map(str, keys)), value) for keys, value in matches])
    part: dict[Any, Any] = {}
    for keys, value in matches:
        new(part, [str(step) for step in keys], value)
    return part


def set(  # noqa: A001  (dpath's name)
    obj: Any,
    glob: Any,
    value: Any,
    separator: str = "/",
    afilter: Callable[[Any], bool] | None = None,
) -> int:
    """Replace each value in ``obj`` that matches the path ``glob``; return the number of matches.

    ``afilter`` is a function that returns True for each value to replace; None replaces all.
    """
    count = 0
    for keys, old in list(_iterate_matches(obj, _split_path(glob, separator))):
        if keys and (afilter is None or afilter(old)):
            _get_container(obj, keys)[keys[-1]] = value
            count += 1
    return count


def new(obj: Any, path: Any, value: Any, separator: str = "/", creator: Any = None) -> Any:  # noqa: ARG001
    """Set the value at ``path``, such as ``a/b``, in ``obj``; create missing parent objects.

    ``creator`` is ignored.
    """
    *keys, last = _split_path(path, separator)
    parent: Any = obj
    for step in keys:
        parent = parent[int(step)] if is_list(parent) else parent.setdefault(step, {})
    parent[int(last) if is_list(parent) else last] = value


def delete(
    obj: Any, glob: Any, separator: str = "/", afilter: Callable[[Any], bool] | None = None
) -> int:
    """Delete the values in ``obj`` that match the path ``glob``; return their number.

    ``afilter`` is a function that returns True for each value to delete; None deletes all.

    Raises:
        KeyError: No value matches.
    """
    paths = [
        keys
        for keys, value in _iterate_matches(obj, _split_path(glob, separator))
        if keys and (afilter is None or afilter(value))
    ]
    if not paths:
        raise KeyError(glob)
    for keys in reversed(paths):
        del _get_container(obj, keys)[keys[-1]]
    return len(paths)


def _get_container(obj: Any, keys: Sequence[Any]) -> Any:
    for step in keys[:-1]:
        obj = obj[step]
    return obj
