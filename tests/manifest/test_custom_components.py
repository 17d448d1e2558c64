"""Custom Python components of connectors, written for airbyte-cdk and run unchanged."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tap_core.exceptions import FatalAPIError
from tap_core.manifest.cdk_compat.custom_code_import import load_class
from tap_core.manifest.cdk_compat.datetimes import ab_datetime_format, ab_datetime_parse
from tap_core.manifest.cdk_compat.models import CdkStreamSlice
from tap_core.manifest.cdk_compat.records import TransformConfig, TypeTransformer
from tap_core.manifest.components.custom import Custom, CustomTransformation
from tap_core.manifest.errors import ManifestError
from tap_core.redaction import redact
from tests.http.server import ReceivedRequest, Reply, Server, page, serving
from tests.manifest.running import RunResult, list_paths, manifest, run, stream

MODULE = "source_declarative_manifest.components"
CURSOR_WITH_MIGRATION = f"""
incremental_sync:
  type: DatetimeBasedCursor
  cursor_field: at
  datetime_format: "%Y-%m-%d"
  start_datetime: "2024-01-01"
  start_time_option: {{type: RequestOption, inject_into: request_parameter, field_name: since}}
state_migrations:
  - {{type: CustomStateMigration, class_name: {MODULE}.NAME}}
