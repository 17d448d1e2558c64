"""Where HTTP streams are imported from, and what that costs those who have none."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tap_core
from tap_core import streams
from tap_core.streams import graphql, rest


def test_the_classes_are_found_where_singer_sdk_has_them():
    assert tap_core.RESTStream is streams.RESTStream is rest.RESTStream
    assert tap_core.GraphQLStream is streams.GraphQLStream is graphql.GraphQLStream
    assert {"RESTStream", "GraphQLStream"} <= {*tap_core.__all__} & {*streams.__all__}


@pytest.mark.parametrize("module", [tap_core, streams])
def test_other_names_are_missing(module):
    with pytest.raises(AttributeError, match="has no attribute 'SOAPStream'"):
        module.SOAPStream  # noqa: B018


def test_a_tap_without_http_streams_imports_no_client():
    code = (
        "import sys, tap_core; from tap_core.streams import Stream\n"
        "print({'requests', 'urllib3', 'backoff', 'jsonpath_ng'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
