"""Import paths of earlier versions of singer_sdk."""

from __future__ import annotations

from importlib import import_module

import pytest

from tap_core.exceptions import SingerSDKDeprecationWarning


@pytest.mark.parametrize(
    "old, name, now",
    [
        ("tap_core.connectors", "SQLConnector", "tap_core.sql"),
        ("tap_core.connectors.sql", "SQLConnector", "tap_core.sql"),
        ("tap_core.connectors.sql", "FullyQualifiedName", "tap_core.sql.connector"),
        ("tap_core.connectors.sql", "JSONSchemaToSQL", "tap_core.sql.connector"),
        ("tap_core.connectors.sql", "JSONtoSQLHandler", "tap_core.sql.connector"),
        ("tap_core.connectors.sql", "SQLToJSONSchema", "tap_core.sql.connector"),
        ("tap_core.streams", "SQLStream", "tap_core.sql"),
        ("tap_core.streams.sql", "SQLStream", "tap_core.sql"),
        ("tap_core.sinks", "SQLSink", "tap_core.sql"),
        ("tap_core.sinks.sql", "SQLSink", "tap_core.sql"),
        ("tap_core.tap_base", "SQLTap", "tap_core.sql"),
        ("tap_core.target_base", "SQLTarget", "tap_core.sql"),
    ],
)
def test_old_import_path_returns_the_class_and_warns(old, name, now):
    with pytest.warns(SingerSDKDeprecationWarning, match=f"Importing {name} from {old} is depr"):
        old_class = getattr(import_module(old), name)
    assert old_class is getattr(import_module(now), name)


@pytest.mark.parametrize(
    "module",
    [
        "tap_core.connectors",
        "tap_core.connectors.sql",
        "tap_core.streams",
        "tap_core.streams.sql",
        "tap_core.sinks",
        "tap_core.sinks.sql",
        "tap_core.tap_base",
        "tap_core.target_base",
    ],
)
def test_unknown_name_in_an_old_module_raises_attribute_error(module):
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'Unheard'"):
        _ = import_module(module).Unheard
