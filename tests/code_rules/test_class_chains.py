"""Sizes of classes together with their base classes in the project, and the number of Protocols.

A limit on one ``class`` statement alone would only have classes cut into chains of bases, which
are harder to read than one class.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache

from tests.code_rules.source_files import Module, assert_empty, read_modules

MODULES = read_modules()

LINES = 900
LINKS = 4
PROTOCOLS = 21
"""Protocols today; the number may only fall."""

LARGER: dict[str, tuple[int, int]] = {
    "AccessTokenError": (39, 5),
    "FolderTap": (929, 3),
    "GraphQLStream": (1484, 4),
    "ManifestStream": (1157, 2),
    "ManifestTap": (977, 3),
    "NotJSONError": (23, 5),
    "RESTStream": (1411, 3),
    "ResponseTooLargeError": (19, 5),
    "ResponseTooSlowError": (19, 5),
    "SQLStream": (1012, 2),
    "SQLTap": (904, 3),
    "TruncatedBodyError": (27, 5),
    "UntrustedHostError": (21, 5),
    "_HTTPStream": (1332, 2),
}
"""Classes above a limit, with their lines and links today; neither may grow.

Public streams, taps and targets have the members of singer_sdk's classes, each with its docstring.
The errors have singer_sdk's own path of four classes up to `FatalAPIError` or `RetriableAPIError`.
"""


@cache
def classes() -> dict[str, list[tuple[Module, ast.ClassDef]]]:
    """Return the classes of the packages by name."""
    definitions = defaultdict(list)
    for module in MODULES:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                definitions[node.name].append((module, node))
    return definitions


def is_protocol(node: ast.ClassDef) -> bool:
    return any("Protocol" in ast.unparse(base) for base in node.bases)


def list_bases(node: ast.ClassDef, above: tuple[str, ...] = ()) -> list[ast.ClassDef]:
    """Return a class and all of its base classes in the project, each once."""
    links = [node]
    for base in node.bases:
        name = ast.unparse(base).split("[")[0].split(".")[-1]
        if name in classes() and name not in above:
            below = list_bases(classes()[name][0][1], (*above, node.name))
            links += [link for link in below if link not in links and not is_protocol(link)]
    return links


def measure_large_classes() -> dict[str, tuple[int, int]]:
    """Return lines and links of each class above a limit, with its bases, by name."""
    large = {}
    for name, definitions in classes().items():
        for _, node in definitions:
            links = list_bases(node)
            lines = sum((link.end_lineno or 0) - link.lineno + 1 for link in links)
            if lines > LINES or len(links) > LINKS:
                large[name] = (lines, len(links))
    return large


def test_classes_with_their_bases_are_short() -> None:
    over = {}
    for name, (lines, links) in measure_large_classes().items():
        most_lines, most_links = LARGER.get(name, (LINES, LINKS))
        if lines > max(LINES, most_lines) or links > max(LINKS, most_links):
            over[name] = f"{lines} lines in {links} classes, at most {most_lines} in {most_links}"
    assert_empty(over, "compose: let the class have an object, or call a function beside it")


def test_exceptions_of_classes_that_became_short_are_removed() -> None:
    assert_empty(
        sorted(set(LARGER) - set(measure_large_classes())), "remove these names from LARGER"
    )


def test_number_of_protocols_does_not_grow() -> None:
    count = sum(is_protocol(node) for definitions in classes().values() for _, node in definitions)
    assert count == PROTOCOLS, f"{count} Protocols: set PROTOCOLS to a smaller number, never larger"
