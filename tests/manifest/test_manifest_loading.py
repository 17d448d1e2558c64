"""Loading of manifests: lines, references, $parameters, and invalid manifests."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest

from tap_core.manifest.errors import ManifestError
from tap_core.manifest.loader import read_manifest
from tap_core.manifest.nodes import to_plain

_TOP = "type: DeclarativeSource\nversion: 6.0.0\n"


def _read(text: str):
    return read_manifest(_TOP + dedent(text))


def test_every_key_has_its_line():
    manifest = _read(
        """\
        streams:
          - type: DeclarativeStream
            name: planes
        """
    )
    stream = manifest.streams[0]
    assert (stream.line, stream.lines["name"], stream.path) == (4, 5, "streams[0]")


def test_dates_stay_strings_and_other_scalars_follow_yaml():
    manifest = _read("streams: []\nx: {day: 2024-01-01, yes: yes, big: 1_000, n: ~, s: '1'}\n")
    assert to_plain(manifest.get_part("x")) == {
        "day": "2024-01-01",
        "true": True,
        "big": 1000,
        "n": None,
        "s": "1",
    }


def test_manifest_can_be_json():
    text = json.dumps({"version": "6.0.0", "streams": [{"name": "a"}]}, indent="\t")
    assert read_manifest(text).streams[0]["name"] == "a"


# References


def test_reference_is_resolved_and_sibling_keys_override_it():
    """As in Airbyte's YAML reference: keys next to ``$ref`` take precedence."""
    manifest = _read(
        """\
        definitions:
          limit: 50
          base: {url: a, size: "#/definitions/limit"}
        whole: "#/definitions/base"
        changed: {$ref: "#/definitions/base", url: b}
        other_way: {$ref: "#/whole"}
        """
    )
    base = {"url": "a", "size": 50}
    assert to_plain(manifest.get_part("whole")) == base == to_plain(manifest.get_part("other_way"))
    assert to_plain(manifest.get_part("changed")) == {"url": "b", "size": 50}


def test_key_with_slashes_has_priority_over_a_nested_path():
    manifest = _read(
        """\
        nested: {path: steps}
        nested/path: whole
        items: [{a: 1}, {a: 2}]
        one: "#/nested/path"
        two: "#/items/1/a"
        """
    )
    assert (manifest.get_part("one"), manifest.get_part("two")) == ("whole", 2)


@pytest.mark.parametrize(
    "reference, message",
    [
        ("#/definitions/nothing", "line 4: the reference '#/definitions/nothing' leads nowhere"),
        ("#/here", "leads back to itself (#/here -> #/here)"),
    ],
)
def test_unresolvable_or_circular_reference_is_an_error(reference, message):
    manifest = _read(f'definitions: {{a: 1}}\nhere: "{reference}"\n')
    with pytest.raises(ManifestError) as exc_info:
        manifest.get_part("here")
    assert message in str(exc_info.value)


def test_references_are_resolved_lazily():
    """The spec can be read even if a stream has an invalid reference."""
    manifest = _read('spec: {a: 1}\nstreams: ["#/nowhere"]\n')
    assert to_plain(manifest.get_part("spec")) == {"a": 1}


# $parameters


def test_parameters_are_inherited_by_nested_components():
    """As in Airbyte's YAML reference: inner parameters and explicit values take precedence."""
    manifest = _read(
        """\
        streams:
          - type: DeclarativeStream
            $parameters: {name: outer, path: /p, size: 5}
            retriever:
              $parameters: {path: /inner}
              size: 0
              requester: {path: /own, url_base: x}
        """
    )
    stream = manifest.streams[0]
    retriever = stream["retriever"]
    requester = retriever["requester"]
    assert (stream["name"], stream["type"]) == ("outer", "DeclarativeStream")
    assert (retriever["type"], retriever["path"]) == ("SimpleRetriever", "/inner")
    assert retriever["size"] == 5  # an empty value does not override the parameter
    assert (requester["type"], requester["path"]) == ("HttpRequester", "/own")
    assert requester.path == "streams[0].retriever.requester"
    assert requester.parameters == {"name": "outer", "path": "/inner", "size": 5}


def test_parameter_is_not_passed_into_the_option_of_its_name():
    manifest = _read(
        """\
        streams:
          - type: DeclarativeStream
            $parameters: {retriever: {requester: {path: x}}}
        """
    )
    retriever = manifest.streams[0]["retriever"]
    assert retriever["type"] == "SimpleRetriever"
    assert "retriever" not in retriever


def test_json_schema_gets_no_parameters():
    manifest = _read(
        """\
        streams:
          - $parameters: {name: a}
            schema_loader:
              type: InlineSchemaLoader
              schema: {type: object, properties: {b: {type: [string, "null"]}}}
        """
    )
    schema = manifest.streams[0]["schema_loader"]["schema"]
    assert to_plain(schema) == {
        "type": "object",
        "properties": {"b": {"type": ["string", "null"]}},
    }


def test_component_in_a_plain_mapping_gets_the_parameters():
    manifest = _read(
        """\
        streams:
          - $parameters: {path: x}
            retriever:
              requester:
                request_parameters: {a: 1, deep: {type: QueryProperties}}
        """
    )
    parameters = manifest.streams[0]["retriever"]["requester"]["request_parameters"]
    assert "path" not in parameters
    assert parameters["deep"]["path"] == "x"


# Invalid manifests


@pytest.mark.parametrize(
    "text, message",
    [
        ("a: [1\nb: 2\n", "manifest, line 2: this is not YAML"),
        ("- a\n", "a manifest must be a mapping"),
        ("", "a manifest must be a mapping"),
        ("a: !other b\n", "line 1: this is not YAML: the tag !other is not known"),
        ("a: &b [*b]\n", "an anchor contains itself"),
        ("? [a]\n: b\n", "line 1: this is not YAML: a key must be a text"),
        ("é: 1\nb: ü\x01\n", "line 2: this is not YAML: the character U+0001 is not allowed."),
    ],
)
def test_invalid_manifest_is_rejected_with_its_line(text, message):
    with pytest.raises(ManifestError) as exc_info:
        read_manifest(text)
    assert message in str(exc_info.value)


def test_missing_manifest_file_is_named_in_the_error(tmp_path):
    with pytest.raises(
        ManifestError, match=r"none\.yaml' cannot be read: No such file or directory\.$"
    ):
        read_manifest(tmp_path / "none.yaml")


def test_manifest_without_streams_is_an_error_when_they_are_accessed(tmp_path):
    file = tmp_path / "m.yaml"
    file.write_text(_TOP + "dynamic_streams: []\n")
    with pytest.raises(ManifestError, match=r"m\.yaml, line 1, streams: a manifest needs a list"):
        _ = read_manifest(file).streams
