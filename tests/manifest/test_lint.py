"""Lint of manifests: all problems at once, with their lines."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from tap_core.manifest.lint import lint_manifest

_GOOD = """\
version: 6.0.0
type: DeclarativeSource
check: {type: CheckStream, stream_names: [planes]}
definitions:
  cursor:
    type: DatetimeBasedCursor
    cursor_field: at
    datetime_format: "%Y-%m-%d"
    start_datetime: "{{ config['start_date'] }}"
    step: P10D
    cursor_granularity: P1D
streams:
  - type: DeclarativeStream
    name: planes
    primary_key: id
    incremental_sync: "#/definitions/cursor"
    retriever:
      type: SimpleRetriever
      requester:
        type: HttpRequester
        url: "https://x/{{ config['region'] }}/{{ stream_interval.start_time }}"
        authenticator: {type: BearerAuthenticator, api_token: "{{ config['key'] }}"}
      record_selector:
        type: RecordSelector
        extractor: {type: DpathExtractor, field_path: [data]}
      paginator:
        type: DefaultPaginator
        pagination_strategy: {type: PageIncrement, page_size: "{{ config['size'] }}"}
    schema_loader: {type: InlineSchemaLoader, schema: {type: object, properties: {}}}
"""


def _lint(text: str) -> list[tuple[int, str, str]]:
    return [
        (problem.line, problem.severity, problem.message)
        for problem in lint_manifest(text).problems
    ]


def test_valid_manifest_has_no_problem_without_a_config():
    assert lint_manifest(_GOOD).problems == []


def test_all_problems_are_reported_with_their_lines():
    text = (
        _GOOD.replace("step: P10D", "step: P10X")
        .replace("field_path: [data]", "fieldpath: [data]")
        .replace("stream_interval.start_time", "interval.start")
        .replace("[planes]}", "[trains]}")
        .replace("type: PageIncrement", "type: PageIncrements")
    )
    problems = _lint(text)
    assert [(line, severity) for line, severity, _ in problems] == [
        (3, "error"),
        (6, "error"),
        (21, "error"),
        (25, "error"),
        (25, "error"),
        (28, "error"),
    ]
    messages = " ".join(message for _, _, message in problems)
    for part in ("'trains'", "'P10X'", "'interval'", "'fieldpath'", "field_path", "PageIncrements"):
        assert part in messages


def test_unknown_encoding_of_a_decoder_is_reported_with_its_line():
    decoder = "      decoder: {type: CsvDecoder, encoding: nope}\n"
    [(line, severity, message)] = _lint(
        _GOOD.replace("      paginator:", f"{decoder}      paginator:")
    )
    assert (line, severity) == (26, "error")
    assert message.startswith("encoding is 'nope': it must be the name of a text encoding")


def test_cursor_options_are_checked_without_a_config():
    cursor = "    is_data_feed: true\n    cursor_granularity: P1D\n"
    feed = _lint(_GOOD.replace("    cursor_granularity: P1D\n", cursor))
    assert [(line, severity) for line, severity, _ in feed] == [(6, "warning")]
    alone = _lint(_GOOD.replace("    cursor_granularity: P1D\n", ""))
    assert "step and cursor_granularity belong together" in alone[0][2]
    short = _lint(_GOOD.replace("P10D", "PT1S"))
    assert "shorter than the cursor_granularity" in short[0][2]
    wrong = _lint(_GOOD.replace("%Y-%m-%d", "%Q"))
    assert "%Q" in wrong[0][2]


_STEP, _URL = "step: P10D", '        url: "https'
_UNION = (
    "{type: CombinedExtractor, mode: union, extractors: [{type: DpathExtractor, field_path: [a]}]}"
)
_LIST = "{type: ListPartitionRouter, cursor_field: a, values: two}"
_ADD = "{type: AddFields, fields: [{path: [a], value: 1, value_type: []}]}"
_CALLS = "call_limit: \"{{ config['calls'] }}\""
_POLICY = f"{{type: FixedWindowCallRatePolicy, period: two, {_CALLS}, matchers: []}}"
_SPLIT = "      request_window_splitting: {type: RequestWindowSplitting}\n"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {_STEP: "step: \"{{ config['step'] }}\"", '"%Y-%m-%d"': '"%Q"'},
            "The date-time format '%Q'",
        ),
        (
            {_URL: "        request_body_data: {a: b}\n        request_body_json: {a: b}\n" + _URL},
            "A request has one body",
        ),
        (
            {"{type: DpathExtractor, field_path: [data]}": _UNION, "PageIn": "OffsetIn"},
            "An OffsetIncrement would skip records",
        ),
        (
            {
                '    incremental_sync: "#/definitions/cursor"\n': "",
                "      paginator:": f"{_SPLIT}      paginator:",
            },
            "request_window_splitting",
        ),
    ],
)
def test_unknown_setting_of_an_option_does_not_hide_other_errors(changes, message):
    text = _GOOD
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    [error] = [problem for _, severity, problem in _lint(text) if severity == "error"]
    assert message in error


@pytest.mark.parametrize(
    "template",
    [
        "{type: ApiKeyAuthenticator, header: \"{{ config['h'] }}\", api_token: a}",
        "{type: BasicHttpAuthenticator, username: \"{{ config['u'] }}\"}",
    ],
)
def test_check_that_needs_an_unknown_setting_is_skipped(template):
    text = _GOOD.replace(
        "{type: BearerAuthenticator, api_token: \"{{ config['key'] }}\"}", template
    )
    assert template in text
    text = text.replace(_STEP, "step: \"{{ config['step'] }}\"").replace(
        "cursor_granularity: P1D", "cursor_granularity: \"{{ config['least'] }}\""
    )
    assert _lint(text) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    primary_key: id", "    primary_key: {a: b}", "a mapping is not a text or a list."),
        ("schema: {type: object, properties: {}}", "schema: two", "must be a mapping, not str"),
        (
            "{type: PageIncrement, page_size: \"{{ config['size'] }}\"}",
            "{type: OffsetIncrement, page_size: two}",
            "'two' is not an integer.",
        ),
        (_URL, f"        request_parameters: [a]\n{_URL}", "a list is not a text or a mapping."),
        (_URL, f"        request_body_json: two\n{_URL}", "The JSON body of a request is a text"),
        (_URL, f"        read_timeout_in_seconds: 0\n{_URL}", "must be above 0."),
        (
            "      record_selector:",
            f"      partition_router: {_LIST}\n      record_selector:",
            "'two' is not a list.",
        ),
        (
            "    schema_loader:",
            f"    transformations: [{_ADD}]\n    schema_loader:",
            "a list is not 'string'",
        ),
        (
            "streams:\n",
            f"api_budget: {{type: HTTPAPIBudget, policies: [{_POLICY}]}}\nstreams:\n",
            "'two' is not an ISO 8601 duration",
        ),
    ],
)
def test_constant_of_a_wrong_type_is_an_error(old: str, new: str, message: str):
    assert old in _GOOD
    [error] = [text for _, severity, text in _lint(_GOOD.replace(old, new)) if severity == "error"]
    assert message in error


def test_all_unresolvable_references_are_reported():
    text = _GOOD.replace("#/definitions/cursor", "#/definitions/curser").replace(
        "primary_key: id", 'primary_key: "#/key"'
    )
    problems = [message for _, severity, message in _lint(text) if severity == "error"]
    assert [message.split("'")[1] for message in problems] == ["#/key", "#/definitions/curser"]


def test_problem_shared_by_streams_is_reported_once():
    first, streams = _GOOD.split("streams:\n")
    second = streams.replace("name: planes", "name: trains")
    text = (first + "streams:\n" + streams + second).replace("step: P10D", "step: P10X")
    assert len(lint_manifest(text).problems) == 1


def test_duplicate_stream_names_and_keys_are_reported():
    first, streams = _GOOD.split("streams:\n")
    problems = _lint(first + "streams:\n" + streams + streams)
    assert {message for _, _, message in problems} == {"2 streams are called 'planes'."}
    twice = _lint(_GOOD.replace("    step: P10D\n", "    step: P1D\n    step: P10D\n"))
    assert twice == [(11, "warning", "the key 'step' occurs twice: the last one counts.")]


def test_invalid_yaml_is_one_problem_with_its_line(tmp_path):
    file = tmp_path / "m.yaml"
    file.write_text("a: [1\nb: 2\n")
    [problem] = lint_manifest(file).problems
    assert problem.is_error
    assert str(problem).startswith(f"{file}:2: error: this is not YAML")


def test_parent_streams_are_checked():
    text = _GOOD + dedent(
        """\
      - type: DeclarativeStream
        name: seats
        retriever:
          requester: {url: x}
          record_selector: {extractor: {field_path: []}}
          partition_router:
            type: SubstreamPartitionRouter
            parent_stream_configs:
              - parent_key: id
                partition_field: plane
                stream: {retriever: {requester: {url: x}}}
    """
    ).replace("\n", "\n  ").replace("- type", "  - type", 1).rstrip(" ")
    problems = _lint(text)
    assert [message for _, _, message in problems] == ["SimpleRetriever needs record_selector."]


def test_every_problem_of_one_cursor_is_reported():
    """An invalid step does not hide an invalid format."""
    text = """
    streams:
      - type: DeclarativeStream
        name: items
        retriever:
          type: SimpleRetriever
          requester: {type: HttpRequester, url_base: "http://localhost"}
          record_selector:
            type: RecordSelector
            extractor: {type: DpathExtractor, field_path: []}
        incremental_sync:
          type: DatetimeBasedCursor
          cursor_field: at
          datetime_format: "%Q"
          start_datetime: "2024-01-01"
          step: PT1S
          cursor_granularity: P1D
          lookback_window: two days
    """
    [problems] = [
        str(problem)
        for problem in lint_manifest(dedent(text)).problems
        if "incremental_sync" in problem.path
    ]
    assert "%Q" in problems
    assert "PT1S" in problems
    assert "two days" in problems


_NAMED = """\
version: 6.0.0
type: DeclarativeSource
check: {type: CheckStream, stream_names: [items]}
spec:
  type: Spec
  connection_specification:
    type: object
    properties: {api_url: {type: string}, start: {type: string}}
