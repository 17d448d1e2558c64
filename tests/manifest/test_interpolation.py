"""Template interpolation: variables, results, errors, and fast paths equal to Jinja."""

from __future__ import annotations

import ast
import re
from decimal import Decimal
from typing import Any

import jinja2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interpolation import BoundTemplate, compile_template, find_config_keys
from tap_core.manifest.literals import parse_literal, parse_option
from tap_core.manifest.macros import FILTERS, MACROS

_RECORD = {"id": 7, "deep": {"er": None, "list": [1, "b"]}, "name": "N", "get": "own"}
_SCOPE = {
    "config": {"start": "2024-01-02", "no": "0042", "items": [1]},
    "record": _RECORD,
    "stream_slice": {"start_time": "2024-01-01", "id": "a"},
    "next_page_token": None,
    "response": {},
}


def _evaluate(
    text: str, kind: str = "value", types: tuple[type, ...] = (), **variables: Any
) -> Any:
    return BoundTemplate(compile_template(text), variables, kind, types)(_SCOPE)


@pytest.mark.parametrize(
    "text, value",
    [
        ("{{ 1 }}", 1),
        ("{{ 1.50 }}", 1.5),
        ("{{ true }}", True),
        ("{{ [1, 'b'] }}", [1, "b"]),
        ("{{ {'a': 1} }}", {"a": 1}),
        ("{{ none }}", None),
        ("{{ record['missing'] }}", ""),
        ("{{ record.missing }}", ""),
        ("{{ record.get('missing') }}", None),
        ("{{ config['no'] }}", "0042"),
        ("{{ record.id }}", 7),
        ("{{ record['id'] | string }}", "7"),
        ("{{ record.deep | string }}", '{"er": null, "list": [1, "b"]}'),
        ("a {{ record.deep['list'][1] }} b", "a b b"),
        ("{% if record.id > 5 %}big{% else %}small{% endif %}", "big"),
        ("{{ stream_interval.start_time }}", "2024-01-01"),
        ("{{ stream_partition['id'] }}", "a"),
        ("{{ config['items'][0] }}", 1),
        ("{{ config.items is callable }}", True),
        ("{{ ''.__class__ }}", ""),
        ("{{ parameters.name }}", "p"),
    ],
)
def test_template_result_is_parsed_as_a_literal(text, value):
    """As in Airbyte's YAML reference, "Interpolation"; results equal airbyte-cdk 7.39."""
    result = _evaluate(text, parameters={"name": "p"})
    assert (result, type(result)) == (value, type(value))


@pytest.mark.parametrize(
    "text, types, value",
    [
        ("{{ 1.50 }}", (str, list), "1.5"),
        ("{{ none }}", (str, list), "None"),
        ("{{ [1] }}", (str, list), [1]),
        ("{{ '\"x\"' }}", (str,), "x"),
        ("{{ '1e3' }}", (int,), "1e3"),
    ],
)
def test_literal_of_another_type_stays_a_string(text, types, value):
    assert _evaluate(text, types=types) == value


def test_string_result_keeps_its_text_without_quotes():
    """Unlike in airbyte-cdk, numbers are not reformatted: the string "1e5" stays the same."""
    assert _evaluate("{{ '1e5' }}", "text") == "1e5"
    assert _evaluate("{{ [1,2] }}", "text") == "[1, 2]"
    assert _evaluate("{{ record.deep | string }}", "text") == '{"er": null, "list": [1, "b"]}'


@pytest.mark.parametrize("text", ["...", "(...)", "[...]", "{'a': ...}", "b'x'", "[(b'x',)]"])
def test_literals_that_json_does_not_have_stay_text(text):
    assert parse_literal(text) == text


@pytest.mark.parametrize("text", ["0.1234567890123456789", "9007199254740993.0", "1E+400"])
def test_number_keeps_digits_that_a_float_would_lose(text):
    assert repr(parse_literal(text)) == f"Decimal('{text}')"
    number = Decimal(text)
    assert (
        BoundTemplate(compile_template("{{ record }}"), {}, "value")({"record": number}) == number
    )
    assert parse_literal(text, (float,)) == float(text)


