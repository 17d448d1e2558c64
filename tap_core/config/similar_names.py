"""Names in messages: suggestions such as ``Did you mean 'users'?``, and lists of limited length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["find_similar", "list_names", "suggest"]


def find_similar(name: str, valid_names: Iterable[str]) -> str | None:
    """Return the valid name that is most similar to a misspelled name; None if all differ much.

    Case and the difference between hyphen and underscore are ignored.
    """
    from difflib import get_close_matches  # only a misspelled name needs it

    by_form = {_to_comparable(candidate): candidate for candidate in valid_names}
    near = get_close_matches(_to_comparable(name), by_form, n=1, cutoff=0.75)
    return by_form[near[0]] if near else None


def suggest(name: str, valid_names: Iterable[str]) -> str:
    """Return the end of an error message that suggests a valid name for a misspelled one.

    An example is `` Did you mean 'users'?``. The result is empty if no valid name is similar.
    """
    similar = find_similar(name, valid_names)
    return "" if similar is None else f" Did you mean {similar!r}?"


def list_names(names: Sequence[str], most: int = 10) -> str:
    """Return at most ``most`` names, and how many more there are: ``a, b and 3 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _to_comparable(name: str) -> str:
    """Return a name in a form for comparison: lower case, underscores instead of hyphens."""
    return name.lower().replace("-", "_")
