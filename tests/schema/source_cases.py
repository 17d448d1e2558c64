"""Schemas of the same documents, read by tap_core and by the peer.

Run as a script it uses the package named in its first argument and prints the results. It must
not import anything else of this project.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

DOCUMENTS = Path(__file__).with_name("documents")

COMPONENTS = {
    "shop_v2.json": ["Address", "Customer", "Company", "List<Customer>", "Category"],
    "shop_v30.yaml": [
        *("Money", "Base", "Order", "Simple", "Wrapped", "Pet", "Cat", "Dog", "Owner"),
        *("Untyped", "Level", "Map", "Node", "Outside", "Nothing"),
    ],
    "shop_v31.json": ["Item", "Maker", "Choice", "Anything"],
    "neither.json": ["Item"],
    "missing.json": ["Item"],
}
FILES = ["users", "plain", "groups", "list", "torn", "none"]


def outcomes(package: str) -> dict[str, Any]:
    """Return the schema, or the error and its cause, of every document, key and set of keys."""
    source = importlib.import_module(f"{package}.schema.source")
    outcomes_by_case: dict[str, Any] = {}
    for name, components in COMPONENTS.items():
        for component in components:
            for keys in ((), ("id",)):
                openapi_source = source.OpenAPISchema(DOCUMENTS / name)
                outcomes_by_case[f"{name} {component} {keys}"] = outcome(
                    openapi_source, component, keys
                )
    for name in FILES:
        outcomes_by_case[f"files {name}"] = outcome(
            source.SchemaDirectory(DOCUMENTS / "files"), name, ()
        )
    return json.loads(json.dumps(outcomes_by_case, default=repr))


def outcome(source: Any, key: str, keys: tuple[str, ...]) -> Any:
    try:
        return source.get_schema(key, key_properties=keys)
    except Exception as ex:  # noqa: BLE001 - what it is, is compared
        return [type(ex).__name__, type(ex.__cause__).__name__, re.split(" in |:", str(ex))[0]]


if __name__ == "__main__":
    print(json.dumps(outcomes(sys.argv[1])))
