"""Fields of the setup form, derived from the JSON Schema of the settings.

The name of a field is the dotted path of its setting. If alternatives of a union share a property
name, the name of the alternative is added, so that field names are unique. Required fields come
first unless the schema has an ``order``. Hidden settings (``airbyte_hidden``, ``x-hidden``) appear
only if required. Settings that are redacted in logs are password fields.
Source: Fivetran's Partner SDK development guide, "Setup form guidelines".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from tap_core.config.enum_options import Option, get_const, get_options, to_form_text
from tap_core.config.schema_flattening import (
    FlattenedSchema,
    Schema,
    flatten_schema,
    get_branches,
    merge_subschemas,
)
from tap_core.config.titles import make_label, make_title
from tap_core.protocols.fivetran.conditional_fields import Rule, is_toggle, parse_conditions
from tap_core.redaction import is_secret
from tap_core.schema.inline_references import inline_references

__all__ = ["DependentFields", "FieldKind", "FieldSpec", "build_fields", "iterate_names"]

_HIDDEN: Final = ("airbyte_hidden", "x-hidden")
_FILE_FORMATS: Final = frozenset({"binary", "data-url", "file"})
_FILE_MEDIA: Final = re.compile(r"application/(x-)?(octet-stream|pem|pkcs|pkix|x509)")
_FILE_NAME: Final = re.compile(r"(^|_)(certificate|private_key_file)$")


class FieldKind(Enum):
    """Type of a form field: text, password, dropdown, toggle or file upload."""

    TEXT = "text"
    PASSWORD = "password"  # noqa: S105 - a kind of field
    CHOICE = "choice"
    TOGGLE = "toggle"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """Field of a setup form.

    Attributes:
        name: Name of the field, such as ``"database.port"``.
        path: Path of its value in the settings, such as ``("database", "port")``.
        schema: JSON Schema of the setting.
        label: Text that the form shows for the field.
        kind: Type of the field, such as a dropdown.
        is_required: True if the user must enter a value.
        options: Options of a dropdown.
        dependents: Groups of fields that are shown for certain values of this field.
        is_setting: False if the value only selects one of the ``dependents`` and is not stored.
    """

    name: str
    path: tuple[str, ...]
    schema: Schema
    label: str
    kind: FieldKind
    is_required: bool
    options: tuple[Option, ...] = ()
    dependents: tuple[DependentFields, ...] = ()
    is_setting: bool = True


@dataclass(frozen=True, slots=True)
class DependentFields:
    """Group of form fields that are shown if another field has a certain value.

    Attributes:
        answer: Value of the other field that shows the group; None for any value.
        label: Heading of the group.
        fields: Fields of the group.
        is_exclusive: True to drop the values that the form sends for the group if the other field
            has another value.
    """

    answer: str | bool | None
    label: str
    fields: tuple[FieldSpec, ...]
    is_exclusive: bool = False


@dataclass(frozen=True, slots=True)
class _FormPosition:
    """Place in the settings, such as an object, for which form fields are built.

    Attributes:
        path: Property names from the root of the settings to the place.
        prefix: Start of the names of the form fields, such as ``"database."``.
        label: Label of a form field for this place.
        title: Title of the place. The labels of the form fields inside it contain this title.
        is_required: True if the place and all objects around it are required.
        is_secret: True if the place or an object around it is secret.
    """

    path: tuple[str, ...] = ()
    prefix: str = ""
    label: str = ""
    title: str = ""
    is_required: bool = True
    is_secret: bool = False

    def inside(self, name: str, schema: Schema, *, is_required: bool) -> _FormPosition:
        """Return the position of the property ``name`` in the object at this position.

        ``schema`` is the property's JSON Schema. ``is_required`` is True if the object requires the
        property.
        """
        title = str(schema.get("title") or "").strip() or make_title(name)
        return _FormPosition(
            path=(*self.path, name),
            prefix=f"{self.prefix}{name}.",
            label=make_label(title, self.title),
            title=title,
            is_required=self.is_required and is_required,
            is_secret=self.is_secret or is_secret("", schema),
        )


def build_fields(schema: Schema) -> tuple[FieldSpec, ...]:
    """Return the fields of the setup form for the settings that a JSON Schema declares."""
    return tuple(_build_object_fields(inline_references(schema), _FormPosition()))


def iterate_names(fields: Iterable[FieldSpec]) -> Iterator[str]:
    """Yield the names of form fields and, recursively, of their dependent fields."""
    for field in fields:
        yield field.name
        for group in field.dependents:
            yield from iterate_names(group.fields)


# Objects and their properties


def _build_object_fields(schema: Schema, position: _FormPosition) -> list[FieldSpec]:
    """Return the form fields for the properties of an object in the settings.

    ``position`` is the place of the object. A field that is shown only for certain values of
    another field is not in the list itself, but among the ``dependents`` of that other field.
    """
    flattened = flatten_schema(schema)
    conditions = parse_conditions(flattened)
    key = _find_discriminator(flattened.branches)
    required = flattened.required | conditions.always_required
    properties = {**flattened.properties, **conditions.unconditional}
    fields: list[FieldSpec] = []
    for name in _sort_by_order(properties):
        if name not in conditions.conditional_names and name != key:
            added = _build_property_fields(
                name, properties[name], position, is_required=name in required
            )
            fields += [
                _add_conditional_fields(field, conditions.rules, position) for field in added
            ]
    if flattened.branches:
        fields += _build_union_fields(schema, flattened, key, position)
    return fields if _has_order(properties) else _sort_required_first(fields)


def _build_property_fields(
    name: str, schema: Schema, position: _FormPosition, *, is_required: bool
) -> Iterator[FieldSpec]:
    """Yield the form field of a setting or, for an object, the form fields of its properties.

    Yield nothing for an optional setting that its schema marks as hidden.

    Args:
        name: Name of the setting.
        schema: JSON Schema of the setting.
        position: Place of the object that contains the setting.
        is_required: True if that object requires the setting.
    """
    shape = merge_subschemas(schema)
    if not is_required and any(shape.get(word) for word in _HIDDEN):
        return
    inside = position.inside(name, shape, is_required=is_required)
    if not get_options(shape) and (get_branches(shape) or shape.get("properties")):
        yield from _build_object_fields(shape, inside)
    else:
        yield _build_field(name, shape, inside)


def _build_field(name: str, schema: Schema, position: _FormPosition) -> FieldSpec:
    """Return the form field of a setting that is not an object. ``position`` is its place."""
    options = get_options(schema)
    kind = _choose_kind(name, schema, is_choice=bool(options), is_secret_place=position.is_secret)
    return FieldSpec(
        position.prefix.removesuffix("."),
        position.path,
        schema,
        position.label,
        kind,
        position.is_required,
        options if kind is FieldKind.CHOICE else (),
    )


def _choose_kind(name: str, schema: Schema, *, is_choice: bool, is_secret_place: bool) -> FieldKind:
    if is_toggle(schema):
        return FieldKind.TOGGLE
    if is_choice:
        return FieldKind.CHOICE
    is_file = schema.get("format") in _FILE_FORMATS or _FILE_MEDIA.match(
        str(schema.get("contentMediaType"))
    )
    is_declared_secret = is_secret_place or is_secret("", schema)  # by the schema, not by its name
    if is_file or (not is_declared_secret and _FILE_NAME.search(name)):
        return FieldKind.FILE
    has_secret_name = is_secret(name) and schema.get("secret") is not False
    return FieldKind.PASSWORD if is_declared_secret or has_secret_name else FieldKind.TEXT


def _add_conditional_fields(
    field: FieldSpec, rules: Iterable[Rule], position: _FormPosition
) -> FieldSpec:
    """Return a copy of a form field with its dependent fields.

    The form shows a dependent field only for certain values of this field.

    Args:
        field: The form field.
        rules: Conditional rules of an object. Only rules with a condition on this field apply.
        position: Place of the object in the settings.
    """
    matching = [rule for rule in rules if (*position.path, rule.condition) == field.path]
    dependents = [
        DependentFields(
            rule.answer,
            _format_answer(field, rule.answer),
            tuple(_build_rule_fields(rule, position)),
        )
        for rule in matching
    ]
    return replace(field, dependents=(*field.dependents, *dependents)) if dependents else field


def _build_rule_fields(rule: Rule, position: _FormPosition) -> list[FieldSpec]:
    """Return the form fields that a conditional rule shows.

    ``position`` is the place of the object whose schema has the rule.
    """
    # In an optional object, a toggle that is off does not count as an answer.
    needed = position.is_required or rule.answer is not False
    return _build_fields(rule.properties, rule.required, replace(position, is_required=needed))


def _build_fields(
    properties: Mapping[str, Schema], required: frozenset[str], position: _FormPosition
) -> list[FieldSpec]:
    return _sort_required_first(
        field
        for name, schema in properties.items()
        for field in _build_property_fields(name, schema, position, is_required=name in required)
    )


def _format_answer(field: FieldSpec, answer: str | bool | None) -> str:
    labels = {option.text: option.label for option in field.options}
    if isinstance(answer, str):
        return f"{field.label}: {labels.get(answer, answer)}"
    return field.label


def _sort_required_first(fields: Iterable[FieldSpec]) -> list[FieldSpec]:
    return sorted(fields, key=lambda field: not field.is_required)


def _has_order(properties: Mapping[str, Schema]) -> bool:
    return any(isinstance(inner.get("order"), int) for inner in properties.values())


def _sort_by_order(properties: Mapping[str, Schema]) -> list[str]:
    """Return the property names sorted by the keyword ``order`` of their schemas.

    Properties without ``order`` come last, in the order of the schema.
    """

    def get_order(name: str) -> float:
        order = properties[name].get("order")
        return order if isinstance(order, int) else float("inf")

    return sorted(properties, key=get_order)


# Unions of objects


def _build_union_fields(
    schema: Schema, flattened: FlattenedSchema, key: str | None, position: _FormPosition
) -> Iterator[FieldSpec]:
    """Yield the form fields for an object whose schema is a union of objects (``oneOf``).

    A dropdown selects the alternative, whose fields are then shown. Fields that all alternatives
    have in common follow.

    Args:
        schema: Schema of the object.
        flattened: The same schema, flattened.
        key: Property whose constant identifies the alternative; None if there is no such property.
        position: Place of the object in the settings.
    """
    if key is None and (flattened.properties or not position.path):
        # Nothing identifies the alternative, so the properties of all alternatives are optional.
        yield from _build_fields(_merge_branch_properties(flattened), frozenset(), position)
        return
    common = _find_common_properties(flattened, key)
    options = _build_branch_options(flattened.branches, key)
    known = {*flattened.properties, *common, key}
    names = [
        name for branch in flattened.branches for name in branch["properties"] if name not in known
    ]
    has_repeated_names = any(times > 1 for times in Counter(names).values())
    dependents = []
    for option, branch in zip(options, flattened.branches, strict=True):
        prefix = f"{position.prefix}{option.text}." if has_repeated_names else position.prefix
        special = {
            name: definition
            for name, definition in branch["properties"].items()
            if name not in known
        }
        inside = replace(position, prefix=prefix, title="", is_required=True)
        fields = tuple(_build_object_fields({**branch, "properties": special}, inside))
        if fields:
            dependents.append(DependentFields(option.text, option.label, fields, is_exclusive=True))
    yield _build_union_choice(schema, flattened, key, position, options, dependents)
    yield from _build_fields(common, _find_common_required(flattened), position)


def _build_union_choice(
    schema: Schema,
    flattened: FlattenedSchema,
    key: str | None,
    position: _FormPosition,
    options: tuple[Option, ...],
    dependents: Iterable[DependentFields],
) -> FieldSpec:
    """Return the dropdown that selects an alternative of a union of objects.

    Its value is stored in the property ``key``, or not at all without a ``key``.

    Args:
        schema: Schema of the object.
        flattened: The same schema, flattened.
        key: Property whose constant identifies the alternative, or None.
        position: Place of the object in the settings.
        options: One option per alternative.
        dependents: Groups of fields that the dropdown shows.
    """
    key_schema = flattened.properties.get(key, {}) if key else {}
    has_only_union = not flattened.properties and position.label
    title = str(key_schema.get("title") or make_title(key or ""))
    description = {"description": schema["description"]} if "description" in schema else {}
    default = schema.get("default")
    if key and isinstance(default, Mapping) and key in default:
        key_schema = {"default": default[key], **key_schema}
    return FieldSpec(
        name=f"{position.prefix}{key}" if key else position.prefix.removesuffix("."),
        path=(*position.path, key) if key else position.path,
        schema={**description, **key_schema},
        label=position.label if has_only_union else make_label(title, position.title),
        kind=FieldKind.CHOICE,
        is_required=position.is_required
        and (not flattened.properties or key in flattened.required),
        options=options,
        dependents=tuple(dependents),
        is_setting=key is not None,
    )


def _build_branch_options(branches: tuple[Schema, ...], key: str | None) -> tuple[Option, ...]:
    titles = [str(branch.get("title") or "") for branch in branches]
    options = []
    for number, (branch, title) in enumerate(zip(branches, titles, strict=True), start=1):
        value = get_const(merge_subschemas(branch["properties"][key]))[0] if key else None
        name = title if title and titles.count(title) == 1 else f"Option {number}"
        text = to_form_text(value) if key else name
        options.append(Option(text, value, title or text, str(branch.get("description") or "")))
    return tuple(options)


def _find_discriminator(branches: Iterable[Schema]) -> str | None:
    """Return the property whose constant identifies each alternative of a union of objects.

    Return None if no property has a different constant in each alternative.
    """
    properties = [branch["properties"] for branch in branches]
    for name in properties[0] if properties else ():
        values = [
            get_const(merge_subschemas(definitions[name]))
            for definitions in properties
            if name in definitions
        ]
        texts = {to_form_text(value[0]) for value in values if value} - {""}
        if len(texts) == len(properties):
            return str(name)
    return None


def _find_common_properties(flattened: FlattenedSchema, key: str | None) -> dict[str, Schema]:
    """Return the properties that all alternatives of a union define identically.

    ``key``, the property whose constant identifies the alternative, is left out.
    """
    first, *others = (branch["properties"] for branch in flattened.branches)
    return {
        name: schema
        for name, schema in first.items()
        if name != key
        and name not in flattened.properties
        and all(name in properties and properties[name] == schema for properties in others)
    }


def _find_common_required(flattened: FlattenedSchema) -> frozenset[str]:
    return frozenset.intersection(
        *(frozenset(branch.get("required") or ()) for branch in flattened.branches)
    )


def _merge_branch_properties(flattened: FlattenedSchema) -> dict[str, Schema]:
    return {
        name: schema
        for branch in flattened.branches
        for name, schema in branch["properties"].items()
        if name not in flattened.properties
    }
