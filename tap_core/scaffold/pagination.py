"""Pagination methods that `tap-core new` offers for a new HTTP tap.

Each method is a set of code fragments that the project templates insert into the tap and into the
mock API of its tests.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PAGINATION", "Pagination"]


@dataclass(frozen=True)
class Pagination:
    """Pagination method of a new tap: source code for its HTTP client and its tests' mock API."""

    imports: str = ""
    """Name to import from `tap_core.pagination`."""
    token: str = "Any"  # noqa: S105  (the name of a type)
    """Type of the next page token."""
    member: str = ""
    """Source code of the method in the client's class."""
    params: str = ""
    """Lines that add the token to the request parameters."""
    page: str = ""
    """Body of the mock API's function that returns one page and its headers."""


_PAGINATOR = """
    def get_new_paginator(self) -> {class_name}:
        \"\"\"Return the paginator; an empty page ends the pagination.\"\"\"
        return {constructor}
"""


PAGINATION: dict[str, Pagination] = {
    "none": Pagination(
        imports="SinglePagePaginator",
        token="None",  # noqa: S106  (the name of a type)
        member=_PAGINATOR.format(
            class_name="SinglePagePaginator", constructor="SinglePagePaginator()"
        ),
        page='    return {"data": rows}, {}\n',
    ),
    "page": Pagination(
        imports="PageNumberPaginator",
        token="int",  # noqa: S106
        member=_PAGINATOR.format(
            class_name="PageNumberPaginator", constructor="PageNumberPaginator(start_value=1)"
        ),
        params='        params["page"] = next_page_token\n',
        page="""\
    start = (int(query["page"]) - 1) * PAGE_SIZE
    return {"data": rows[start : start + PAGE_SIZE]}, {}
""",
    ),
    "offset": Pagination(
        imports="OffsetPaginator",
        token="int",  # noqa: S106
        member="\n    page_size = 100\n"
        + _PAGINATOR.format(
            class_name="OffsetPaginator",
            constructor="OffsetPaginator(start_value=0, page_size=self.page_size)",
        ),
        params="""\
        params["offset"] = next_page_token
        params["limit"] = self.page_size
""",
        page="""\
    start, size = int(query["offset"]), int(query["limit"])
    return {"data": rows[start : start + size]}, {}
""",
    ),
    "link": Pagination(
        imports="HeaderLinkPaginator",
        token="ParseResult | None",  # noqa: S106
        member=_PAGINATOR.format(
            class_name="HeaderLinkPaginator", constructor="HeaderLinkPaginator()"
        ),
        params="""\
        if next_page_token:
            params.update(parse_qsl(next_page_token.query))
""",
        page="""\
    start = int(query.get("from", "0"))
    more = start + PAGE_SIZE < len(rows)
    link = {"Link": f'<{path}?from={start + PAGE_SIZE}>; rel="next"'} if more else {}
    return {"data": rows[start : start + PAGE_SIZE]}, link
""",
    ),
    "cursor": Pagination(
        imports="JSONPathPaginator",
        token="str | None",  # noqa: S106
        member=_PAGINATOR.format(
            class_name="JSONPathPaginator", constructor='JSONPathPaginator("$.next")'
        ),
        params="""\
        if next_page_token:
            params["cursor"] = next_page_token
""",
        page="""\
    start = int(query.get("cursor", "0"))
    more = start + PAGE_SIZE < len(rows)
    following = str(start + PAGE_SIZE) if more else None
    return {"data": rows[start : start + PAGE_SIZE], "next": following}, {}
""",
    ),
}
"""Pagination methods by their name on the command line."""
