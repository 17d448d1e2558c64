"""Code generation for a fast check that a record can be encoded as JSON without conversion.

The generated function checks the record and the objects and lists in it. It may return False for a
valid record; the caller then uses the slower rules of `tap_core.records.value_rules`.
Property names are inserted into the generated code as string literals.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from tap_core.records.value_rules import TYPE_NAMES

if TYPE_CHECKING:
    from tap_core.records.prune import DeselectedNames
    from tap_core.records.value_rules import ObjectRule, ValueRule
    from tap_core.types import Record

__all__ = ["always_false", "compile_record_check"]

_MAX_INLINE_PROPERTIES = 1_000
"""Maximum number of properties in a generated function, which limits its compilation time."""
_MAX_INLINE_DEPTH = 12
"""Maximum nesting depth in a generated function, because Python limits the depth of its blocks."""


def always_false(_record: Record) -> bool:
    """Return False for any record; used until `compile_record_check` compiles a stream's check."""
    return False


def compile_record_check(
    rule: ObjectRule, sample: Record, deselected: DeselectedNames
) -> Callable[[Record], bool]:
    """Compile a function that returns True if a record can be encoded without conversion.

    It returns False for a record with other properties than the sample; their order does not
    matter. A nested object with other properties is checked by its rule, which is slower. A record
    with many properties is checked by several generated functions, one after the other.

    For records with an object ``place`` and a list ``tags``, and with ``place.zip`` deselected, the
    generated code is::

        def fits(record):
            try:
                if type(record) is not dict or len(record) != 3: return False
                if type(record['id']) is not int and type(v1 := record['id']) not in types0 and ...
                v1 = record['place']
                if type(v1) is dict:
                    if 'zip' in v1: del v1['zip']
                if type(v1) is dict and len(v1) == 2:
                    if type(v1['city']) is not str and type(v2 := v1['city']) not in types0 and ...
                    if type(v1['open']) is not bool and type(v2 := v1['open']) not in types2: ...
                elif type(v1) not in types0: return False
                v1 = record['tags']
                if type(v1) is list:
                    if not includes3(map(type, v1)) and not accepts4(v1): return False
                elif type(v1) not in types0 and not accepts4(v1): return False
            except KeyError: return False
            return True

    Args:
        rule: Rule that accepts the records that need no conversion.
        sample: A record that the rule accepts, without deselected properties.
        deselected: Names of the deselected properties. The function deletes them from a record that
            passes the check, and some or all of them from one that does not.
    """
    removed = [name for name, below in deselected.items() if below is None]
    if len(sample) + len(removed) <= _MAX_INLINE_PROPERTIES:
        return _compile_check(rule, sample, deselected, len(sample))
    parts = [_compile_check(rule, {}, dict.fromkeys(names), None) for names in _divide(removed)]
    for names in _divide(list(sample)) or [[]]:  # the number is checked also without properties
        properties = {name: sample[name] for name in names}
        nested = {name: deselected[name] for name in names if name in deselected}
        parts.append(_compile_check(rule, properties, nested, len(sample)))
    return lambda record: all(fits(record) for fits in parts)


def _divide(names: list[str]) -> list[list[str]]:
    """Split a list of property names into lists of at most `_MAX_INLINE_PROPERTIES` names."""
    starts = range(0, len(names), _MAX_INLINE_PROPERTIES)
    return [names[start : start + _MAX_INLINE_PROPERTIES] for start in starts]


def _compile_check(
    rule: ObjectRule, sample: Record, deselected: DeselectedNames, size: int | None
) -> Callable[[Record], bool]:
    """Compile a check of those properties of a record that ``sample`` has.

    ``rule`` accepts records that pass, ``deselected`` are the properties to delete, and ``size`` is
    the number of properties that a record must have, or None for any number.
    """
    writer = _CheckWriter()
    writer.write_record(rule, sample, deselected, size)
    end = ("    except KeyError: return False", "    return True", "")
    source = "\n".join(("def fits(record):", "    try:", *writer.lines, *end))
    exec(source, writer.names)  # noqa: S102 - the source has only literals and names of this module
    fits: Callable[[Record], bool] = writer.names["fits"]
    return fits


