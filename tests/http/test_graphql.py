"""GraphQL streams: the request of a query, its records and its errors."""

from __future__ import annotations

import pytest

from tap_core.exceptions import FatalAPIError
from tap_core.streams import GraphQLStream
from tests.http.server import Reply


class Cities(GraphQLStream):
    name = "cities"
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    query = """
        cities(first: 2) {
            id
        }
    """

    @property
    def url_base(self):
        return self.config["url"] + "/graphql"

    def get_url_params(self, context, next_page_token):
        return {"after": next_page_token, "first": 2}


def answer(cities, **fields):
    return Reply({"data": {"cities": cities}, **fields})


def test_query_is_wrapped_and_sent_with_its_variables(source):
    source.server.answers(answer([{"id": 1}, {"id": 2}]))
    assert source.records(Cities) == [{"id": 1}, {"id": 2}]
    [request] = source.server.requests
    assert (request.method, request.path) == ("POST", "/graphql")
    assert request.json == {
        "query": "query { cities(first: 2) { id } }",
        "variables": {"after": None, "first": 2},
    }


def test_complete_query_is_sent_unwrapped(source):
    stream = source.stream(Cities, query="\n  query X {\n  cities { id } }")
    assert stream.prepare_request_payload(None, None)["query"] == "query X { cities { id } }"


def test_comment_in_a_query_keeps_its_line_break(source):
    stream = source.stream(Cities, query="query {\n  # all of them\n  cities { id }\n}")
    sent = stream.prepare_request_payload(None, None)["query"]
    assert sent == "query {\n# all of them\ncities { id }\n}"


def test_stream_without_a_query_raises_a_clear_error(source):
    with pytest.raises(NotImplementedError, match=r"^Stream 'cities': `query` is not defined"):
        source.records(Cities, query=GraphQLStream.query)
    with pytest.raises(ValueError, match="`query` property not set"):
        source.records(Cities, query=None)


@pytest.mark.parametrize(
    "errors, message",
    [
        (
            [{"message": "no such field"}, {"message": "bad s3cr3t-1"}],
            "no such field; bad \\*\\*\\*",
        ),
        (["plain"], "plain"),
        ("text", "text"),
        ([{"message": "x" * 900}], "x{500} "),
        ([{"message": "x" * 495 + "s3cr3t-1"}], "x{495}\\*\\*\\* "),
    ],
)
def test_graphql_errors_without_data_fail_the_stream(source, errors, message):
    source.server.answers(Reply({"errors": errors, "data": None}))
    with pytest.raises(
        FatalAPIError, match=rf"^The query failed: {message}.*\[stream 'cities', POST"
    ):
        source.records(Cities, config={"password": "s3cr3t-1"})
    assert len(source.server.requests) == 1


def test_graphql_errors_with_data_are_logged_as_a_warning(source, caplog):
    source.server.answers(answer([{"id": 1}], errors=[{"message": "one is missing"}]))
    assert source.records(Cities) == [{"id": 1}]
    assert "data and errors: one is missing" in caplog.text


def test_response_that_is_not_an_object_has_no_graphql_errors(source):
    source.server.answers(Reply([1]))
    assert source.records(Cities, records_jsonpath="$[*]") == [1]