"""
CDK = "airbyte_cdk.sources.declarative"


def write_components(folder: Path, text: str, name: str = "components.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text), encoding="utf-8")
    return path


def run_with_components(
    folder: Path, server: Server, components: str, *streams: str, **options: Any
) -> RunResult:
    write_components(folder, components)
    return run(manifest(folder, *streams), server, **options)


def test_custom_extractor_reads_the_response(tmp_path: Path):
    components = f"""
    import requests
    from dataclasses import dataclass
    from {CDK}.extractors.record_extractor import RecordExtractor
    from {CDK}.types import Record

    @dataclass
    class Table(RecordExtractor):
        def extract_records(self, response: requests.Response) -> list[Record]:
            head, *rows = response.json()
            return [dict(zip(head, row)) for row in rows]
    """
    declared_stream = stream("items", "/items").replace(
        "{type: DpathExtractor, field_path: [data]}",
        f"{{type: CustomRecordExtractor, class_name: {MODULE}.Table}}",
    )
    with serving() as server:
        server.answers(Reply([["id", "name"], [1, "a"], [2, "b"]]))
        result = run_with_components(tmp_path, server, components, declared_stream)
    assert result.records("items") == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def test_custom_extractor_subclass_uses_the_decoder_of_the_retriever(tmp_path: Path):
    components = f"""
    from dataclasses import dataclass
    from {CDK}.extractors import DpathExtractor

    @dataclass
    class PartsExtractor(DpathExtractor):
        def extract_records(self, response):
            for record in super().extract_records(response):
                yield from ({{**part, "of": record["id"]}} for part in record["parts"])
    """
    extractor = (
        f"{{type: CustomRecordExtractor, class_name: {MODULE}.PartsExtractor,"
        " field_path: ['{{ parameters.key }}']}"
    )
    declared_stream = stream(
        "items",
        "/items",
        retriever="decoder: {type: JsonlDecoder}",
        options="$parameters: {key: row}",
    ).replace("{type: DpathExtractor, field_path: [data]}", extractor)
    with serving() as server:
        lines = '{"row": {"id": 1, "parts": [{"n": 1}, {"n": 2}]}}\n{"row": {"id": 2, "parts": []}}'
        server.answers(Reply(lines))
        result = run_with_components(tmp_path, server, components, declared_stream)
    assert result.records("items") == [{"n": 1, "of": 1}, {"n": 2, "of": 1}]


def test_custom_extractor_can_contain_other_extractors(tmp_path: Path):
    """One is declared, the other is custom and contains a declared one itself."""
    components = f"""
    from dataclasses import dataclass
    from typing import List
    from {CDK}.extractors.record_extractor import RecordExtractor

    @dataclass
    class NamesAndValues(RecordExtractor):
        names: RecordExtractor
        values: RecordExtractor

        def extract_records(self, response):
            extractors = (self.names, self.values)
            yield dict(zip(*(inner.extract_records(response) for inner in extractors)))

    @dataclass
    class UpperCaseExtractor(RecordExtractor):
        inner: RecordExtractor

        def extract_records(self, response):
            yield from (value.upper() for value in self.inner.extract_records(response))
    """
    declared_extractor = "{type: DpathExtractor, field_path: [%s, '*', x]}"
    custom = (
        f"{{type: CustomRecordExtractor, class_name: {MODULE}.UpperCaseExtractor,"
        f" inner: {declared_extractor}}}"
    )
    extractor = (
        f"{{type: CustomRecordExtractor, class_name: {MODULE}.NamesAndValues,"
        f" names: {custom % 'heads'}, values: {declared_extractor % 'row'}}}"
    )
    declared_stream = stream("items", "/items").replace(
        "{type: DpathExtractor, field_path: [data]}", extractor
    )
    with serving() as server:
        server.answers(Reply({"heads": [{"x": "a"}, {"x": "b"}], "row": [{"x": 1}, {"x": 2}]}))
        result = run_with_components(tmp_path, server, components, declared_stream)
    assert result.records("items") == [{"A": 1, "B": 2}]


def test_combined_extractor_can_contain_a_custom_one(tmp_path: Path):
    """Each extractor decodes the response itself, with the decoder of the retriever."""
    components = f"""
    from dataclasses import dataclass
    from {CDK}.extractors import DpathExtractor

    @dataclass
    class Marked(DpathExtractor):
        def extract_records(self, response):
            for record in super().extract_records(response):
                yield {{**record, "is_custom": True}}
    """
    extractor = (
        "{type: CombinedExtractor, extractors: [{type: DpathExtractor, field_path: [a]},"
        f" {{type: CustomRecordExtractor, class_name: {MODULE}.Marked, field_path: [b]}}]}}"
    )
    declared_stream = stream("items", "/items", retriever="decoder: {type: JsonlDecoder}").replace(
        "{type: DpathExtractor, field_path: [data]}", extractor
    )
    with serving() as server:
        server.answers(Reply('{"a": [{"id": 1}], "b": [{"id": 2}]}\n{"b": {"id": 3}}'))
        result = run_with_components(tmp_path, server, components, declared_stream)
    marker = {"is_custom": True}
    assert result.records("items") == [{"id": 1}, {"id": 2, **marker}, {"id": 3, **marker}]


def test_custom_filter_transformation_and_normalization_are_applied(tmp_path: Path):
    components = f"""
    from dataclasses import InitVar, dataclass
    from typing import Any, Mapping
    from {CDK}.extractors.record_filter import RecordFilter
    from {CDK}.transformations import AddFields, RecordTransformation
    from airbyte_cdk.sources.utils.transform import TransformConfig, TypeTransformer

    @dataclass
    class FirstOccurrence(RecordFilter):
        def __post_init__(self, parameters):
            super().__post_init__(parameters)
            self._seen = set()

        def filter_records(self, records, stream_state, stream_slice=None, **kwargs):
            for record in super().filter_records(records, stream_state, stream_slice):
                if record["id"] not in self._seen:
                    self._seen.add(record["id"])
                    yield record

    @dataclass
    class AddWords(RecordTransformation):
        config: Mapping[str, Any]
        parameters: InitVar[Mapping[str, Any]]
        field: str = "words"

        def __post_init__(self, parameters):
            self._word = parameters["word"]

        def transform(self, record, config=None, stream_state=None, stream_slice=None):
            words = [self._word, config["url"][:4], stream_slice["kind"]]
            record[self.field] = [*words, sorted(stream_slice.partition)]

    class Upper(TypeTransformer):
        def __init__(self):
            super().__init__(TransformConfig.CustomSchemaNormalization)
            self.registerCustomTransform(lambda value, schema: str(value).upper())
    """
    retriever = (
        "partition_router: {type: ListPartitionRouter, cursor_field: kind, values: [cat, dog]}"
    )
    options = f"""
    transformations:
      - {{type: CustomTransformation, class_name: {MODULE}.AddWords, field: said}}
    $parameters: {{word: hello}}
    """
    selector = f"""extractor: {{type: DpathExtractor, field_path: [data]}}
        record_filter:
          type: CustomRecordFilter
          class_name: {MODULE}.FirstOccurrence
          condition: "{{{{ record.id < 3 }}}}"
        schema_normalization: {{type: CustomSchemaNormalization, class_name: {MODULE}.Upper}}"""
    declared_stream = stream("items", "/items", retriever=retriever, options=options).replace(
        "extractor: {type: DpathExtractor, field_path: [data]}", selector
    )
    with serving() as server:
        server.answers(page({"id": 1, "at": "x"}, {"id": 1}, {"id": 3}), page({"id": 2}))
        result = run_with_components(tmp_path, server, components, declared_stream)
    assert result.records("items") == [
        {"id": "1", "at": "X", "said": ["hello", "http", "cat", ["kind"]]},
        {"id": "2", "said": ["hello", "http", "dog", ["kind"]]},
    ]


def test_value_type_of_an_added_field_applies_in_a_custom_transformation(tmp_path: Path):
    components = f"""
    from {CDK}.transformations import AddFields
    from {CDK}.transformations.add_fields import AddedFieldDefinition

    class Added(AddFields):
        def __init__(self, fields, parameters):
            typed = AddedFieldDefinition(["typed"], "{{{{ record.id }}}}", str, parameters)
            super().__init__([*fields, typed], parameters)
    """
    field = "{type: AddedFieldDefinition, path: [named], value: '{{ record.id }}', VALUE_TYPE}"
    fields = f"fields: [{field.replace('VALUE_TYPE', 'value_type: string')}]"
    options = f"""
    transformations:
      - {{type: CustomTransformation, class_name: {MODULE}.Added, {fields}}}
    """
    with serving() as server:
        server.answers(page({"id": 7}))
        result = run_with_components(
            tmp_path, server, components, stream("items", "/items", options=options)
        )
    assert result.records("items") == [{"id": 7, "named": "7", "typed": "7"}]


AUTHENTICATOR = f"""
import requests
from dataclasses import dataclass
from typing import Any, Mapping, Union
from {CDK}.auth.declarative_authenticator import NoAuth
from {CDK}.interpolation import InterpolatedString
from {CDK}.types import Config

