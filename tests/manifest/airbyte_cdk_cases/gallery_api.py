"""The API of a gallery, with limits on properties per request and pages per query."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.http.server import ReceivedRequest, Reply

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


def _first(asked: ReceivedRequest, name: str, default: str = "") -> str:
    return asked.query.get(name, [default])[0]


def gallery(url: str) -> Callable[[ReceivedRequest], Reply]:
    """Return the gallery's API."""
    del url
    seen: list[str] = []
    answers: dict[str, Callable[[ReceivedRequest], Any]] = {
        "/pieces": _pieces,
        "/paintings": lambda _: {"data": [{"id": "p1"}, {"id": "p2"}]},
        "/fields": lambda _: {"data": [{"field": {"name": name}} for name in FIELDS]},
        "/rooms": lambda asked: {"data": [{"id": "r", "all": _first(asked, "all")}]},
    }
    paged = {"/visits": _visits, "/tours": _tours, "/guides": partial(_guides, seen)}
    paged |= {"/loans": _loans, "/frames": _loans, "/no-quota": lambda _: Reply({}, status=404)}
    paged |= {"/quota": _quota, "/sales": _sales}
    paged |= {"/archive": _archive, "/letters": partial(_letters, seen)}

    def answer(asked: ReceivedRequest) -> Reply:
        if asked.path in paged:
            return paged[asked.path](asked)
        return Reply(answers.get(asked.path, _shows)(asked))

    return answer


def _pieces(asked: ReceivedRequest) -> Any:
    """Return the requested fields of the first two pieces, or of the last."""
    is_late = _first(asked, "page") == "2"
    names = _first(asked, "fields").split(",")
    found = [
        {name: value for name, value in one.items() if name in names}
        for one in (PIECES[2:] if is_late else PIECES[:2])
    ]
    return {"data": found, "next": None if is_late else "2"}


def _visits(asked: ReceivedRequest) -> Reply:
    """Return two visits per page, sorted by day."""
    first = int(_first(asked, "from")[-2:])
    found = [{"id": day, "at": f"2024-01-{day:02}"} for day in range(first, 9)]
    return _paged(asked, found)


def _paged(asked: ReceivedRequest, found: list[dict[str, Any]]) -> Reply:
    page = int(_first(asked, "page", "1"))
    more = str(page + 1) if len(found) > 2 * page else None
    return Reply({"data": found[2 * page - 2 : 2 * page], "next": more})


def _tours(asked: ReceivedRequest) -> Reply:
    """Refuse the third page of a query."""
    return Reply(status=400) if _first(asked, "page") == "3" else _visits(asked)


def _guides(seen: list[str], asked: ReceivedRequest) -> Reply:
    """Refuse the second page once, as if the page token had expired."""
    if _first(asked, "page") == "2" and "once" not in seen:
        seen.append("once")
        return Reply(status=400)
    return _paged(asked, [{"id": number} for number in (1, 2, 3)])


def _archive(asked: ReceivedRequest) -> Reply:
    """Refuse pages of more than three records."""
    size, skip = int(_first(asked, "size")), int(_first(asked, "skip", "0"))
    if size > 3:
        return Reply(status=502)
    return Reply({"data": [{"id": number} for number in range(7)][skip : skip + size]})


def _letters(seen: list[str], asked: ReceivedRequest) -> Reply:
    """Refuse pages of more than two records and the first request of each page."""
    size, skip = int(_first(asked, "size")), int(_first(asked, "skip", "0"))
    key = f"{size} {skip}"
    if size > 2 or key not in seen:
        seen.append(key)
        return Reply(status=502)
    found = [{"id": number} for number in range(5)][skip : skip + size]
    return Reply({"data": found, "next": skip + size})


def _quota(asked: ReceivedRequest) -> Reply:
    """Report two remaining requests for the first token, and many for the others."""
    left = 2 if asked.headers["Authorization"] == "token one" else 90
    return Reply({"usual": {"left": left, "until": 4_000_000_000}})


def _loans(asked: ReceivedRequest) -> Reply:
    """Refuse the fourth page for the second token, whose quota is used by others."""
    page = int(_first(asked, "page", "1"))
    if page == 4 and asked.path == "/loans" and asked.headers["Authorization"] == "token two":
        limit_headers = {"X-Left": "0", "X-Until": "4000000000", "Retry-After": "1000"}
        return Reply({}, status=403, headers=limit_headers)
    return Reply({"data": [{"id": page}], "next": str(page + 1) if page < 6 else None})


def _sales(asked: ReceivedRequest) -> Reply:
    """Refuse intervals of more than four days, or of more than three in the first week."""
    first, last = (int(_first(asked, name)[-2:]) for name in ("from", "to"))
    if last - first >= (3 if first <= 7 else 4):
        return Reply({}, status=413)
    return _paged(asked, [{"id": day, "at": f"2024-01-{day:02}"} for day in range(first, last + 1)])


def _shows(asked: ReceivedRequest) -> Any:
    painting, names = asked.path.split("/")[-1], _first(asked, "only").split(";")
    asked_for = {name: len(name) for name in names}
    halls = [
        {"day": "2024-01-01", "hall": "east", "of": painting, "seen": asked_for},
        {"day": "2024-01-01", "hall": "west", "of": painting, **asked_for},
        {"day": "2024-01-01", "hall": "", "of": painting, **asked_for},
        {"day": "2024-01-01", "hall": "closed", "of": painting},
    ]
    return {"data": halls}
