"""APIs for the manifests with custom cursors and with count cursors."""

from __future__ import annotations

from collections.abc import Callable

from tests.http.server import ReceivedRequest, Reply

__all__ = ["clinic", "counter"]


def _first(asked: ReceivedRequest, name: str, default: str = "") -> str:
    return asked.query.get(name, [default])[0]


def clinic(url: str) -> Callable[[ReceivedRequest], Reply]:
    """Return the clinic's API, whose records depend on the requested interval."""
    del url
    return lambda asked: Reply({"data": _of_clinic(asked)})


def _of_clinic(asked: ReceivedRequest) -> list[dict[str, object]]:
    made = {
        "/doctors": lambda _: [{"id": number} for number in (1, 2, 3, 4, 5)],
        "/sorted": _sorted,
        "/nested": lambda _: [
            {"id": number, "at": day}
            for number, day in enumerate(("2024-01-03", "2024-01-09", "2024-03-01", None))
        ],
        "/whole": _whole,
        "/numbered": _numbered,
        "/grouped": lambda asked: [
            {"id": 10 * int(one)} for one in _first(asked, "ids").split(",")
        ],
    }
    return made.get(asked.path, _lengths)(asked)


def _sorted(asked: ReceivedRequest) -> list[dict[str, object]]:
    if _first(asked, "page"):
        return [{"id": 3, "at": "2024-01-20"}]
    start, _, end = _first(asked, "only").partition(":")[2].partition("..")
    return [{"id": 1, "at": start}, {"id": 2, "at": end}]


def _lengths(asked: ReceivedRequest) -> list[dict[str, object]]:
    *_, kind, day = asked.path.split("/")
    return [{"id": 1, "at": day}] if kind == "eye" else []


def _whole(asked: ReceivedRequest) -> list[dict[str, object]]:
    start, end = int(_first(asked, "from")), int(_first(asked, "to"))
    return [{"id": 1, "at": str(start + 5)}, {"id": 2, "at": str(end * 1000 - 7000)}]


def _numbered(asked: ReceivedRequest) -> list[dict[str, object]]:
    since = int(_first(asked, "since_id", "0"))
    return [{"id": since + place} for place in (1, 3, 2)]


def counter(url: str) -> Callable[[ReceivedRequest], Reply]:
    """Return an API whose records have increasing numbers."""
    del url

    def answer(asked: ReceivedRequest) -> Reply:
        if asked.path == "/changes":
            return Reply({"data": [{"id": one, "nested": {"number": one}} for one in (7, 9, 8)]})
        since, page = int(_first(asked, "since", "0")), int(_first(asked, "page", "1"))
        ids = [one for one in range(1, 15) if one >= since]
        return Reply({"data": [{"id": one} for one in ids[3 * page - 3 : 3 * page]]})

    return answer