_AMOUNTS = {"a": Decimal("1.50"), "list": [Decimal("0.1234567890123456789"), {"b": Decimal(2)}]}


@pytest.mark.parametrize(
    "text, value",
    [
        ("{{ record }}", {"a": 1.5, "list": [0.12345678901234568, {"b": 2.0}]}),
        ("{{ record | tojson }}", {"a": 1.5, "list": [0.12345678901234568, {"b": 2.0}]}),
        ("{{ record | string }}", '{"a": 1.5, "list": [0.12345678901234568, {"b": 2.0}]}'),
        ("{{ record.list[0] | string }}", "0.1234567890123456789"),
        ("{{ record.list[0] | tojson }}", 0.12345678901234568),
        ("{{ record | items | list }}", [("a", 1.5), ("list", [0.12345678901234568, {"b": 2.0}])]),
        ("x{{ '' ~ record.list[1] }}", "x{'b': 2.0}"),
        ("x{{ '%s' % record.list[1].b }}", "x2.0"),
        ("x{{ '%s' % (record.list[1],) }}", "x{'b': 2.0}"),
        ("x{{ '%s' | format(record.list[1]) }}", "x{'b': 2.0}"),
        ("x{{ '{}'.format(record.list[1]) }}", "x{'b': 2.0}"),
        ("x{{ '{}'.format(record.list[0]) }}", "x0.1234567890123456789"),
        ("x{{ '%s' % (record.list[0],) }}", "x0.1234567890123456789"),
        ("x{{ 'y' | replace('y', record.list[0]) }}", "x0.1234567890123456789"),
        ("x{{ [record.list[0]] | join }}", "x0.1234567890123456789"),
        ("x{{ [record] | groupby('a') | join(attribute='grouper') }}", "x1.5"),
        ("{{ record.list[1] | hash == \"{'b': 2.0}\" | hash }}", True),
        ("{{ record.list[1].values() | first * 1.5 }}", 3.0),
        ("{% for name, one in record.list[1].items() %}{{ one * 1.5 }}{% endfor %}", 3.0),
        ("{% for one in record.list[1].values() %}{{ one * 1.5 }}{% endfor %}", 3.0),
        ("{{ record.list[1].values() | map('abs') | join(',') }}", 2.0),
        ("{% set all = [] %}{{ all.append(record.a) or all }}", [1.5]),
    ],
)
def test_template_calculates_with_floats_and_writes_decimals_as_floats(text, value):
    """As airbyte-cdk, which has floats in its records."""
    bound = BoundTemplate(compile_template(text), {}, "value")
    assert bound({"record": _AMOUNTS}) == value


@pytest.mark.parametrize(
    "text, holds",
    [
        ("{{ record.id == 7 }}", True),
        ("{{ 0 }}", False),
        ("{{ {} }}", False),
        ("{{ 'false' }}", False),
        ("{{ record.missing }}", False),
        ("{{ record.missing.deeper }}", False),
        ("{{ none }}", False),
        ("{{ 'anything' }}", True),
    ],
)
def test_condition_is_false_for_empty_and_false_values(text, holds):
    assert _evaluate(text, "condition") is holds
    assert parse_option("false", "condition") is False
    assert parse_option("whatever", "condition") is True


def test_condition_with_a_type_error_is_true_with_a_warning(caplog):
    """airbyte-cdk then uses the template text as result, which is not empty."""
    assert _evaluate("{{ record.name > 5 }}", "condition") is True
    assert "fails: TypeError" in caplog.text


# Errors


