"""Components of the tree: what each kind of field is given, and what is refused where."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent, indent
from typing import Annotated, Any, ClassVar, Literal

import pytest

from tap_core.incremental.cursor import DatetimeBasedCursor
from tap_core.manifest.builder import Builder, build_component
from tap_core.manifest.components.paginators import CursorPagination
from tap_core.manifest.components.partition_routers import SubstreamPartitionRouter
from tap_core.manifest.components.requester import HttpRequester
from tap_core.manifest.components.transformations import AddFields
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import (
    Authenticator,
    Condition,
    InterpolatedText,
    InterpolatedValue,
    Paginator,
    Parameter,
    StateMigration,
    Transformation,
)
from tap_core.manifest.loader import read_manifest
from tap_core.manifest.state_translation import LegacyToPerPartitionStateMigration

_CONFIG = {"size": "50", "name": "acme", "flag": True, "ids": ["a", 1], "nothing": None}
_SCOPE = {"config": _CONFIG, "record": {"id": 7}, "stream_slice": {"id": "s"}}


@dataclass(frozen=True)
class Inner:
    """A component within another."""

    size: int = 0


@dataclass(frozen=True)
class Piece:
    """Has a field of each kind."""

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
    raw: Annotated[Mapping[str, Any], "node"] | None = None
    anything: Any = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    folder: Path = Path()
    place: str = ""

    IGNORED: ClassVar[frozenset[str]] = frozenset({"old"})


def _manifest(text: str, top: str = ""):
    return read_manifest(
        "type: DeclarativeSource\nversion: 6.0.0\npiece:\n" + indent(dedent(text), "  ") + top
    )


def _made(text: str, expected: Any = Piece, config: Any = None) -> Any:
    manifest = _manifest(text)
    return build_component(
        manifest, manifest.tree["piece"], expected, _CONFIG if config is None else config
    )


def _refusal(text: str, expected: Any = Piece) -> str:
    with pytest.raises(ManifestError) as refused:
        _made(text, expected)
    return str(refused.value)


# What fields are given


def test_plain_fields_are_settled_before_the_component_is_made():
    made = _made(
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
    assert (made.text, made.size, made.ratio, made.flag) == ("acme-1", 50, 3.0, True)
    assert (made.choice, made.names, made.levels) == ("b", ["a", "1"], {"low": 1, "high": 5})


def test_what_does_not_vary_per_request_is_plain_and_what_does_is_called_with_a_scope():
    made = _made(
        """\
        says: "{{ config.name }}/{{ stream_slice.id }}"
        value: {fixed: "{{ config.size }}", "{{ config.name }}": "{{ record.id }}", none: ""}
        parameter: {number: "{{ 1.50 }}", list: "{{ [1] }}", plain: '1_000', yaml: 5}
        condition: "{{ record.id > 5 }}"
        """
    )
    assert made.says(_SCOPE) == "acme/s"
    assert (made.value["fixed"], made.value["acme"](_SCOPE), made.value["none"]) == (50, 7, None)
    assert made.parameter == {"number": "1.5", "list": [1], "plain": "1_000", "yaml": 5}
    assert made.condition(_SCOPE) is True
    assert _made("{maybe: '{{ none }}', text: '{{ none }}'}") == _made("text: None")
    assert _made("says: 1e3\nvalue: 1e3\ncondition: 'no'\n") == _made(
        "{says: '1e3', value: 1000.0, condition: true}"
    )


def test_components_are_built_within_components():
    assert _made("inner: {size: 3}\n").inner == Inner(3)
    assert _made("inner: [{size: 3}, {}]\n").inner == [Inner(3), Inner()]
    found = _made("value: {type: AddFields, fields: [{path: [a], value: b}]}\n").value
    assert isinstance(found, AddFields)


def test_a_value_may_have_a_type_that_is_no_component():
    made = _made("value: {type: [string, 'null'], deep: {type: object}}\n")
    assert made.value == {"type": ["string", "null"], "deep": {"type": "object"}}


def test_the_type_may_be_left_out_where_it_is_implied():
    """Airbyte's YAML reference: a start is a MinMaxDatetime, an option a RequestOption."""
    made = _made(
        """\
        type: DatetimeBasedCursor
        cursor_field: at
        datetime_format: "%Y-%m-%d"
        start_datetime: {datetime: "2024-01-01"}
        start_time_option: {inject_into: header, field_name: from}
        """,
        DatetimeBasedCursor,
    )
    assert made.start_datetime.datetime == "2024-01-01"
    assert made.start_time_option.field_name == "from"


def test_a_component_that_asks_for_them_gets_parameters_settings_folder_and_place():
    made = _made("$parameters: {text: from above}\ntype: \nsize: 1\ntext: mine\n")
    assert made.text == "mine"
    assert made.config == _CONFIG
    assert made.folder == Path()
    assert made.place == "manifest, line 4, piece"


def test_a_node_is_given_as_it_stands_to_be_made_later():
    made = _made("raw: {type: AddFields, fields: []}\n")
    assert made.raw["type"] == "AddFields"
    assert made.raw.path == "piece.raw"


def test_what_is_null_is_not_given():
    assert _made("size: null\ntext: ~\nvalue:\n") == _made("{}")


def test_equal_templates_make_equal_components():
    """Authenticators that are equal share their tokens."""
    text = "says: '{{ stream_slice.id }}'\nvalue: ['{{ record.id }}']\n"
    assert _made(text).says == _made(text).says
    assert hash(_made(text).says) == hash(_made(text).says)


