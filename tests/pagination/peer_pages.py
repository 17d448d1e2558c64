"""JSONPath expressions, documents and sequences of pages, for tap_core and singer_sdk.

Run as a program with the name of a package, it prints the results of that package as JSON. It
imports only that package.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import json
import sys
import warnings
from importlib import metadata
from urllib.parse import ParseResult

SIMPLE_PATHS = [
    "$",
    "$[*]",
    "$.a",
    "$.a.b",
    "$.a[*]",
    "$.a.b[*]",
    "$[*].a",
    "$[*].a[*]",
    "$[*].a.b",
    "$.a[*].b[*]",
    "$.a[0]",
    "$.a[-1].b",
    "$.a[1][0]",
    "$.a[7]",
    "$['a-b']",
    "$['a-b'][*]",
    '$["a b"].c',
    "$['a'].b",
    "$.@type",
    "$.a.*",
    "$.*",
    "$.*.b",
    "$.*[*]",
    "$.*[0]",
    "$.a.[*]",
    "$.a.[0]",
    "$.[*]",
    "a",
    "a.b",
    "a[*]",
    "a.b[*]",
    "a[0]",
    "*",
    "*.b",
    "[*]",
    "[*].a",
    "[0]",
    "[0].a",
    "['a-b']",
    "['a'][*]",
    "$.true",
    "$.null",
    "$[*][*]",
    "$.a[*][*]",
]
PATHS = [
    *SIMPLE_PATHS,
    "$..b",
    "$..b[*]",
    "$.a[0:1]",
    "$.a[:]",
    "$[:]",
    "$.a[0,1]",
    "$.a,b",
    "$['a','a-b']",
    "$.a[?(@.b)]",
    "$.a[?(@.b > 1)].b",
    "$ . a [ * ]",
    "$.a[*] ",
    "$.0",
    "$[a][*]",
    "$.a.`len`",
    "`this`",
    "@.a",
    "(a)[*]",
]
DOCUMENTS = [
    None,
    5,
    "text",
    [],
    {},
    [1, 2],
    [None, [1], {"a": 1}],
    {"a": None, "b": 1},
    {"a": {"b": 1, "c": [1, 2]}, "a-b": [3]},
    {"a": [{"b": 1}, {"b": [2, 3]}, {"c": 4}], "0": "zero"},
    {"a": {"b": [{"id": 1}, {"id": 2}]}, "a b": {"c": 5}},
    {"a": [[1, 2], [3]], "true": 1, "null": 2, "@type": "t"},
    [{"a": {"b": 1}}, {"a": [{"b": 2}]}, {"a": "text"}],
    {"a-b": {"x": 1}, "b": {"b": {"b": None}}},
]


def is_comparable_jsonpath_version():
    """Return whether the installed jsonpath-ng is a version that reads paths as tap_core does."""
    major, minor = metadata.version("jsonpath-ng").split(".")[:2]
    return (1, 11) <= (int(major), int(minor)) < (1, 16)


def paths(package):
    """Return the values that each path finds in each document, or the name of the error."""
    extract = importlib.import_module(f"{package}.helpers.jsonpath").extract_jsonpath

    def outcome(path, document):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                values = list(extract(path, copy.deepcopy(document)))
            except Exception as error:  # noqa: BLE001  each is an outcome
                return type(error).__name__
        return [values, bool(caught)]

    return {path: [outcome(path, document) for document in DOCUMENTS] for path in PATHS}


# Iteration over pages


def page(body, **headers):
    """Return a response with this JSON body and headers."""
    import requests

    response = requests.Response()
    response.status_code = 200
    response._content = json.dumps(body).encode()
    response.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return response


def make_paginators(pagination):
    """Return factories of the paginators of a pagination module, by name."""

    class Links(pagination.BaseHATEOASPaginator):
        def get_next_url(self, response):
            return response.json().get("next")

    class Numbers(pagination.PageNumberPaginator):
        def has_more(self, response):
            return bool(response.json().get("more"))

    class OldNumbers(pagination.BasePageNumberPaginator):
        def has_more(self, response):
            return response.json()["more"]

    class Offsets(pagination.OffsetPaginator):
        def has_more(self, response):
            return self._value + self._page_size < response.json()["total"]

    class OldOffsets(pagination.BaseOffsetPaginator):
        pass

    class Patient(pagination.PageNumberPaginator):
        def continue_if_empty(self, response):
            return self.count < 3

    class Stuck(pagination.PageNumberPaginator):
        def get_next(self, response):
            return response.json().get("to")

    class Stream:
        def get_next_page_token(self, response, previous_token):
            step = response.json().get("step")
            return None if step is None else {"n": (previous_token or {"n": 0})["n"] + step}

    return {
        "single": pagination.SinglePagePaginator,
        "links": Links,
        "header link": pagination.HeaderLinkPaginator,
        "jsonpath": lambda: pagination.JSONPathPaginator("$.next"),
        "deep jsonpath": lambda: pagination.JSONPathPaginator("$.links[?(@.rel == 'next')].href"),
        "jsonpath of many": lambda: pagination.JSONPathPaginator("$.tokens[*]"),
        "header": lambda: pagination.SimpleHeaderPaginator("X-Next-Page"),
        "numbers": lambda: Numbers(1),
        "old numbers": lambda: OldNumbers(start_value=0),
        "endless numbers": lambda: pagination.PageNumberPaginator(-2),
        "offsets": lambda: Offsets(0, 50),
        "old offsets": lambda: OldOffsets(start_value=10, page_size=5),
        "plain offsets": lambda: pagination.OffsetPaginator(0, page_size=0),
        "patient": lambda: Patient(1),
        "stuck": lambda: Stuck(1),
        "legacy": lambda: pagination.LegacyStreamPaginator(Stream()),
        "old name": lambda: pagination.BasePageNumberPaginator(3),
        "old name of offsets": lambda: pagination.BaseOffsetPaginator(3, 4),
        "too many": lambda: pagination.SinglePagePaginator(5),
        "no start": pagination.PageNumberPaginator,
        "no page size": lambda: pagination.OffsetPaginator(0),
        "abstract": lambda: pagination.BaseAPIPaginator(0),
        "abstract links": pagination.BaseHATEOASPaginator,
    }


RECORD = [{"id": 1}]
LINK = '<https://api.test/x?page=2&k=s>; rel="next", <https://api.test/x?page=9>; rel="last"'

WALKS = {
    "one page": [page({"data": RECORD})],
    "tokens": [page({"data": RECORD, "next": token}) for token in ("p2", "p3", None)],
    "missing token": [page({"data": RECORD, "next": "p2"}), page({"data": RECORD})],
    "empty token": [page({"data": RECORD, "next": "p2"}), page({"data": RECORD, "next": ""})],
    "number tokens": [page({"data": RECORD, "next": token}) for token in (2, 3, 0, 4)],
    "loop": [page({"data": RECORD, "next": "same"})] * 3,
    "loop of two": [page({"data": RECORD, "next": f"t{n % 2}"}) for n in range(4)],
    "list as token": [page({"data": RECORD, "next": [1], "tokens": ["t1", "t2"]})] * 2,
    "an empty page": [
        page({"data": RECORD, "next": "p2", "more": True, "step": 1}),
        page({"data": [], "next": "p3", "more": True, "step": 1}),
        page({"data": RECORD, "next": "p4", "more": True, "step": 1}),
    ],
    "only empty pages": [page({"data": [], "next": f"p{n}"}) for n in range(5)],
    "urls": [
        page({"data": RECORD, "next": "https://api.test/x?page=2"}),
        page({"data": RECORD, "next": "/x?page=3"}),
        page({"data": RECORD, "next": None}),
    ],
    "url loop": [page({"data": RECORD, "next": "https://api.test/x?key=secret"})] * 3,
    "broken url": [page({"data": RECORD, "next": "https://[broken"})],
    "header": [page({"data": RECORD}, x_next_page=n) for n in ("2", "3", "")],
    "header loop": [page({"data": RECORD}, X_NEXT_PAGE="2")] * 3,
    "link": [page({"data": RECORD}, link=LINK), page({"data": RECORD}, link="<x>; rel=prev")],
    "link loop": [page({"data": RECORD}, link=LINK)] * 2,
    "more": [page({"data": RECORD, "more": more}) for more in (True, True, False, True)],
    "total": [page({"data": RECORD, "total": 120, "more": 1}) for _ in range(4)],
    "deep": [
        page({"data": RECORD, "links": [{"rel": "self", "href": "a"}, {"rel": "next", "href": h}]})
        for h in ("b", "c")
    ],
    "to": [page({"data": RECORD, "to": to}) for to in (2, 2.5, True, "5", "5")],
    "back to the start": [page({"data": RECORD, "to": 1, "step": 0})] * 2,
    "steps": [page({"data": RECORD, "step": step}) for step in (1, 2, None)],
    "array": [page([{"id": 1}])],
    "no json": [page(RECORD)],
}
WALKS["no json"][0]._content = b"<html>"


def to_json_value(token):
    """Return a token as a value that JSON can represent."""
    return ["link", token.geturl()] if isinstance(token, ParseResult) else token


def walk(make, pages):
    """Iterate as a REST stream does; return the paginator's values at each page and the end."""
    visited = []
    try:
        paginator = make()
        for response in pages:
            texts = str(paginator), repr(paginator), paginator.count, paginator.finished
            visited.append([to_json_value(paginator.current_value), *texts])
            body = json.loads(response.content) if response.content[:1] != b"<" else {}
            records = body.get("data", [1]) if isinstance(body, dict) else body
            if not records and not paginator.continue_if_empty(response):
                return [visited, "empty page"]
            paginator.advance(response)
            if paginator.finished:
                return [
                    visited,
                    "finished",
                    paginator.count,
                    to_json_value(paginator.current_value),
                ]
    except Exception as error:  # noqa: BLE001  each is an outcome
        loop = str(error).startswith("Loop detected in pagination. ")
        kind = RuntimeError if isinstance(error, RuntimeError) else type(error)
        return [visited, kind.__name__, loop]
    return [visited, "more to come"]