streams:
  - type: DeclarativeStream
    name: items
    primary_key: [[id]]
    incremental_sync:
      type: DatetimeBasedCursor
      cursor_field: updated_at
      datetime_format: "%Y-%m-%d"
      start_datetime: "{{ config.get('start') or '2024-01-01' }}"
    retriever:
      type: SimpleRetriever
      requester:
        type: HttpRequester
        url_base: "{{ config['api_url'] }}"
        path: items
      record_selector:
        type: RecordSelector
        extractor: {type: DpathExtractor, field_path: []}
    schema_loader:
      type: InlineSchemaLoader
      schema:
        type: object
        properties:
          id: {type: integer}
          updated_at: {type: [string, "null"], format: date}
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        (
            "['api_url']",
            "['api_ulr']",
            22,
            "the spec has no setting 'api_ulr'. Did you mean 'api_url'?",
        ),
        ("get('start')", "get('begin')", 17, "the spec has no setting 'begin'."),
        ("[[id]]", "[idd]", 12, "the schema has no property 'idd'. Did you mean 'id'?"),
        ("[[id]]", "[[nr, id]]", 12, "the schema has no property 'nr'."),
        (
            "cursor_field: updated_at",
            "cursor_field: updated",
            15,
            "the schema has no property 'updated'. Did you mean 'updated_at'?",
        ),
        (
            "type: integer",
            "type: integr",
            32,
            "JSON Schema has no type 'integr'. Did you mean 'integer'?",
        ),
        (
            "type: integer",
            "minimum: one",
            32,
            "this is not a valid JSON Schema: 'one' is not of type 'number'.",
        ),
    ],
)
def test_unknown_name_is_a_warning(old: str, new: str, line: int, message: str):
    """Manifests with these mistakes run, but lose data silently."""
    assert lint_manifest(_NAMED).problems == []
    assert _NAMED.count(old) == 1
    assert _lint(_NAMED.replace(old, new)) == [(line, "warning", message)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("config['api_url']", "config['__injected_api_url']"),
        (
            "type: object\n        properties:\n          id",
            "allOf: [true]\n        properties:\n          id",
        ),
        (
            "properties: {api_url: {type: string}, start: {type: string}}",
            "additionalProperties: true",
        ),
    ],
)
def test_names_that_cannot_be_verified_are_not_reported(old: str, new: str):
    text = _NAMED.replace(old, new)
    assert text != _NAMED
    assert lint_manifest(text).problems == []


