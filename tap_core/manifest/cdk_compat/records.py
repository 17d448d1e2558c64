"""Base classes for custom decoders, extractors, filters, transformations and type transformers.

A base class behaves like the component of the same name in `tap_core.manifest.components`.
Dataclass fields have airbyte-cdk's order, because subclasses append their own fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import InitVar, dataclass, field
from enum import Flag, auto
from functools import partial
from typing import Any, cast

import requests

from tap_core.manifest.cdk_compat.interpolation import (
    InterpolatedBoolean,
    InterpolatedString,
)
from tap_core.manifest.cdk_compat.type_guards import is_dict
from tap_core.manifest.components import decoders as ours
from tap_core.manifest.components.extractors import DpathExtractor
from tap_core.manifest.dpath import set_at
from tap_core.manifest.literals import get_literal_types
from tap_core.manifest.type_normalization import (
    make_conversion,
    make_normalizer,
    resolve_reference,
)

__all__ = [
    "CdkAddFields",
    "CdkAddedFieldDefinition",
    "CdkDecoder",
    "CdkDpathExtractor",
    "CdkJsonDecoder",
    "CdkRecordFilter",
    "ParsedFieldDefinition",
    "RecordExtractor",
    "RecordTransformation",
    "TransformConfig",
    "TypeTransformer",
]


class CdkDecoder:
    """Base class of decoders, which parse a response body into documents such as dicts."""

    def is_stream_response(self) -> bool:
        """Return False, because a response body is read completely before it is decoded."""
        return False

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the documents of a response, for example one per line of JSON Lines."""
        raise NotImplementedError


class CdkJsonDecoder(CdkDecoder):
    """Decoder of JSON responses; it yields one document, or each element of a top-level list."""

    def __init__(self, parameters: Mapping[str, Any] | None = None) -> None:
        self._parameters = parameters or {}

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the JSON document of a response; if it is a list, yield its elements."""
        return ours.JsonDecoder().decode(response)


@dataclass
class RecordExtractor:
    """Base class of record extractors, which decode a response and find the records in it."""

    def extract_records(self, response: requests.Response) -> Iterable[Any]:
        """Decode a response and return the records in it; implemented by subclasses."""
        raise NotImplementedError


@dataclass
class CdkDpathExtractor(RecordExtractor):
    """Extractor of the records at a path in a response, such as ``[data, items]``."""

    field_path: list[Any]
    config: Mapping[str, Any]
    parameters: InitVar[Mapping[str, Any]]
    decoder: Any = field(default_factory=CdkJsonDecoder)
    record_expander: Any = None

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        self._field_path = [
            InterpolatedString.create(step, parameters=parameters) for step in self.field_path
        ]
        steps = [str(step.eval(self.config)) for step in self._field_path]
        self._extractor = DpathExtractor(steps, self.record_expander)

    def extract_records(self, response: requests.Response) -> Iterable[Any]:
        """Decode a response and yield the records at `field_path`, if the path exists."""
        for document in self.decoder.decode(response):
            yield from self._extractor.extract(document)


@dataclass
class CdkRecordFilter:
    """Filter that keeps the records for which the template `condition` is true."""

    parameters: InitVar[Mapping[str, Any]]
    config: Mapping[str, Any]
    condition: str = ""

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        self._filter_interpolator = InterpolatedBoolean(self.condition, parameters=parameters)

    def filter_records(
        self,
        records: Iterable[Mapping[str, Any]],
        stream_state: Mapping[str, Any],  # noqa: ARG002  (airbyte-cdk's signature)
        stream_slice: Any = None,
        next_page_token: Mapping[str, Any] | None = None,
    ) -> Iterable[Mapping[str, Any]]:
        """Yield the records that satisfy the template `condition`; ignore ``stream_state``."""
        for record in records:
            variables: dict[str, Any] = {
                "record": record,
                "stream_slice": stream_slice or {},
                "next_page_token": next_page_token,
            }
            if self._filter_interpolator.eval(self.config, **variables):
                yield record


@dataclass
class RecordTransformation:
    """Base class of record transformations, which change each record in place."""

    def transform(
        self,
        record: dict[str, Any],
        config: Mapping[str, Any] | None = None,
        stream_state: Mapping[str, Any] | None = None,
        stream_slice: Any = None,
    ) -> Any:
        """Change a record in place; implemented by subclasses. The return value is ignored."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return other.__dict__ == self.__dict__

    __hash__ = None  # type: ignore[assignment]  # its attributes may be unhashable


@dataclass(frozen=True)
class CdkAddedFieldDefinition:
    """Declaration of a field that AddFields adds to records: path, and template of the value."""

    path: list[str]
    value: Any
    value_type: Any
    parameters: InitVar[Mapping[str, Any]]

    @classmethod
    def create(cls, declaration: Any) -> CdkAddedFieldDefinition:
        """Create an instance from a mapping of options; return an existing instance unchanged."""
        if not is_dict(declaration):
            return cast("CdkAddedFieldDefinition", declaration)
        return cls(declaration["path"], declaration["value"], declaration.get("value_type"), {})


