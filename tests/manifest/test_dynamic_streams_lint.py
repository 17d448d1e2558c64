"""Lint of dynamic streams: problems of templates, resolvers and mappings, with their lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tap_core.manifest.lint import lint_manifest
from tests.manifest.running import stream
from tests.manifest.templates import (
    CONFIG,
    CREATES,
    HTTP,
    LISTED,
    NAME,
    NAMED,
    PATH,
    dynamic,
    put,
    written,
)

ITEMS = (stream("items", "/i"),)
NOWHERE = put("[nmae]", NAME)
TYPE = "- type: ComponentMapping"


def lint(folder: Path, *dynamics: str, **more: Any) -> list[tuple[str, str]]:
    """Return the problems as pairs of the text of the line and the message."""
    path = written(folder, *dynamics, **{"streams": ITEMS, **more})
    lines = path.read_text(encoding="utf-8").splitlines()
    found = lint_manifest(path).problems
    assert all(one.line for one in found), found
    return [(lines[one.line - 1].strip(), one.message) for one in found]


def lint_messages(folder: Path, *dynamics: str, **more: Any) -> list[str]:
    return [message for _, message in lint(folder, *dynamics, **more)]


@pytest.mark.parametrize("resolver", [HTTP, CONFIG, LISTED])
def test_valid_dynamic_stream_has_no_problem(tmp_path: Path, resolver: str):
    assert lint(tmp_path, dynamic(resolver)) == []


def test_mapped_options_may_be_missing_or_placeholders(tmp_path: Path):
    mapping = (
        NAMED
        + PATH
        + put("[incremental_sync, cursor_field]", NAME, CREATES)
        + put('["**", step]', "{{ config['url'] }}")
        + put('["$parameters", size]', NAME, CREATES)
        + put("[retriever, paginator, \"{{ components_values['where'] }}\"]", NAME, CREATES)
        + put("[schema_loader, type]", NAME)
    )
    given = {
        "template": """
        incremental_sync:
          type: DatetimeBasedCursor
          datetime_format: "%Y-%m-%d"
          start_datetime: "2024-01-01"
          step: a placeholder
          cursor_granularity: P1D
        """,
        "retriever": "paginator: {type: DefaultPaginator}",
    }
    assert lint(tmp_path, dynamic(CONFIG, mapping, **given)) == []
    other = mapping.replace("cursor_field]", "other_field]")
    found = lint_messages(tmp_path, dynamic(CONFIG, other, **given))
    assert any("DatetimeBasedCursor needs cursor_field" in one for one in found)


@pytest.mark.parametrize("path", ['["$parameters"]', "[\"{{ components_values['any'] }}\"]"])
def test_mapping_with_an_unknown_path_may_provide_required_options(tmp_path: Path, path: str):
    cursor = "incremental_sync: {type: DatetimeBasedCursor, step: '{{ parameters.step }}'}"
    made = dynamic(CONFIG, NAMED + put(path, NAME, CREATES), cursor)
    assert lint(tmp_path, made) == []


def test_path_with_a_template_may_provide_any_option_of_its_component(tmp_path: Path):
    path = "[transformations, '0', \"{{ components_values['any'] }}\"]"
    template = "transformations: [{type: AddFields}, {type: RemoveFields}]"
    mapping = NAMED + put(path, NAME, CREATES)
    assert lint_messages(tmp_path, dynamic(CONFIG, mapping, template)) == [
        "RemoveFields needs field_pointers."
    ]
    whole = put("[transformations, '1']", "{type: KeysToLower}")
    assert lint(tmp_path, dynamic(CONFIG, mapping + whole, template)) == []


def test_conditional_mapping_may_or_may_not_apply(tmp_path: Path):
    condition = "condition: \"{{ components_values['by_day'] }}\""
    cursor = put("[incremental_sync]", "{type: DatetimeBasedCursor}", CREATES, condition)
    assert lint(tmp_path, dynamic(CONFIG, NAMED + cursor)) == []
    always = cursor.replace(condition, "condition: true")
    assert "needs" in lint_messages(tmp_path, dynamic(CONFIG, NAMED + always))[0]
    never = cursor.replace(condition, "condition: false")
    assert lint(tmp_path, dynamic(CONFIG, NAMED + never)) == []


def test_unmapped_options_of_a_template_are_checked(tmp_path: Path):
    template = """
    primary_kye: id
    transformations: [{type: AddFieldz}]
    incremental_sync: {type: IncrementingCountCursor, cursor_field: "{{ components_values.x }}"}
    """
    found = lint(tmp_path, dynamic(HTTP, template=template))
    lines = ["primary_kye", "transformations", "incremental_sync"]
    assert [line.partition(":")[0] for line, _ in found] == lines
    parts = ("primary_key", "AddFieldz", "available only in a components_mapping")
    assert all(part in message for part, (_, message) in zip(parts, found, strict=True))


def test_streams_of_a_parametrized_resolver_are_checked(tmp_path: Path):
    twice = LISTED.replace("name: b", "name: a")
    assert set(lint_messages(tmp_path, dynamic(twice))) == {"2 streams are called 'a'."}
    mapping = put("[incremental_sync]", f"{{type: {NAME}}}", CREATES)
    found = lint(tmp_path, dynamic(LISTED, NAMED + mapping))
    assert [message for _, message in found] == [
        *("there is no component 'a'.", "there is no component 'b'.")
    ]
    assert {line for line, _ in found} == {TYPE + "Definition"}


@pytest.mark.parametrize(
    ("resolver", "mapping", "line", "message"),
    [
        (
            HTTP,
            NAMED + "  condition: true\n",
            "type: Http",
            "components_mapping[0] has a condition",
        ),
        (LISTED, put("[name]", "{{ record.id }}"), "type: Para", "uses record"),
        (CONFIG, put("[name]", "{{ stream_slice.a }}"), "type: Conf", "uses stream_slice"),
        (CONFIG, put("[name]", "{{ a' }}"), "value: ", "does not parse"),
        (CONFIG, put("[]", NAME), TYPE, "field_path is empty"),
        (CONFIG, NAMED.replace("value: ", "value: [{type: NoAuth}] #"), TYPE, "as a string"),
        (HTTP.replace("path: ", "pth: "), NAMED, "requester: ", "'pth'"),
        (LISTED, NAMED + NOWHERE, TYPE, "`create_or_update: true` creates it"),
        (HTTP, NAMED + NOWHERE, TYPE, "nothing at its path."),
        (CONFIG.replace("ConfigC", "C"), NAMED, "type: Comp", "there is no component"),
        (LISTED, put("[name]", "{{ [1] }}"), TYPE, "is [1], not a text"),
        (LISTED, put("[name]", "{{ components_values.a.b }}"), TYPE, "of an undefined value"),
        (LISTED, put("[name, a]", "x", CREATES), TYPE, "leads nowhere"),
        (HTTP.replace("Simple", "Async"), NAMED, "type: Async", "needs creation_requester"),
    ],
)
def test_problem_of_resolver_or_mapping_is_reported_with_its_line(
    tmp_path: Path, resolver: str, mapping: str, line: str, message: str
):
    found = lint(tmp_path, dynamic(resolver, mapping))
    assert any(message in one and at.startswith(line) for at, one in found), found


def test_list_of_parameters_must_be_a_list(tmp_path: Path):
    wrong = LISTED.replace("[{name: a, at: x}, {name: b, at: y}]", "{}")
    assert "a list of mappings" in lint_messages(tmp_path, dynamic(wrong))[0]


def test_streams_named_in_a_check_are_verified_if_known(tmp_path: Path):
    check = (
        "{type: CheckStream, stream_names: [a, c], dynamic_streams_check_configs:"
        " [{type: DynamicStreamCheckConfig, dynamic_stream_name: all, stream_count: 0}]}"
    )
    assert lint_messages(tmp_path, dynamic(LISTED), check=check, streams=()) == [
        "stream_count is 0, and must be at least 1.",
        "there is no stream 'c'.",
        "there is no dynamic stream 'all'.",
    ]
    near = check.replace("[a, c]", "[a, orderz]")
    of_orders = dynamic(LISTED.replace("name: b,", "name: orders,"))
    found = lint_messages(tmp_path, of_orders, check=near, streams=())
    assert "there is no stream 'orderz'. Did you mean 'orders'?" in found
    check = check.replace("stream_count: 0", "stream_count: 1")
    assert lint(tmp_path, dynamic(CONFIG, name="all"), check=check, streams=()) == []
    check = "{type: CheckDynamicStream}"
    assert lint_messages(tmp_path, dynamic(LISTED), check=check) == [
        "CheckDynamicStream needs stream_count."
    ]


def test_invalid_dynamic_streams_section_is_reported(tmp_path: Path):
    path = written(tmp_path, dynamic(LISTED))
    text = path.read_text(encoding="utf-8").partition("dynamic_streams:")[0]
    for wrong in ("{a: b}", "[a]", "[{stream_template: x, components_resolver: y}]"):
        path.write_text(f"{text}dynamic_streams: {wrong}\n", encoding="utf-8")
        assert any(
            one.is_error and "dynamic_streams" in one.path for one in lint_manifest(path).problems
        ), wrong
