"""Substitute for the functions of the package ``dpath`` that connectors use.

Connectors get it only if dpath is not installed. A path is a string such as ``a/*/c``, or a list of
keys. ``*`` matches any one key, ``**`` any number of levels; a number is an index into a list.

Source: dpath 2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from tap_core.manifest.cdk_compat.type_guards import is_list, is_mapping
from tap_core.manifest.dpath import delete_at, set_at

__all__ = ["delete", "get", "new", "search", "set", "values"]

_MISSING: Any = object()
_Filter: TypeAlias = Callable[[Any], bool] | None


def _split_path(glob: Any, separator: str) -> list[str]:
    steps = glob.lstrip(separator).split(separator) if isinstance(glob, str) else glob
    return [str(step) for step in steps]


def _walk(
    container: Any, keys: tuple[Any, ...] = (), names: tuple[tuple[str, ...], ...] = ()
) -> Iterator[tuple[tuple[Any, ...], tuple[tuple[str, ...], ...], Any]]:
    """Yield each value in nested mappings and lists, with its keys and their names in a path.

    An index also has the name that counts from the end of the list. The values of a container come
    before the values nested in them.
    """
    items: list[tuple[Any, tuple[str, ...], Any]] = []
    if is_mapping(container):
        items = [(key, (str(key),), value) for key, value in container.items()]
    elif is_list(container):
        size = len(container)
        items = [(key, (str(key), str(key - size)), one) for key, one in enumerate(container)]
    for key, its_names, value in items:
        yield (*keys, key), (*names, its_names), value
    for key, its_names, value in items:
        yield from _walk(value, (*keys, key), (*names, its_names))


def _find(obj: Any, glob: Any, separator: str) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the keys and the value of each match of a path."""
    steps = _split_path(glob, separator)
    for keys, names, value in _walk(obj):
        expanded = steps
        if "**" in steps:
            index = steps.index("**")
            stars = ["*"] * (len(keys) - len(steps) + 1)
            expanded = [*steps[:index], *stars, *steps[index + 1 :]]
        if len(keys) == len(expanded) and all(map(_matches, names, expanded)):
            yield keys, value


def _matches(names: Sequence[str], step: str) -> bool:
    return any(fnmatchcase(name, step) for name in names)


def _find_places(
    obj: Any, glob: Any, separator: str, afilter: _Filter
) -> Iterator[tuple[Any, Any]]:
    """Yield the container and the key of each match of a path that the filter selects.

    A filter selects scalar values only. A match is skipped if the caller has replaced or removed
    one of its containers.
    """
    for keys, value in list(_find(obj, glob, separator)):
        if afilter is not None and (is_mapping(value) or is_list(value) or not afilter(value)):
            continue
        holder, below = obj, obj
        try:
            for key in keys:
                holder, below = below, below[key]
        except (LookupError, TypeError):
            continue
        yield holder, keys[-1]


def get(obj: Any, glob: Any, separator: str = "/", default: Any = _MISSING) -> Any:
    """Return the only value in ``obj`` that matches the path ``glob``, such as ``a/*/b``.

    If no value matches, return ``default``. The path ``/`` or an empty one is that of ``obj``.

    Raises:
        KeyError: No value matches, and there is no default.
        ValueError: Several values match.
    """
    if glob == "/" or not glob:
        return obj
    matches = [value for _, value in _find(obj, glob, separator)]
    if len(matches) > 1:
        raise ValueError(f"The path {glob!r} matches several values.")
    if matches:
        return matches[0]
    if default is _MISSING:
        raise KeyError(glob)
    return default


def values(
    obj: Any, glob: Any, separator: str = "/", afilter: _Filter = None, dirs: bool = True
) -> list[Any]:
    """Return the values in ``obj`` that match the path ``glob``, such as ``a/*/b``.

    The other arguments are those of `search`.
    """
    matches = search(obj, glob, yielded=True, separator=separator, afilter=afilter, dirs=dirs)
    return [value for _, value in matches]


def search(
    obj: Any,
    glob: Any,
    yielded: bool = False,
    separator: str = "/",
    afilter: _Filter = None,
    dirs: bool = True,
) -> Any:
    """Return a copy of ``obj`` with only those values that match the path ``glob``.

    In lists, None replaces the values before the last match. If ``yielded`` is True, return an
    iterator of (path, value) pairs instead. ``afilter`` is a function that returns True for each
    value to include; None includes all values. ``dirs`` False includes scalar values only.
    """
    matches = (
        (keys, value)
        for keys, value in _find(obj, glob, separator)
        if (dirs or not (is_mapping(value) or is_list(value)))
        and (afilter is None or afilter(value))
    )
    if yielded:
        return ((separator.join(map(str, keys)), value) for keys, value in matches)
    part: dict[Any, Any] = {}
    for keys, value in matches:
        target: Any = part
        source = obj
        for key in keys[:-1]:
            source = source[key]
            target = _set_default(target, key, [] if is_list(source) else {})
        _set_default(target, keys[-1], value)
    return part


def _set_default(container: Any, key: Any, default: Any) -> Any:
    """Return the value at a key or index; set it to ``default`` before if it is missing or None."""
    if is_list(container):
        container.extend([None] * (key + 1 - len(container)))
        container[key] = default if container[key] is None else container[key]
        return container[key]
    return container.setdefault(key, default)


def set(  # noqa: A001  (dpath's name)
    obj: Any, glob: Any, value: Any, separator: str = "/", afilter: _Filter = None
) -> int:
    """Replace each value in ``obj`` that matches the path ``glob``; return the number of matches.

    ``afilter`` is a function that returns True for each scalar value to replace; None replaces all.
    """
    count = 0
    for container, key in _find_places(obj, glob, separator, afilter):
        container[key] = value
        count += 1
    return count


def new(obj: Any, path: Any, value: Any, separator: str = "/", creator: Any = None) -> Any:  # noqa: ARG001
    """Set the value at ``path``, such as ``a/b``, in ``obj``, and return ``obj``.

    Missing parents are created: as lists if the next key is a number, otherwise as objects.
    ``creator`` is ignored.
    """
    set_at(obj, _split_path(path, separator), value)
    return obj


def delete(obj: Any, glob: Any, separator: str = "/", afilter: _Filter = None) -> int:
    """Delete the values in ``obj`` that match the path ``glob``; return their number.

    An element of a list becomes None unless it is the last one, so that other indices do not
    change. ``afilter`` is a function that returns True for each scalar value to delete; None
    deletes all.

    Raises:
        KeyError: No value matches.
    """
    count = 0
    for location in _find_places(obj, glob, separator, afilter):
        delete_at(location)
        count += 1
    if not count:
        raise KeyError(glob)
    return count
