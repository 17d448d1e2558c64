"""OpenAPISchema: documents, components, references and the resulting schemas."""

from __future__ import annotations

import base64
import importlib.resources
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest
from jsonschema import Draft7Validator, Draft202012Validator

from tap_core.exceptions import (
    SchemaNotFoundError,
    SchemaNotValidError,
    UnsupportedOpenAPISpec,
)
from tap_core.schema import resolve_schema_references
from tap_core.schema.loading import resolve_sibling
from tap_core.schema.source import OpenAPISchema, OpenAPISchemaNormalizer
from tests.http.server import Reply, serving
from tests.server_thread import serve_in_thread

DOCUMENTS = Path(__file__).with_name("documents")
V2, V30, V31 = (DOCUMENTS / f"shop_{name}" for name in ("v2.json", "v30.yaml", "v31.json"))
TEXT, INTEGER = {"type": ["string", "null"]}, {"type": ["integer", "null"]}


def components(path):
    spec = OpenAPISchema(path).spec
    return list(spec.get("definitions") or spec["components"]["schemas"])


EVERY = [(path, key) for path in (V2, V30, V31) for key in components(path)]


@pytest.mark.parametrize("path, key", EVERY, ids=lambda value: getattr(value, "name", value))
def test_every_component_becomes_a_valid_json_schema(path, key):
    schema = OpenAPISchema(path).get_schema(key, key_properties=("id",))
    Draft202012Validator.check_schema(schema)
    Draft7Validator.check_schema(schema)
    text = json.dumps(schema).replace('"enum": ["item", null]', "a nullable const")
    for word in ('"$ref"', '"nullable"', '"x-nullable"', '"allOf"', '"enum"', '"pattern"'):
        assert word not in text


@pytest.mark.parametrize("kind", ["other host", "file", "redirect"])
def test_remote_document_can_reference_only_documents_of_its_host(tmp_path, kind):
    """The server of the document must not choose files or hosts that are read."""
    (tmp_path / "local.json").write_text('{"type": "string", "const": "LOCAL"}')
    with serving() as other, serving() as server:
        other.answers(Reply({"type": "string"}))
        name = {
            "other host": f"{other.url}/x.json",
            "file": (tmp_path / "local.json").as_uri(),
            "redirect": "/moved.json",
        }[kind]
        spec = {"openapi": "3.0.3", "components": {"schemas": {"A": {"$ref": name}}}}
        headers = {"Content-Type": "application/json"}

        def answer(request):
            if request.path == "/moved.json":
                return Reply("", 302, {"Location": f"{other.url}/x.json"})
            return Reply(spec, headers=headers)

        server.answers_by(answer)
        with pytest.raises(SchemaNotFoundError):
            OpenAPISchema(f"{server.url}/spec.json").get_schema("A")
        assert other.requests == []


def test_component_of_openapi_2_is_converted():
    schema = OpenAPISchema(V2).get_schema("Company", key_properties=("id",))
    assert schema["type"] == "object"
    assert schema["required"] == ["id", "vat"]
    assert schema["description"] == "A firm."
    assert schema["properties"] == {
        "id": {"type": "integer", "format": "int64", "readOnly": True},
        "email": {**TEXT, "format": "email"},
        "address": {
            "type": ["object", "null"],
            "description": "Where it goes.",
            "properties": {"street": TEXT, "country": TEXT},
            "required": ["street"],
        },
        "code": TEXT,
        "born": {**TEXT, "format": "date"},
        "tags": {"type": ["array", "null"], "items": TEXT},
        "score": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 9},
        "photo": {**TEXT, "format": "binary"},
        "vat": TEXT,
    }


