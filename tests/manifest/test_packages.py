"""A connector's Python package in the folder of its manifest: exports, imports and files."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from textwrap import dedent

import pytest
import requests

from tap_core.manifest.cdk_compat.custom_code_import import load_class
from tap_core.manifest.components.custom import CustomBackoffStrategy
from tap_core.manifest.errors import ManifestError
from tests.http.server import page, serving
from tests.manifest.pieces import make_response
from tests.manifest.running import list_paths, manifest, run, stream


def write_package(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(dedent(text), encoding="utf-8")
    return folder


SOURCE = """
    from abc import ABC
    from airbyte_cdk.sources.declarative.yaml_declarative_source import YamlDeclarativeSource
    from airbyte_cdk.sources.streams.http import HttpStream

    class SourceX(YamlDeclarativeSource):
        def __init__(self):
            super().__init__(**{"path_to_yaml": "manifest.yaml"})

    class Old(HttpStream, ABC):
        url_base = "http://x"
"""
WAITS = """
    from airbyte_cdk.sources.declarative.requesters.error_handlers import BackoffStrategy
    from source_x import LONG

    class Waits(BackoffStrategy):
        def backoff_time(self, response_or_exception, attempt_count):
            return LONG
"""
INIT = """
    LONG = 7
    from .source import SourceX
    from .waits import Waits

    __all__ = ["SourceX", "Waits"]
"""


def test_class_exported_by_the_package_is_loaded(tmp_path: Path):
    """The module with the source class, which only airbyte-cdk runs, must be importable."""
    write_package(tmp_path, __init__=INIT, source=SOURCE, waits=WAITS)
    loaded = load_class("source_x.Waits", tmp_path)
    assert loaded.__module__.endswith(".waits")
    assert loaded().backoff_time(None, 1) == 7
    assert load_class("source_x.waits.Waits", tmp_path) is loaded


def test_class_that_is_not_exported_is_loaded_from_components(tmp_path: Path):
    """Manifest-only connectors use this form."""
    write_package(tmp_path, __init__="", components="class Only:\n    pass\n")
    assert load_class("source_x.Only", tmp_path).__name__ == "Only"


def test_package_init_is_run_once_and_only_for_its_exports(tmp_path: Path):
    init = "from pathlib import Path\nwith Path(__file__).with_name('n').open('a') as file:\n"
    init += "    file.write('x')\nfrom .waits import Waits\nLONG = 7\n"
    write_package(
        tmp_path, __init__=init, waits=WAITS.replace("from source_x import LONG", "LONG = 1")
    )
    load_class("source_x.waits.Waits", tmp_path)
    assert not (tmp_path / "n").exists()
    load_class("source_x.Waits", tmp_path)
    load_class("source_x.Waits", tmp_path)
    assert (tmp_path / "n").read_text() == "x"


@pytest.mark.skipif(
    importlib.util.find_spec("requests_cache") is not None, reason="requests_cache is installed"
)
def test_response_type_of_requests_cache_can_be_imported(tmp_path: Path):
    write_package(
        tmp_path, labels="from requests_cache import Response\n\nclass Labels:\n    of = Response\n"
    )
    assert vars(load_class("source_x.labels.Labels", tmp_path))["of"] is requests.Response
    write_package(tmp_path, more="from requests_cache import CachedSession\n")
    with pytest.raises(ManifestError, match=r"more\.py, line 1: .*CachedSession"):
        load_class("source_x.more.More", tmp_path)


def test_pkgutil_get_data_reads_files_of_the_package(tmp_path: Path):
    text = """
        import pkgutil
        from pkgutil import get_data, iter_modules

        class X:
            of = get_data("source_x", "data.txt"), pkgutil.get_data("source_x.inner", "n.txt")
            none = get_data("source_x", "other.txt")
            others = get_data("tap_core", "py.typed")
    """
    write_package(tmp_path, x=text)
    (tmp_path / "inner").mkdir()
    (tmp_path / "data.txt").write_text("a")
    (tmp_path / "inner" / "n.txt").write_text("b")
    attributes = vars(load_class("source_x.x.X", tmp_path))
    assert attributes["of"] == (b"a", b"b")
    assert (attributes["none"], attributes["others"]) == (None, b"")


def test_custom_requester_has_the_name_of_its_stream(tmp_path: Path):
    text = """
        from airbyte_cdk.sources.declarative.requesters import HttpRequester

        class Named(HttpRequester):
            def get_request_params(self, **kwargs):
                return {"of": self.name}
    """
    write_package(tmp_path, components=text)
    requester = "type: CustomRequester\nclass_name: components.Named\nhttp_method: GET"
    with serving() as server:
        server.answers(page({"id": 1}))
        streams = [stream(name, "/i", requester) for name in ("items", "others")]
        run(manifest(tmp_path, *streams), server)
        assert list_paths(server) == ["/i?of=items", "/i?of=others"]


def test_page_size_without_an_option_is_not_requested_from_the_strategy(tmp_path: Path):
    text = """
        from airbyte_cdk.sources.declarative.requesters.paginators.strategies import PageIncrement

        class Steps(PageIncrement):
            def __post_init__(self, parameters):
                self._page = 1

            def next_page_token(self, response, last_page_size, last_record, last_page_token_value):
                return None if last_page_token_value else self.page_size
    """
    write_package(tmp_path, components=text)
    pages = """
    paginator:
      type: DefaultPaginator
      $parameters: {page_size: 3}
      page_token_option: {type: RequestOption, inject_into: request_parameter, field_name: page}
      pagination_strategy: {type: CustomPaginationStrategy, class_name: components.Steps}
    """
    with serving() as server:
        server.answers(page({"id": 1}), page({"id": 2}))
        run(manifest(tmp_path, stream("items", "/items", retriever=pages)), server)
        assert list_paths(server) == ["/items", "/items?page=3"]


OLD = """
    from dataclasses import InitVar, dataclass
    from typing import Any, Mapping
    from airbyte_cdk.sources.declarative.requesters.error_handlers import BackoffStrategy

    @dataclass
    class Waits(BackoffStrategy):
        parameters: InitVar[Mapping[str, Any]]
        config: Mapping[str, Any]

        def backoff(self, response, attempt_count):
            return response.status_code - 400 + attempt_count
