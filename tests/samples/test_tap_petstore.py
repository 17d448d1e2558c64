"""The OpenAPI sample: schemas from a published document, and records valid by them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator, FormatChecker

from tests.samples.running import ROOT, Run, run, service

SAMPLE = "tap_petstore"
PACKAGE = ROOT / "samples" / SAMPLE / SAMPLE
DOCUMENT = json.loads((PACKAGE / "swagger.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Run:
    with service(SAMPLE) as address:
        config = {"api_url": address, "api_key": "special-key"}
        return run(SAMPLE, tmp_path_factory.mktemp("first"), config)


def test_pets_of_every_status_and_existing_orders_are_read(first: Run) -> None:
    assert first.code == 0, first.log
    pets = {r["name"]: r["status"] for r in first.records("pets")}
    assert pets == {
        "Argos": "sold",
        "Bucephalus": "sold",
        "Felicette": "pending",
        "Laika": "available",
        "Tiddles": "available",
    }
    assert [r["id"] for r in first.records("orders")] == [1, 2, 7]


@pytest.mark.parametrize("stream", ["pets", "orders"])
def test_records_are_valid_by_the_schema_message(first: Run, stream: str) -> None:
    validator = Draft202012Validator(first.schemas[stream], format_checker=FormatChecker())
    assert first.records(stream)
    for record in first.records(stream):
        validator.validate(record)


@pytest.mark.parametrize("stream,definition", [("pets", "Pet"), ("orders", "Order")])
def test_records_are_valid_by_the_openapi_document(
    first: Run, stream: str, definition: str
) -> None:
    schema = {"$ref": f"#/definitions/{definition}", "definitions": DOCUMENT["definitions"]}
    for record in first.records(stream):
        present = {name: value for name, value in record.items() if value is not None}
        Draft202012Validator(schema).validate(present)


@pytest.mark.parametrize("stream,definition", [("pets", "Pet"), ("orders", "Order")])
def test_streams_have_the_properties_of_the_openapi_document(
    first: Run, stream: str, definition: str
) -> None:
    sent, published = first.schemas[stream], DOCUMENT["definitions"][definition]
    assert list(sent["properties"]) == list(published["properties"])
    assert sent["properties"]["id"]["type"] == "integer"
    assert "null" in sent["properties"]["status"]["type"]
    assert "$ref" not in json.dumps(sent)


def test_integer_too_large_for_a_float_is_exact(first: Run) -> None:
    assert 9_007_199_254_740_993 in [r["id"] for r in first.records("pets")]


def test_missing_order_number_is_not_an_error(first: Run) -> None:
    assert "ERROR" not in first.log


def test_wrong_key_fails_the_run_and_is_not_logged(tmp_path: Path) -> None:
    with service(SAMPLE) as address:
        result = run(SAMPLE, tmp_path, {"api_url": address, "api_key": "wr0ng"})
    assert result.code == 1
    assert "401" in result.log
    assert "wr0ng" not in result.log


def test_openapi_document_is_unchanged() -> None:
    assert DOCUMENT["info"]["license"]["name"] == "Apache 2.0"
    assert f"version {DOCUMENT['info']['version']}" in (PACKAGE / "NOTICE").read_text()
    digest = hashlib.sha256((PACKAGE / "swagger.json").read_bytes()).hexdigest()
    assert digest == "47637183e8c41aca93fc28c90875b9926c0b61eedbb99dedccce919213c517e7"
