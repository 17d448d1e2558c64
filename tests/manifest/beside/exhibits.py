"""The API of a gallery, which gives few properties at a time and few pages of one question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.http.server import Asked, Reply

__all__ = ["gallery"]

PIECES: list[dict[str, Any]] = [
    {
        "id": f"p{number}",
        "title": f"t{number}",
        "year": 1900 + number,
        "size": {"w": number},
        "owner": "o",
        "place": None if number == 2 else "here",
    }
    for number in (1, 2, 3)
]
FIELDS = ("name", "visitors", "length", "takings")


def _first(asked: Asked, name: str, default: str = "") -> str:
    return asked.query.get(name, [default])[0]


def gallery(url: str) -> Callable[[Asked], Reply]:
    """Return the gallery's API."""
    del url
    answers: dict[str, Callable[[Asked], Any]] = {
        "/pieces": _pieces,
        "/paintings": lambda _: {"data": [{"id": "p1"}, {"id": "p2"}]},
        "/fields": lambda _: {"data": [{"field": {"name": name}} for name in FIELDS]},
        "/rooms": lambda asked: {"data": [{"id": "r", "all": _first(asked, "all")}]},
    }
    return lambda asked: Reply(answers.get(asked.path, _shows)(asked))


def _pieces(asked: Asked) -> Any:
    """Answer with the fields that are asked for: the first two pieces, or the last."""
    is_late = _first(asked, "page") == "2"
    names = _first(asked, "fields").split(",")
    found = [
        {name: value for name, value in one.items() if name in names}
        for one in (PIECES[2:] if is_late else PIECES[:2])
    ]
    return {"data": found, "next": None if is_late else "2"}


def _shows(asked: Asked) -> Any:
    painting, names = asked.path.split("/")[-1], _first(asked, "only").split(";")
    asked_for = {name: len(name) for name in names}
    halls = [
        {"day": "2024-01-01", "hall": "east", "of": painting, "seen": asked_for},
        {"day": "2024-01-01", "hall": "west", "of": painting, **asked_for},
        {"day": "2024-01-01", "hall": "", "of": painting, **asked_for},
        {"day": "2024-01-01", "hall": "closed", "of": painting},
    ]
    return {"data": halls}
