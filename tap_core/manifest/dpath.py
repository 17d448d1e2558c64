"""Paths into documents with the wildcards ``*`` and ``**``, as manifests contain them.

A path is a list of keys and indices, or a text with ``/`` between them. Each path is compiled once;
a path without wildcards is a chain of look-ups. The syntax is that of the dpath library, which
airbyte-cdk uses: ``*``, ``?`` and ``[…]`` match within one key, ``**`` matches any number of
levels. If an element of a list is removed, and it is not the last one, it becomes None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import translate
from itertools import islice, pairwise
from typing import Any, Final, TypeAlias, cast

from tap_core.manifest.errors import ManifestError

__all__ = [
    "MISSING",
    "delete_at",
    "find_all",
    "has_wildcard",
    "iterate_leaves",
    "make_getter",
    "make_locator",
    "make_remover",
    "set_at",
    "split_path",
]

MISSING: Final[Any] = object()
"""Result of a getter if the document has no value at the path; None is a value."""

_Location: TypeAlias = tuple[Any, Any]
"""Position of a value: the dict or list that contains it, and its key or index there."""

_Finder: TypeAlias = Callable[[Any], Iterator[_Location]]

_WILDCARDS: Final = frozenset("*?[")

_MAX_ADDED: Final = 100_000
"""Maximum number of empty elements that are added to a list before a new one."""


def split_path(path: str) -> tuple[str, ...]:
    """Split a path at its slashes: ``'/a/b'`` becomes ``('a', 'b')``, and ``'/'`` becomes ()."""
    return tuple(path.lstrip("/").split("/")) if path != "/" else ()


def has_wildcard(path: Sequence[str]) -> bool:
    """Return True if a path contains a wildcard and may therefore match several values."""
    return any(_is_wild(step) for step in path)


def make_getter(path: Sequence[str]) -> Callable[[Any], Any]:
    """Return a function that gets the value at ``path`` in a document.

    The function returns `MISSING` if the path does not exist. It raises ManifestError if a path
    with wildcards matches several values.
    """
    steps = tuple(map(str, path))
    if has_wildcard(steps):
        return _make_single_getter(steps)
    if not steps:
        return lambda document: document
    if len(steps) == 1:
        only = steps[0]
        return lambda document: _get_child(document, only)

    def walk(document: Any) -> Any:
        for step in steps:
            document = _get_child(document, step)
            if document is MISSING:
                break
        return document

    return walk


def _make_single_getter(steps: Sequence[str]) -> Callable[[Any], Any]:
    find = _make_finder(tuple(steps))

    def walk(document: Any) -> Any:
        values = [holder[name] for holder, name in islice(find(document), 2)]
        if len(values) > 1:
            raise ManifestError(
                f"the path {'/'.join(steps)} matches several values, but must match one: replace"
                " its wildcards by names. A field_path with a step `*` returns all values."
            )
        return values[0] if values else MISSING

    return walk


def find_all(path: Sequence[str]) -> Callable[[Any], list[Any]]:
    """Return a function that returns all values in a document that match ``path``, in order."""
    find = _make_finder(tuple(map(str, path)))
    return lambda document: [holder[name] for holder, name in find(document)]


def make_locator(path: Sequence[str]) -> Callable[[Any], list[_Location]]:
    """Return a function that returns all locations in a document that match ``path``.

    A location is a pair of a container (dict or list) and a key or index. The path must not be
    empty.
    """
    find = _make_finder(tuple(path))
    return lambda document: list(find(document))


def make_remover(path: Sequence[str]) -> Callable[[Any], None]:
    """Return a function that removes all values that match ``path`` from a document, in place."""
    steps = tuple(map(str, path))
    if len(steps) == 1 and not has_wildcard(steps):
        only = steps[0]
        return lambda document: delete_at((document, only))
    find = _make_finder(steps)

    def remove(document: Any) -> None:
        for location in list(find(document)):
            delete_at(location)

    return remove


def iterate_leaves(document: Any) -> Iterator[_Location]:
    """Yield a (container, key or index) pair for each scalar value in a document."""
    for holder, name in _iterate_locations(document):
        if not isinstance(holder[name], (Mapping, list)):
            yield holder, name


def set_at(document: Any, path: Sequence[str], value: Any) -> None:
    """Set the value at a path in a document, in place.

    Missing parents are created: as lists if the next part of the path is a number, otherwise as
    objects.

    Raises:
        TypeError: A parent in the path is a scalar value.
        ValueError: A key of a list is no index, counts back beyond the start of the list, or is
            far beyond its end.
    """
    steps = tuple(path)
    for step, following in pairwise(steps):
        document = _get_or_create(document, step, [] if following.isdecimal() else {})
    _set_child(document, steps[-1], value)


def delete_at(location: _Location) -> None:
    """Remove the value at a location, a (container, key or index) pair, if it exists.

    An element of a list becomes None unless it is the last one, so that other indices do not
    change.
    """
    holder, name = location
    if _get_child(holder, name) is MISSING:
        return
    if isinstance(holder, dict):
        del holder[name]
    elif (index := int(name)) in {-1, len(holder) - 1}:
        holder.pop()
    else:
        holder[index] = None


def _get_or_create(holder: Any, step: str, default: Any) -> Any:
    """Return the value at ``step``, which is a key or index of the container ``holder``.

    If the value is missing or None, it is first set to ``default``.
    """
    below = _get_child(holder, step)
    if below is MISSING or below is None:
        _set_child(holder, step, default)
        return default
    return below


def _set_child(holder: Any, step: str, value: Any) -> None:
    if isinstance(holder, list):
        index = int(step)
        if index < -len(holder):
            raise ValueError(f"'{step}' is before the start of a list of {len(holder)} values")
        if index > len(holder) + _MAX_ADDED:
            raise ValueError(f"'{step}' is far beyond the end of a list of {len(holder)} values")
        holder.extend([None] * (index + 1 - len(holder)))
        holder[index] = value
    elif isinstance(holder, dict):
        holder[step] = value
    else:
        raise TypeError(f"'{step}' cannot be set in a value of type {type(holder).__name__}")


def _get_child(holder: Any, step: str) -> Any:
    """Return the value at ``step``, a key or index of the container ``holder``, or `MISSING`."""
    if isinstance(holder, dict):
        return cast(dict[str, Any], holder).get(step, MISSING)
    if isinstance(holder, list):
        index = _parse_index(step)
        if index is not None and -len(holder) <= index < len(holder):
            return holder[index]
    return MISSING


def _parse_index(step: Any) -> int | None:
    try:
        return int(step)
    except ValueError:
        return None


def _is_wild(step: str) -> bool:
    return not _WILDCARDS.isdisjoint(step)


def _iterate_items(holder: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(holder, Mapping):
        yield from holder.items()
    elif isinstance(holder, list):
        yield from enumerate(holder)


def _iterate_locations(document: Any) -> Iterator[_Location]:
    """Yield a (container, key or index) pair for each value in a document, at all levels.

    The values of a container come before the values nested in them.
    """
    for name, _ in _iterate_items(document):
        yield document, name
    for _, value in _iterate_items(document):
        yield from _iterate_locations(value)


def _iterate_values(document: Any) -> Iterator[Any]:
    """Yield a document and all values in it, each before the values nested in it."""
    yield document
    for _, value in _iterate_items(document):
        yield from _iterate_values(value)


def _make_finder(steps: tuple[str, ...]) -> _Finder:
    """Return a function that finds all values in a document that match a path.

    The function yields a (container, key or index) pair for each value. ``steps`` are the parts of
    the path; there must be at least one.

    Raises:
        ManifestError: The path has several steps ``**``, as in the dpath library.
    """
    if "**" in steps:
        index = steps.index("**")
        if "**" in steps[index + 1 :]:  # its time would grow with a power of the document's depth
            raise ManifestError(
                f"the path {'/'.join(steps)} has several steps `**`: only one is permitted"
            )
        return _make_deep_finder(steps[:index], steps[index + 1 :])
    *parents, last = map(_make_matcher, steps)

    def find(document: Any) -> Iterator[_Location]:
        holders = [document]
        for match in parents:
            holders = [holder[name] for holder in holders for name in match(holder)]
        for holder in holders:
            for name in last(holder):
                yield holder, name

    return find


def _make_deep_finder(before: tuple[str, ...], after: tuple[str, ...]) -> _Finder:
    """Return a function that finds all values in a document that match a path with ``**``.

    The function yields a (container, key or index) pair for each value. ``**`` matches any number
    of levels; ``before`` and ``after`` are the parts of the path before and after ``**``.
    """
    start = _make_finder(before) if before else None
    end = _make_finder(after) if after else None

    def find(document: Any) -> Iterator[_Location]:
        for holder, name in start(document) if start else [([document], 0)]:  # the document itself
            if end is not None:
                for value in _iterate_values(holder[name]):
                    yield from end(value)
                continue
            if start:
                yield holder, name
            yield from _iterate_locations(holder[name])

    return find


def _make_matcher(step: str) -> Callable[[Any], list[Any]]:
    """Return a function that lists the keys or indices of a container that match a path part.

    ``step`` is the path part, such as ``name``, ``*`` or ``id_*``.
    """
    if step == "*":
        return lambda holder: [name for name, _ in _iterate_items(holder)]
    if not _is_wild(step):
        index = _parse_index(step)
        return lambda holder: (
            []
            if _get_child(holder, step) is MISSING
            else [index if isinstance(holder, list) else step]
        )
    pattern = re.compile(translate(step))
    return lambda holder: [name for name, _ in _iterate_items(holder) if pattern.match(str(name))]
