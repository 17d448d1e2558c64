"""Limits of stream map expressions: no short expression allocates a huge value."""

from __future__ import annotations

import ast
from decimal import Decimal
from typing import Any, cast

import pytest

from tap_core.exceptions import MapExpressionError
from tap_core.mapper.expressions import ExpressionScope, compile_expression, parse_expression
from tap_core.mapper.functions import map_functions
from tests.process_memory import read_peak_memory, reset_peak_memory

RECORD: dict[str, Any] = {"a": 1, "s": "abc", "d": Decimal("1e999999999"), "l": [1, 2]}


def evaluate(text: str) -> Any:
    tree = cast("ast.Expr", parse_expression(text, "a test")).value
    scope = ExpressionScope(map_functions(), {})
    return compile_expression(text, tree, scope, "a test").run(dict(RECORD, l=[1, 2]))


@pytest.mark.parametrize(
    "text",
    [
        "'a'.ljust(10**9)",
        "'a'.center(width=10**9)",
        "'x'.zfill(10**9)",
        "'x'.encode().rjust(10**9)",
        "'\\t'.expandtabs(10**9)",
        "'%1000000000d' % 1",
        "'%*d' % (10**9, 1)",
        "'%(a)1000000000d' % {'a': 1}",
        "'%d' % d",
        "f'{1:1000000000d}'",
        "f'{1:{10**9}d}'",
        "f'{d:f}'",
        "4000000**4000000",
        "(2**4000000) * (2**4000000)",
        "1 << 10**10",
        "('a' * 900).replace('a', 'b' * 900)",
        "'a'.replace('', 'b' * 10**5).replace('b', 'c' * 10**5)",
        "','.join(['x' * 99999 for i in list('a' * 9999)])",
        "('b' * 99999).join(list('a' * 99999))",
        "('a' * 900).translate({97: 'b' * 900})",
        "(5).to_bytes(10**9, 'big')",
        "int(d)",
        "d.as_integer_ratio()",
        "json.dumps([1], indent=10**9)",
        "json.dumps([1] * 1000, separators=('x' * 99999, 'y'))",
        "[[['x' * 1000] * 1000] * 1000]",
        "str([[['x' * 100] * 100] * 1000] * 100)",
        "[('x' * 99999) for i in list('a' * 9999)]",
        "{i: 'x' * 99999 + i for i in [str(rand()) for j in list('a' * 4999)]}",
        "[l.extend(l) for i in list('a' * 100)]",
        "(2 * 2**3999990) * (2**999)",
        "3**2500000 // 3**1250000",
        "3**2500000 % 3**1250000",
    ],
)
def test_expression_with_a_huge_result_is_rejected_before_it_allocates(text: str):
    """SEC14: an expression that would make a huge value is refused before it does."""
    reset_peak_memory()
    before = read_peak_memory()
    with pytest.raises(MapExpressionError, match="It is a test: "):
        evaluate(text)
    assert read_peak_memory() - before < 200 << 20


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a-%s-%05d' % (s, a)", "a-abc-00001"),
        ("a % 2", 1),
        ("7 % 3", 1),
        ("'x,y'.replace(',', ';')", "x;y"),
        ("'x,y,z'.replace(',', ';', 1)", "x;y,z"),
        ("s.join(['1', '2'])", "1abc2"),
        ("'-'.join([x.upper() for x in ['p', 'q']])", "P-Q"),
        ("datetime.datetime(2020, 1, 1).replace(year=2021).isoformat()", "2021-01-01T00:00:00"),
        ("json.dumps({'a': 1}, indent=1)", '{\n "a": 1\n}'),
        ("2**4000000 > 1", True),
        ("int('ff', 16)", 255),
        ("int('12') * 2", 24),
        ("f'{a:05d}'", "00001"),
        ("s.zfill(5)", "00abc"),
        ("{x: x for x in l}", {1: 1, 2: 2}),
    ],
)
def test_common_expressions_give_their_value(text: str, value: Any):
    assert evaluate(text) == value
