"""Compiled expressions have the values and the rejections of simpleeval."""

from __future__ import annotations

import copy
import datetime as dt
import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tap_core.exceptions import MapExpressionError
from tap_core.limits.bounded_operations import TEMPLATE_SECONDS
from tap_core.mapper.expressions import ExpressionScope, UnknownNameError, compile_expression
from tap_core.mapper.expressions import parse_expression as parse
from tap_core.mapper.functions import NotAllowedError, map_functions
from tests.mapper.reference import evaluate_with_simpleeval, evaluate_with_tap_core

RECORD = {
    "id": 7,
    "name": "Ada Lovelace",
    "email": "Ada@Example.com",
    "price": 12.5,
    "none": None,
    "yes": True,
    "tags": ["a", "b", "c"],
    "pairs": [[1, "x"], [2, "y"]],
    "address": {"city": "London", "geo": {"lat": 51.5}, "items": "shadowed"},
    "at": "2024-02-03T04:05:06+00:00",
    "with space": "odd",
    "class": "reserved",
    "int": "a field named as a function",
    "self": "a field named self",
    "fake": "a field",
}

ALLOWED = """
id + 1
1 + id
id - 1.5
-id
+id
~id
not id
id * 3 // 2 % 5
id / 2
id ** 2
1 << id
1024 >> 3
id & 3 | 8 ^ 1
name + '!'
name * 2
2 * name
tags + ['d']
tags * 2
'%s is %d' % (name, id)
id == 7 and name or 'nobody'
none or 0
none and 1
id > 3 > 1
1 < id < 3
1 < id <= 7 != 8
'Ada' in name
'a' not in tags
none is None
none is not None
1 is 1
'yes' if id > 3 else 'no'
name.lower()
name.lower().split(' ')[0]
name.split(' ', maxsplit=1)
email.split('@')[-1]
name[0:3]
name[::-1]
name[1:]
tags[0]
tags[-1:]
address['city']
address.city
address.geo.lat
list(address.items())
address.get('zip', 'none')
_['with space']
record['class']
record.get('missing')
int('5')
int
str(id)
float('1.5')
bool(none)
bool(id)
list(tags)
tuple(tags)
set(tags)
dict(a=1, b=id)
dict(address)
md5(email)
sha256(email)
md5(config['salt'] + email)
config.limit * 2
config['nested']['key'][1]
__stream_name__
__original_stream_name__
self
fake
datetime.datetime.strptime('2024-01-02', '%Y-%m-%d')
datetime.date(2024, 1, 2).isoformat()
datetime.datetime.fromisoformat(at).date()
datetime.timedelta(days=2).days
json.dumps(address)
json.dumps({'a': id, **address}, sort_keys=True)
json.loads('{"a": [1, 2]}')['a'][0]
f'{name} ({id})'
f'{id:05d}|{price:.1f}|{name!r}|{name:>{id + 10}}'
f'{price:}}}'
f''
[x for x in tags]
[x + str(id) for x in tags if x != 'b']
[x for x in tags if x != 'b' if x != 'c']
[a for a, b in pairs]
[a for [a, b] in pairs if b == 'y']
[(a, c) for a, b in pairs for c in tags if a > 1]
[a for a, in [(1, 2, 3)]]
{k: v for k, v in pairs}
{k: [i for i in tags if i != k] for k in tags}
[tags for tags in tags]
[[y for y in x] for x in pairs]
' '.join(x for x in tags)
','.join([*tags, 'z'])
{**address, 'x': 1}
{'a': 1}['a']
{1, 2, id}
(1, id, name)
[]
{}
()
True
None
...
b'bytes'
1j
record.pop('id') + id
tags.append('d') or tags
[record.clear(), id]
rand() < 2
randint(1)
{**pairs}
(1).bit_length()
(1).real
'é'.encode('utf-8')
str.upper(name)
dict.fromkeys(tags, 1)
1 if id else 1 / 0
id and id; 1 + 1
{'b': 1, 'b': 2}
[*[1, 2], *tags]
'a' 'b'
tags[0:1, 2] if False else 1
"""

