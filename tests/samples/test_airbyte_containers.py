"""The container files for Airbyte: their entry points run the documented commands.

No image is built. The entry point is parsed from the file and run with the project's commands on
the PATH and the arguments that a platform passes to a container.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.airbyte.models import model_faults, needs_models
from tests.airbyte.rules import read_faults, single_faults
from tests.airbyte.running import ROOT, configured, environment
from tests.samples.test_manifests import script

FOLDER = ROOT / "samples" / "airbyte"
SOURCE, DESTINATION = "source-flights", "destination-spark"
MANIFEST = "source-manifest"


def entry_point(image: str) -> list[str]:
    """Return the command that starts a container of this image."""
    [json_text] = re.findall(r"^ENTRYPOINT (\[.*\])$", text(image), re.MULTILINE)
    arguments: list[str] = json.loads(json_text)
    return arguments


def text(image: str) -> str:
    return (FOLDER / image / "Dockerfile").read_text("utf-8")


def metadata(image: str) -> dict[str, Any]:
    metadata_document: dict[str, Any] = yaml.safe_load(
        (FOLDER / image / "metadata.yaml").read_text("utf-8")
    )
    return metadata_document


def call_image(image: str, line: str, folder: Path, feed: bytes = b"", **env: str) -> bytes:
    """Call an image's entry point with documented arguments; return its output."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.run(
        [*entry_point(image), *line.split()],
        cwd=folder,
        env=environment(PATH=path, **env),
        input=feed,
        capture_output=True,
        timeout=200,
        check=False,
    )
    assert process.returncode == 0, process.stdout[-3000:] + process.stderr[-3000:]
    return process.stdout


@pytest.mark.parametrize("image", [SOURCE, MANIFEST, DESTINATION])
def test_container_file_and_metadata_are_consistent(image: str) -> None:
    image_files, data = text(image), metadata(image)["data"]
    [variable] = re.findall(r'^ENV AIRBYTE_ENTRYPOINT="(.*)"$', image_files, re.MULTILINE)
    assert variable.split() == entry_point(image)
    labels = dict(re.findall(r'^LABEL (\S+)="(.*)"$', image_files, re.MULTILINE))
    assert labels["io.airbyte.name"] == data["dockerRepository"] == f"example/{image}"
    assert labels["io.airbyte.version"] == data["dockerImageTag"]
    assert data["connectorType"] == image.partition("-")[0]
    assert str(uuid.UUID(data["definitionId"])) == data["definitionId"]
    for copied in re.findall(r"/build/([\w./-]+)", image_files):
        assert (ROOT / copied).exists(), copied


COMPLETED = {
    SOURCE: {"dockerRepository", "connectorSubtype"},
    DESTINATION: {"dockerRepository", "connectorSubtype", "documentationUrl"},
    MANIFEST: {"dockerRepository", "tags"},
}
"""Fields of each metadata file that were changed after `--about` had printed them."""


@pytest.mark.parametrize("image", [SOURCE, MANIFEST, DESTINATION])
def test_metadata_is_what_about_prints(image: str, tmp_path: Path) -> None:
    manifest = str(ROOT / "samples" / "manifests" / "rates" / "manifest.yaml")
    line = "--about --format=airbyte"
    printed = yaml.safe_load(call_image(image, line, tmp_path, TAP_MANIFEST_FILE=manifest))
    assert printed["metadataSpecVersion"] == metadata(image)["metadataSpecVersion"]
    data = metadata(image)["data"]
    assert data["dockerRepository"].endswith(image)
    for key in printed["data"].keys() - COMPLETED[image]:
        assert printed["data"][key] == data[key], key


@needs_models
@pytest.mark.peer
def test_source_image_answers_the_documented_commands(tmp_path: Path) -> None:
    """E1, RD1: `spec`, `check`, `discover` and `read` with config, catalog and state."""
    (tmp_path / "config.json").write_text('{"until": "2013-01-01T08:00:00Z"}')
    assert single_faults(call_image(SOURCE, "spec", tmp_path), "SPEC") == []
    status = call_image(SOURCE, "check --config config.json", tmp_path)
    assert single_faults(status, "CONNECTION_STATUS") == []
    assert b"SUCCEEDED" in status
    discovered = call_image(SOURCE, "discover --config config.json", tmp_path)
    [catalog] = [json.loads(line) for line in discovered.splitlines() if b'"CATALOG"' in line]
    configured_catalog = configured(catalog["catalog"], ["airlines", "weather"])
    (tmp_path / "catalog.json").write_text(json.dumps(configured_catalog))
    (tmp_path / "state.json").write_text("[]")
    line = "read --config config.json --catalog catalog.json"
    output = call_image(SOURCE, line, tmp_path)
    assert read_faults(output, configured_catalog) == []
    second = call_image(SOURCE, f"{line} --state state.json", tmp_path)
    assert second.count(b'"RECORD"') == output.count(b'"RECORD"') > 16
    assert model_faults(status + discovered + second) == []