def test_component_of_openapi_3_0_is_converted():
    schema = OpenAPISchema(V30).get_schema("Order", key_properties=("id",))
    assert schema == {
        "type": "object",
        "description": "An order.",
        "required": ["id", "total", "note"],
        "properties": {
            "id": {"type": "integer", "format": "int64"},
            "created": {**TEXT, "format": "date-time", "example": "2024-01-01T00:00:00Z"},
            "kind": {**TEXT, "description": "From the order."},
            "total": {
                "type": ["object", "null"],
                "properties": {
                    "amount": {"type": ["number", "null"], "exclusiveMinimum": 0},
                    "currency": TEXT,
                },
            },
            "note": TEXT,
        },
    }


def test_component_of_openapi_3_1_is_converted():
    maker = {"type": ["object", "null"], "properties": {"name": {**TEXT, "deprecated": True}}}
    schema = OpenAPISchema(V31).get_schema("Item", key_properties=("id",))
    assert schema["properties"] == {
        "id": {"type": "integer"},
        "name": {**TEXT, "examples": ["a"]},
        "price": {"type": ["number", "null"], "exclusiveMinimum": 0},
        "maker": maker,
        "origin": {**maker, "description": "Where from."},
        "label": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "kind": {"enum": ["item", None]},
        "pair": {
            "type": ["array", "null"],
            "prefixItems": [{"type": "string"}, {"type": "integer"}],
        },
    }


def test_version_of_the_document_is_detected():
    assert [OpenAPISchema(path).spec_version for path in (V2, V30, V31)] == ["v2", "v3", "v3"]


# References


def test_recursive_component_is_cut_at_its_repetition():
    node = OpenAPISchema(V30).get_schema("Node")["properties"]
    assert node == {"value": TEXT, "next": {}, "all": {"type": ["array", "null"], "items": {}}}


def test_component_does_not_depend_on_earlier_requests():
    spec = json.loads(V2.read_text())
    spec["definitions"]["Shelf"] = {"properties": {"top": {"$ref": "#/definitions/Category"}}}
    alone = OpenAPISchema(spec).get_schema("Shelf")
    source = OpenAPISchema(spec)
    source.get_schema("Category")
    assert source.get_schema("Shelf") == alone
    assert alone["properties"]["top"]["properties"]["parent"] == {}


def make_mutually_recursive_components(count):
    reference = {f"t{n}": {"$ref": f"#/definitions/T{n}"} for n in range(count)}
    return {
        "swagger": "2.0",
        "definitions": {
            f"T{n}": {"type": "object", "properties": {"id": {"type": "string"}, **reference}}
            for n in range(count)
        },
    }


def test_mutually_recursive_components_are_bounded():
    """Nine of them, fully expanded, would have nearly a million objects."""
    schema = OpenAPISchema(make_mutually_recursive_components(9)).get_schema("T0")
    assert len(json.dumps(schema)) < 1_000_000
    assert schema["properties"]["t7"]["properties"]["t3"]["properties"]["id"] == TEXT


def test_schema_with_too_many_references_is_rejected():
    wide = {f"p{n}": {"$ref": "#/definitions/T"} for n in range(5001)}
    schema = {"properties": wide, "definitions": {"T": {"type": "string"}}}
    with pytest.raises(SchemaNotValidError, match="more than 5000 references"):
        resolve_schema_references(schema)


def test_references_to_other_files_of_the_folder_are_resolved():
    schema = OpenAPISchema(V30).get_schema("Outside")
    assert schema["properties"] == {
        "name": TEXT,
        "home": {"type": ["object", "null"], "properties": {"city": TEXT}},
        "boss": {},
    }


def test_referenced_document_is_read_once(tmp_path, monkeypatch):
    (tmp_path / "b.json").write_text('{"type": "string"}')
    twice = {"x": {"$ref": "b.json"}, "y": {"$ref": "b.json"}}
    spec = {"swagger": "2.0", "definitions": {"A": {"properties": twice}}}
    (tmp_path / "a.json").write_text(json.dumps(spec))
    source = OpenAPISchema(tmp_path / "a.json")
    read = []
    open_file = Path.open
    monkeypatch.setattr(
        Path, "open", lambda path, mode: read.append(path.name) or open_file(path, mode)
    )
    assert source.get_schema("A")["properties"] == {"x": TEXT, "y": TEXT}
    assert read == ["a.json", "b.json"]