def test_numeric_property_name_is_found_in_the_schema():
    text = _NAMED.replace("id: {type: integer}", "id: {}\n          1: {type: [whole]}")
    [problem] = lint_manifest(text).problems
    assert problem.path == "streams[0].schema_loader.schema.properties.1.type"
    assert problem.line == 31


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("99.0.0", "the version 99.0.0 is newer than 7.39, the newest that is supported: newer"),
        ("7.40.0", "the version 7.40.0 is newer than 7.39, the newest that is supported: newer"),
        ("latest", "this is not a version: 'latest'. Write one such as 7.39.0."),
        ("''", "there is no version, without which airbyte-cdk runs no manifest: add 7.39.0."),
    ],
)
def test_unusable_version_is_a_warning(version: str, message: str):
    [(line, severity, text)] = _lint(_NAMED.replace("version: 6.0.0", f"version: {version}"))
    assert (line, severity) == (1, "warning")
    assert text.startswith(message)


def test_missing_version_is_a_warning():
    [(line, severity, text)] = _lint(_NAMED.replace("version: 6.0.0\n", ""))
    assert (line, severity) == (1, "warning")
    assert text.startswith("there is no version")


@pytest.mark.parametrize("version", ["7.39.9", "0.29", "4.5.0-rc.1", "6.0.0.dev1", "6"])
def test_supported_version_is_not_reported(version: str):
    assert lint_manifest(_NAMED.replace("version: 6.0.0", f"version: {version}")).problems == []