@dataclass
class Login(NoAuth):
    config: Config
    key: Union[InterpolatedString, str]

    _token = None

    def __post_init__(self, parameters: Mapping[str, Any]):
        self._key = InterpolatedString.create(self.key, parameters=parameters).eval(self.config)

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token is None:
            response = requests.post(f"{{self.config['url']}}/login", json={{"key": self._key}})
            self._token = response.json()["token"]
        request.headers["X-Session"] = self._token
        return request
"""


def test_custom_authenticator_logs_in_once_for_all_streams(tmp_path: Path):
    body = f"""
    authenticator:
      type: CustomAuthenticator
      class_name: {MODULE}.Login
      key: "{{{{ config['api_key'] }}}}"
    """
    with serving() as server:
        server.answers(Reply({"token": "t-1"}), page({"id": 1}))
        streams = stream("items", "/items", body), stream("others", "/others", body)
        run_with_components(tmp_path, server, AUTHENTICATOR, *streams, config={"api_key": "k"})
    assert list_paths(server) == ["/login", "/items", "/others"]
    assert server.requests[0].json == {"key": "k"}
    assert [request.headers.get("X-Session") for request in server.requests[1:]] == ["t-1", "t-1"]


def test_token_of_a_nested_authenticator_is_requested_once(tmp_path: Path):
    components = f"""
    from dataclasses import dataclass
    from {CDK}.auth.declarative_authenticator import DeclarativeAuthenticator

    @dataclass
    class FirstAuthenticator(DeclarativeAuthenticator):
        oauth: DeclarativeAuthenticator
        other: DeclarativeAuthenticator

        def __new__(cls, oauth, other):
            return oauth
    """
    body = f"""
    authenticator:
      type: CustomAuthenticator
      class_name: {MODULE}.FirstAuthenticator
      other: {{type: BearerAuthenticator, api_token: x}}
      oauth:
        type: OAuthAuthenticator
        client_id: a
        client_secret: b
        grant_type: client_credentials
        token_refresh_endpoint: "{{{{ config['url'] }}}}/token"
    """
    with serving() as server:
        server.answers(Reply({"access_token": "t-1", "expires_in": 3600}), page({"id": 1}))
        run_with_components(
            tmp_path, server, components, *(stream(name, f"/{name}", body) for name in "ab")
        )
    assert list_paths(server) == ["/token", "/a", "/b"]
    assert [request.headers["Authorization"] for request in server.requests[1:]] == [
        "Bearer t-1"
    ] * 2


@pytest.mark.parametrize("hook", ["_make_handled_request", "_get_refresh_access_token_response"])
def test_token_of_a_custom_oauth_class_can_be_nested(tmp_path: Path, hook: str):
    """The first hook is that of airbyte-cdk 7, the second that of earlier versions."""
    components = f"""
    from {CDK}.auth import DeclarativeOauth2Authenticator

    class ConstantToken(DeclarativeOauth2Authenticator):
        def {hook}(self):
            return {{"data": [{{"access_token": "t-1", "expires_in": 3600}}]}}
    """
    body = f"authenticator: {{type: CustomAuthenticator, class_name: {MODULE}.ConstantToken}}"
    with serving() as server:
        server.answers(page({"id": 1}))
        run_with_components(tmp_path, server, components, stream("items", "/items", body))
    assert server.requests[0].headers["Authorization"] == "Bearer t-1"


def test_token_of_a_custom_oauth_class_is_hidden_in_messages(tmp_path: Path):
    """SEC5: a server may repeat the token, for example in the link of the next page."""
    token = "tKn-5ecret-77"
    components = f"""
    from {CDK}.auth import DeclarativeOauth2Authenticator

    class ConstantToken(DeclarativeOauth2Authenticator):
        def _make_handled_request(self):
            return {{"access_token": "{token}", "expires_in": 3600}}
    """
    body = f"authenticator: {{type: CustomAuthenticator, class_name: {MODULE}.ConstantToken}}"
    paginator = """
    paginator:
      type: DefaultPaginator
      page_token_option: {type: RequestPath}
      pagination_strategy: {type: CursorPagination, cursor_value: "{{ response.next }}"}
    """
    with serving() as server:
        server.answers(page({"id": 1}, next=f"{server.url}/next?t={token}"), Reply(status=400))
        with pytest.raises(FatalAPIError) as exc_info:
            run_with_components(
                tmp_path, server, components, stream("items", "/items", body, retriever=paginator)
            )
    assert "/next?t=***" in redact(str(exc_info.value))


def test_token_of_a_custom_authenticator_is_hidden_in_errors(tmp_path: Path):
    """SEC5: a server may repeat the token, for example in the link of the next page."""
    body = f"""
    authenticator:
      type: CustomAuthenticator
      class_name: {MODULE}.Login
      key: k
    """
    paginator = """
    paginator:
      type: DefaultPaginator
      page_token_option: {type: RequestPath}
      pagination_strategy: {type: CursorPagination, cursor_value: "{{ response.next }}"}
    """
    items = stream("items", "/items", body, retriever=paginator)
    with serving() as server:
        following = page({"id": 1}, next=f"{server.url}/next?t=tKn-5ecret-78")
        server.answers(Reply({"token": "tKn-5ecret-78"}), following, Reply(status=400))
        with pytest.raises(FatalAPIError, match=r"/next\?t=\*\*\*, try 1"):
            run_with_components(tmp_path, server, AUTHENTICATOR, items)


def test_custom_authenticator_may_change_the_body(tmp_path: Path):
    """The Content-Length is that of the changed body."""
    components = f"""
    import json
    from {CDK}.auth.declarative_authenticator import NoAuth

    class SigningAuthenticator(NoAuth):
        def __call__(self, request):
            document = {{**json.loads(request.body), "signed": "very much"}}
            request.body = json.dumps(document).encode()
            return request
    """
    body = f"""
    http_method: POST
    request_body_json: {{kind: all}}
    authenticator: {{type: CustomAuthenticator, class_name: {MODULE}.SigningAuthenticator}}
    """
    with serving() as server:
        server.answers(page({"id": 1}))
        run_with_components(tmp_path, server, components, stream("items", "/items", body))
    assert server.requests[0].json == {"kind": "all", "signed": "very much"}


def test_custom_requester_provides_path_parameters_and_headers(tmp_path: Path):
    components = f"""
    from dataclasses import dataclass
    from typing import Any, Mapping, Optional
    from {CDK}.requesters.http_requester import HttpRequester

    @dataclass
    class PagedRequester(HttpRequester):
        request_parameters: Optional[Mapping[str, Any]] = None

        def get_path(self, **kwargs):
            return super().get_path(**kwargs) + "/v2"

        def get_request_params(self, *, stream_state=None, stream_slice=None, next_page_token=None):
            return {{**(self.request_parameters or {{}}), "page": (next_page_token or {{}}).get(
                "next_page_token", "first")}}

        def get_request_headers(self, **kwargs):
            return {{"X-Name": self.name}}
    """
    declared_stream = f"""
  - type: DeclarativeStream
    name: items
    $parameters: {{name: items}}
    retriever:
      type: SimpleRetriever
      requester:
        type: CustomRequester
        class_name: {MODULE}.PagedRequester
        url_base: "{{{{ config['url'] }}}}/base/"
        path: "/items"
        request_parameters: {{a: 1}}
        authenticator: {{type: BearerAuthenticator, api_token: "{{{{ config['api_key'] }}}}"}}
      record_selector:
        type: RecordSelector
        extractor: {{type: DpathExtractor, field_path: [data]}}
      paginator:
        type: DefaultPaginator
        pagination_strategy: {{type: CursorPagination, cursor_value: "{{{{ response.next }}}}"}}
    schema_loader: {{type: InlineSchemaLoader, schema: {{type: object, properties: {{}}}}}}