@dataclass(frozen=True)
class ParsedFieldDefinition:
    """Parsed declaration of a field that AddFields adds to records; ``value`` is a template."""

    path: list[str]
    value: InterpolatedString
    value_type: Any
    parameters: InitVar[Mapping[str, Any]]


@dataclass
class CdkAddFields(RecordTransformation):
    """Transformation that adds fields to records, or replaces their values.

    The type name in manifests is AddFields.
    """

    fields: list[Any]
    parameters: InitVar[Mapping[str, Any]]
    condition: str = ""
    _parsed_fields: list[ParsedFieldDefinition] = field(
        init=False, repr=False, default_factory=list
    )

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        self._filter_interpolator = InterpolatedBoolean(self.condition, parameters=parameters)
        for declaration in self.fields:
            added = CdkAddedFieldDefinition.create(declaration)
            value = InterpolatedString.create(added.value, parameters=parameters)
            parsed = ParsedFieldDefinition(added.path, value, added.value_type, parameters)
            self._parsed_fields.append(parsed)

    def transform(
        self,
        record: dict[str, Any],
        config: Mapping[str, Any] | None = None,
        stream_state: Mapping[str, Any] | None = None,  # noqa: ARG002  (airbyte-cdk's signature)
        stream_slice: Any = None,
    ) -> Any:
        """Add the fields to a record in place, each only if the option `condition` is true."""
        variables: dict[str, Any] = {"record": record, "stream_slice": stream_slice or {}}
        for added in self._parsed_fields:
            types = _get_literal_types(added.value_type)
            value = added.value.eval(config or {}, valid_types=types, **variables)
            if not self.condition or self._filter_interpolator.eval(
                config or {}, value=value, path=added.path, **variables
            ):
                set_at(record, added.path, value)


def _get_literal_types(value_type: Any) -> tuple[type, ...]:
    """Return the Python types that a rendered template value may have; () allows all types.

    ``value_type`` is a Python type, as in airbyte-cdk, or a type name of a manifest.
    """
    if isinstance(value_type, type):
        return (value_type,)
    return get_literal_types({"value_type": value_type})["value"]


class TransformConfig(Flag):
    """Flags that select how a TypeTransformer converts values.

    DefaultSchemaNormalization converts to the schema's types, CustomSchemaNormalization calls a
    registered function, and NoTransform converts nothing.
    """

    NoTransform = auto()
    DefaultSchemaNormalization = auto()
    CustomSchemaNormalization = auto()


class TypeTransformer:
    """Converter of the values of records, by their JSON Schema or with a custom function."""

    def __init__(self, config: TransformConfig = TransformConfig.NoTransform) -> None:
        if TransformConfig.NoTransform in config and config != TransformConfig.NoTransform:
            raise ValueError("NoTransform cannot be combined with other conversions.")
        self._config = config
        self._custom_normalizer: Callable[[Any, dict[str, Any]], Any] | None = None
        self._compiled: tuple[Mapping[str, Any], Callable[[Any], None]] | None = None
        """Last schema, with the function that converts records by it."""

    def registerCustomTransform(  # noqa: N802  (airbyte-cdk's name)
        self, normalization_callback: Callable[[Any, dict[str, Any]], Any]
    ) -> Callable[[Any, dict[str, Any]], Any]:
        """Register a custom function that converts the values of a record, and return the function.

        The function receives a value and the value's JSON Schema, and returns the new value.

        Raises:
            ValueError: The config does not include CustomSchemaNormalization.
        """
        if TransformConfig.CustomSchemaNormalization not in self._config:
            raise ValueError("A custom function needs TransformConfig.CustomSchemaNormalization.")
        self._custom_normalizer = normalization_callback
        self._compiled = None
        return normalization_callback

    @staticmethod
    def default_convert(original_item: Any, subschema: dict[str, Any]) -> Any:
        """Convert a value to the type in its JSON Schema; values inside it are unchanged.

        A value that cannot be converted is returned unchanged.
        """
        convert = make_conversion(subschema)
        return original_item if convert is None else convert(original_item)

    def transform(self, record: dict[str, Any], schema: Mapping[str, Any]) -> None:
        """Convert the values of a record in place; the flags of the constructor select how."""
        compiled = self._compiled
        if compiled is None or compiled[0] is not schema:
            convert_by = partial(self._make_conversion, schema)
            compiled = self._compiled = (schema, make_normalizer(schema, convert_by))
        compiled[1](record)

    def _make_conversion(
        self, root: Mapping[str, Any], schema: Mapping[str, Any]
    ) -> Callable[[Any], Any] | None:
        """Return a function that converts a value by its schema and with the custom function."""
        custom = self._custom_normalizer
        converts = TransformConfig.DefaultSchemaNormalization in self._config
        if custom is None:
            return make_conversion(schema) if converts else None
        definition = cast(dict[str, Any], resolve_reference(schema, root))
        if not converts:
            return lambda value: custom(value, definition)
        return lambda value: custom(self.default_convert(value, definition), definition)