@pytest.mark.parametrize(
    "text, message",
    [
        ("{{ config['a' }}", "does not parse"),
        ("{{ confg.a }}", "uses 'confg', which no template can use. Available are config,"),
        ("{{ range(3) }}", "uses 'range'"),
        ("{{ 1 | nothing }}", "No filter named 'nothing'"),
        ("{{ " + "9" * 5_000 + " }}", "does not parse: Exceeds the limit"),
    ],
)
def test_invalid_template_is_rejected_at_compilation(text, message):
    with pytest.raises(ManifestError) as exc_info:
        compile_template(text)
    assert message in str(exc_info.value)


@pytest.mark.parametrize(
    "text, message",
    [
        ("{{ record.missing.deeper }}", "accesses a part of an undefined value"),
        ("{{ last_record.id }}", "uses 'last_record', which is not known here"),
        ("{{ record.id + 'a' }}", "TypeError: unsupported operand"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ timestamp(none) }}", "fails: TypeError"),
        ("{{ timestamp(record.missing) }}", "accesses a part of an undefined value"),
        ("{{ duration('never') }}", "'never' is not an ISO 8601 duration"),
        ("{{ timestamp(config['start'] + 'x') }}", "fails: ValueError"),
    ],
)
def test_failing_template_names_its_place_without_config_values(text, message):
    bound = BoundTemplate(compile_template(text), {}, "value", place="m.yaml, line 3, streams[0]")
    with pytest.raises(ManifestError) as failed:
        bound(_SCOPE)
    assert str(failed.value).startswith("m.yaml, line 3, streams[0]: the template ")
    assert message in str(failed.value)
    assert "2024-01-02x" not in str(failed.value)


# Fast paths

_STEPS = st.sampled_from([".id", "['id']", ".deep", "['deep']", ".er", "['list']", "[0]", ".get"])
_ROOTS = st.sampled_from(["record", "config", "response", "next_page_token", "stream_slice"])
_CHAINS = st.builds(lambda root, steps: root + "".join(steps), _ROOTS, st.lists(_STEPS, max_size=3))
_TEXTS = st.lists(
    st.tuples(st.sampled_from(["", "a ", "/x?", "\n"]), _CHAINS), min_size=1, max_size=3
)


@given(_TEXTS)
def test_fast_lookups_equal_the_results_of_jinja(pieces):
    text = "".join(f"{before}{{{{ {chain} }}}}" for before, chain in pieces)
    environment = jinja2.sandbox.SandboxedEnvironment()
    try:
        expected = environment.from_string(text).render(_SCOPE)
    except jinja2.UndefinedError:
        with pytest.raises(jinja2.UndefinedError):
            compile_template(text).render(_SCOPE, {})
        return
    assert compile_template(text).render(_SCOPE, {}) == expected


_LITERALS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=5,
).map(repr)


@given(
    st.text(max_size=8)
    | _LITERALS
    | st.text("0123456789_-+.eEjxTrueFalsNo'\"[]{}(), #", max_size=9)
)
@example("2024-01-01")
@example("True ")
@example("set()")
@example("b'x'")
@example("007")
@example("9" * 5000)
@example("-0.0")
@example("1e-999")
@example("12e456789")
def test_literals_are_parsed_as_by_python(text):
    """Except those that JSON does not have, and numbers with more digits than a float."""
    try:
        expected: Any = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        expected = text
    if isinstance(expected, (complex, bytes)) or "Ellipsis" in repr(expected):
        expected = text
    if isinstance(expected, float) and re.fullmatch(r"[-\d.eE+]+", text, re.ASCII):
        exact = Decimal(text)
        is_text = abs(exact.adjusted()) > 1_000  # such as an ID
        expected = text if is_text else expected if Decimal(repr(expected)) == exact else exact
    assert repr(parse_literal(text)) == repr(expected)


# Functions and filters