"""
    with serving() as server:
        server.answers(page({"id": 1}, next="n2"), page({"id": 2}))
        run_with_components(tmp_path, server, components, declared_stream, config={"api_key": "k"})
    assert list_paths(server) == ["/base/items/v2?a=1&page=first", "/base/items/v2?a=1&page=n2"]
    assert server.requests[0].headers["X-Name"] == "items"
    assert server.requests[0].headers["Authorization"] == "Bearer k"


PARENT_ROUTER = """
  partition_router:
    type: CustomPartitionRouter
    class_name: {name}
    parent_stream_configs:
      - type: ParentStreamConfig
        stream: "#/streams/0"
        parent_key: id
        partition_field: parent
        request_option: {{type: RequestOption, inject_into: request_parameter, field_name: of}}
"""


def test_custom_partition_router_filters_parent_records(tmp_path: Path):
    components = f"""
    from dataclasses import dataclass
    from typing import Iterable
    from airbyte_cdk.models import SyncMode
    from {CDK}.partition_routers.substream_partition_router import SubstreamPartitionRouter
    from {CDK}.types import StreamSlice

    @dataclass
    class OddParents(SubstreamPartitionRouter):
        def stream_slices(self) -> Iterable[StreamSlice]:
            parent = self.parent_stream_configs[0]
            field = parent.partition_field.eval(self.config)
            assert parent.stream.name == "items" and parent.parent_key.string == "id"
            for record in parent.stream.read_records(sync_mode=SyncMode.full_refresh):
                if record["id"] % 2:
                    partition = {{field: record["id"], "parent_slice": {{}}}}
                    yield StreamSlice(partition=partition, cursor_slice={{}})
    """
    children = stream(
        "children",
        "/children/{{ stream_partition.parent }}",
        retriever=dedent(PARENT_ROUTER.format(name=f"{MODULE}.OddParents")),
    )

    def respond(request: ReceivedRequest) -> Reply:
        ids = [1, 2, 3] if request.path == "/items" else [10]
        return page(*({"id": number} for number in ids))

    with serving() as server:
        server.answers_by(respond)
        result = run_with_components(
            tmp_path, server, components, stream("items", "/items"), children
        )
    assert [request for request in list_paths(server) if "of=" in request] == [
        "/children/1?of=1",
        "/children/3?of=3",
    ]
    assert len(result.records("children")) == 2


def test_custom_router_can_have_stream_fields(tmp_path: Path):
    components = f"""
    from dataclasses import dataclass
    from typing import Any, Mapping
    from {CDK}.stream_slicers.stream_slicer import StreamSlicer
    from airbyte_cdk.sources.streams.core import Stream

    @dataclass
    class PairRouter(StreamSlicer):
        first: Stream
        config: Mapping[str, Any]

        def stream_slices(self):
            for record in self.first.read_records():
                yield {{"a": record["id"], "b": record.data["id"] + 1}}
    """
    router = f"""
    partition_router:
      type: CustomPartitionRouter
      class_name: {MODULE}.PairRouter
      first: "#/streams/0"
    """
    children = stream(
        "children", "/{{ stream_slice['a'] }}/{{ stream_slice.b }}", retriever=dedent(router)
    )
    with serving() as server:
        server.answers(page({"id": 1}))
        run_with_components(tmp_path, server, components, stream("items", "/items"), children)
    assert "/1/2" in list_paths(server)


def test_custom_error_handler_backoff_and_pagination_are_used(tmp_path: Path):
    components = f"""
    from dataclasses import dataclass
    from airbyte_cdk.models import FailureType
    from {CDK}.requesters.error_handlers import DefaultErrorHandler
    from {CDK}.requesters.paginators.strategies.page_increment import PageIncrement
    from airbyte_cdk.sources.streams.http.error_handlers import (
        BackoffStrategy, ErrorResolution, ResponseAction
    )

    @dataclass
    class RetryTeapots(DefaultErrorHandler):
        def interpret_response(self, response_or_exception):
            if response_or_exception.status_code == 418:
                return ErrorResolution(
                    ResponseAction.RETRY, FailureType.transient_error, "a teapot"
                )
            return super().interpret_response(response_or_exception)

    class ShortBackoff(BackoffStrategy):
        def backoff_time(self, response_or_exception, attempt_count):
            return 0.01

    @dataclass
    class LimitedPages(PageIncrement):
        def next_page_token(
            self, response, last_page_size, last_record, last_page_token_value=None
        ):
            token = super().next_page_token(
                response, last_page_size, last_record, last_page_token_value
            )
            return None if last_record["id"] > 3 else token
    """
    body = f"""
    error_handler:
      type: CustomErrorHandler
      class_name: {MODULE}.RetryTeapots
      max_retries: 2
      response_filters:
        - {{type: HttpResponseFilter, http_codes: [404], action: IGNORE}}
      backoff_strategies:
        - {{type: CustomBackoffStrategy, class_name: {MODULE}.ShortBackoff}}
    """
    retriever = f"""
    paginator:
      type: DefaultPaginator
      page_token_option: {{type: RequestOption, inject_into: request_parameter, field_name: page}}
      pagination_strategy:
        type: CustomPaginationStrategy
        class_name: {MODULE}.LimitedPages
        page_size: 2
        start_from_page: 1
    """
    streams = (
        stream("items", "/items", body, retriever=dedent(retriever)),
        stream("none", "/none", body),
    )
    with serving() as server:
        server.answers(
            Reply(status=418),
            *(page({"id": 1}, {"id": 2}), page({"id": 3}, {"id": 4}), Reply(status=404)),
        )
        result = run_with_components(tmp_path, server, components, *streams)
    assert list_paths(server) == ["/items", "/items", "/items?page=2", "/none"]
    assert len(result.records("items")) == 4


def test_custom_state_migration_receives_states_in_the_format_of_airbyte(tmp_path: Path):
    """The migration changes old states, and a second sync resumes from the first."""
    components = f"""
    from {CDK}.migrations.state_migration import StateMigration

    class Nested(StateMigration):
        def should_migrate(self, stream_state):
            return len(stream_state) > 0 and "states" not in stream_state

        def migrate(self, stream_state):
            states = [
                {{"partition": {{"kind": kind}}, "cursor": cursor}}
                for kind, cursor in stream_state.items()
            ]
            return {{"use_global_cursor": False, "states": states}}
    """
    options = CURSOR_WITH_MIGRATION.replace("NAME", "Nested")
    router = """
    partition_router: {type: ListPartitionRouter, cursor_field: kind, values: [a, b]}
    """
    path = "/{{ stream_partition.kind }}"
    declared_stream = stream("items", path, retriever=dedent(router), options=options)
    state = {"bookmarks": {"items": {"a": {"at": "2024-02-03"}, "b": {"at": "2024-03-04"}}}}
    with serving() as server:
        server.answers_by(
            lambda request: page({"at": "2024-05-06"}) if request.path == "/a" else page()
        )
        first = run_with_components(tmp_path, server, components, declared_stream, state=state)
        run_with_components(tmp_path, server, components, declared_stream, state=first.state)
    assert list_paths(server) == [
        *("/a?since=2024-02-03", "/b?since=2024-03-04"),
        *("/a?since=2024-05-06", "/b?since=2024-03-04"),
    ]


def test_custom_schema_loader_decoder_and_state_migration_are_used(tmp_path: Path):
    write_components(tmp_path, '{"type": "object", "properties": {"id": {}}}', "schemas/items.json")
    components = f"""
    from dataclasses import dataclass
    from {CDK}.decoders.decoder import Decoder
    from {CDK}.migrations.state_migration import StateMigration
    from {CDK}.schema import JsonFileSchemaLoader

    @dataclass
    class ExtendedSchema(JsonFileSchemaLoader):
        def get_json_schema(self):
            schema = super().get_json_schema()
            return {{**schema, "properties": {{**schema["properties"], "more": {{}}}}}}

    class WordDecoder(Decoder):
        def decode(self, response):
            yield {{"data": [{{"id": word}} for word in response.text.split()]}}

    class Renamed(StateMigration):
        def should_migrate(self, stream_state):
            return "old" in stream_state

        def migrate(self, stream_state):
            return {{"at": stream_state["old"]}}
    """
    options = CURSOR_WITH_MIGRATION.replace("NAME", "Renamed")
    declared_stream = stream(
        "items",
        "/items",
        retriever=f"decoder: {{type: CustomDecoder, class_name: {MODULE}.WordDecoder}}",
        options=options,
    )
    head, loader, _ = declared_stream.partition("schema_loader:")
    declared_stream = f"""{head}{loader}
      type: CustomSchemaLoader
      class_name: {MODULE}.ExtendedSchema
      file_path: ./schemas/items.json
