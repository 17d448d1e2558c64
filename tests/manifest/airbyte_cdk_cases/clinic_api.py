"""APIs for the manifests with custom cursors and with count cursors."""

from __future__ import annotations

from collections.abc import Callable

from tests.http.server import ReceivedRequest, Reply

__all__ = ["clinic", "counter"]


def _query_value(request: ReceivedRequest, name: str, default: str = "") -> str:
    return request.query.get(name, [default])[0]


def clinic(url: str) -> Callable[[ReceivedRequest], Reply]:
    """Return the clinic's API, whose records depend on the requested interval."""
    del url
    return lambda request: Reply({"data": _clinic_records(request)})


def _clinic_records(request: ReceivedRequest) -> list[dict[str, object]]:
    answers = {
        "/doctors": lambda _: [{"id": number} for number in (1, 2, 3, 4, 5)],
        "/sorted": _sorted,
        "/nested": lambda _: [
            {"id": number, "at": day}
            for number, day in enumerate(("2024-01-03", "2024-01-09", "2024-03-01", None))
        ],
        "/whole": _whole,
        "/numbered": _numbered,
        "/grouped": lambda request: [
            {"id": 10 * int(text)} for text in _query_value(request, "ids").split(",")
        ],
    }
    return answers.get(request.path, _lengths)(request)


def _sorted(request: ReceivedRequest) -> list[dict[str, object]]:
    if _query_value(request, "page"):
        return [{"id": 3, "at": "2024-01-20"}]
    start, _, end = _query_value(request, "only").partition(":")[2].partition("..")
    return [{"id": 1, "at": start}, {"id": 2, "at": end}]


def _lengths(request: ReceivedRequest) -> list[dict[str, object]]:
    *_, kind, day = request.path.split("/")
    return [{"id": 1, "at": day}] if kind == "eye" else []


def _whole(request: ReceivedRequest) -> list[dict[str, object]]:
    start, end = int(_query_value(request, "from")), int(_query_value(request, "to"))
    return [{"id": 1, "at": str(start + 5)}, {"id": 2, "at": str(end * 1000 - 7000)}]


def _numbered(request: ReceivedRequest) -> list[dict[str, object]]:
    since = int(_query_value(request, "since_id", "0"))
    return [{"id": since + offset} for offset in (1, 3, 2)]


def counter(url: str) -> Callable[[ReceivedRequest], Reply]:
    """Return an API whose records have increasing numbers."""
    del url

    def answer(request: ReceivedRequest) -> Reply:
        if request.path == "/changes":
            return Reply(
                {"data": [{"id": number, "nested": {"number": number}} for number in (7, 9, 8)]}
            )
        since, page = (
            int(_query_value(request, "since", "0")),
            int(_query_value(request, "page", "1")),
        )
        ids = [number for number in range(1, 15) if number >= since]
        return Reply({"data": [{"id": number} for number in ids[3 * page - 3 : 3 * page]]})

    return answer
