"""Import paths of HTTP streams; a tap without them does not import the HTTP client."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

import tap_core
from tap_core import authenticators, streams
from tap_core.compat.slow_imports import without_collections
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
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "set()"


def test_stream_without_oauth_and_cursor_does_not_import_their_modules():
    code = (
        "import gc, sys; from tap_core import RESTStream\n"
        "late = 'authenticators.oauth', 'authenticators.token_endpoint', 'incremental.cursor'\n"
        "print({name for name in late if f'tap_core.{name}' in sys.modules}, gc.isenabled())\n"
        "from tap_core.authenticators import OAuthAuthenticator, RetryPolicy\n"
        "print(OAuthAuthenticator.__name__, RetryPolicy.__name__)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.splitlines() == ["set() True", "OAuthAuthenticator RetryPolicy"]


def test_all_authenticators_can_be_imported_from_the_package():
    assert all(isinstance(getattr(authenticators, name), type) for name in authenticators.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'KerberosAuthenticator'"):
        authenticators.KerberosAuthenticator  # noqa: B018


def test_garbage_collector_that_was_off_before_an_import_stays_off():
    assert gc.isenabled()
    with without_collections():
        assert not gc.isenabled()
        with without_collections():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