"""
    state = {"bookmarks": {"items": {"old": "2024-02-03"}}}
    with serving() as server:
        server.answers(Reply("a b"))
        result = run_with_components(tmp_path, server, components, declared_stream, state=state)
    assert list_paths(server) == ["/items?since=2024-02-03"]
    assert result.records("items") == [{"id": "a"}, {"id": "b"}]
    schema = next(line["schema"] for line in result.lines if line["type"] == "SCHEMA")
    assert {"id", "more"} <= schema["properties"].keys()


def test_custom_retriever_can_read_nested_slices(tmp_path: Path):
    components = f"""
    from dataclasses import dataclass
    from {CDK}.retrievers.simple_retriever import SimpleRetriever
    from {CDK}.types import StreamSlice

    @dataclass
    class NestedSlices(SimpleRetriever):
        def read_records(self, records_schema, stream_slice=None):
            for record in super().read_records(records_schema, stream_slice):
                if record.data.get("has_more"):
                    inner = StreamSlice(
                        partition={{"block": record["id"], "parent_slice": {{}}}}, cursor_slice={{}}
                    )
                    yield from self.read_records(records_schema, inner)
                record.data["at"] = stream_slice["block"]
                yield record
    """
    retriever = """
    partition_router: {type: ListPartitionRouter, cursor_field: block, values: [a, b]}
    """
    declared_stream = stream("items", "/{{ stream_partition.block }}", retriever=retriever).replace(
        "type: SimpleRetriever", f"type: CustomRetriever\n      class_name: {MODULE}.NestedSlices"
    )

    def respond(request: ReceivedRequest) -> Reply:
        if request.path == "/a":
            return page({"id": "a1", "has_more": True}, {"id": "a2"})
        return page({"id": f"{request.path[1:]}1"})

    with serving() as server:
        server.answers_by(respond)
        result = run_with_components(tmp_path, server, components, declared_stream)
    assert list_paths(server) == ["/a", "/a1", "/b"]
    assert [(record["id"], record["at"]) for record in result.records("items")] == [
        *(("a11", "a1"), ("a1", "a"), ("a2", "a"), ("b1", "b")),
    ]


def test_custom_state_migration_can_access_the_declared_stream(tmp_path: Path):
    components = f"""
    from typing import Any, Mapping
    from {CDK}.declarative_stream import DeclarativeStream
    from {CDK}.interpolation.interpolated_string import InterpolatedString
    from {CDK}.migrations.legacy_to_per_partition_state_migration import (
        LegacyToPerPartitionStateMigration,
    )
    from {CDK}.types import Config

    class Numbered(LegacyToPerPartitionStateMigration):
        declarative_stream: DeclarativeStream
        config: Config

        def __init__(self, declarative_stream: DeclarativeStream, config: Config):
            super().__init__(
                declarative_stream.retriever.partition_router,
                declarative_stream.incremental_sync,
                config,
                declarative_stream.parameters,
            )
            assert declarative_stream.retriever.paginator is None
            assert dict(declarative_stream.incremental_sync)["type"] == "DatetimeBasedCursor"

        def migrate(self, stream_state: Mapping[str, Any]) -> Mapping[str, Any]:
            states = super().migrate(stream_state)["states"]
            return {{
                "states": [
                    {{
                        "partition": {{name: int(key) for name, key in state["partition"].items()}},
                        "cursor": state["cursor"],
                    }}
                    for state in states
                ]
            }}
    """
    options = f"""
    $parameters: {{slice: parent, at: at}}
    incremental_sync:
      type: DatetimeBasedCursor
      cursor_field: "{{{{ parameters.at }}}}"
      datetime_format: "%Y-%m-%d"
      start_datetime: "2024-01-01"
      start_time_option: {{type: RequestOption, inject_into: request_parameter, field_name: since}}
    state_migrations:
      - {{type: CustomStateMigration, class_name: {MODULE}.Numbered}}
    """
    router = """
    partition_router:
      type: SubstreamPartitionRouter
      parent_stream_configs:
        - {stream: "#/streams/0", parent_key: id, partition_field: "{{ parameters.slice }}"}
    """
    children = stream(
        "children", "/{{ stream_slice.parent }}", retriever=dedent(router), options=dedent(options)
    )
    state = {"bookmarks": {"children": {"1": {"at": "2024-02-03"}}}}
    with serving() as server:
        server.answers_by(
            lambda request: page({"id": 1}, {"id": 2}) if request.path == "/items" else page()
        )
        run_with_components(
            tmp_path, server, components, stream("items", "/items"), children, state=state
        )
    assert {"/1?since=2024-02-03", "/2?since=2024-01-01"} <= set(list_paths(server))


# Loading of modules


def test_modules_of_two_connectors_are_isolated(tmp_path: Path):
    classes: list[Any] = []
    for name in ("one", "two"):
        folder = tmp_path / name
        write_components(folder, f"WORD = '{name}'", "words.py")
        write_components(
            folder,
            f"""
            from source_x.words import WORD
            from .words import WORD as SAME
            from {CDK}.transformations import RecordTransformation

            class JoinedWords(RecordTransformation):
                word = WORD + SAME
            """,
        )
        classes.append(load_class("source_x.components.JoinedWords", folder))
    assert [loaded_class.word for loaded_class in classes] == ["oneone", "twotwo"]
    assert "airbyte_cdk" not in sys.modules


@pytest.mark.parametrize(
    ("text", "name", "reason"),
    [
        ("", f"{MODULE}.Missing", "There is no class 'Missing' in .*components.py"),
        ("", "source_x.elsewhere.Missing", "no such Python file .* put the connector's"),
        ("\nx = = 1", f"{MODULE}.X", "components.py, line 2: SyntaxError"),
        ("x = 1\ny = {}[0]", f"{MODULE}.X", "components.py, line 2: KeyError"),
        ("import nothing_like_it", f"{MODULE}.X", "line 1: the package 'nothing_like_it' is not"),
        ("import airbyte_cdk.models", f"{MODULE}.X", "line 1: 'import airbyte_cdk.models' is not"),
        (
            "from source_x.utils import a",
            "source_x.components.X",
            "line 1: there is no file utils.py",
        ),
        (
            "from airbyte_cdk.models import Thing\nclass X(Thing): pass",
            f"{MODULE}.X",
            "components.py, class X: 'Thing' of airbyte_cdk.models is not supported in",
        ),
    ],
)
def test_load_error_names_file_and_line(tmp_path: Path, text: str, name: str, reason: str):
    write_components(tmp_path, text)
    with pytest.raises(ManifestError, match=reason):
        load_class(name, tmp_path)


@pytest.mark.parametrize("name", ["{}.payload.X", "{}.X", "source_x.{}.payload.X", "C:\\x.X"])
def test_class_name_cannot_lead_to_code_in_another_folder(tmp_path: Path, name: str):
    """A manifest's YAML cannot run code; only the files next to it can."""
    write_components(tmp_path / "elsewhere", "class X: pass", "payload.py")
    write_components(tmp_path / "elsewhere", "class X: pass", "__init__.py")
    (tmp_path / "connector").mkdir()
    with pytest.raises(ManifestError, match=r"class_name is '.*': it must be a module and a class"):
        load_class(name.format(tmp_path / "elsewhere"), tmp_path / "connector")