REFUSED = """
missing
missing + 1
name.missing
address.missing
address['missing']
tags[9]
none.lower()
name + 1
1 + name
name - 1
'x' * 100001
100001 * 'x'
name * name
10 ** 5000000
5000000 ** 2
1 << 10001
1 << -1
1 >> 10001
[0] * 100001
'x' * 60000 + 'y' * 60000
1 / 0
1 // 0
int('x')
int(none)
foo(1)
foo(1)(2)
name()
record()
datetime(2024, 1, 1)
(lambda: 1)()
lambda: 1
name.__class__
name._x
().__class__.__bases__
name.func_code
name.format(1)
str.format('{}', 1)
name.format_map({})
int.mro()
datetime.sys
datetime.sys.modules
datetime.datetime.__subclasses__()
json.codecs
json.codecs.open('/etc/passwd')
json.decoder
json.missing
json._default_encoder
datetime.nothing
json.dumps.__globals__
open('/etc/passwd')
eval('1')
exec('1')
type(1)
getattr(name, 'lower')
__import__('os')
import os
from os import path
x := 1
(x := 1)
[x async for x in tags]
{x for x in tags}
name @ name
name.lower(*tags)
dict(**address)
*tags
(*tags, 1)
{*tags}
await name
(yield 1)
del name
pass
assert name
id: int = 1
[x for x in range(5)]
[x for x in 'x' * 10001]
[1 for a in 'x' * 200 for b in 'x' * 200]
[x for x.y in tags]
[x for x in none]
[a for a, b in tags]
f'{missing}'
f'{name:d}'
f'{name:{"{"}}'
tags['a']
{}['a']
{[]: 1}
{{}}
[].nothing
none > 1
none + none
'a' in none
self.lower
fake.name()
name.encode('utf-8').decode
"""

EXCEPTIONS = {
    "[x async for x in tags]",  # tap_core rejects it
    "[a for a, b in tags]",  # simpleeval ignores missing items; tap_core raises
    "self.lower",  # methods are values
    "name.encode('utf-8').decode",
}


def outcome(evaluate, text, own_property=None):
    """Return the value or error of an expression, and the record afterwards."""
    record = copy.deepcopy(RECORD)
    try:
        value = evaluate(text, record, own_property)
    except Exception as error:  # noqa: BLE001 - any error of simpleeval means a rejection
        return ("refused", error), record
    return ("value", value), record


@pytest.mark.parametrize("text", ALLOWED.strip().splitlines())
def test_expression_has_the_value_of_simpleeval(text):
    if text.startswith("rand"):
        assert evaluate_with_tap_core(text, RECORD) in {True, 0}
        return
    (kind, value), record = outcome(evaluate_with_tap_core, text)
    (expected, reference), record_afterwards = outcome(evaluate_with_simpleeval, text)
    assert (kind, expected) == ("value", "value"), (value, reference)
    assert value == reference
    assert type(value) is type(reference)
    assert record == record_afterwards


@pytest.mark.parametrize(
    "text", [text for text in REFUSED.strip().splitlines() if text not in EXCEPTIONS]
)
def test_expression_rejected_by_simpleeval_is_rejected(text):
    try:
        (expected, _), _ = outcome(evaluate_with_simpleeval, text)
    except SyntaxError:
        expected = "refused"
    if not text.startswith(("del", "pass", "assert", "import", "from", "id:", "await", "*")):
        (kind, error), _ = outcome(evaluate_with_tap_core, text)
        assert (kind, expected) == ("refused", "refused"), error
        assert isinstance(error, MapExpressionError)


def test_unpacking_a_tuple_that_is_too_short_raises():
    with pytest.raises(MapExpressionError, match="not enough values"):
        evaluate_with_tap_core("[a for a, b in [(1,)]]", {})


def test_async_comprehension_is_rejected():
    with pytest.raises(MapExpressionError, match="'async' is not available"):
        evaluate_with_tap_core("[x async for x in tags]", RECORD)


@pytest.mark.parametrize("own_property", ["id", "gone"])
def test_self_is_the_value_of_the_mapped_property(own_property):
    assert evaluate_with_tap_core("self", RECORD, own_property) == evaluate_with_simpleeval(
        "self", RECORD, own_property
    )
    with pytest.raises(UnknownNameError, match="'self' is not defined"):
        evaluate_with_tap_core("self", {"id": 1}, "gone")


def test_field_and_function_may_have_the_same_name():
    assert evaluate_with_tap_core("md5", {"md5": 3}) == 3
    assert evaluate_with_tap_core("md5('a')", {"md5": 3}) == evaluate_with_tap_core("md5('a')", {})
    assert callable(evaluate_with_tap_core("md5", {}))


def test_unknown_name_error_names_the_expression():
    with pytest.raises(UnknownNameError, match="the name 'gone' is not defined") as caught:
        evaluate_with_tap_core("gone + 1", {"id": 1})
    assert "It is a test" in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)


def test_missing_item_is_a_key_error_not_an_unknown_name():
    with pytest.raises(MapExpressionError, match="KeyError: 'gone'") as caught:
        evaluate_with_tap_core("_['gone']", {"id": 1})
    assert not isinstance(caught.value, UnknownNameError)


def test_fake_without_faker_names_the_missing_package():
    with pytest.raises(UnknownNameError, match="the package Faker is not installed"):
        evaluate_with_tap_core("fake.name()", {})


