"""The container files for Fivetran: their entry points start servers that answer by gRPC.

No image is built. The entry point is parsed from the file and run with the project's commands on
the PATH and a free port. Calls that need a JVM are left out.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fivetran_tester.client import Client
from fivetran_tester.findings import Findings
from fivetran_tester.server_pool import Servers
from tap_core.protocols.fivetran import proto_messages

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "samples" / "fivetran"
CONNECTOR, DESTINATION = "connector-flights", "destination-spark"


def get_arguments(image: str, name: str) -> list[str]:
    """Return the arguments of an instruction of an image's file."""
    text = (FOLDER / image / "Dockerfile").read_text("utf-8")
    [json_text] = re.findall(rf"^{name} (\[.*\])$", text, re.MULTILINE)
    arguments: list[str] = json.loads(json_text)
    return arguments


@contextmanager
def started(image: str, service: str) -> Iterator[Client]:
    """Start the program of a container of this image; its log is checked at the end."""
    [name] = get_arguments(image, "ENTRYPOINT")
    program = shutil.which(name, path=str(Path(sys.executable).parent))
    assert program is not None
    servers = Servers(service, Findings(), [program])
    with servers.open() as server:
        yield server.client
    assert list(servers.findings.lines()) == []


@pytest.mark.parametrize("image", [CONNECTOR, DESTINATION])
def test_files_copied_into_an_image_exist(image: str) -> None:
    text = (FOLDER / image / "Dockerfile").read_text("utf-8")
    for copied in re.findall(r"/build/([\w./-]+)", text):
        assert (ROOT / copied).exists(), copied
    [flag, port] = get_arguments(image, "CMD")
    assert flag == "--port"
    assert f"EXPOSE {port}\n" in text


def test_connector_image_serves_its_form() -> None:
    """F1, F2: `--port`, and a log of JSON lines on standard output."""
    with started(CONNECTOR, "SourceConnector") as client:
        form = client.call("ConfigurationForm", proto_messages.ConfigurationFormRequest())
        assert [field.name for field in form.fields] == ["folder", "start_date", "until"]
        response = client.call("Schema", proto_messages.SchemaRequest(configuration={}))
        tables = {table.name for table in response.without_schema.tables}
    assert tables == {"airlines", "planes", "airports", "weather", "flights"}


def test_destination_image_answers_without_a_jvm() -> None:
    """F1, F2, F6, F30: `--port`, a form, and CSV."""
    with started(DESTINATION, "DestinationConnector") as client:
        form: Any = client.call("ConfigurationForm", proto_messages.ConfigurationFormRequest())
        assert {"path", "format"} <= {field.name for field in form.fields}
        assert (
            client.call("Capabilities", proto_messages.CapabilitiesRequest()).batch_file_format == 0
        )
