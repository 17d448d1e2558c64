"""Reference evaluation of expressions: simpleeval, configured as in singer_sdk."""

from __future__ import annotations

import ast
import datetime as dt
import hashlib
import json
import warnings
from typing import Any

import simpleeval

from tap_core.mapper.expressions import ExpressionScope, compile_expression, parse_expression
from tap_core.mapper.functions import map_functions

CONFIG = {"limit": 5, "salt": "pepper", "nested": {"key": [1, 2]}}
FIXED = {"config": CONFIG, "__stream_name__": "people", "__original_stream_name__": "raw_people"}


class Evaluator(simpleeval.EvalWithCompoundTypes):  # type: ignore[misc]
    """The evaluator of singer_sdk, which walks the tree for each record."""

    def _check_disallowed_items(self, item: Any) -> None:
        """Look at calls and attributes only, as the Singer SDK does."""


def functions() -> dict[str, Any]:
    """Return the functions that expressions can call in singer_sdk."""
    return {
        **simpleeval.DEFAULT_FUNCTIONS,
        "md5": lambda text: hashlib.md5(text.encode()).hexdigest(),  # noqa: S324
        "sha256": lambda text: hashlib.sha256(text.encode()).hexdigest(),
        "datetime": simpleeval.ModuleWrapper(dt),
        "bool": bool,
        "json": simpleeval.ModuleWrapper(json),
    }


def evaluate_with_simpleeval(
    text: str, record: dict[str, Any], own_property: str | None = None
) -> Any:
    """Evaluate an expression on a record as singer_sdk does; any error means a rejection."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text).body[0]
        names = {**record, "_": record, "record": record, **FIXED}
        if own_property in record:
            names["self"] = record[own_property]
        evaluator = Evaluator(functions=functions(), names=names)
        return evaluator.eval(text, previously_parsed=tree)


def evaluate_with_tap_core(
    text: str, record: dict[str, Any], own_property: str | None = None
) -> Any:
    """Evaluate an expression on a record with tap_core's compiler."""
    tree = parse_expression(text, "a test")
    assert isinstance(tree, ast.Expr)
    scope = ExpressionScope(map_functions(), FIXED, own=own_property)
    return compile_expression(text, tree.value, scope, "a test").run(record)