_NESTED = "id: {type: object, properties: {number: {type: integer}, more: {type: object}}}"


@pytest.mark.parametrize(
    ("key", "messages"),
    [
        ("[[id, number]]", []),
        ("[[id, numbr]]", ["the schema has no property 'id.numbr'. Did you mean 'number'?"]),
        ("[[id, more, any]]", []),
        ("[[id, number], nr]", ["the schema has no property 'nr'."]),
    ],
)
def test_nested_primary_key_is_found_in_the_schema(key: str, messages: list[str]):
    text = _NAMED.replace("[[id]]", key).replace("id: {type: integer}", _NESTED)
    assert [message for _, _, message in _lint(text)] == messages


def test_streams_of_a_state_delegating_stream_are_checked():
    """Both streams that it chooses from; the same problem of both is reported once per line."""
    head, body = _NAMED.split("  - type: DeclarativeStream\n")
    body = dedent(body).replace("[[id]]", "[idd]")
    text = head + "  - type: StateDelegatingStream\n    name: items\n"
    for mode in ("full_refresh", "incremental"):
        text += f"    {mode}_stream:\n      type: DeclarativeStream\n" + indent(body, " " * 6)
    problems = _lint(text)
    assert {message for _, _, message in problems} == {
        "the schema has no property 'idd'. Did you mean 'id'?"
    }
    assert len(problems) == 2


def test_summary_counts_streams_and_problems():
    assert lint_manifest(_NAMED).summarize() == "manifest: 1 stream, no problems."
    bad = _NAMED.replace("[[id]]", "[idd]").replace("6.0.0", "99.0.0")
    assert lint_manifest(bad).summarize() == "manifest: 1 stream, 2 warnings."
    assert lint_manifest("a: [1").summarize() == "manifest: 1 error."


def test_summary_counts_the_streams_of_conditional_streams():
    head, body = _NAMED.split("streams:\n")
    other_streams = body.replace("name: items", "name: more") + body.replace(
        "name: items", "name: most"
    )
    node = "  - type: ConditionalStreams\n    condition: '{{ config.start }}'\n    streams:\n"
    text = f"{head}streams:\n{body}{node}{indent(other_streams, '    ')}"
    assert lint_manifest(text).summarize() == "manifest: 3 streams, no problems."
    assert "error" in lint_manifest("type: DeclarativeSource\nstreams: 1").summarize()


def test_schemas_of_parent_streams_are_checked():
    parent = _NAMED.split("streams:\n")[1].replace("type: integer", "type: integr")
    router = (
        "      partition_router:\n"
        "        type: SubstreamPartitionRouter\n"
        "        parent_stream_configs:\n"
        "          - type: ParentStreamConfig\n"
        "            parent_key: id\n"
        "            partition_field: item\n"
        "            stream:\n"
    )
    inner = indent(dedent(parent.replace("  - type", "    type", 1)), " " * 14)
    text = _NAMED.replace("    schema_loader:\n", f"{router}{inner}    schema_loader:\n", 1)
    [(_, severity, message)] = _lint(text)
    assert (severity, message) == (
        "warning",
        "JSON Schema has no type 'integr'. Did you mean 'integer'?",
    )


def test_schema_of_the_settings_is_checked():
    """Before, a run ended with an internal error, and lint reported nothing."""
    settings = "{type: object, properties: {n: {type: int}}}"
    spec = f"spec: {{type: Spec, connection_specification: {settings}}}\n"
    (problem, *_) = [
        problem for problem in lint_manifest(_GOOD + spec).problems if "type" in problem.message
    ]
    assert problem.path == "spec.connection_specification.properties.n.type"
    assert "JSON Schema has no type 'int'" in problem.message


@pytest.mark.parametrize("item", ["null", "'#/definitions/none'"])
@pytest.mark.parametrize(
    "option", ["cursor_datetime_formats: [ITEM]", "end_time_option: {field_path: [ITEM]}"]
)
def test_null_in_a_list_is_reported(option: str, item: str) -> None:
    """Before, lint ended with an AttributeError or a TypeError."""
    text = _GOOD.replace("    step: P10D\n", f"    {option}\n    step: P10D\n")
    problems = lint_manifest(text.replace("ITEM", item)).problems
    assert any("item 0 of this list is null" in problem.message for problem in problems)