"""


def test_old_backoff_method_of_a_strategy_is_called(tmp_path: Path):
    write_package(tmp_path, waits=OLD, none=OLD.replace("def backoff", "def other"))
    waits = CustomBackoffStrategy(class_name="source_x.waits.Waits", folder=tmp_path)
    assert waits.compute_wait(make_response(429), 1, {}) == 30
    assert waits.compute_wait(None, 1, {}) is None
    with pytest.raises(ManifestError, match=r"Waits must override backoff_time\(\)"):
        CustomBackoffStrategy(class_name="source_x.none.Waits", folder=tmp_path)


def test_unsupported_name_is_accepted_only_in_annotations(tmp_path: Path):
    text = (
        "from airbyte_cdk.sources.streams.http import MAP\n\nclass X:\n    of: MAP | None = None\n"
    )
    write_package(tmp_path, hint=text, use=text + "    more = MAP | {1: 2}\n")
    assert load_class("source_x.hint.X", tmp_path).__name__ == "X"
    with pytest.raises(
        ManifestError, match=r"use\.py, line 5: 'MAP' of airbyte_cdk.* is not supported"
    ):
        load_class("source_x.use.X", tmp_path)


def test_error_in_the_package_init_names_its_line(tmp_path: Path):
    write_package(tmp_path, __init__="LONG = 7\nimport not_there_at_all\n")
    with pytest.raises(
        ManifestError, match=r"__init__\.py, line 2: the package 'not_there_at_all'"
    ):
        load_class("source_x.Waits", tmp_path)
    write_package(tmp_path, __init__="LONG = 7\n")
    with pytest.raises(ManifestError, match=r"no such Python file"):
        load_class("source_x.Waits", tmp_path)


def test_module_of_the_package_can_be_imported_by_its_full_name(tmp_path: Path):
    """``import source_x.model`` binds the package, ``import source_x.model as m`` the file."""
    write_package(
        tmp_path,
        model="KIND = 'daily'\n",
        whole="import source_x.model\n\nclass Whole:\n    kind = source_x.model.KIND\n",
        named="import source_x.model as m\n\nclass Named:\n    kind = m.KIND\n",
    )
    assert vars(load_class("source_x.whole.Whole", tmp_path))["kind"] == "daily"
    assert vars(load_class("source_x.named.Named", tmp_path))["kind"] == "daily"


def test_components_module_can_be_imported_by_its_short_name(tmp_path: Path):
    write_package(
        tmp_path,
        components="KIND = 'daily'\n",
        other="import components\n\nclass Other:\n    kind = components.KIND\n",
    )
    assert vars(load_class("source_x.other.Other", tmp_path))["kind"] == "daily"


def test_custom_schema_loader_may_set_its_own_file(tmp_path: Path):
    loader = """
        from dataclasses import InitVar, dataclass
        from airbyte_cdk.sources.declarative.interpolation.interpolated_string import (
            InterpolatedString,
        )
        from airbyte_cdk.sources.declarative.schema.json_file_schema_loader import (
            JsonFileSchemaLoader,
        )

        @dataclass
        class Own(JsonFileSchemaLoader):
            parameters: InitVar = {"name": "reports"}

            def __post_init__(self, parameters):
                self.file_path = InterpolatedString.create(
                    "./schemas/{{ parameters['name'] }}.json", parameters=self.parameters
                )
    """
    write_package(tmp_path, components=loader)
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "reports.json").write_text('{"properties": {"day": {}}}')
    schema_loader = load_class("source_x.components.Own", tmp_path)(config={}, parameters={})
    assert schema_loader.get_json_schema() == {"properties": {"day": {}}}
