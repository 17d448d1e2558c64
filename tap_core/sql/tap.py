"""`SQLTap`: a tap with a stream for every table of a database.

Discovery and all streams share one connector. Without an input catalog, discovery queries the
database once for its tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tap_core.capabilities import SQL_TAP_USE_SINGER_DECIMAL
from tap_core.config.loading import merge_missing_config_jsonschema
from tap_core.tap_base import Tap

if TYPE_CHECKING:
    from tap_core.sql.connector import SQLConnector
    from tap_core.sql.stream import SQLStream
    from tap_core.streams.core import Stream
    from tap_core.types import JsonSchema

__all__ = ["SQLTap"]


class SQLTap(Tap):
    """Base class of taps with a stream for every table and view of a database.

    Subclasses set ``name``, ``config_jsonschema`` and ``default_stream_class``.
    """

    default_stream_class: type[SQLStream]
    """Class of the streams; its ``connector_class`` is the class of the connector."""

    dynamic_catalog: bool = True
    """True, because discovery queries the database and needs a valid configuration."""

    exclude_schemas: Sequence[str] = []
    """Database schemas that discovery skips, such as system schemas."""

    _catalog_dict: dict[str, Any] | None = None
    _tap_connector: SQLConnector | None = None

    @classmethod
    def append_builtin_config(cls, config_jsonschema: JsonSchema) -> None:
        """Add the settings of every SQL tap to the JSON Schema of the settings, in place.

        These are ``use_singer_decimal`` and the settings of `tap_core.Tap`.
        """
        merge_missing_config_jsonschema(SQL_TAP_USE_SINGER_DECIMAL, config_jsonschema)
        super().append_builtin_config(config_jsonschema)

    @property
    def tap_connector(self) -> SQLConnector:
        """Connector that discovery and all streams share, created on first access."""
        if self._tap_connector is None:
            self._tap_connector = self.default_stream_class.connector_class(dict(self.config))
        return self._tap_connector

    def close(self) -> None:
        """Close the idle connections of the connector. A later query opens new ones."""
        if self._tap_connector is not None:
            self._tap_connector.close()

    @property
    def catalog_dict(self) -> dict[str, Any]:
        """Input catalog as a dict or, without one, the discovered catalog, which is cached."""
        if self._catalog_dict is None:
            if self.input_catalog:
                return self.input_catalog.to_dict()
            discover = self.tap_connector.discover_catalog_entries
            self._catalog_dict = {"streams": discover(exclude_schemas=self.exclude_schemas)}
        return self._catalog_dict

    def discover_streams(self) -> Sequence[Stream]:
        """Return a stream of class `default_stream_class` for each entry of `catalog_dict`."""
        return [
            self.default_stream_class(tap=self, catalog_entry=entry, connector=self.tap_connector)
            for entry in self.catalog_dict["streams"]
        ]
