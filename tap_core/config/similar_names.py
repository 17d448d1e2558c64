"""Suggestions for misspelled names, for messages."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["find_similar", "suggest"]


def find_similar(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to a misspelled name, or None if none is similar.

    Case is ignored, and a hyphen equals an underscore.
    """
    from difflib import get_close_matches  # only a misspelled name needs it

    by_form = {_comparable(candidate): candidate for candidate in known}
    near = get_close_matches(_comparable(name), by_form, n=1, cutoff=0.75)
    return by_form[near[0]] if near else None


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the sentence `` Did you mean 'x'?`` for a misspelled name.

    Return an empty text if no known name is similar.
    """
    similar = find_similar(name, known)
    return "" if similar is None else f" Did you mean {similar!r}?"


def _comparable(name: str) -> str:
    """Return a name in lower case with underscores instead of hyphens."""
    return name.lower().replace("-", "_")