def test_unsupported_import_affects_only_classes_that_use_it(tmp_path: Path):
    text = """
    from dataclasses import dataclass
    from airbyte_cdk.somewhere import Elsewhere

    @dataclass
    class Unusable(Elsewhere):
        field: str = ""

    class Usable:
        def create(self, value: Elsewhere | None = None) -> Elsewhere:
            return Elsewhere()
    """
    write_components(tmp_path, text)
    instance = load_class(f"{MODULE}.Usable", tmp_path)()
    with pytest.raises(ImportError, match=r"'Elsewhere' of airbyte_cdk\.somewhere"):
        instance.create()
    with pytest.raises(ManifestError, match="class Unusable: 'Elsewhere'"):
        load_class(f"{MODULE}.Unusable", tmp_path)


UNSUPPORTED_CLASSES = f"""
from dataclasses import dataclass
from {CDK}.requesters import HttpRequester
from {CDK}.retrievers import SimpleRetriever
from {CDK}.requesters.paginators.strategies.page_increment import PageIncrement

class Empty: pass

@dataclass
class SendingRequester(HttpRequester):
    def send_request(self, **kwargs): ...

class PageReader(SimpleRetriever):
    def _read_pages(self, *args): ...

class OldPagination(PageIncrement):
    def next_page_token(self, response, last_records): ...
"""

