"""`SQLTarget`: a target whose sinks write to tables of one database.

Public members and signatures are those of singer_sdk (version 0.54). All sinks share one
connector and therefore one connection pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, final

from tap_core.capabilities import (
    TARGET_HARD_DELETE_CONFIG,
    TARGET_SCHEMA_CONFIG,
    CapabilitiesEnum,
    PluginCapabilities,
    TargetCapabilities,
)
from tap_core.compat.author_overrides import overridable_property
from tap_core.config.loading import merge_missing_config_jsonschema
from tap_core.sinks.core import Sink
from tap_core.sql.connector import SQLConnector
from tap_core.sql.sink import SQLSink
from tap_core.target_base import Target
from tap_core.types import JsonSchema

__all__ = ["SQLTarget"]


class SQLTarget(Target):
    """Base class of targets whose sinks write to tables of a database.

    Subclasses set ``name``, ``config_jsonschema`` and ``default_sink_class``.
    """

    _target_connector: SQLConnector | None = None

    default_sink_class: type[SQLSink[Any]]
    """Sink class of streams, unless `get_sink_class` returns another."""

    capabilities: ClassVar[list[CapabilitiesEnum]] = [
        *Target.capabilities,
        PluginCapabilities.ACTIVATE_VERSION,
        TargetCapabilities.TARGET_SCHEMA,
        TargetCapabilities.HARD_DELETE,
    ]

    @cached_property
    def _other_connectors(self) -> dict[type[SQLConnector], SQLConnector]:
        return {}

    @property
    def target_connector(self) -> SQLConnector:
        """Connector that the sinks share, created on first access."""
        if self._target_connector is None:
            self._target_connector = self.default_sink_class.connector_class(dict(self.config))
        return self._target_connector

    def _connector_for(self, connector_class: type[SQLConnector]) -> SQLConnector:
        """Return the target's connector of the class ``connector_class``; create it on first use.

        All sinks share this connector, so that the load method ``overwrite`` drops each table only
        once per run.
        """
        default_sink_class = getattr(self, "default_sink_class", None)
        if connector_class is getattr(default_sink_class, "connector_class", None):
            return self.target_connector
        if connector_class not in self._other_connectors:
            self._other_connectors[connector_class] = connector_class(dict(self.config))
        return self._other_connectors[connector_class]

    @overridable_property
    def max_parallelism(self) -> int:
        """Maximum number of sinks that write at the same time.

        It is 1 for SQLite, which allows one writer, unless the attribute was set.
        """
        if self._max_parallelism is None and any(map(_is_in_sqlite, self._sinks_active.values())):
            return 1
        return super().max_parallelism

    @max_parallelism.setter
    def max_parallelism(self, new_value: int) -> None:
        self._max_parallelism = new_value

    @classmethod
    def append_builtin_config(cls, config_jsonschema: JsonSchema) -> None:
        """Add the settings of the target's capabilities to a JSON Schema of settings, in place.

        Examples of such settings are ``default_target_schema`` and ``hard_delete``.
        """
        for settings, capability in (
            (TARGET_SCHEMA_CONFIG, TargetCapabilities.TARGET_SCHEMA),
            (TARGET_HARD_DELETE_CONFIG, TargetCapabilities.HARD_DELETE),
        ):
            if capability in cls.capabilities:
                merge_missing_config_jsonschema(settings, config_jsonschema)
        super().append_builtin_config(config_jsonschema)

    @final
    def add_sqlsink(
        self,
        stream_name: str,
        schema: JsonSchema,
        key_properties: Sequence[str] | None = None,
    ) -> Sink:
        """Create and set up the sink of a stream, as `add_sink` does."""
        return self.add_sink(stream_name, schema, key_properties)


def _is_in_sqlite(sink: Sink) -> bool:
    """Return True if a sink writes to a SQLite database."""
    return isinstance(sink, SQLSink) and sink.connector._dialect.name == "sqlite"  # noqa: SLF001
