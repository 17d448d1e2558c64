"""Singer data structures: catalog, schema and messages.

Each name is imported from its module at first use, to avoid circular imports in tap_core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tap_core.parsing.datetimes import strftime, strptime_to_utc
    from tap_core.schema.in_place_references import resolve_schema_references
    from tap_core.singerlib import exceptions
    from tap_core.singerlib.catalog import (
        Catalog,
        CatalogEntry,
        Metadata,
        MetadataMapping,
        SelectionMask,
        StreamMetadata,
    )
    from tap_core.singerlib.messages import (
        ActivateVersionMessage,
        Message,
        RecordMessage,
        SchemaMessage,
        SingerMessageType,
        StateMessage,
        exclude_null_dict,
        format_message,
        write_message,
        write_record,
        write_schema,
        write_state,
        write_version,
    )
    from tap_core.singerlib.schema import Schema

__all__ = [
    "ActivateVersionMessage",
    "Catalog",
    "CatalogEntry",
    "Message",
    "Metadata",
    "MetadataMapping",
    "RecordMessage",
    "Schema",
    "SchemaMessage",
    "SelectionMask",
    "SingerMessageType",
    "StateMessage",
    "StreamMetadata",
    "exceptions",
    "exclude_null_dict",
    "format_message",
    "resolve_schema_references",
    "strftime",
    "strptime_to_utc",
    "write_message",
    "write_record",
    "write_schema",
    "write_state",
    "write_version",
]


def __getattr__(name: str) -> Any:
    """Import an attribute of this package on first access, from the module that defines it.

    Raises:
        AttributeError: The name is not in ``__all__``.
    """
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "exceptions":
        return import_module("tap_core.singerlib.exceptions")
    paths = ("singerlib.catalog", "singerlib.messages", "singerlib.schema", "parsing.datetimes")
    modules = (import_module(f"tap_core.{path}") for path in paths)
    value = next(getattr(module, name) for module in modules if hasattr(module, name))
    globals()[name] = value
    return value