CUSTOM_CURSOR = """incremental_sync:
      {{type: CustomIncrementalSync, class_name: {0}Empty, cursor_field: at}}
    schema_loader:"""
OLD_PAGINATION = """paginator:
        type: DefaultPaginator
        pagination_strategy: {{type: CustomPaginationStrategy, class_name: {0}OldPagination}}
      record_selector:"""


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "type: SimpleRetriever",
            "type: CustomRetriever\n      class_name: {0}Empty",
            "no method read_records",
        ),
        (
            "type: SimpleRetriever",
            "type: CustomRetriever\n      class_name: {0}PageReader",
            "overrides _read_pages",
        ),
        (
            "type: HttpRequester",
            "type: CustomRequester\n    class_name: {0}SendingRequester",
            "send_request",
        ),
        (
            "type: DpathExtractor",
            "type: CustomRecordExtractor, class_name: {0}Empty",
            "no method extract_records",
        ),
        ("schema_loader:", CUSTOM_CURSOR, "no method stream_slices"),
        (
            "record_selector:",
            OLD_PAGINATION,
            "takes last_records",
        ),
    ],
)
def test_unsupported_custom_class_is_rejected_before_any_request(
    tmp_path: Path, old: str, new: str, reason: str
):
    write_components(tmp_path, UNSUPPORTED_CLASSES)
    path = manifest(tmp_path, stream("items", "/items"))
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(old, new.format(f"{MODULE}."), 1), encoding="utf-8")
    with serving() as server, pytest.raises(ManifestError, match=reason) as exc_info:
        run(path, server)
    assert "manifest.yaml, line" in str(exc_info.value)
    assert server.requests == []


