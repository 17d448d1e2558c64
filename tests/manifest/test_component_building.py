"""Building components from the manifest: values per field type, and errors with their line."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import dedent, indent
from typing import Annotated, Any, ClassVar, Literal

import pytest

from tap_core.incremental.cursor import DatetimeBasedCursor
from tap_core.manifest.builder import Builder, build_component
from tap_core.manifest.components.declarative_source import StateMigration
from tap_core.manifest.components.paginators import CursorPagination, Paginator
from tap_core.manifest.components.partition_routers import SubstreamPartitionRouter
from tap_core.manifest.components.requester import HttpRequester
from tap_core.manifest.components.transformations import AddFields
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import (
    Authenticator,
    Condition,
    InterpolatedText,
    InterpolatedValue,
    Parameter,
    Transformation,
)
from tap_core.manifest.loader import read_manifest
from tap_core.manifest.state_translation import LegacyToPerPartitionStateMigration
from tap_core.redaction import Secrets, register_secrets

_CONFIG = {"size": "50", "name": "acme", "flag": True, "ids": ["a", 1], "nothing": None}
_SCOPE = {"config": _CONFIG, "record": {"id": 7}, "stream_slice": {"id": "s"}}


@dataclass(frozen=True)
class Inner:
    """A component within another."""

    size: int = 0


@dataclass(frozen=True)
class Piece:
    """A component with a field of each type."""

    text: str = ""
    size: int | None = None
    ratio: float = 0.0
    flag: bool = False
    choice: Literal["a", "b"] = "a"
    names: list[str] = field(default_factory=list)
    levels: dict[str, int] = field(default_factory=dict)
    says: InterpolatedText = ""
    maybe: InterpolatedText | None = None
    value: InterpolatedValue = None
    parameter: Parameter = None
    condition: Condition = True
    inner: Inner | list[Inner] | None = None
    change: Transformation | None = None
    raw: Annotated[Mapping[str, Any], "node"] | None = None
    anything: Any = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    folder: Path = Path()
    place: str = ""

    IGNORED: ClassVar[frozenset[str]] = frozenset({"old"})


def _read(text: str, top: str = ""):
    return read_manifest(
        "type: DeclarativeSource\nversion: 6.0.0\npiece:\n" + indent(dedent(text), "  ") + top
    )


def _build(text: str, expected: Any = Piece, config: Any = None) -> Any:
    manifest = _read(text)
    return build_component(
        manifest, manifest.tree["piece"], expected, _CONFIG if config is None else config
    )


def _build_error(text: str, expected: Any = Piece) -> str:
    with pytest.raises(ManifestError) as exc_info:
        _build(text, expected)
    return str(exc_info.value)


# Values of fields


def test_plain_fields_are_evaluated_before_construction():
    component = _build(
        """\
        text: "{{ config['name'] }}-1"
        size: "{{ config['size'] }}"
        ratio: 3
        flag: "{{ config.flag }}"
        choice: b
        names: "{{ config['ids'] }}"
        levels: {low: "1", high: "{{ 2 + 3 }}"}
        """
    )
    assert (component.text, component.size, component.ratio, component.flag) == (
        "acme-1",
        50,
        3.0,
        True,
    )
    assert (component.choice, component.names, component.levels) == (
        "b",
        ["a", "1"],
        {"low": 1, "high": 5},
    )


def test_only_templates_that_vary_per_request_stay_callable():
    component = _build(
        """\
        says: "{{ config.name }}/{{ stream_slice.id }}"
        value: {fixed: "{{ config.size }}", "{{ config.name }}": "{{ record.id }}", none: ""}
        parameter: {number: "{{ 1.50 }}", list: "{{ [1] }}", plain: '1_000', yaml: 5}
        condition: "{{ record.id > 5 }}"
        """
    )
    assert component.says(_SCOPE) == "acme/s"
    assert (component.value["fixed"], component.value["acme"](_SCOPE), component.value["none"]) == (
        50,
        7,
        None,
    )
    assert component.parameter == {"number": "1.5", "list": [1], "plain": "1_000", "yaml": 5}
    assert component.condition(_SCOPE) is True
    assert _build("{maybe: '{{ none }}', text: '{{ none }}'}") == _build("text: None")
    assert _build("says: 1e3\nvalue: 1e3\ncondition: 'no'\n") == _build(
        "{says: '1e3', value: 1000.0, condition: true}"
    )


def test_nested_components_are_built():
    assert _build("inner: {size: 3}\n").inner == Inner(3)
    assert _build("inner: [{size: 3}, {}]\n").inner == [Inner(3), Inner()]
    transformation = _build("change: {type: AddFields, fields: [{path: [a], value: b}]}\n").change
    assert isinstance(transformation, AddFields)


def test_value_with_a_type_key_can_be_a_plain_mapping():
    component = _build("value: {type: [string, 'null'], deep: {type: object}}\n")
    assert component.value == {"type": ["string", "null"], "deep": {"type": "object"}}
    assert _build("value: {type: AddFields}\n").value == {"type": "AddFields"}


def test_component_type_can_be_omitted_if_implied():
    """As in Airbyte's YAML reference for MinMaxDatetime and RequestOption."""
    component = _build(
        """\
        type: DatetimeBasedCursor
        cursor_field: at
        datetime_format: "%Y-%m-%d"
        start_datetime: {datetime: "2024-01-01"}
        start_time_option: {inject_into: header, field_name: from}
        """,
        DatetimeBasedCursor,
    )
    assert component.start_datetime.datetime == "2024-01-01"
    assert component.start_time_option.field_name == "from"


