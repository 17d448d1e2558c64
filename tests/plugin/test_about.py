"""The output of `--about` in each format."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from email.message import Message
from pathlib import Path

import pytest

from tap_core import Tap
from tap_core import typing as th
from tap_core.about import AboutFormatter, AboutInfo, get_supported_pythons, python_versions
from tap_core.capabilities import PluginCapabilities, TapCapabilities
from tests.peers import missing_reason, peer_python

PEER = peer_python("singer_sdk")

SETTINGS = {
    "type": "object",
    "required": ["url"],
    "properties": {
        "url": {"type": "string", "description": "Where it is.\nIn full."},
        "page-size": {"type": ["integer", "null"], "default": 5, "description": "a | b"},
        "deep": {"type": "object", "required": ["x"], "properties": {"x": {}, "y": {}}},
    },
}
INFO = AboutInfo(
    name="tap-x",
    description="A tap.",
    version="1.2.3",
    sdk_version="0.1.0",
    supported_python_versions=["3.10", "3.11"],
    capabilities=[TapCapabilities.CATALOG, PluginCapabilities.ABOUT],
    settings=SETTINGS,
    env_var_prefix="TAP_X_",
)


ADDED = ("    Required: ", "    Default: ", "    Description: ")
"""Beginnings of the lines of the text format that singer_sdk's lacks."""


def format_about(format_name: str, info: AboutInfo = INFO) -> str:
    return AboutFormatter.get_formatter(format_name).format_about(info)


def test_json_about_has_the_expected_keys():
    assert json.loads(format_about("json")) == {
        "name": "tap-x",
        "description": "A tap.",
        "version": "1.2.3",
        "sdk_version": "0.1.0",
        "supported_python_versions": ["3.10", "3.11"],
        "capabilities": ["catalog", "about"],
        "settings": SETTINGS,
    }
    assert format_about("json").startswith('{\n  "name": "tap-x",\n')


@pytest.mark.peer
@pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk"))
@pytest.mark.parametrize("format_name", ["json", "text"])
def test_json_and_text_about_are_those_of_singer_sdk(format_name):
    program = f"""
import json, sys
from singer_sdk.about import AboutFormatter, AboutInfo
from singer_sdk.helpers.capabilities import PluginCapabilities, TapCapabilities
info = AboutInfo("tap-x", "A tap.", "1.2.3", "0.1.0", ["3.10", "3.11"],
    [TapCapabilities.CATALOG, PluginCapabilities.ABOUT], json.loads(sys.argv[1]), "TAP_X_")
print(AboutFormatter.get_formatter("{format_name}").format_about(info))
"""
    process = subprocess.run(
        [str(PEER), "-c", program, json.dumps(SETTINGS)], check=True, capture_output=True, text=True
    )
    assert process.stdout == "".join(
        line
        for line in f"{format_about(format_name)}\n".splitlines(keepends=True)
        if format_name == "json" or not line.startswith(ADDED)
    )


def test_plugin_without_a_docstring_has_no_description():
    """The key of the JSON format stays, as in singer_sdk."""
    info = replace(INFO, description=None)
    assert format_about("text", info).startswith("Name: tap-x\nVersion: 1.2.3\n")
    assert format_about("markdown", info).startswith("# `tap-x`\n\nBuilt with tap_core.\n")
    assert json.loads(format_about("json", info))["description"] is None


def test_text_about_names_the_environment_variable_of_each_setting():
    text = format_about("text")
    assert "  - Name: page-size\n    Type: ['integer', 'null']\n" in text
    assert "    Environment Variable: TAP_X_PAGE_SIZE\n" in text
    assert "  - 3.10\n" in text


def test_text_about_describes_each_setting():
    text = format_about("text")
    assert "    Required: True\n    Description: Where it is. In full.\n" in text
    assert "    Default: 5\n    Description: a | b\n" in text


def test_markdown_about_has_a_table_of_settings():
    page = format_about("markdown")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert page.startswith("# `tap-x`\n\nA tap.\n")
    assert "## Supported Python Versions\n\n- 3.10\n- 3.11\n" in page
    assert rows == [
        "| Setting | Required | Default | Description |",
        "| url | True | None | Where it is.<BR/>In full. |",
        r"| page-size | False | 5 | a \| b |",
        "| deep | False | None |  |",
        "| deep.x | True | None |  |",
        "| deep.y | False | None |  |",
    ]


class TapDescribed(Tap):
    """Reads what it says.

    In full.
    """

    name = "tap-described"
    config_jsonschema = th.PropertiesList().to_dict()


def test_paragraphs_of_the_description_are_not_indented():
    assert TapDescribed._get_about_info().description == "Reads what it says.\n\nIn full."


def test_unknown_values_are_omitted_from_about():
    bare = AboutInfo("t", None, "1", "1", None, [], {}, "T_")
    assert "Python" not in format_about("markdown", bare)
    assert format_about("text", bare).splitlines()[-1] == "Settings:"
    assert json.loads(format_about("json", bare))["supported_python_versions"] is None


def test_unknown_about_format_raises_key_error():
    with pytest.raises(KeyError):
        AboutFormatter.get_formatter("pdf")


@pytest.mark.parametrize("format_name", ["text", "markdown", "json", "meltano", "airbyte"])
def test_no_format_writes_control_characters(format_name):
    """SEC7: the texts of a manifest's settings do not control a terminal."""
    text = "a\x1b[31m\x07\x9b\r b"
    setting = {"type": "string", "title": text, "description": text, "default": text}
    settings = {"type": "object", "properties": {"k": setting, text: setting}}
    info = replace(INFO, description=text, settings=settings)
    written = AboutFormatter.get_formatter(format_name).format_about(info)
    assert re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", written) == []


@pytest.mark.parametrize(
    "requires, versions",
    [
        (">=3.10", ["3.10", "3.11", "3.12", "3.13"]),
        (">=3.11,<3.14", ["3.11", "3.12", "3.13"]),
        (">3.11, <=3.13", ["3.12", "3.13"]),
        ("~=3.12", ["3.12", "3.13"]),
        ("~=3.12.1", ["3.12"]),
        ("==3.12.*", ["3.12"]),
        ("==3.*", ["3.10", "3.11", "3.12", "3.13"]),
        (">=3.10,!=3.12.*", ["3.10", "3.11", "3.13"]),
        (">=3.10,!=3.12.1", ["3.10", "3.11", "3.12", "3.13"]),
        (">3.11.2,<3.13.0", ["3.11", "3.12"]),
        (">=3.9,<3.12.1", ["3.10", "3.11", "3.12"]),
        (">=3.12.4", ["3.12", "3.13"]),
        (">=3.13,<4", ["3.13"]),
        ("<4.0,>=3.13", ["3.13"]),
        ("", ["3.10", "3.11", "3.12", "3.13"]),
    ],
)
def test_supported_python_versions_follow_requires_python(requires, versions):
    assert list(get_supported_pythons(requires)) == versions


def test_supported_python_versions_are_those_of_the_classifiers():
    project = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text("utf-8")
    assert list(get_supported_pythons(">=3.10")) == re.findall(r"Python :: (3\.\d+)", project)


def test_classifiers_take_precedence_over_requires_python():
    metadata = Message()
    metadata["Requires-Python"] = ">=3.12"
    assert python_versions(metadata) == ["3.12", "3.13"]
    metadata["Classifier"] = "Programming Language :: Python :: 3"
    metadata["Classifier"] = "Programming Language :: Python :: 3.11"
    assert python_versions(metadata) == ["3.11"]
