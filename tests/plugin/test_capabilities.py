"""Capabilities and built-in settings are those of singer_sdk."""

from __future__ import annotations

import json
import subprocess
import warnings

import pytest

from tap_core import capabilities
from tap_core.capabilities import (
    PluginCapabilities,
    TapCapabilities,
    TargetCapabilities,
    TargetLoadMethods,
)
from tap_core.helpers import capabilities as face
from tests.peers import missing_reason, peer_python

PEER = peer_python("singer_sdk")

PROGRAM = """
import json, enum
from singer_sdk.helpers import capabilities as c
schemas = {n: v for n, v in vars(c).items() if n.isupper() and isinstance(v, dict)}
enums = {n: {m.name: m.value for m in v} for n, v in vars(c).items()
         if isinstance(v, type) and issubclass(v, enum.Enum) and v.__module__ == c.__name__}
print(json.dumps({"schemas": schemas, "enums": enums}, default=str))
"""


def without_words(schema):
    """Return a schema without descriptions and without singer_sdk's bare "null" in lists."""
    if isinstance(schema, dict):
        return {
            key: without_words(value)
            for key, value in schema.items()
            if not (key in {"description", "title"} and isinstance(value, str))
        }
    if isinstance(schema, list):
        remaining = [
            value for value in schema if not (value == "null" and {"type": "null"} in schema)
        ]
        return [without_words(value) for value in remaining]
    return schema


@pytest.fixture(scope="module")
def peer():
    process = subprocess.run([str(PEER), "-c", PROGRAM], check=True, capture_output=True, text=True)
    return json.loads(process.stdout)


@pytest.mark.peer
@pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk"))
def test_settings_and_capability_members_are_those_of_singer_sdk(peer):
    for name, schema in peer["schemas"].items():
        ours = getattr(face, name)
        expected = without_words(schema)
        if name == "STREAM_MAPS_CONFIG":  # singer_sdk allows any type
            inner = expected["properties"]["stream_maps"]["additionalProperties"]["anyOf"][2]
            inner["properties"]["__source__"] = {"type": ["string", "null"]}
        assert without_words(ours) == expected, name
    for name, members in peer["enums"].items():
        assert {member.name: member.value for member in getattr(face, name)} == members, name


def test_every_built_in_setting_has_a_description():
    for name in capabilities.__all__:
        if name.endswith("_CONFIG"):
            for setting, schema in getattr(capabilities, name)["properties"].items():
                assert schema["description"], setting


def test_capability_prints_as_its_value():
    assert str(TapCapabilities.LOG_BASED) == repr(TapCapabilities.LOG_BASED) == "log-based"
    assert PluginCapabilities("about") is PluginCapabilities.ABOUT
    assert TapCapabilities.ACTIVATE_VERSION is not PluginCapabilities.ACTIVATE_VERSION
    assert TargetCapabilities["HARD_DELETE"].value == "hard-delete"
    assert TargetLoadMethods.UPSERT == "upsert"


@pytest.mark.parametrize(
    "reach",
    [
        lambda: TapCapabilities.PROPERTIES,
        lambda: TapCapabilities["PROPERTIES"],
        lambda: TapCapabilities("properties"),
    ],
)
def test_deprecated_capability_warns_on_every_kind_of_access(reach):
    message = r"PROPERTIES is deprecated\. Please use CATALOG"
    with pytest.warns(DeprecationWarning, match=message) as caught:
        assert reach().value == "properties"
    assert caught[0].filename == __file__  # the caller's line, not one of the enumeration


def test_current_capability_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert TapCapabilities.CATALOG.deprecation_message is None
