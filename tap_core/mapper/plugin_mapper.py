"""Stream maps of a plugin (tap, mapper or target), built from its config settings.

Each stream has a list of maps; the first one is its primary map. An entry of ``stream_maps`` with
``__source__`` adds another map to the named stream, which writes a copy of the stream.
"""

from __future__ import annotations

import ast
import fnmatch
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from tap_core.config.similar_names import suggest
from tap_core.exceptions import (
    MapExpressionError,
    SingerSDKError,
    StreamMapConfigError,
    StreamSetupError,
)
from tap_core.mapper.constants import (
    MAPPER_ALIAS_OPTION,
    MAPPER_ELSE_OPTION,
    MAPPER_SOURCE_OPTION,
    NULL_STRING,
    StreamMapsDict,
)
from tap_core.mapper.expressions import (
    ExpressionScope,
    UnknownNameError,
    compile_expression,
    parse_expression,
)
from tap_core.mapper.functions import STANDARD_FUNCTIONS
from tap_core.mapper.stream_maps import (
    CustomStreamMap,
    DefaultStreamMap,
    RemoveRecordTransform,
    SameRecordTransform,
    StreamMap,
    is_null_definition,
)
from tap_core.records.flatten import FlatteningOptions, get_flattening_options
from tap_core.records.prune import prune_schema
from tap_core.singerlib.catalog import Catalog
from tap_core.types import JsonSchema

__all__ = ["PluginMapper"]


