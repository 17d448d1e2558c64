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


def _query_value(request: ReceivedRequest, name: str, default: str = "") -> str:
    return request.query.get(name, [default])[0]


def gallery(url: str) -> Callable[[ReceivedRequest], Reply]:
    """Return the gallery's API."""
    del url
    requested: list[str] = []
    answers: dict[str, Callable[[ReceivedRequest], Any]] = {
        "/pieces": _pieces,
        "/paintings": lambda _: {"data": [{"id": "p1"}, {"id": "p2"}]},
        "/fields": lambda _: {"data": [{"field": {"name": name}} for name in FIELDS]},
        "/rooms": lambda request: {"data": [{"id": "r", "all": _query_value(request, "all")}]},
    }
    paged = {"/visits": _visits, "/tours": _tours, "/guides": partial(_guides, requested)}
    paged |= {"/loans": _loans, "/frames": _loans, "/no-quota": lambda _: Reply({}, status=404)}
    paged |= {"/quota": _quota, "/sales": _sales}
    paged |= {"/archive": _archive, "/letters": partial(_letters, requested)}

    def answer(request: ReceivedRequest) -> Reply:
        if request.path in paged:
            return paged[request.path](request)
        return Reply(answers.get(request.path, _shows)(request))

    return answer


def _pieces(request: ReceivedRequest) -> Any:
    """Return the requested fields of the first two pieces, or of the last."""
    is_late = _query_value(request, "page") == "2"
    names = _query_value(request, "fields").split(",")
    records = [
        {name: value for name, value in piece.items() if name in names}
        for piece in (PIECES[2:] if is_late else PIECES[:2])
    ]
    return {"data": records, "next": None if is_late else "2"}


def _visits(request: ReceivedRequest) -> Reply:
    """Return two visits per page, sorted by day."""
    first = int(_query_value(request, "from")[-2:])
    visits = [{"id": day, "at": f"2024-01-{day:02}"} for day in range(first, 9)]
    return _reply_page(request, visits)


def _reply_page(request: ReceivedRequest, records: list[dict[str, Any]]) -> Reply:
    page = int(_query_value(request, "page", "1"))
    next_page = str(page + 1) if len(records) > 2 * page else None
    return Reply({"data": records[2 * page - 2 : 2 * page], "next": next_page})


def _tours(request: ReceivedRequest) -> Reply:
    """Refuse the third page of a query."""
    return Reply(status=400) if _query_value(request, "page") == "3" else _visits(request)


def _guides(requested: list[str], request: ReceivedRequest) -> Reply:
    """Refuse the second page once, as if the page token had expired."""
    if _query_value(request, "page") == "2" and "once" not in requested:
        requested.append("once")
        return Reply(status=400)
    return _reply_page(request, [{"id": number} for number in (1, 2, 3)])


def _archive(request: ReceivedRequest) -> Reply:
    """Refuse pages of more than three records."""
    size, skip = int(_query_value(request, "size")), int(_query_value(request, "skip", "0"))
    if size > 3:
        return Reply(status=502)
    return Reply({"data": [{"id": number} for number in range(7)][skip : skip + size]})


def _letters(requested: list[str], request: ReceivedRequest) -> Reply:
    """Refuse pages of more than two records and the first request of each page."""
    size, skip = int(_query_value(request, "size")), int(_query_value(request, "skip", "0"))
    key = f"{size} {skip}"
    if size > 2 or key not in requested:
        requested.append(key)
        return Reply(status=502)
    letters = [{"id": number} for number in range(5)][skip : skip + size]
    return Reply({"data": letters, "next": skip + size})


def _quota(request: ReceivedRequest) -> Reply:
    """Report two remaining requests for the first token, and many for the others."""
    remaining = 2 if request.headers["Authorization"] == "token one" else 90
    return Reply({"usual": {"left": remaining, "until": 4_000_000_000}})


def _loans(request: ReceivedRequest) -> Reply:
    """Refuse the fourth page for the second token, whose quota is used by others."""
    page = int(_query_value(request, "page", "1"))
    if page == 4 and request.path == "/loans" and request.headers["Authorization"] == "token two":
        limit_headers = {"X-Left": "0", "X-Until": "4000000000", "Retry-After": "1000"}
        return Reply({}, status=403, headers=limit_headers)
    return Reply({"data": [{"id": page}], "next": str(page + 1) if page < 6 else None})


def _sales(request: ReceivedRequest) -> Reply:
    """Refuse intervals of more than four days, or of more than three in the first week."""
    first, last = (int(_query_value(request, name)[-2:]) for name in ("from", "to"))
    if last - first >= (3 if first <= 7 else 4):
        return Reply({}, status=413)
    return _reply_page(
        request, [{"id": day, "at": f"2024-01-{day:02}"} for day in range(first, last + 1)]
    )


def _shows(request: ReceivedRequest) -> Any:
    painting, names = request.path.split("/")[-1], _query_value(request, "only").split(";")
    lengths = {name: len(name) for name in names}
    halls = [
        {"day": "2024-01-01", "hall": "east", "of": painting, "seen": lengths},
        {"day": "2024-01-01", "hall": "west", "of": painting, **lengths},
        {"day": "2024-01-01", "hall": "", "of": painting, **lengths},
        {"day": "2024-01-01", "hall": "closed", "of": painting},
    ]
    return {"data": halls}