def test_component_fields_receive_parameters_config_folder_and_place():
    component = _build("$parameters: {text: from above}\ntype: \nsize: 1\ntext: mine\n")
    assert component.text == "mine"
    assert component.config == _CONFIG
    assert component.folder == Path()
    assert component.place == "manifest, line 4, piece"


def test_node_field_receives_the_unbuilt_node():
    component = _build("raw: {type: AddFields, fields: []}\n")
    assert component.raw["type"] == "AddFields"
    assert component.raw.path == "piece.raw"


def test_null_options_use_the_default():
    assert _build("size: null\ntext: ~\nvalue:\n") == _build("{}")


def test_equal_templates_are_equal_and_hashable():
    """Equal authenticators share their tokens."""
    text = "says: '{{ stream_slice.id }}'\nvalue: ['{{ record.id }}']\n"
    assert _build(text).says == _build(text).says
    assert hash(_build(text).says) == hash(_build(text).says)


def test_wrong_value_is_redacted_before_it_is_cut():
    secret = "key-" + "4f7d" * 30
    secrets = Secrets.from_values([secret])
    register_secrets(secrets, secrets)
    with pytest.raises(ManifestError) as raised:
        _build(f"size: {secret}\n")
    assert "key-4f7d" not in str(raised.value)
    assert "is not an integer" in str(raised.value)


def test_failing_config_template_raises_when_it_is_evaluated(caplog):
    with caplog.at_level(logging.WARNING):
        component = _build("says: \"{{ config['missing']['deeper'] }}\"\n")
    assert "config['missing']['deeper']" in caplog.text
    with pytest.raises(ManifestError, match=r"line 4, piece\.says"):
        component.says(_SCOPE)


# Errors


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "sise: 3\n",
            "line 4, piece.sise: this component has no option 'sise'. Did you mean 'size'?",
        ),
        ("size: many\n", "line 4, piece.size: 'many' is not an integer."),
        ("names: one\n", "piece.names: 'one' is not a list."),
        ("names: [a, {b: c}]\n", "piece.names[1]: a mapping is not a text."),
        ("size: [1]\n", "piece.size: a list is not an integer."),
        ("levels: {low: x}\n", "piece.levels.low: 'x' is not an integer."),
        ("choice: c\n", "piece.choice: 'c' is not 'a' or 'b'."),
        ("inner: 5\n", "piece.inner: 5 is not Inner or a list."),
        ("inner: {size: x}\n", "piece.inner.size: 'x' is not an integer."),
        ("says: {a: b}\n", "piece.says: a mapping is not a text."),
        ("condition: [a]\n", "piece.condition: a list is not a value."),
        ("raw: text\n", "piece.raw: a component must be a mapping with a `type`."),
        ("text: '{{ record.id }}'\n", "uses record: this option is evaluated before any request"),
        ("says: '{{ nobody.id }}'\n", "piece.says: the template '{{ nobody.id }}' uses 'nobody'"),
        ("says: '{{ 1'\n", "line 4, piece.says: the template '{{ 1' does not parse"),
        ("change: {type: AddFields}\n", "piece.change: AddFields needs fields."),
        (
            "change:\n  type: AddFields\n  fields: [{path: [], value: a}]\n",
            "line 6, piece.change.fields[0]: path is empty",
        ),
    ],
)
def test_invalid_option_is_rejected_with_line_and_path(text, message):
    assert message in _build_error(text)


def test_invalid_setting_value_is_not_shown_in_the_error():
    refusal = _build_error("size: \"{{ config['name'] }}\"\n")
    assert "the template \"{{ config['name'] }}\" does not give an integer." in refusal
    assert "acme" not in refusal


@pytest.mark.parametrize(
    "text, expected, message",
    [
        (
            "{type: PageIncrements}",
            Paginator,
            "no component 'PageIncrements'. Did you mean 'PageIncrement'",
        ),
        (
            "{type: AddFields, fields: []}",
            Paginator,
            "the component 'AddFields' is not allowed here.",
        ),
        ("{fields: []}", Transformation, "this component has no `type`."),
        (
            "{type: HttpRequester, url: x, truncated_list_retriever: {}}",
            HttpRequester,
            "the option 'truncated_list_retriever' of HttpRequester is not supported.",
        ),
    ],
)
def test_unknown_component_is_rejected(text, expected, message):
    assert message in _build_error(text, expected)