class PluginMapper:
    """Stream maps of a plugin, created from its settings and the schemas of the streams.

    The attribute ``stream_maps`` is a dict from the original name of a stream to its list of maps.
    """

    def __init__(self, plugin_config: Mapping[str, Any], logger: logging.Logger) -> None:
        """Read the stream map settings of a plugin.

        Args:
            plugin_config: Configuration of the plugin, with ``stream_maps`` and its related
                settings.
            logger: Logger of the plugin.

        Raises:
            StreamMapConfigError: An option in ``stream_maps``, such as ``__else__``, has an invalid
                name or value.
            ConfigValidationError: Flattening is enabled without a maximum level.
        """
        self.stream_maps: dict[str, list[StreamMap]] = {}
        self.map_config: dict[str, Any] = plugin_config.get("stream_map_config") or {}
        self.faker_config: dict[str, Any] = plugin_config.get("faker_config") or {}
        self.flattening_options: FlatteningOptions | None = get_flattening_options(plugin_config)
        self.default_mapper_type: type[DefaultStreamMap] = SameRecordTransform
        self.logger = logger
        self.stream_maps_dict: StreamMapsDict = dict(plugin_config.get("stream_maps") or {})
        if MAPPER_ELSE_OPTION in self.stream_maps_dict:
            else_map = self.stream_maps_dict.pop(MAPPER_ELSE_OPTION)
            if not is_null_definition(else_map):
                raise StreamMapConfigError(
                    f"Undefined transform for '{MAPPER_ELSE_OPTION}' case: {else_map}. It can only"
                    f" be null, or {NULL_STRING}."
                )
            self.default_mapper_type = RemoveRecordTransform
            logger.info("Streams without a stream map are skipped.")
        for name, definition in self.stream_maps_dict.items():
            if name.startswith("__"):
                raise StreamMapConfigError(f"Option '{name}:{definition}' is not expected.")
            for key in definition if isinstance(definition, Mapping) else ():
                _check_name(key, f"the map of stream {name!r}")

    def register_raw_streams_from_catalog(self, catalog: Catalog) -> None:
        """Create the maps of all streams in a catalog, for the selected properties of each stream.

        For a stream that is not selected, all properties are used, because otherwise its keys could
        be missing. Log a warning for each entry of ``stream_maps`` that matches no stream.
        """
        self._warn_of_unknown_streams(
            [entry.stream or entry.tap_stream_id for entry in catalog.streams]
        )
        for entry in catalog.streams:
            mask = entry.metadata.resolve_selection()
            schema = entry.schema.to_dict()
            self.register_raw_stream_schema(
                entry.stream or entry.tap_stream_id,
                prune_schema(schema, mask) if mask[()] else schema,
                entry.key_properties,
            )

    def register_raw_stream_schema(
        self, stream_name: str, schema: JsonSchema, key_properties: Sequence[str] | None
    ) -> None:
        """Create the maps of a stream.

        Do nothing if a default map of the stream already exists for the same schema and keys. A
        stream without an entry in ``stream_maps`` has a default map.

        Args:
            stream_name: Name of the stream before the map.
            schema: JSON Schema of the stream before the map.
            key_properties: Primary keys of the stream before the map.

        Raises:
            StreamMapConfigError: The settings are invalid for this stream.
            MapExpressionError: An expression is invalid.
            StreamSetupError: The schema is invalid, or its properties cannot be flattened.
        """
        if self._is_registered(stream_name, schema, key_properties):
            return
        try:
            self.stream_maps[stream_name] = self._build_maps(stream_name, schema, key_properties)
        except SingerSDKError:
            raise
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise StreamSetupError(
                f"The schema of stream '{stream_name}' can be neither mapped nor flattened:"
                f" {error}. Correct it in the tap."
            ) from error

    def _warn_of_unknown_streams(self, names: Sequence[str]) -> None:
        for name, definition in self.stream_maps_dict.items():
            options = definition if isinstance(definition, dict) else {}
            source = str(options.get(MAPPER_SOURCE_OPTION, name))
            if source not in names and not fnmatch.filter(names, source):
                self.logger.warning(
                    "The setting stream_maps has a map of '%s', but there is no such stream.%s",
                    source,
                    suggest(source, names),
                )

    def find_shared_names(self) -> set[str]:
        """Return the new stream names that ``stream_maps`` assigns to more than one stream.

        Several entries may set the same name, or one entry with a pattern sets it for all matching
        streams.
        """
        names: list[str] = []
        for name, definition in self.stream_maps_dict.items():
            if not isinstance(definition, dict):
                continue
            pattern = str(definition.get(MAPPER_SOURCE_OPTION, name))
            # If a pattern's map gives one name to these two streams, it does so to all matches.
            matched = ("a", "b") if set("*?[").intersection(pattern) else (name,)
            new_names = [
                self._get_names(name, dict(definition), stream_name)[1] for stream_name in matched
            ]
            if len(matched) == 1 or len(set(new_names)) == 1:
                names += new_names
        return {name for name in names if names.count(name) > 1}

    def _build_maps(
        self, stream_name: str, schema: JsonSchema, key_properties: Sequence[str] | None
    ) -> list[StreamMap]:
        """Return all maps of a stream: the map of the stream itself, then the maps of its copies.

        A copy is an entry of ``stream_maps`` with ``__source__``: it emits the records again.
        """
        options = self.flattening_options
        maps: list[StreamMap] = [
            self.default_mapper_type(
                stream_name, schema, key_properties, flattening_options=options
            )
        ]
        for name, definition in self.stream_maps_dict.items():
            stream_options = dict(definition) if isinstance(definition, dict) else definition
            source, alias = self._get_names(name, stream_options, stream_name)
            if not fnmatch.fnmatchcase(stream_name, source) and stream_name != source:
                continue
            stream_map = self._build_map(
                name, stream_options, alias, stream_name, schema, key_properties
            )
            if isinstance(definition, dict) and MAPPER_SOURCE_OPTION in definition:
                maps.append(stream_map)
            else:
                maps[0] = stream_map
        return maps

    def _is_registered(
        self, stream_name: str, schema: JsonSchema, key_properties: Sequence[str] | None
    ) -> bool:
        """Return True if a stream has a default map, without settings, for this schema and keys."""
        primary = self.stream_maps.get(stream_name, [None])[0]
        return (
            isinstance(primary, self.default_mapper_type)
            and primary.raw_schema == schema
            and primary.raw_key_properties == key_properties
        )

    def _get_names(self, name: str, options: Any, stream_name: str) -> tuple[str, str]:
        """Return the source stream (name or pattern) and the new stream name in a map definition.

        Args:
            name: Key of the definition in the setting ``stream_maps``.
            options: The definition; its options ``__source__`` and ``__alias__`` are removed.
            stream_name: Name of the stream for which the map is built.
        """
        if not isinstance(options, dict):
            return name, stream_name
        if MAPPER_SOURCE_OPTION in options:
            if MAPPER_ALIAS_OPTION in options:
                raise StreamMapConfigError(
                    f"The stream map '{name}' has a {MAPPER_SOURCE_OPTION}, so '{name}' is the"
                    f" new name already: it can have no {MAPPER_ALIAS_OPTION}."
                )
            source = options.pop(MAPPER_SOURCE_OPTION)
            if not isinstance(source, str):
                raise StreamMapConfigError(
                    f"The {MAPPER_SOURCE_OPTION} of the stream map '{name}' is {source!r}: it must"
                    " be text, the name of a stream."
                )
            return source, name
        alias = options.pop(MAPPER_ALIAS_OPTION, None)
        return name, stream_name if alias is None else self._evaluate_alias(alias, stream_name)

    def _build_map(
        self,
        name: str,
        options: Any,
        alias: str,
        stream_name: str,
        schema: JsonSchema,
        key_properties: Sequence[str] | None,
    ) -> StreamMap:
        """Return the stream map for one entry of the setting ``stream_maps``.

        Args:
            name: Key of the entry.
            options: Value of the entry: a dict of expressions, or null to remove the stream.
            alias: Name of the mapped stream.
            stream_name: Name of the stream before the map.
            schema: JSON Schema of the stream before the map.
            key_properties: Primary keys of the stream before the map.

        Raises:
            StreamMapConfigError: The value of the entry is neither a dict nor null.
        """
        if isinstance(options, dict):
            return CustomStreamMap(
                stream_alias=alias,
                map_config=self.map_config,
                faker_config=self.faker_config,
                raw_schema=schema,
                key_properties=key_properties,
                map_transform=options,
                flattening_options=self.flattening_options,
                stream_name=stream_name,
            )
        if is_null_definition(options):
            self.logger.info("Stream '%s' is removed by its stream map.", stream_name)
            return RemoveRecordTransform(
                stream_alias=alias,
                raw_schema=schema,
                key_properties=None,
                flattening_options=self.flattening_options,
            )
        if isinstance(options, str):
            raise StreamMapConfigError(f"Option '{name}:{options}' is not expected.")
        raise StreamMapConfigError(
            f"Unexpected stream definition type for '{name}'. Expected str, dict, or None. Got"
            f" '{type(options).__name__}'."
        )

    @staticmethod
    def _evaluate_alias(expr: str, stream_name: str) -> str:
        """Return the new stream name in the option ``__alias__``: a plain name or an expression.

        ``__stream_name__ + '_v2'`` is an expression. A text with an unknown variable, such as
        ``users``, is a plain name.
        """
        location = f"the {MAPPER_ALIAS_OPTION} of stream '{stream_name}'"
        if not isinstance(expr, str):
            raise StreamMapConfigError(f"{expr!r} is {location}: it must be text.")
        statement = parse_expression(expr.strip(), location)
        if not isinstance(statement, ast.Expr):
            raise MapExpressionError(f"Failed to parse expression {expr}. It is {location}.")
        scope = ExpressionScope(STANDARD_FUNCTIONS, {"__stream_name__": stream_name}, record=())
        try:
            alias = compile_expression(expr, statement.value, scope, location).run({})
        except UnknownNameError:
            alias = expr
        name = alias if isinstance(alias, str) else expr
        _check_name(name, location)
        return name


def _check_name(name: str, location: str) -> None:
    """Raise an error if a name cannot be written as UTF-8.

    Raises:
        StreamMapConfigError: The name has a lone surrogate.
    """
    try:
        str(name).encode()
    except UnicodeEncodeError:
        raise StreamMapConfigError(
            f"The name {name!r} in {location} has a lone surrogate, which is not valid in UTF-8:"
            " correct the name in the setting stream_maps."
        ) from None