class _CheckWriter:
    """Generator of the source code of a check function; see `compile_record_check`.

    In the generated code, ``v1`` is a value in the record, and ``v2`` a value in the object or list
    ``v1``. Names such as ``types0`` are constants: sets of types, and functions that check values.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"Decimal": Decimal, "isfinite": isfinite}
        self._bound: dict[tuple[str, Any], str] = {}
        self._properties = 0

    def write_record(
        self, rule: ObjectRule, sample: Record, deselected: DeselectedNames, size: int | None
    ) -> None:
        """Generate the code that checks the record: its type, number of properties and values.

        ``rule`` accepts ``sample`` and other valid records. ``deselected`` are the properties to
        delete, and ``size`` is the required number of properties, or None for any number.
        """
        self._write(0, "if type(record) is not dict: return False")
        self._write_deletions(0, "record", deselected)
        if size is not None:
            self._write(0, f"if len(record) != {size}: return False")
        self._write_properties(0, _Object("record", 1, rule, sample, deselected))

    def _write_properties(self, indent: int, parent: _Object) -> None:
        """Generate the code that checks the properties of ``parent``, an object in the sample.

        ``indent`` is the indentation level of the code.
        """
        self._properties += len(parent.sample)
        if not parent.sample:
            self._write(indent, "pass")
        for name, sample in parent.sample.items():
            rule = parent.rule.get(name)
            if rule is None:  # pragma: no cover - the rule accepts the sample
                self._write(indent, "return False")
                continue
            source = f"{parent.variable}[{_literal(name)}]"
            variable = f"v{parent.level}"
            below = parent.deselected.get(name) or {}
            if rule.properties is None and rule.items is None:
                usual = TYPE_NAMES.get(type(sample)) if type(sample) in rule.kinds else None
                kind = f"type({source}) is not {usual} and " if usual else ""  # first, for speed
                kind += f"type({variable} := {source})"
                self._write_scalar(indent, kind, variable, rule, below)
            else:
                self._write(indent, f"{variable} = {source}")
                self._write_nested(indent, parent.level, rule, sample, below)

    def _write_scalar(
        self, indent: int, kind: str, variable: str, rule: ValueRule, below: DeselectedNames
    ) -> None:
        """Generate the code that checks a value whose schema declares neither properties nor items.

        ``indent`` is the indentation level of the code. ``kind`` is Python source for the type of
        the value, such as ``type(v1 := record['id'])``, which also stores the value in
        ``variable``. ``below`` are deselected properties of the value.
        """
        terms = [f"{kind} not in {self._bind('types', rule.kinds)}"]
        if rule.accepts_other is not None and not below:
            terms.append(f"not (type({variable}) is Decimal and {variable}.is_finite())")
            if float not in rule.kinds:
                terms.append(f"not (type({variable}) is float and isfinite({variable}))")
            terms.append(f"not {self._bind('accepts', rule.accepts_other)}({variable})")
        self._write(indent, f"if {' and '.join(terms)}: return False")

    def _write_nested(
        self, indent: int, level: int, rule: ValueRule, sample: Any, below: DeselectedNames
    ) -> None:
        """Generate the code that checks the value of ``v<level>``, which may be an object or list.

        ``sample`` is the value in the sample record, ``rule`` accepts valid values, and ``below``
        are the deselected properties of the object. If some are deselected, only an object with the
        sample's properties passes.
        """
        variable = f"v{level}"
        keyword = "if"
        inner = self._find_sample(level, rule.properties, sample, below)
        if inner is not None and rule.properties is not None:
            if None in below.values():
                self._write(indent, f"if type({variable}) is dict:")
                self._write_deletions(indent + 1, variable, below)
            self._write(indent, f"if type({variable}) is dict and len({variable}) == {len(inner)}:")
            nested = _Object(variable, level + 1, rule.properties, inner, below)
            self._write_properties(indent + 1, nested)
            keyword = "elif"
        if rule.items is not None:
            self._write(indent, f"{keyword} type({variable}) is list:")
            self._write_items(indent + 1, level, rule, sample)
            keyword = "elif"
        condition = f"type({variable}) not in {self._bind('types', rule.kinds)}"
        if not below:
            condition += f" and not {self._bind('accepts', rule.accepts)}({variable})"
        self._write(indent, f"{keyword} {condition}: return False")

    def _write_items(self, indent: int, level: int, rule: ValueRule, sample: Any) -> None:
        """Generate the code that checks each item of the list in the variable ``v<level>``.

        ``sample`` is this list in the sample record, and ``rule`` accepts valid lists.
        """
        variable = f"v{level}"
        items = rule.items
        samples = sample if type(sample) is list else []
        first = next((item for item in samples if type(item) is dict), None)
        if items is None or self._find_sample(level + 1, items.properties, first, {}) is None:
            kinds = (items or rule).kinds
            condition = f"not {self._bind('includes', kinds.issuperset)}(map(type, {variable}))"
            condition += f" and not {self._bind('accepts', rule.accepts)}({variable})"
            self._write(indent, f"if {condition}: return False")
            return
        self._write(indent, f"for v{level + 1} in {variable}:")
        self._write_nested(indent + 1, level + 1, items, first, {})

    def _find_sample(
        self, level: int, rule: ObjectRule | None, sample: Any, below: DeselectedNames
    ) -> Record | None:
        """Return an object with the properties that the check of a nested object expects.

        It is ``sample``, the nested object in the sample record or, if that has no properties, an
        object with those that ``rule`` declares, except deselected ones (``below``). Return None if
        the generated code would become too large or too deeply nested (``level``), or if a property
        name is not a string.
        """
        if rule is None:
            return None
        members = sample if type(sample) is dict else {}
        if not members:
            members = {name: None for name in rule.declared if name not in below or below[name]}
        is_small = (
            self._properties + len(members) <= _MAX_INLINE_PROPERTIES and level < _MAX_INLINE_DEPTH
        )
        return members if is_small and all(type(name) is str for name in members) else None

    def _write_deletions(self, indent: int, variable: str, deselected: DeselectedNames) -> None:
        """Generate the code that deletes the deselected properties of the object in a variable."""
        for name in (_literal(name) for name, below in deselected.items() if below is None):
            self._write(indent, f"if {name} in {variable}: del {variable}[{name}]")

    def _write(self, indent: int, line: str) -> None:
        self.lines.append(" " * (8 + 4 * indent) + line)

    def _bind(self, prefix: str, value: Any) -> str:
        """Make a value a constant of the generated code; return its name (``prefix`` + number)."""
        key = (prefix, value)
        if key not in self._bound:
            name = self._bound[key] = f"{prefix}{len(self._bound)}"
            self.names[name] = value
        return self._bound[key]


class _Object(NamedTuple):
    """Object that the generated code checks: the record or an object in it.

    ``variable`` is its name in the code, ``rule`` accepts valid objects, and ``sample`` is this
    object in the sample record.
    """

    variable: str
    level: int
    """Number of the variable for property values: at level 1, the variable is ``v1``."""
    rule: ObjectRule
    sample: Record
    deselected: DeselectedNames


def _literal(name: str) -> str:
    """Return a property name as a string literal, without calling its class's ``__repr__``."""
    return str.__repr__(name)
