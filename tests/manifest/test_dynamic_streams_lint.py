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
    MAP_NAME,
    MAP_PATH,
    NAME,
    PARAMETRIZED,
    dynamic_stream,
    map_field,
    write_manifest,
)

ITEMS = (stream("items", "/i"),)
NOWHERE = map_field("[nmae]", NAME)
TYPE = "- type: ComponentMapping"


def lint(folder: Path, *dynamics: str, **options: Any) -> list[tuple[str, str]]:
    """Return the problems as pairs of the text of the line and the message."""
    path = write_manifest(folder, *dynamics, **{"streams": ITEMS, **options})
    lines = path.read_text(encoding="utf-8").splitlines()
    problems = lint_manifest(path).problems
    assert all(problem.line for problem in problems), problems
    return [(lines[problem.line - 1].strip(), problem.message) for problem in problems]


def lint_messages(folder: Path, *dynamics: str, **options: Any) -> list[str]:
    return [message for _, message in lint(folder, *dynamics, **options)]


@pytest.mark.parametrize("resolver", [HTTP, CONFIG, PARAMETRIZED])
def test_valid_dynamic_stream_has_no_problem(tmp_path: Path, resolver: str):
    assert lint(tmp_path, dynamic_stream(resolver)) == []


def test_mapped_options_may_be_missing_or_placeholders(tmp_path: Path):
    mapping = (
        MAP_NAME
        + MAP_PATH
        + map_field("[incremental_sync, cursor_field]", NAME, CREATES)
        + map_field('["**", step]', "{{ config['url'] }}")
        + map_field('["$parameters", size]', NAME, CREATES)
        + map_field("[retriever, paginator, \"{{ components_values['where'] }}\"]", NAME, CREATES)
        + map_field("[schema_loader, type]", NAME)
    )
    options = {
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
    assert lint(tmp_path, dynamic_stream(CONFIG, mapping, **options)) == []
    other = mapping.replace("cursor_field]", "other_field]")
    problems = lint_messages(tmp_path, dynamic_stream(CONFIG, other, **options))
    assert any("DatetimeBasedCursor needs cursor_field" in message for message in problems)


@pytest.mark.parametrize("path", ['["$parameters"]', "[\"{{ components_values['any'] }}\"]"])
def test_mapping_with_an_unknown_path_may_provide_required_options(tmp_path: Path, path: str):
    cursor = "incremental_sync: {type: DatetimeBasedCursor, step: '{{ parameters.step }}'}"
    declared = dynamic_stream(CONFIG, MAP_NAME + map_field(path, NAME, CREATES), cursor)
    assert lint(tmp_path, declared) == []


def test_path_with_a_template_may_provide_any_option_of_its_component(tmp_path: Path):
    path = "[transformations, '0', \"{{ components_values['any'] }}\"]"
    template = "transformations: [{type: AddFields}, {type: RemoveFields}]"
    mapping = MAP_NAME + map_field(path, NAME, CREATES)
    assert lint_messages(tmp_path, dynamic_stream(CONFIG, mapping, template)) == [
        "RemoveFields needs field_pointers."
    ]
    element_mapping = map_field("[transformations, '1']", "{type: KeysToLower}")
    assert lint(tmp_path, dynamic_stream(CONFIG, mapping + element_mapping, template)) == []


def test_conditional_mapping_may_or_may_not_apply(tmp_path: Path):
    condition = "condition: \"{{ components_values['by_day'] }}\""
    cursor = map_field("[incremental_sync]", "{type: DatetimeBasedCursor}", CREATES, condition)
    assert lint(tmp_path, dynamic_stream(CONFIG, MAP_NAME + cursor)) == []
    always = cursor.replace(condition, "condition: true")
    assert "needs" in lint_messages(tmp_path, dynamic_stream(CONFIG, MAP_NAME + always))[0]
    never = cursor.replace(condition, "condition: false")
    assert lint(tmp_path, dynamic_stream(CONFIG, MAP_NAME + never)) == []


def test_unmapped_options_of_a_template_are_checked(tmp_path: Path):
    template = """
    primary_kye: id
    transformations: [{type: AddFieldz}]
    incremental_sync: {type: IncrementingCountCursor, cursor_field: "{{ components_values.x }}"}
    """
    problems = lint(tmp_path, dynamic_stream(HTTP, template=template))
    lines = ["primary_kye", "transformations", "incremental_sync"]
    assert [line.partition(":")[0] for line, _ in problems] == lines
    parts = ("primary_key", "AddFieldz", "available only in a components_mapping")
    assert all(part in message for part, (_, message) in zip(parts, problems, strict=True))


def test_streams_of_a_parametrized_resolver_are_checked(tmp_path: Path):
    twice = PARAMETRIZED.replace("name: b", "name: a")
    assert set(lint_messages(tmp_path, dynamic_stream(twice))) == {"2 streams are called 'a'."}
    mapping = map_field("[incremental_sync]", f"{{type: {NAME}}}", CREATES)
    problems = lint(tmp_path, dynamic_stream(PARAMETRIZED, MAP_NAME + mapping))
    assert [message for _, message in problems] == [
        *("there is no component 'a'.", "there is no component 'b'.")
    ]
    assert {line for line, _ in problems} == {TYPE + "Definition"}


@pytest.mark.parametrize(
    ("resolver", "mapping", "line", "message"),
    [
        (
            HTTP,
            MAP_NAME + "  condition: true\n",
            "type: Http",
            "components_mapping[0] has a condition",
        ),
        (PARAMETRIZED, map_field("[name]", "{{ record.id }}"), "type: Para", "uses record"),
        (CONFIG, map_field("[name]", "{{ stream_slice.a }}"), "type: Conf", "uses stream_slice"),
        (CONFIG, map_field("[name]", "{{ a' }}"), "value: ", "does not parse"),
        (CONFIG, map_field("[]", NAME), TYPE, "field_path is empty"),
        (CONFIG, MAP_NAME.replace("value: ", "value: [{type: NoAuth}] #"), TYPE, "as a string"),
        (HTTP.replace("path: ", "pth: "), MAP_NAME, "requester: ", "'pth'"),
        (PARAMETRIZED, MAP_NAME + NOWHERE, TYPE, "`create_or_update: true` creates it"),
        (HTTP, MAP_NAME + NOWHERE, TYPE, "nothing at its path."),
        (CONFIG.replace("ConfigC", "C"), MAP_NAME, "type: Comp", "there is no component"),
        (PARAMETRIZED, map_field("[name]", "{{ [1] }}"), TYPE, "is [1], not a text"),
        (
            PARAMETRIZED,
            map_field("[name]", "{{ components_values.a.b }}"),
            TYPE,
            "of an undefined value",
        ),
        (PARAMETRIZED, map_field("[name, a]", "x", CREATES), TYPE, "leads nowhere"),
        (HTTP.replace("Simple", "Async"), MAP_NAME, "type: Async", "needs creation_requester"),
    ],
)
def test_problem_of_resolver_or_mapping_is_reported_with_its_line(
    tmp_path: Path, resolver: str, mapping: str, line: str, message: str
):
    problems = lint(tmp_path, dynamic_stream(resolver, mapping))
    assert any(
        message in problem and line_text.startswith(line) for line_text, problem in problems
    ), problems


def test_list_of_parameters_must_be_a_list(tmp_path: Path):
    wrong = PARAMETRIZED.replace("[{name: a, at: x}, {name: b, at: y}]", "{}")
    assert "a list of mappings" in lint_messages(tmp_path, dynamic_stream(wrong))[0]


def test_streams_named_in_a_check_are_verified_if_known(tmp_path: Path):
    check = (
        "{type: CheckStream, stream_names: [a, c], dynamic_streams_check_configs:"
        " [{type: DynamicStreamCheckConfig, dynamic_stream_name: all, stream_count: 0}]}"
    )
    assert lint_messages(tmp_path, dynamic_stream(PARAMETRIZED), check=check, streams=()) == [
        "stream_count is 0, and must be at least 1.",
        "there is no stream 'c'.",
        "there is no dynamic stream 'all'.",
    ]
    misspelled = check.replace("[a, c]", "[a, orderz]")
    of_orders = dynamic_stream(PARAMETRIZED.replace("name: b,", "name: orders,"))
    messages = lint_messages(tmp_path, of_orders, check=misspelled, streams=())
    assert "there is no stream 'orderz'. Did you mean 'orders'?" in messages
    check = check.replace("stream_count: 0", "stream_count: 1")
    assert lint(tmp_path, dynamic_stream(CONFIG, name="all"), check=check, streams=()) == []
    check = "{type: CheckDynamicStream}"
    assert lint_messages(tmp_path, dynamic_stream(PARAMETRIZED), check=check) == [
        "CheckDynamicStream needs stream_count."
    ]


def test_invalid_dynamic_streams_section_is_reported(tmp_path: Path):
    path = write_manifest(tmp_path, dynamic_stream(PARAMETRIZED))
    text = path.read_text(encoding="utf-8").partition("dynamic_streams:")[0]
    for wrong in ("{a: b}", "[a]", "[{stream_template: x, components_resolver: y}]"):
        path.write_text(f"{text}dynamic_streams: {wrong}\n", encoding="utf-8")
        assert any(
            problem.is_error and "dynamic_streams" in problem.path
            for problem in lint_manifest(path).problems
        ), wrong
