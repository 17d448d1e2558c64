"""Import paths of HTTP streams; a tap without them does not import the HTTP client."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tap_core
from tap_core import streams
from tap_core.streams import graphql, rest


def test_http_streams_have_the_import_paths_of_singer_sdk():
    assert tap_core.RESTStream is streams.RESTStream is rest.RESTStream
    assert tap_core.GraphQLStream is streams.GraphQLStream is graphql.GraphQLStream
    assert {"RESTStream", "GraphQLStream"} <= {*tap_core.__all__} & {*streams.__all__}


@pytest.mark.parametrize("module", [tap_core, streams])
def test_unknown_names_raise_attribute_error(module):
    with pytest.raises(AttributeError, match="has no attribute 'SOAPStream'"):
        module.SOAPStream  # noqa: B018


def test_tap_without_http_streams_imports_no_http_client():
    code = (
        "import sys, tap_core; from tap_core.streams import Stream\n"
        "print({'requests', 'urllib3', 'backoff', 'jsonpath_ng'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