def test_relative_reference_without_a_folder_is_an_error():
    spec = {"openapi": "3.0.0", "components": {"schemas": {"A": {"$ref": "b.json"}}}}
    with pytest.raises(
        SchemaNotFoundError, match=r"'A' in OpenAPISchema\('a dictionary'\).*b\.json"
    ):
        OpenAPISchema(spec).get_schema("A")

    class Lone:
        name = "lone.json"

        def __str__(self):
            return "a lone resource"

    with pytest.raises(ValueError, match="no folder of 'a lone resource'"):
        resolve_sibling(Lone(), "b.json")  # type: ignore[arg-type]


def test_component_names_with_special_characters_are_found():
    names = ["a/b", "a~1b", "a%20b", "a b", "List<a>", "a"]
    spec = {"swagger": "2.0", "definitions": {n: {"type": "string", "title": n} for n in names}}
    source = OpenAPISchema(spec)
    assert [source.get_schema(name)["title"] for name in names] == names


def test_key_can_be_a_path_into_a_component():
    source = OpenAPISchema(V2)
    assert source.get_schema("Customer/properties/address") == source.get_schema("Address")


def test_subclass_can_use_other_keys_than_components():
    class Operation(NamedTuple):
        path: str
        method: str

    class Responses(OpenAPISchema[Operation]):
        def get_unresolved_schema(self, key):
            responses = self.spec["paths"][key.path][key.method]["responses"]
            return responses["200"]["content"]["application/json"]["schema"]["items"]

    source = Responses(V30)
    order = source.get_schema(Operation("/orders", "get"), key_properties=("id",))
    assert order == OpenAPISchema(V30).get_schema("Order", key_properties=("id",))
    with pytest.raises(SchemaNotFoundError, match="/nowhere"):
        source.get_schema(Operation("/nowhere", "get"))


# Sources of documents


def test_source_can_be_a_path_string_resource_or_dict(tmp_path, monkeypatch):
    (tmp_path / "of_specs").mkdir()
    (tmp_path / "of_specs" / "__init__.py").touch()
    (tmp_path / "of_specs" / "spec.JSON").write_bytes(V2.read_bytes())
    monkeypatch.syspath_prepend(tmp_path)
    resource = importlib.resources.files("of_specs") / "spec.JSON"
    sys.modules.pop("of_specs")
    schemas = [
        OpenAPISchema(source).get_schema("Company")
        for source in (V2, str(V2), resource, json.loads(V2.read_text()))
    ]
    assert all(schema == schemas[0] for schema in schemas)


def test_spec_can_be_set():
    source = OpenAPISchema("nowhere.json")
    assert source.source == "nowhere.json"
    source.spec = json.loads(V2.read_text())
    assert source.spec is source.spec
    assert source.get_schema("Address")["required"] == ["street"]


@pytest.mark.parametrize(
    "name, text, cause",
    [
        ("a.json", "not json", json.JSONDecodeError),
        ("a.yaml", "{ not yaml", ValueError),
        ("a.yaml", "&a {x: *a}", ValueError),
        ("a.yaml", "? [a]\n: b", ValueError),
        ("a.toml", "", UnsupportedOpenAPISpec),
        ("a", "", UnsupportedOpenAPISpec),
        ("a.json", '{"info": {}}', UnsupportedOpenAPISpec),
        ("a.json", "[]", UnsupportedOpenAPISpec),
    ],
)
def test_invalid_openapi_document_is_an_error_with_its_cause(tmp_path, name, text, cause):
    (tmp_path / name).write_text(text)
    with pytest.raises(SchemaNotFoundError, match=f"Schema not found for 'User' in .*{name}") as e:
        OpenAPISchema(tmp_path / name).get_schema("User")
    assert isinstance(e.value.__cause__, cause)