def test_forbidden_syntax_is_rejected_at_compile_time():
    scope = ExpressionScope(map_functions(), {})
    for text in ("name.__class__", "lambda: 1", "foo(1)", "True or open('x')", f"'{'x' * 100001}'"):
        with pytest.raises(MapExpressionError, match="Failed to evaluate simpleeval expressions"):
            compile_expression(text, parse(text, "a test").value, scope, "a test")


def test_forbidden_function_cannot_be_added_to_the_scope():
    scope = ExpressionScope({"open": open}, {})
    with pytest.raises(MapExpressionError, match="forbidden"):
        compile_expression("open('x')", parse("open('x')", "").value, scope, "a test")


def test_forbidden_function_cannot_be_reached_through_a_value():
    """SEC14: expressions reach no function of Python's and no module."""

    class Odd:
        way = eval
        path = json

    with pytest.raises(MapExpressionError, match="forbidden"):
        evaluate_with_tap_core("odd.way", {"odd": Odd})
    with pytest.raises(MapExpressionError, match="modules are not available"):
        evaluate_with_tap_core("odd.path", {"odd": Odd})


def test_deeply_nested_expression_does_not_crash():
    code = (
        "from tests.mapper.reference import evaluate_with_tap_core\n"
        "from tap_core.exceptions import MapExpressionError\n"
        "for text in ('(' * 5000 + ')' * 5000, '-' * 9000 + '1', '+'.join(['1'] * 9000)):\n"
        "    try: print(evaluate_with_tap_core(text, {}))\n"
        "    except MapExpressionError: print('refused')\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    assert set(process.stdout.split()) <= {"refused", "1", "9000"}


@pytest.mark.parametrize("text", ["", "   ", "1 +", "\0", "# nothing"])
def test_invalid_python_is_rejected_with_its_place(text):
    with pytest.raises(MapExpressionError, match=r"Failed to parse expression .* It is a test"):
        parse(text, "a test")


def test_names_of_an_expression_are_not_names_of_the_compiled_code():
    text = "[open, __builtins__, [x for x in globals if x]]"
    run = compile_expression(text, parse(text, "").value, ExpressionScope({}, {}), "a test").run
    codes = [run.__code__]
    for code in codes:
        codes += [constant for constant in code.co_consts if hasattr(constant, "co_names")]
    used = {name for code in codes for name in (*code.co_names, *code.co_varnames)}
    assert used <= {
        "Exception",
        "OperationBudget",
        "convert_error",
        "count_element",
        "iterate",
        "record",
        "names",
        "budget",
        "error",
        "v1",
        "k0",
        ".0",
    }
    assert run({"open": 1, "__builtins__": 2, "globals": [3]}) == [1, 2, [3]]


def test_mutating_expressions_are_recognized():
    def mutates(text):
        tree = parse(text, "")
        return compile_expression(
            text, tree.value, ExpressionScope(map_functions(), {}), ""
        ).mutates

    assert not mutates("name.lower() + address.city")
    assert mutates("tags.sort()")


def test_size_of_long_integers_in_comprehensions_is_limited():
    """SEC14: thousands of integers of half a megabyte would fill the memory."""
    with pytest.raises(
        MapExpressionError, match="more than 10,000,000 characters or items is too large"
    ):
        evaluate_with_tap_core("[2 ** 3900000 for each in list('a' * 100)]", {})


def test_time_of_comprehensions_is_limited(monkeypatch):
    """SEC14: each of 10,000 rounds may take a third of a second."""
    monkeypatch.setitem(vars(TEMPLATE_SECONDS), "value", 0.01)
    with pytest.raises(MapExpressionError, match=r"it takes longer than 0\.01 seconds"):
        evaluate_with_tap_core("[7 ** 200000 % 5 == 1 for each in list('a' * 10000)]", {})


@pytest.mark.parametrize(
    "operation", ["3**250000", "2**99999 * 3**99999", "3**99999 // 7**9999", "3**99999 % 7**9999"]
)
def test_time_of_operations_with_long_integers_is_limited(monkeypatch, operation):
    """SEC14: an expression may consist of thousands of slow operations."""
    expression = f"{' + '.join([operation] * 400)} > 0"
    monkeypatch.setitem(vars(TEMPLATE_SECONDS), "value", 0.01)
    with pytest.raises(MapExpressionError, match=r"it takes longer than 0\.01 seconds"):
        evaluate_with_tap_core(expression, {})
    monkeypatch.undo()
    assert evaluate_with_tap_core(f"{operation} > 0", {}) is True


def test_limit_errors_name_the_exceeded_limit():
    with pytest.raises(MapExpressionError, match="too long"):
        evaluate_with_tap_core("f'{text}'", {"text": "x" * 100_001})
    with pytest.raises(MapExpressionError, match="comprehensions have more than 10,000 iterations"):
        evaluate_with_tap_core("[x for x in many]", {"many": range(10_001)})
    assert len(evaluate_with_tap_core("[x for x in many]", {"many": range(10_000)})) == 10_000
    assert issubclass(NotAllowedError, Exception)


# ------------------------------------------------------------------ generated expressions

NAMES = ("i", "j", "s", "t", "f", "n", "b", "l", "d", "gone")
VALUES = {
    "i": st.integers(-1000, 1000),
    "j": st.integers(-5, 5),
    "s": st.text(max_size=8),
    "t": st.text("ab {}%", max_size=5),
    "f": st.floats(allow_nan=False, width=16),
    "n": st.none(),
    "b": st.booleans(),
    "l": st.lists(st.integers(-3, 3), max_size=4),
    "d": st.dictionaries(st.sampled_from("abk"), st.integers(-3, 3), max_size=3),
}
RECORDS = st.fixed_dictionaries(VALUES)
LEAVES = st.one_of(
    st.sampled_from(NAMES),
    st.integers(-3, 12).map(str),
    st.sampled_from(["1.5", "'a'", "''", "'%s'", "None", "True", "[]", "{}", "record", "_['i']"]),
)
BINARY = ("+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "and", "or")
COMPARED = ("==", "!=", "<", "<=", ">", ">=", "in", "not in")
IDENTITY = ("is None", "is not None", "is True", "is not False")
"""Identity tests with a defined result; others depend on the interpreter."""
METHODS = (
    *("lower()", "upper()", "strip()", "split('a')", "get('a', 1)", "a", "real", "keys()"),
    *("startswith('a')", "replace('a', 'b')", "pop()", "append(1)", "items()", "copy()"),
)
CALLS = ("int", "str", "float", "bool", "list", "md5", "tuple", "json.dumps", "dict")


def grown(inner):
    """Return larger expressions made of smaller ones."""
    pairs = st.tuples(inner, inner)
    return st.one_of(
        st.builds(lambda op, p: f"({p[0]} {op} {p[1]})", st.sampled_from(BINARY), pairs),
        st.builds(lambda op, p: f"({p[0]} {op} {p[1]})", st.sampled_from(COMPARED), pairs),
        st.builds(
            lambda a, o, b, q, c: f"({a} {o} {b} {q} {c})",
            inner,
            st.sampled_from(COMPARED),
            inner,
            st.sampled_from(COMPARED),
            inner,
        ),
        st.builds(lambda x, same: f"({x} {same})", inner, st.sampled_from(IDENTITY)),
        st.builds(lambda op, x: f"({op}{x})", st.sampled_from(["-", "+", "~", "not "]), inner),
        st.builds(lambda a, b, c: f"({a} if {b} else {c})", inner, inner, inner),
        st.builds(lambda x, m: f"({x}).{m}", inner, st.sampled_from(METHODS)),
        st.builds(lambda f, x: f"{f}({x})", st.sampled_from(CALLS), inner),
        st.builds(lambda p: f"{p[0]}[{p[1]}]", pairs),
        st.builds(lambda p, q: f"({p[0]})[{p[1]}:{q}]", pairs, inner),
        st.builds(lambda p: f"[{p[0]}, {p[1]}]", pairs),
        st.builds(lambda p: f"({p[0]}, {p[1]})", pairs),
        st.builds(lambda p: f"[*{p[0]}, {p[1]}]", pairs),
        st.builds(lambda p: f"{{'a': {p[0]}, **{p[1]}}}", pairs),
        st.builds(lambda p: f"[x for x in {p[0]} if {p[1]}]", pairs),
        st.builds(lambda p: f"{{k: {p[1]} for k, v in {p[0]}.items() if v}}", pairs),
        st.builds(lambda p: f"[[i, {p[1]}] for i in {p[0]}]", pairs),
        st.builds(lambda p: f"f'{{({p[0]})}} {{({p[1]}):>4}}'".replace("''", '""'), pairs),
    )


EXPRESSIONS = st.recursive(LEAVES, grown, max_leaves=8)


@settings(max_examples=600, deadline=None)
@given(EXPRESSIONS, RECORDS)
def test_generated_expressions_give_the_result_of_simpleeval(text, record):
    results = []
    for evaluator in (evaluate_with_tap_core, evaluate_with_simpleeval):
        given_record = copy.deepcopy(record)
        try:
            results.append((repr(evaluator(text, given_record, "s")), given_record))
        except MapExpressionError:
            results.append(("refused", None))
        except Exception:  # noqa: BLE001 - simpleeval lets errors of all kinds through
            assert evaluator is evaluate_with_simpleeval
            results.append(("refused", None))
    assert results[0] == results[1]


def test_datetime_module_gives_a_date():
    assert evaluate_with_tap_core("datetime.date(2024, 1, 2)", {}) == dt.date(2024, 1, 2)