def test_irrelevant_options_are_ignored_with_a_warning(caplog):
    """airbyte-cdk ignores options of other components silently; tap_core logs a warning."""
    text = "{type: HttpRequester, url: x, description: y, cursor_field: z, zzz: n}"
    with caplog.at_level(logging.WARNING):
        component = _build(text, HttpRequester)
    assert component.url == "x"
    assert "description" not in caplog.text
    assert "HttpRequester has no option 'cursor_field'. It is ignored." in caplog.text
    assert _build("old: 1\n") == _build("{}")
    with pytest.raises(ManifestError, match="no option 'old_name'"):
        _build("{type: HttpRequester, url: x, old_name: n}", HttpRequester)


def test_file_uploader_causes_a_warning_that_files_are_not_downloaded(caplog):
    assert _build("{type: HttpRequester, url: x, file_uploader: {}}", HttpRequester)
    [line] = caplog.messages
    assert "the option 'file_uploader' is not supported: files are not downloaded" in line


def test_state_migration_without_a_type_is_the_legacy_migration():
    """There is one built-in migration, so its type may be missing or misspelled."""
    text = "type: DeclarativeStream\nstate_migrations:\n  - Type: anything\n"
    manifest = read_manifest(f"type: DeclarativeSource\nstreams: []\npiece:\n{indent(text, '  ')}")
    [node] = manifest.tree["piece"]["state_migrations"]
    assert node["type"] == "LegacyToPerPartitionStateMigration"
    component = build_component(manifest, node, StateMigration)
    assert isinstance(component, LegacyToPerPartitionStateMigration)


_PAGES = "{type: CursorPagination, cursor_value: x, OPTION: y}"
_PARENTS = """\
    type: SubstreamPartitionRouter
    OPTION: y
    parent_stream_configs:
      - type: ParentStreamConfig
        parent_key: id
        partition_field: p
        stream: {type: DeclarativeStream}
"""


@pytest.mark.parametrize(
    ("text", "expected", "option"),
    [
        (_PAGES, CursorPagination, "extractorPath"),
        (_PARENTS, SubstreamPartitionRouter, "stream_name"),
    ],
)
def test_ineffective_options_of_published_manifests_are_logged_and_typos_rejected(
    text: str, expected: type, option: str, caplog: pytest.LogCaptureFixture
):
    """airbyte-cdk 6 and 7 accept these options without any effect."""
    with caplog.at_level(logging.WARNING):
        _build(text.replace("OPTION", option), expected)
    assert f"has no option '{option}'. It is ignored." in caplog.text
    with pytest.raises(ManifestError, match=f"no option '{option}_x'"):
        _build(text.replace("OPTION", f"{option}_x"), expected)
    with pytest.raises(ManifestError, match=f"no option '{option}'"):
        _build(f"{{type: HttpRequester, url: x, {option}: y}}", HttpRequester)


def test_only_the_selected_authenticator_is_built():
    """The templates of the others may fail because their settings are missing."""
    text = """\
    type: SelectiveAuthenticator
    authenticator_selection_path: [kind]
    authenticators:
      key: {type: BearerAuthenticator, api_token: "{{ config['key'] }}"}
      jwt: {type: JwtAuthenticator, algorithm: HS256, secret_key: "{{ config['a']['b'] }}"}
    """
    assert list(_build(text, Authenticator, {"kind": "key", "key": "k"}).authenticators) == ["key"]
    with pytest.raises(ManifestError, match=r"authenticators\.jwt\.secret_key"):
        _build(text, Authenticator, {"kind": "jwt"})


def test_warning_of_a_component_has_its_line_and_path(caplog):
    text = """\
    cursor_field: at
    datetime_format: "%Y-%m-%d"
    start_datetime: "2024-01-01"
    is_data_feed: true
    step: P1D
    cursor_granularity: P1D
    """
    with caplog.at_level(logging.WARNING):
        _build(text, DatetimeBasedCursor)
    assert "manifest, line 4, piece: The cursor 'at' belongs to a feed" in caplog.text


def test_custom_class_receives_options_with_built_components(tmp_path):
    (tmp_path / "components.py").write_text(
        "class Mine:\n    def transform(self, record):\n        pass\n"
    )
    file = tmp_path / "manifest.yaml"
    file.write_text(
        "piece:\n"
        "  type: CustomTransformation\n"
        "  class_name: source_x.components.Mine\n"
        "  limit: '{{ config.size }}'\n"
        "  inner: [{type: AddFields, fields: []}, {other: 1}]\n"
    )
    manifest = read_manifest(file)
    component = build_component(manifest, manifest.tree["piece"], Transformation, _CONFIG)
    assert component.class_name == "source_x.components.Mine"
    assert component.fields == {
        "limit": "{{ config.size }}",
        "inner": [AddFields(fields=[]), {"other": 1}],
    }
    assert (component.config, component.folder) == (_CONFIG, tmp_path)


def test_building_without_a_config_collects_all_errors():
    manifest = _read(
        """\
        size: "{{ config['size'] }}"
        text: "{{ record.id }}"
        names: 5
        condition: "{{ config['flag'] }}"
        """
    )
    problems: list[Any] = []
    checked = replace(manifest, problems=problems)
    assert Builder(checked).build(manifest.tree["piece"], Piece) is None
    assert [(problem.line, problem.path) for problem in problems] == [
        (5, "piece.text"),
        (6, "piece.names"),
    ]