@pytest.mark.parametrize(
    "component", [{"type": "object", "properties": ["id"]}, {"allOf": "Other"}, {"oneOf": None}]
)
def test_component_that_cannot_be_converted_is_named_in_the_error(component):
    document = {"openapi": "3.0.3", "components": {"schemas": {"User": component}}}
    with pytest.raises(SchemaNotValidError, match="schema of 'User' in OpenAPISchema"):
        OpenAPISchema(document).get_schema("User")


def test_invalid_url_is_an_error_without_its_secrets():
    with pytest.raises(SchemaNotFoundError, match="Invalid IPv6 URL") as caught:
        OpenAPISchema("http://me:secret@[bad/a.json").get_schema("User")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["ftp", "file", "s3"])
def test_url_that_is_not_http_is_an_error_without_its_secrets(scheme):
    source = OpenAPISchema(f"{scheme}://me:secret@host/a.json?token=secret")
    with pytest.raises(SchemaNotFoundError, match=f"'{scheme}://host/a.json' is neither") as caught:
        source.get_schema("User")
    assert "secret" not in str(caught.value)


def test_unknown_file_type_is_named_in_the_error(tmp_path):
    (tmp_path / "a.toml").touch()
    with pytest.raises(UnsupportedOpenAPISpec, match=r"OpenAPI file type: \.toml .*a\.toml"):
        _ = OpenAPISchema(tmp_path / "a.toml").spec


def test_missing_component_and_document_are_named_in_the_error():
    with pytest.raises(
        SchemaNotFoundError, match=r"'Nobody' in .*shop_v2\.json.*'#/definitions/No"
    ):
        OpenAPISchema(V2).get_schema("Nobody")


def test_yaml_without_pyyaml_names_the_package_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "tap_core.schema.yaml", raising=False)
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(SchemaNotFoundError, match=r"pip install 'tap-core-sdk\[manifest\]'"):
        OpenAPISchema(V30).get_schema("Order")
    assert OpenAPISchema(V2).get_schema("Address")


def test_yaml_values_are_read_by_the_json_schema_of_yaml(tmp_path):
    text = (
        "openapi: 3.0.0\n"
        "shared: &shared {a: ~, b: true}\n"
        "components:\n"
        "  schemas:\n"
        "    A:\n"
        "      <<: *shared\n"
        "      default: [2024-01-01, yes, no, on, 0x1F, 010, 1_000, 12:30, .inf]\n"
        "      const: [null, FALSE, 7, -1.5, 2e3, '7']\n"
        "      properties: {on: {}, 1: {}, null: {}, 2024-01-01: {}}\n"
    )
    (tmp_path / "a.yaml").write_text(text)
    source = OpenAPISchema(tmp_path / "a.yaml", preprocessor=Untouched())
    assert source.get_schema("A") == {
        "a": None,
        "b": True,
        "default": ["2024-01-01", "yes", "no", "on", "0x1F", "010", "1_000", "12:30", ".inf"],
        "const": [None, False, 7, -1.5, 2000.0, "7"],
        "properties": {"on": {}, "1": {}, "null": {}, "2024-01-01": {}},
    }


class Untouched:
    """A preprocessor that returns the schema unchanged."""

    def preprocess_schema(self, schema, *, key_properties=()):
        return schema


def test_preprocessor_can_be_replaced():
    class Titled(OpenAPISchemaNormalizer):
        def handle_object(self, schema, *, key_properties=()):
            return {**super().handle_object(schema, key_properties=key_properties), "title": "T"}

    schema = OpenAPISchema(V2, preprocessor=Titled()).get_schema("Customer")
    assert schema["title"] == schema["properties"]["address"]["title"] == "T"
    raw = OpenAPISchema(V2, preprocessor=Untouched()).get_schema("Address")
    assert raw["properties"]["country"]["enum"] == ["NZ", "NO"]


