"""Names that are like a misspelled one, for hints in messages."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["find_similar", "suggest"]


def find_similar(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a misspelled one is like; case and hyphens do not count."""
    from difflib import get_close_matches  # only a misspelled name needs it

    by_form = {_comparable(each): each for each in known}
    near = get_close_matches(_comparable(name), by_form, n=1, cutoff=0.75)
    return by_form[near[0]] if near else None


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a question that follows a message about a misspelled name; empty without a name."""
    similar = find_similar(name, known)
    return "" if similar is None else f" Is {similar!r} meant?"


def _comparable(name: str) -> str:
    return name.lower().replace("-", "_")
