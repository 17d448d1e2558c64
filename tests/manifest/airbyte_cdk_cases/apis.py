"""APIs for the manifests of this folder: shop, station and library."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

from tests.http.server import ReceivedRequest, Reply

__all__ = ["library", "shop", "station"]

CUSTOMERS = [{"id": number, "name": f"c{number}", "gone": None} for number in (1, 2, 3)]
STOCK = "id;n\n1;5\n2;\n"


def _first(asked: ReceivedRequest, name: str, default: str = "") -> str:
    return asked.query.get(name, [default])[0]


def shop(url: str) -> Callable[[ReceivedRequest], Reply]:
    """Return the shop's API, with several kinds of pagination."""

    def customers(asked: ReceivedRequest) -> Any:
        second = "after" in asked.query
        links = {} if second else {"next": f"{url}/api/customers?after=2"}
        return {"data": {"customers": CUSTOMERS[2:] if second else CUSTOMERS[:2]}, "links": links}

    def orders(asked: ReceivedRequest) -> Any:
        since, page = _first(asked, "since")[:10], int(_first(asked, "page", "1"))
        found = [
            {
                "id": f"{since}-{place}",
                "Kind": "web",
                "changed": f"{since}T0{place}:00:00.500Z",
                "state": "draft" if place == 1 else "sent",
                "secret": "s",
                "total": {"net": 7, "gross": 8},
            }
            for place in range(3)
        ]
        return {"data": {"orders": found[2 * page - 2 : 2 * page]}}

    def visits(asked: ReceivedRequest) -> Any:
        customer, skip = asked.path.split("/")[3], int(_first(asked, "skip", "0"))
        found = [{"id": place, "changed": f"2024-01-1{place}"} for place in range(int(customer))]
        return {"data": {"visits": found[skip : skip + 2]}}

    def search(asked: ReceivedRequest) -> Any:
        body = json.loads(asked.body)
        after = body.get("after", {}).get("key", 0)
        more = [{"id": after + place, "someName": {"in-ner": body["query"]}} for place in (1, 2)]
        return {"data": {"found": more if after < 4 else more[:1]}}

    def log(asked: ReceivedRequest) -> Any:
        lines = [{"lines": {"a": {"n": 1}, "b": {"n": 2}}}, {"lines": {"c": {"n": 3, "x": None}}}]
        return gzip.compress("\n".join(map(json.dumps, lines)).encode())

    answers: dict[str, Callable[[ReceivedRequest], Any]] = {
        "/api/customers": customers,
        "/api/orders": orders,
        "/api/search": search,
        "/files/stock": lambda _: STOCK,
        "/files/log": log,
    }
    return lambda asked: Reply(answers.get(asked.path, visits)(asked))


def station(url: str) -> Callable[[ReceivedRequest], Reply]:
    """Return the station's API: busy at the first requests, with one sensor without readings."""
    times: dict[str, int] = {}

    def answer(asked: ReceivedRequest) -> Reply:
        times[asked.path] = times.get(asked.path, 0) + 1
        if asked.path == "/sensors" and times[asked.path] == 1:
            return Reply({"busy": True})
        if asked.path == "/news" and times[asked.path] == 2:
            return Reply(status=429, headers={"Retry-After": "0.01"})
        return _of_station(asked)

    return answer


def _of_station(asked: ReceivedRequest) -> Reply:
    if asked.path == "/login":
        return Reply({"session": {"id": "s-1"}})
    if asked.path == "/sensors":
        on = [{"id": 1, "height": "2.5", "is_on": "yes"}, {"id": 2, "height": "3", "is_on": 0}]
        return Reply({"sensors": [*on, {"id": 3, "height": "high", "is_on": None}]})
    if asked.path == "/news":
        page = int(_first(asked, "page"))
        days = ["2024-03-05", "2024-02-10", "2024-02-01", "2024-01-20", "2023-12-01", "2023-11-01"]
        return Reply({"items": [{"day": day} for day in days[2 * page - 2 : 2 * page]]})
    if asked.path == "/alarms":
        rows = "".join(f'<alarm n="{day}"><day>2024-0{day}-01</day></alarm>' for day in (1, 2, 4))
        return Reply(f"<alarms>{rows}</alarms>", headers={"Content-Type": "application/xml"})
    sensor = asked.path.split("/")[2] if "sensors" in asked.path else ""
    if sensor in {"", "2"}:
        return Reply({"message": "not here"}, status=404)
    at = 1_704_153_600 + 86_400 * int(sensor)
    return Reply({"readings": [{"at": at, "v": 0.1}, {"at": at + 60, "v": None}]})


ROOMS = [{"id": 1, "name": "north"}, {"id": 2, "name": "south"}]
SHELVES = {
    "1": [
        {"id": 11, "label": "A", "keys": ["id"], "what": "order", "note": "7"},
        {"id": 12, "label": "Z", "keys": [], "what": "order", "note": None, "closed": True},
        {"id": 13, "label": "B", "keys": ["id", "at"], "what": "nowhere", "note": "x"},
    ],
    "2": [{"id": 21, "label": "C", "keys": None, "what": "kind", "note": None}],
}


def library(url: str) -> Callable[[ReceivedRequest], Reply]:
    """Return the library's API: rooms with shelves, their contents, and reports."""

    def answer(asked: ReceivedRequest) -> Reply:
        what, *rest = asked.path.strip("/").split("/")
        if what == "rooms":
            return Reply({"data": ROOMS})
        if what == "shelves":
            page = int(_first(asked, "page", "1"))
            return Reply({"data": SHELVES[rest[0]][2 * page - 2 : 2 * page]})
        since = _first(asked, "since", "2024-01-01")[:10]
        at = since if since[:1].isdigit() else "2024-01-01"
        shown = {"path": asked.path, "secret": "s", "none": None}
        return Reply({"data": [{"id": number, "at": at, **shown} for number in (1, 2)]})

    return answer