# Remote documents


class Documents(BaseHTTPRequestHandler):
    """Serves the documents; the query sets the content type or a redirect."""

    def do_GET(self):
        self.server.seen.append((self.path, self.headers.get("Authorization")))
        path, _, query = self.path.partition("?")
        if query.startswith("to="):
            self.send_response(302)
            self.send_header("Location", query[3:])
            self.end_headers()
            return
        file = DOCUMENTS / path[1:]
        if not file.is_file():
            self.send_error(404)
            return
        self.send_response(200)
        if query.startswith("type="):
            self.send_header("Content-Type", query[5:])
        self.end_headers()
        self.wfile.write(file.read_bytes())

    def log_message(self, format, *args):
        """Log nothing."""


@pytest.fixture(scope="module")
def server():
    with serve_in_thread(ThreadingHTTPServer(("127.0.0.1", 0), Documents)) as served:
        served.seen = []
        yield served


@pytest.fixture
def host(server, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    server.seen.clear()
    return f"127.0.0.1:{server.server_port}"


@pytest.mark.parametrize(
    "path",
    [
        "shop_v30.yaml",
        "shop_v30.yaml?type=text/plain",
        "shop_v30.yaml?type=application/yaml",
        "shop_v30.yaml?type=application/vnd.oai.openapi%3Bq=1#top",
        "?to=/shop_v30.yaml",
    ],
)
def test_remote_document_and_its_references_are_read(host, path):
    source = OpenAPISchema(f"http://{host}/{path}")
    assert source.get_schema("Order") == OpenAPISchema(V30).get_schema("Order")
    if "to=" not in path:
        assert source.get_schema("Outside") == OpenAPISchema(V30).get_schema("Outside")


@pytest.mark.parametrize("kind", ["application/json", "application/vnd.oai.openapi+json"])
def test_content_type_has_priority_over_the_file_name(host, tmp_path, kind):
    source = OpenAPISchema(f"http://{host}/shop_v2.json?type={kind}")
    assert source.get_schema("Address") == OpenAPISchema(V2).get_schema("Address")
    mislabeled = OpenAPISchema(f"http://{host}/shop_v30.yaml?type={kind}")
    with pytest.raises(json.JSONDecodeError):
        _ = mislabeled.spec


def test_password_of_a_url_is_sent_as_a_header_only_to_its_host(host, server):
    port = host.partition(":")[2]
    away = f"http://localhost:{port}/shop_v2.json"
    OpenAPISchema(f"http://me:p%40ss@{host}/?to={away}").get_schema("Address")
    secret = "Basic " + base64.b64encode(b"me:p@ss").decode()
    assert server.seen == [(f"/?to={away}", secret), ("/shop_v2.json", None)]


@pytest.mark.parametrize(
    "address",
    [
        "http://me:secret@{host}/none.json?token=secret",
        "HTTP://me:secret@{host}/none.json?token=secret",
        "http://me:secret@{host}:1:2/a.json?token=secret",
        "http://me:secret@127.0.0.1:1/a.json?token=secret",
        "http://me:secret@{host}/a b.json?token=secret",
        "http://me:secret@{host}/?to=ftp://{host}/secret.json",
        "http://me:secret@{host}/?to=file:///etc/secret",
    ],
)
def test_error_of_a_remote_document_shows_no_secret(host, address):
    with pytest.raises(SchemaNotFoundError, match=r"in OpenAPISchema\('http://127") as caught:
        OpenAPISchema(address.format(host=host)).get_schema("A")
    assert "me:" not in str(caught.value)
    assert "token" not in str(caught.value)


def test_http_error_is_the_cause_of_the_schema_error(host):
    with pytest.raises(SchemaNotFoundError, match="404") as caught:
        OpenAPISchema(f"http://{host}/none.json").get_schema("A")
    assert isinstance(caught.value.__cause__, OSError)