def test_threads_that_need_a_custom_class_at_once_share_one_instance(tmp_path: Path):
    """`cached_property` has no lock since Python 3.12, so that it may call its function twice."""
    components = f"""
    from {CDK}.transformations import RecordTransformation

    class Marked(RecordTransformation):
        def transform(self, record, **_):
            record["marked"] = True
    """
    write_components(tmp_path, components)
    component = CustomTransformation(class_name=f"{MODULE}.Marked", folder=tmp_path)
    create = vars(Custom)["instance"].func
    assert create(component) is create(component) is component.instance


def test_error_in_a_constructor_is_reported_without_settings(tmp_path: Path):
    components = f"""
    from {CDK}.transformations import RecordTransformation

    class Broken(RecordTransformation):
        config: dict

        def __init__(self, config):
            raise RuntimeError(config["api_key"])
    """
    write_components(tmp_path, components)
    options = f"transformations: [{{type: CustomTransformation, class_name: {MODULE}.Broken}}]"
    path = manifest(tmp_path, stream("items", "/items", options=options))
    with serving() as server:
        server.answers(page({"id": 1}))
        result = run(path, server, config={"api_key": "hush"}, fails=True)
    assert "Broken cannot be instantiated: RuntimeError" in str(result.error)
    assert "hush" not in str(result.error)


# Helpers of airbyte-cdk


def test_stream_slice_is_a_mapping_of_partition_and_cursor_slice():
    stream_slice = CdkStreamSlice(partition={"a": 1}, cursor_slice={"b": 2}, extra_fields={"c": 3})
    assert stream_slice == {"a": 1, "b": 2}
    assert (stream_slice["b"], stream_slice.partition, dict(stream_slice.cursor_slice)) == (
        2,
        {"a": 1},
        {"b": 2},
    )
    assert stream_slice.extra_fields["c"] == 3
    with pytest.raises(ValueError, match="both the partition and the cursor slice: a"):
        CdkStreamSlice(partition={"a": 1}, cursor_slice={"a": 2})


def test_datetime_helpers_equal_those_of_airbyte_cdk():
    for value, expected in [
        ("2024-01-02", "2024-01-02T00:00:00Z"),
        ("2024-01-02T03:04:05+02:00", "2024-01-02T03:04:05+02:00"),
        (1704164645, "2024-01-02T03:04:05Z"),
        ("2024-01-02 03:04:05.678", "2024-01-02T03:04:05.678Z"),
    ]:
        assert ab_datetime_format(ab_datetime_parse(value)) == expected
    day = ab_datetime_parse("2024-01-02") - ab_datetime_parse("2024-01-01")
    assert day.total_seconds() == 86_400


def test_type_transformer_applies_the_schema_then_its_function():
    config = TransformConfig.DefaultSchemaNormalization | TransformConfig.CustomSchemaNormalization
    transformer = TypeTransformer(config)
    transformer.registerCustomTransform(
        lambda value, schema: value * 2 if schema.get("double") else value
    )
    record = {"n": "4", "list": [{"n": 1}], "other": "x"}
    inner = {"type": "object", "properties": {"n": {"type": "integer", "double": True}}}
    schema = {"properties": {**inner["properties"], "list": {"type": "array", "items": inner}}}
    transformer.transform(record, schema)
    assert record == {"n": 8, "list": [{"n": 2}], "other": "x"}
