"""Usages of the SDK found in public plugins give the results of singer_sdk.

The plugins are made up; each does one thing that a public plugin does.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers import missing_reason, peer_python

ROOT = Path(__file__).parents[2]
TAP = '''
import sys

from singer_sdk import Stream, Tap
from singer_sdk import typing as th

OPENAPI = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "example": 1, "x-format": {"guid": True}},
        "tags": {"type": "array", "items": {"type": "string", "nullable": True}},
        "state": {"type": "string", "examples": ["on", "off"], "readOnly": True},
    },
    "components": {"schemas": {"Unrelated": {"type": "object"}}},
}


class Things(Stream):
    """Its schema comes out of an OpenAPI document, its text is not all ASCII."""

    name = "things"
    primary_keys = ("id",)
    schema = OPENAPI

    def get_records(self, context):
        yield {"id": 1, "tags": ["\\u00e9", "\\u2028", "a\\u007f", "\\U0001f600"], "state": "on"}


class Asked(Stream):
    """Its schema costs a request."""

    name = "asked"

    @property
    def schema(self):
        print("asked for the schema", file=sys.stderr)
        return th.PropertiesList(th.Property("id", th.IntegerType)).to_dict()

    def get_records(self, context):
        yield {"id": 1}


class TapPlugin(Tap):
    name = "tap-plugin"

    def discover_streams(self):
        return [Things(self), Asked(self)]
'''
RUN = """
import sys
if sys.argv.pop(1) == "ours":
    from tap_core.compat import import_alias
    import_alias.install_import_alias()
sys.path.insert(0, "")
from plugin import TapPlugin
TapPlugin.cli()
"""

peer = pytest.mark.skipif(peer_python("singer_sdk") is None, reason=missing_reason("singer_sdk"))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "plugin.py").write_text(TAP)
    (tmp_path / "flat.json").write_text('{"flattening_enabled": true, "flattening_max_depth": 1}')
    return tmp_path


def run(site: Path, sdk: str, *options: str) -> subprocess.CompletedProcess[str]:
    python = sys.executable if sdk == "ours" else peer_python("singer_sdk")
    process = subprocess.run(
        [str(python), "-c", RUN, sdk, *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=site,
        env={"PYTHONPATH": str(ROOT)} if sdk == "ours" else {},
    )
    assert process.returncode == 0, process.stderr
    return process


def records(text: str) -> list[object]:
    messages = map(json.loads, io.StringIO(text))
    return [message["record"] for message in messages if message["type"] == "RECORD"]


def test_openapi_keywords_are_removed_from_the_catalog(site: Path) -> None:
    catalog = json.loads(run(site, "ours", "--discover").stdout)
    catalog_entry = next(entry for entry in catalog["streams"] if entry["stream"] == "things")
    assert catalog_entry["schema"] == {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "state": {"type": "string"},
        },
    }


@peer
@pytest.mark.peer
def test_catalog_is_that_of_singer_sdk(site: Path) -> None:
    ours, theirs = (run(site, sdk, "--discover").stdout for sdk in ("ours", "theirs"))
    assert json.loads(ours) == json.loads(theirs)


def test_flattened_arrays_are_ascii_json_texts(site: Path) -> None:
    (_, record) = records(run(site, "ours", "--config", "flat.json").stdout)
    assert record == {
        "id": 1,
        "tags": r'["\u00e9","\u2028","a\u007f","\ud83d\ude00"]',
        "state": "on",
    }


@peer
@pytest.mark.peer
def test_flattened_records_are_those_of_singer_sdk(site: Path) -> None:
    ours, theirs = (run(site, sdk, "--config", "flat.json") for sdk in ("ours", "theirs"))
    assert records(ours.stdout) == records(theirs.stdout)


def test_schema_of_a_deselected_stream_is_not_evaluated_with_a_catalog(site: Path) -> None:
    catalog = json.loads(run(site, "ours", "--discover").stdout)
    for entry in catalog["streams"]:
        root = next(item for item in entry["metadata"] if item["breadcrumb"] == [])
        root["metadata"]["selected"] = entry["stream"] == "things"
    (site / "catalog.json").write_text(json.dumps(catalog))
    process = run(site, "ours", "--catalog", "catalog.json")
    assert len(records(process.stdout)) == 1
    assert "asked for the schema" not in process.stderr