def walks(package):
    """Return the result of each paginator for each list of pages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pagination = importlib.import_module(f"{package}.pagination")
        return {
            name: {title: walk(make, pages) for title, pages in WALKS.items()}
            for name, make in make_paginators(pagination).items()
        }


def shape(package):
    """Return the public API: names, constructors, members, warnings of old names."""
    pagination = importlib.import_module(f"{package}.pagination")
    classes = {
        name: member_class
        for name, member_class in vars(pagination).items()
        if isinstance(member_class, type) and member_class.__module__ == pagination.__name__
    }

    def words(function):
        return [
            (p.name, p.kind.name, p.default is p.empty)
            for p in inspect.signature(function).parameters.values()
        ]

    return {
        name: {
            "init": words(member_class.__init__),
            "bases": [base.__name__ for base in member_class.__mro__ if base.__name__ != "object"],
            "abstract": sorted(getattr(member_class, "__abstractmethods__", ())),
            "variables": [str(p) for p in getattr(member_class, "__parameters__", ())],
            "members": {
                member: words(value) if inspect.isfunction(value) else type(value).__name__
                for member, value in vars(member_class).items()
                if not member.startswith("_")
            },
            "made": list_warning_categories(member_class, *((1, 1) if "Offset" in name else (1,))),
            "derived": list_warning_categories(type, "Derived", (member_class,), {}),
        }
        for name, member_class in classes.items()
    }


def list_warning_categories(deed, *arguments):
    """Return the categories of the warnings that a call issues, even if it raises TypeError."""
    with warnings.catch_warnings(record=True) as caught, contextlib.suppress(TypeError):
        warnings.simplefilter("always")
        deed(*arguments)
    return [warning.category.__name__ for warning in caught]


def outcomes(package):
    """Return the results of all cases as plain JSON."""
    results = {"paths": paths(package), "walks": walks(package), "shape": shape(package)}
    return json.loads(json.dumps(results))


if __name__ == "__main__":
    print(json.dumps(outcomes(sys.argv[1])))
