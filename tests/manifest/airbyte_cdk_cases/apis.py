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


def _query_value(request: ReceivedRequest, name: str, default: str = "") -> str:
    return request.query.get(name, [default])[0]


def shop(url: str) -> Callable[[ReceivedRequest], Reply]:
    """Return the shop's API, with several kinds of pagination."""

    def customers(request: ReceivedRequest) -> Any:
        second = "after" in request.query
        links = {} if second else {"next": f"{url}/api/customers?after=2"}
        return {"data": {"customers": CUSTOMERS[2:] if second else CUSTOMERS[:2]}, "links": links}

    def orders(request: ReceivedRequest) -> Any:
        since, page = _query_value(request, "since")[:10], int(_query_value(request, "page", "1"))
        data = [
            {
                "id": f"{since}-{number}",
                "Kind": "web",
                "changed": f"{since}T0{number}:00:00.500Z",
                "state": "draft" if number == 1 else "sent",
                "secret": "s",
                "total": {"net": 7, "gross": 8},
            }
            for number in range(3)
        ]
        return {"data": {"orders": data[2 * page - 2 : 2 * page]}}

    def visits(request: ReceivedRequest) -> Any:
        customer, skip = request.path.split("/")[3], int(_query_value(request, "skip", "0"))
        data = [{"id": number, "changed": f"2024-01-1{number}"} for number in range(int(customer))]
        return {"data": {"visits": data[skip : skip + 2]}}

    def search(request: ReceivedRequest) -> Any:
        body = json.loads(request.body)
        after = body.get("after", {}).get("key", 0)
        rows = [{"id": after + number, "someName": {"in-ner": body["query"]}} for number in (1, 2)]
        return {"data": {"found": rows if after < 4 else rows[:1]}}

    def log(request: ReceivedRequest) -> Any:
        lines = [{"lines": {"a": {"n": 1}, "b": {"n": 2}}}, {"lines": {"c": {"n": 3, "x": None}}}]
        return gzip.compress("\n".join(map(json.dumps, lines)).encode())

    answers: dict[str, Callable[[ReceivedRequest], Any]] = {
        "/api/customers": customers,
        "/api/orders": orders,
        "/api/search": search,
        "/files/stock": lambda _: STOCK,
        "/files/log": log,
    }
    return lambda request: Reply(answers.get(request.path, visits)(request))


def station(url: str) -> Callable[[ReceivedRequest], Reply]:
    """Return the station's API: busy at the first requests, with one sensor without readings."""
    times: dict[str, int] = {}

    def answer(request: ReceivedRequest) -> Reply:
        times[request.path] = times.get(request.path, 0) + 1
        if request.path == "/sensors" and times[request.path] == 1:
            return Reply({"busy": True})
        if request.path == "/news" and times[request.path] == 2:
            return Reply(status=429, headers={"Retry-After": "0.01"})
        return _station_reply(request)

    return answer


def _station_reply(request: ReceivedRequest) -> Reply:
    if request.path == "/login":
        return Reply({"session": {"id": "s-1"}})
    if request.path == "/sensors":
        on = [{"id": 1, "height": "2.5", "is_on": "yes"}, {"id": 2, "height": "3", "is_on": 0}]
        return Reply({"sensors": [*on, {"id": 3, "height": "high", "is_on": None}]})
    if request.path == "/news":
        page = int(_query_value(request, "page"))
        days = ["2024-03-05", "2024-02-10", "2024-02-01", "2024-01-20", "2023-12-01", "2023-11-01"]
        return Reply({"items": [{"day": day} for day in days[2 * page - 2 : 2 * page]]})
    if request.path == "/alarms":
        rows = "".join(f'<alarm n="{day}"><day>2024-0{day}-01</day></alarm>' for day in (1, 2, 4))
        return Reply(f"<alarms>{rows}</alarms>", headers={"Content-Type": "application/xml"})
    sensor = request.path.split("/")[2] if "sensors" in request.path else ""
    if sensor in {"", "2"}:
        return Reply({"message": "not here"}, status=404)
    timestamp = 1_704_153_600 + 86_400 * int(sensor)
    return Reply({"readings": [{"at": timestamp, "v": 0.1}, {"at": timestamp + 60, "v": None}]})


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

    def answer(request: ReceivedRequest) -> Reply:
        kind, *ids = request.path.strip("/").split("/")
        if kind == "rooms":
            return Reply({"data": ROOMS})
        if kind == "shelves":
            page = int(_query_value(request, "page", "1"))
            return Reply({"data": SHELVES[ids[0]][2 * page - 2 : 2 * page]})
        since = _query_value(request, "since", "2024-01-01")[:10]
        day = since if since[:1].isdigit() else "2024-01-01"
        details = {"path": request.path, "secret": "s", "none": None}
        return Reply({"data": [{"id": number, "at": day, **details} for number in (1, 2)]})

    return answer
