"""Names that public plugins import from singer_sdk exist in tap_core."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

_TEXT = """
OpenAPISchema
RESTStream
SQLTap
SchemaDirectory
Stream
StreamSchema
Tap
Target
authenticators.APIAuthenticatorBase
authenticators.APIKeyAuthenticator
authenticators.BasicAuthenticator
authenticators.BearerTokenAuthenticator
authenticators.OAuthAuthenticator
authenticators.SimpleAuthenticator
authenticators.SingletonMeta
contrib.batch_encoder_jsonl.JSONLinesBatcher
contrib.msgspec.MsgSpecWriter
exceptions.ConfigValidationError
exceptions.FatalAPIError
exceptions.InvalidRecord
exceptions.MissingKeyPropertiesError
exceptions.RetriableAPIError
helpers._batch.BaseBatchFileEncoding
helpers._batch.BatchConfig
helpers._batch.BatchFileFormat
helpers._catalog.pop_deselected_record_properties
helpers._classproperty.classproperty
helpers._compat.SingerSDKDeprecationWarning
helpers._compat.date_fromisoformat
helpers._compat.datetime_fromisoformat
helpers._compat.time_fromisoformat
helpers._flattening.flatten_record
helpers._flattening.flatten_schema
helpers._state.InvalidStreamSortException
helpers._state.increment_state
helpers._state.to_json_compatible
helpers._typing._conform_primitive_property
helpers._typing._warn_unmapped_properties
helpers._typing.append_type
helpers._typing.conform_record_data_types
helpers._util.read_json_file
helpers._util.utc_now
helpers.capabilities.TapCapabilities
helpers.conform.TypeConformanceLevel
helpers.jsonpath.extract_jsonpath
helpers.types.Auth
helpers.types.Context
helpers.types.Record
helpers.types.RequestFunc
io_base.SingerReader
io_base.SingerWriter
mapper.PluginMapper
mapper_base.InlineMapper
metrics.batch_counter
pagination.BaseAPIPaginator
pagination.BaseHATEOASPaginator
pagination.BaseOffsetPaginator
pagination.BasePageNumberPaginator
pagination.HeaderLinkPaginator
pagination.JSONPathPaginator
pagination.OffsetPaginator
pagination.PageNumberPaginator
pagination.SimpleHeaderPaginator
pagination.SinglePagePaginator
schema.source.OpenAPISchemaNormalizer
singerlib.ActivateVersionMessage
singerlib.Catalog
singerlib.CatalogEntry
singerlib.Message
singerlib.Metadata
singerlib.MetadataMapping
singerlib.RecordMessage
singerlib.Schema
singerlib.SchemaMessage
singerlib.StateMessage
singerlib.StreamMetadata
singerlib.catalog.CatalogEntry
singerlib.catalog.MetadataMapping
singerlib.catalog.Schema
singerlib.resolve_schema_references
sinks.BatchSink
sinks.core.InvalidJSONSchema
sql.SQLConnector
sql.SQLSink
sql.SQLStream
sql.SQLTap
sql.SQLTarget
sql.connector.FullyQualifiedName
sql.connector.JSONSchemaToSQL
sql.connector.SQLConnector
sql.connector.SQLToJSONSchema
sql.sink.SQLSink
sql.target.SQLTarget
streams.GraphQLStream
streams.RESTStream
streams.Stream
streams.core.REPLICATION_FULL_TABLE
streams.core.REPLICATION_INCREMENTAL
streams.core.REPLICATION_LOG_BASED
streams.core.Stream
streams.core.TypeConformanceLevel
streams.rest.RESTStream
tap_base.Tap
target_base.Target
testing.SuiteConfig
testing.get_tap_test_class
testing.get_target_test_class
typing.ArrayType
typing.BooleanType
typing.CustomType
typing.DateTimeType
typing.DateType
typing.EmailType
typing.IntegerType
typing.JSONTypeHelper
typing.NumberType
typing.ObjectType
typing.PropertiesList
typing.Property
typing.RegexType
typing.StringType
typing.URIType
typing._jsonschema_type_check
"""
NAMES = _TEXT.split()


def resolves(name: str) -> bool:
    module, _, attribute = f"tap_core.{name}".rpartition(".")
    try:
        return hasattr(import_module(module), attribute)
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("name", NAMES)
def test_name_that_plugins_import_exists(name: str) -> None:
    assert resolves(name)


def test_helpers_types_imports_requests_lazily() -> None:
    script = (
        "import sys; from tap_core.helpers import types; assert 'requests' not in sys.modules;"
        "assert types.Auth; assert 'requests' in sys.modules; types.nothing"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert "module 'tap_core.helpers.types' has no attribute 'nothing'" in process.stderr