def image_variable(image: str, name: str) -> str:
    """Return the value of an ENV instruction, with the defaults of build arguments."""
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", text(image), re.MULTILINE))
    [value] = re.findall(rf"^ENV {name}=(\S+)$", text(image), re.MULTILINE)
    return re.sub(r"\$\{(\w+)\}", lambda match: defaults[match[1]], str(value))


@pytest.mark.thorough
@needs_models
@pytest.mark.peer
def test_manifest_image_answers_the_documented_commands(tmp_path: Path) -> None:
    """E1, RD1: with the image's default manifest, found by the image's variable."""
    [manifest_path] = re.findall(r"^ARG MANIFEST=(\S+)$", text(MANIFEST), re.MULTILINE)
    path_in_image = Path(image_variable(MANIFEST, "TAP_MANIFEST_FILE"))
    assert f"COPY ${{MANIFEST}} {path_in_image}" in text(MANIFEST).replace(
        "${CONNECTOR}", path_in_image.parent.name
    )
    copied = tmp_path / path_in_image.parent.name / path_in_image.name
    copied.parent.mkdir()
    shutil.copy(ROOT / manifest_path, copied)
    variables = {"TAP_MANIFEST_FILE": str(copied)}
    assert single_faults(call_image(MANIFEST, "spec", tmp_path, **variables), "SPEC") == []
    served = script("serve")
    with served.serving(served.API()) as address:
        days = {"start_date": "2023-04-14", "end_date": "2023-04-15"}
        config = {"api_url": address, "base": "EUR", **days}
        (tmp_path / "config.json").write_text(json.dumps(config))
        status = call_image(MANIFEST, "check --config config.json", tmp_path, **variables)
        assert b"SUCCEEDED" in status
        discovered = call_image(MANIFEST, "discover --config config.json", tmp_path, **variables)
        [catalog] = [json.loads(line) for line in discovered.splitlines() if b'"CATALOG"' in line]
        configured_catalog = configured(catalog["catalog"], ["rates"])
        (tmp_path / "catalog.json").write_text(json.dumps(configured_catalog))
        line = "read --config config.json --catalog catalog.json"
        output = call_image(MANIFEST, line, tmp_path, **variables)
    assert read_faults(output, configured_catalog) == []
    assert output.count(b'"RECORD"') == 2


@needs_models
@pytest.mark.peer
def test_destination_image_answers_spec(tmp_path: Path) -> None:
    """SP1, SP6: with the sync modes that it supports."""
    output = call_image(DESTINATION, "spec", tmp_path)
    assert single_faults(output, "SPEC") == []
    assert model_faults(output) == []
    [spec] = [json.loads(line)["spec"] for line in output.splitlines() if b'"SPEC"' in line]
    assert sorted(spec["supported_destination_sync_modes"]) == [
        "append",
        "append_dedup",
        "overwrite",
    ]


@needs_models
@pytest.mark.peer
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.thorough
def test_destination_image_answers_the_documented_commands(tmp_path: Path) -> None:
    """CK1, D1: `check` and `write` with config and catalog, messages on standard input."""
    (tmp_path / "config.json").write_text(json.dumps({"path": str(tmp_path / "warehouse")}))
    status = call_image(DESTINATION, "check --config config.json", tmp_path)
    assert single_faults(status, "CONNECTION_STATUS") == []
    assert b"SUCCEEDED" in status
    stream = {"name": "t", "json_schema": {"properties": {"id": {"type": "integer"}}}}
    entry = {"stream": stream, "sync_mode": "full_refresh", "destination_sync_mode": "append"}
    (tmp_path / "catalog.json").write_text(json.dumps({"streams": [entry]}))
    record = {"stream": "t", "data": {"id": 1}, "emitted_at": 1_700_000_000_000}
    blob = {"stream_descriptor": {"name": "t"}, "stream_state": {"at": 1}}
    fed = [
        {"type": "RECORD", "record": record},
        {"type": "STATE", "state": {"type": "STREAM", "stream": blob}},
    ]
    feed = b"".join(json.dumps(message).encode() + b"\n" for message in fed)
    output = call_image(
        DESTINATION, "write --config config.json --catalog catalog.json", tmp_path, feed
    )
    assert b'"stream_state":{"at":1}' in output.replace(b" ", b"")
    assert model_faults(status + output) == []
