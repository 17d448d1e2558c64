"""Conditional form fields, from ``if`` and ``dependentRequired`` in the schema of the settings.

A rule with one of these keywords becomes a conditional form field if its condition is one setting
that is always shown, and if no other rule shows the same settings. The settings of all other rules
are always shown, and the validation of the configuration reports missing settings.
Source: JSON Schema 2020-12, Core, section 10.2.2, and Validation, section 6.5.4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tap_core.config.enum_options import get_const, get_options, to_form_text
from tap_core.config.loading import get_json_types
from tap_core.config.schema_flattening import (
    FlattenedSchema,
    Schema,
    get_branches,
    merge_subschemas,
)

__all__ = ["ConditionalRules", "Rule", "is_toggle", "parse_conditions"]


@dataclass(frozen=True)
class Rule:
    """Rule that shows certain form fields if another form field has a certain value.

    Attributes:
        condition: Name of the other field, which must have the value ``answer``.
        answer: Value of the field ``condition``; None for any value.
        properties: Schemas of the properties to show, by name.
        required: Names of the properties that the user must then fill in.
    """

    condition: str
    answer: str | bool | None
    properties: Mapping[str, Schema]
    required: frozenset[str]


@dataclass(frozen=True)
class ConditionalRules:
    """Conditional rules (``if``, ``dependentRequired``) of a settings schema, for a setup form.

    Attributes:
        rules: Rules that a form can express.
        always_required: Names of properties that are always required, because their rule always
            applies.
        unconditional: Schemas by name of the properties that the form always shows, because it
            cannot express their rules.
    """

    rules: tuple[Rule, ...] = ()
    always_required: frozenset[str] = frozenset()
    unconditional: Mapping[str, Schema] = field(default_factory=dict)

    @property
    def conditional_names(self) -> frozenset[str]:
        """Names of the properties that the form shows only if another field has a certain value."""
        return frozenset(name for rule in self.rules for name in rule.properties)


def is_toggle(schema: Schema) -> bool:
    """Return True if a form shows a setting as a toggle: a boolean that may be true or false."""
    return get_json_types(schema) - {"null"} == {"boolean"} and len(get_options(schema)) != 1


def parse_conditions(flattened: FlattenedSchema) -> ConditionalRules:
    """Return the conditional rules (``if``, ``dependentRequired``) of a settings schema.

    With such a rule, a setup form shows some fields only if another field has a certain value.
    """
    declared = [*_find_if_rules(flattened), *_find_dependent_rules(flattened)]
    always = frozenset(
        name for rule in declared if _always_applies(rule, flattened) for name in rule.required
    )
    conditional = [
        _remove_properties(rule, always | flattened.required)
        for rule in declared
        if not _always_applies(rule, flattened)
    ]
    times = Counter(name for rule in conditional for name in rule.properties)
    rules = [
        rule
        for rule in conditional
        if rule.properties
        and rule.condition not in times
        and all(times[name] == 1 for name in rule.properties)
        and _can_be_condition(flattened.properties.get(rule.condition), rule.answer)
    ]
    shown_by_rules = {name for rule in rules for name in rule.properties}
    unconditional = {
        name: schema
        for rule in declared
        for name, schema in rule.properties.items()
        if name not in shown_by_rules and name not in flattened.properties
    }
    return ConditionalRules(tuple(rules), always, unconditional)


def _find_if_rules(flattened: FlattenedSchema) -> Iterator[Rule]:
    """Yield a conditional rule for each ``then`` and ``else`` in a settings schema."""
    for part in flattened.rules:
        condition, answer = _get_condition(part["if"])
        yield _make_rule(condition, answer, part.get("then"), flattened)
        yield _make_rule(
            *_invert_condition(condition, answer, flattened), part.get("else"), flattened
        )


def _get_condition(schema: Any) -> tuple[str, str | bool]:
    """Return the field name and the field value that an ``if`` schema requires.

    Return two empty strings unless it requires a constant value of a single property.
    """
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or len(properties) != 1:
        return "", ""
    [(name, tested)] = properties.items()
    constant = get_const(tested) if isinstance(tested, Mapping) else ()
    if not constant:
        return "", ""
    [value] = constant
    return str(name), value if isinstance(value, bool) else to_form_text(value)


def _make_rule(condition: str, answer: str | bool, schema: Any, flattened: FlattenedSchema) -> Rule:
    """Return the rule that shows the form fields for a ``then`` or ``else`` schema.

    Args:
        condition: Name of the field that ``if`` tests; empty if a form cannot express the test.
        answer: Value of the field for which the schema applies.
        schema: The ``then`` or ``else`` schema.
        flattened: Settings schema that contains the ``then`` or ``else``.
    """
    merged = merge_subschemas(schema) if isinstance(schema, Mapping) else {}
    special = {k: v for k, v in (merged.get("properties") or {}).items() if isinstance(v, Mapping)}
    required = frozenset(merged.get("required") or ())
    names = dict.fromkeys(
        [*(name for name in special if name not in flattened.properties), *required]
    )
    properties = {
        name: {**flattened.properties.get(name, {}), **special.get(name, {})} for name in names
    }
    return Rule(condition, answer, properties, required)


def _invert_condition(
    condition: str, answer: str | bool, flattened: FlattenedSchema
) -> tuple[str, str | bool]:
    """Return the field name and the field value for which an ``else`` schema applies.

    ``condition`` and ``answer`` are those of the ``then`` schema. Return two empty strings unless
    the field has exactly one other possible value in the settings schema ``flattened``.
    """
    if isinstance(answer, bool):
        return condition, not answer
    texts = [option.text for option in get_options(flattened.properties.get(condition, {}))]
    other = [text for text in texts if text != answer]
    return (condition, other[0]) if len(other) == len(texts) - 1 == 1 else ("", "")


def _find_dependent_rules(flattened: FlattenedSchema) -> Iterator[Rule]:
    """Yield a conditional rule for each property in ``dependentRequired`` of a settings schema."""
    for condition, names in flattened.dependents.items():
        known = {name: flattened.properties.get(name, {}) for name in names}
        yield Rule(condition, None, known, frozenset(names))


def _always_applies(rule: Rule, flattened: FlattenedSchema) -> bool:
    """Return True if a rule's condition is always true, so that the form needs no condition.

    This is the case if the condition is true for every value of its field, and the field always has
    a value. ``flattened`` is the settings schema, which declares the field.
    """
    schema = flattened.properties.get(rule.condition, {})
    has_value = rule.condition in flattened.required or "default" in schema or is_toggle(schema)
    return rule.answer is None and has_value


def _remove_properties(rule: Rule, names: frozenset[str]) -> Rule:
    """Return a copy of a rule that does not show the properties in ``names``.

    The copy also does not show the field that its condition tests.
    """
    rest = {k: v for k, v in rule.properties.items() if k not in names and k != rule.condition}
    return Rule(rule.condition, rule.answer, rest, rule.required & rest.keys())


def _can_be_condition(schema: Schema | None, answer: str | bool | None) -> bool:
    """Return True if a form can show other fields depending on the value of a setting.

    The setting must be a single form field, and ``answer`` a value of its type. None means any
    value.
    """
    if schema is None:
        return False
    shape = merge_subschemas(schema)
    if get_branches(shape) or shape.get("properties"):
        return False
    return answer is None or isinstance(answer, bool) == is_toggle(shape)