@pytest.mark.parametrize(
    "text, value",
    [
        ("{{ format_datetime('2024-01-02T03:04:05Z', '%Y/%m/%d') }}", "2024/01/02"),
        ("{{ format_datetime('2024-01-02T03:04:05+02:00', '%s') }}", 1704157445),
        ("{{ format_datetime(1704067200, '%Y-%m-%d') }}", "2024-01-01"),
        ("{{ format_datetime(1704067200123, '%H.%_ms', '%ms') }}", 0.123),
        ("{{ format_datetime('02.01.2024', '%Y-%m-%d', '%d.%m.%Y') }}", "2024-01-02"),
        ("{{ format_datetime(str_to_datetime('2024-01-02'), '%ms') }}", 1704153600000),
        ("{{ timestamp('2024-01') | int }}", 1704067200),
        ("{{ timestamp(5.7) }}", 5),
        ("{{ str_to_datetime('2024-03-31') - duration('P1M') }}", "2024-02-29 00:00:00+00:00"),
        ("{{ str_to_datetime('2024-03-31') + duration('-P1D') }}", "2024-03-30 00:00:00+00:00"),
        ("{{ today_utc() + duration('P1D') > today_utc() }}", True),
        ("{{ now_utc() > str_to_datetime('2020-01-01') }}", True),
        ("{{ day_delta(1, '%Y') | int > 2000 }}", True),
        ("{{ today_with_timezone('Asia/Tokyo') >= today_utc() }}", True),
        ("{{ max(2, 3) + min([4, 5]) }}", 7),
        ("{{ sanitize_url('https://a/b?c=d') }}", "https%3A%2F%2Fa%2Fb%3Fc%3Dd"),
        ("{{ camel_case_to_snake_case('CamelCase') }}", "camel_case"),
        ("{{ generate_uuid() | length }}", 36),
        ("{{ 'a' | hash }}", "0cc175b9c0f1b6a831c399e269772661"),
        ("{{ 'a' | hash('sha1', 'b') }}", "da23614e02469a0d7c7bd1bdab5c9c474b1904dc"),
        ("{{ 'a' | base64encode | base64decode }}", "a"),
        ("{{ 'a' | base64binascii_decode }}", "YQ=="),
        ("{{ 'a=1;b=2' | regex_search('b=(\\d)') }}", 2),
        ("{{ 'a' | regex_search('b') }}", ""),
        ("{{ ('b' | regex_search('(a)?b')) or 'none' }}", "none"),
        ("{{ 'aXb' | regex_replace('X', '-') }}", "a-b"),
        ("{{ ('a' | hmac('k'))[:8] }}", "c5b2f0f1"),
    ],
)
def test_macros_and_filters_equal_those_of_airbyte(text, value):
    """The cases cover Airbyte's YAML reference, "Macros" and "Filters"."""
    if "hmac" in text:
        value = FILTERS["hmac"]("a", "k")[:8]
    assert _evaluate(text) == value


def test_all_macros_and_filters_of_airbyte_exist():
    functions = (
        "now_utc today_utc timestamp max min day_delta duration format_datetime sanitize_url"
        " today_with_timezone str_to_datetime camel_case_to_snake_case generate_uuid"
    )
    filters = "hash base64encode base64decode base64binascii_decode string regex_search"
    assert {*functions.split()} <= {*MACROS}
    assert {*filters.split(), "regex_replace", "hmac"} == {*FILTERS}


def test_only_templates_of_config_and_parameters_are_constant():
    assert compile_template("{{ config.a }}{{ parameters.b }}").is_fixed
    assert not compile_template("{{ config.a }}{{ now_utc() }}").is_fixed
    assert not compile_template("{{ record.id }}").is_fixed
    assert not compile_template("{{ config['a'] | random }}").is_fixed


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("{{ config['a'] }} and {{ config.b.c }}", {"a", "b"}),
        ("{{ config.get('a', config['b']) or config['c']['d'] }}", {"a", "b", "c"}),
        ("{{ config['a' if record.b else 'c'] }}", set()),
        ("{{ config.items() }}{{ record['a'] }}", set()),
        ("config['a']", set()),
        ("{{ config['a' }}", set()),
        ("{% for one in config['a'] %}{{ one }}{% endfor %}", {"a"}),
    ],
)
def test_config_keys_of_a_template_are_found(text: str, settings: set[str]):
    assert find_config_keys(text) == settings