def test_a_template_that_fails_on_settings_alone_fails_when_it_is_asked_for(caplog):
    with caplog.at_level(logging.WARNING):
        made = _made("says: \"{{ config['missing']['deeper'] }}\"\n")
    assert "config['missing']['deeper']" in caplog.text
    with pytest.raises(ManifestError, match=r"line 4, piece\.says"):
        made.says(_SCOPE)


# What is refused


@pytest.mark.parametrize(
    "text, said",
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
        ("value: {type: AddFields}\n", "piece.value: AddFields needs fields."),
        (
            "value:\n  type: AddFields\n  fields: [{path: [], value: a}]\n",
            "line 6, piece.value.fields[0]: path is empty",
        ),
    ],
)
def test_what_cannot_stand_there_is_refused_with_line_and_keys(text, said):
    assert said in _refusal(text)


def test_the_value_of_a_setting_is_not_shown_when_it_does_not_fit():
    refusal = _refusal("size: \"{{ config['name'] }}\"\n")
    assert "the template \"{{ config['name'] }}\" does not give an integer." in refusal
    assert "acme" not in refusal


@pytest.mark.parametrize(
    "text, expected, said",
    [
        ("{type: PageIncrements}", Paginator, "no component 'PageIncrements'. Is 'PageIncrement'"),
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
def test_an_unknown_component_is_refused(text, expected, said):
    assert said in _refusal(text, expected)


def test_options_that_cannot_matter_are_accepted(caplog):
    """What slipped in from elsewhere is ignored by airbyte-cdk, and told of here."""
    text = "{type: HttpRequester, url: x, description: y, cursor_field: z, zzz: n}"
    with caplog.at_level(logging.WARNING):
        made = _made(text, HttpRequester)
    assert made.url == "x"
    assert "description" not in caplog.text
    assert "HttpRequester has no option 'cursor_field'. It is ignored." in caplog.text
    assert _made("old: 1\n") == _made("{}")
    with pytest.raises(ManifestError, match="no option 'old_name'"):
        _made("{type: HttpRequester, url: x, old_name: n}", HttpRequester)


def test_a_migration_without_a_type_is_that_of_airbyte():
    """Nothing else is meant where a stream's state is migrated; one word of it may be spelled."""
    text = "type: DeclarativeStream\nstate_migrations:\n  - Type: anything\n"
    manifest = read_manifest(f"type: DeclarativeSource\nstreams: []\npiece:\n{indent(text, '  ')}")
    [node] = manifest.tree["piece"]["state_migrations"]
    assert node["type"] == "LegacyToPerPartitionStateMigration"
    made = build_component(manifest, node, StateMigration)
    assert isinstance(made, LegacyToPerPartitionStateMigration)


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
def test_what_published_manifests_say_in_vain_is_told_and_a_slip_of_the_pen_refused(
    text: str, expected: type, option: str, caplog: pytest.LogCaptureFixture
):
    """airbyte-cdk 6 and 7 accept them, and ask and send the same without."""
    with caplog.at_level(logging.WARNING):
        _made(text.replace("OPTION", option), expected)
    assert f"has no option '{option}'. It is ignored." in caplog.text
    with pytest.raises(ManifestError, match=f"no option '{option}_x'"):
        _made(text.replace("OPTION", f"{option}_x"), expected)
    with pytest.raises(ManifestError, match=f"no option '{option}'"):
        _made(f"{{type: HttpRequester, url: x, {option}: y}}", HttpRequester)


def test_only_the_authenticator_that_is_chosen_is_made():
    """The others have templates whose settings are not there, and may fail."""
    text = """\
    type: SelectiveAuthenticator
    authenticator_selection_path: [kind]
    authenticators:
      key: {type: BearerAuthenticator, api_token: "{{ config['key'] }}"}
      jwt: {type: JwtAuthenticator, algorithm: HS256, secret_key: "{{ config['a']['b'] }}"}
    """
    assert list(_made(text, Authenticator, {"kind": "key", "key": "k"}).authenticators) == ["key"]
    with pytest.raises(ManifestError, match=r"authenticators\.jwt\.secret_key"):
        _made(text, Authenticator, {"kind": "jwt"})


def test_a_warning_of_a_component_is_told_with_its_place(caplog):
    text = """\
    cursor_field: at
    datetime_format: "%Y-%m-%d"
    start_datetime: "2024-01-01"
    is_data_feed: true
    step: P1D
    cursor_granularity: P1D
    """
    with caplog.at_level(logging.WARNING):
        _made(text, DatetimeBasedCursor)
    assert "manifest, line 4, piece: The cursor 'at' belongs to a feed" in caplog.text


def test_classes_of_others_get_their_options_with_components_made(tmp_path):
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
    made = build_component(manifest, manifest.tree["piece"], Transformation, _CONFIG)
    assert made.class_name == "source_x.components.Mine"
    assert made.fields == {
        "limit": "{{ config.size }}",
        "inner": [AddFields(fields=[]), {"other": 1}],
    }
    assert (made.config, made.folder) == (_CONFIG, tmp_path)


def test_without_a_configuration_faults_are_collected_as_far_as_they_go():
    manifest = _manifest(
        """\
        size: "{{ config['size'] }}"
        text: "{{ record.id }}"
        names: 5
        condition: "{{ config['flag'] }}"
        """
    )
    faults: list[Any] = []
    assert Builder(manifest, None, faults).made(manifest.tree["piece"], Piece) is None
    assert [(fault.line, fault.path) for fault in faults] == [(5, "piece.text"), (6, "piece.names")]
