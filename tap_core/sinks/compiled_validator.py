"""Compiler from a JSON Schema to a Python function that checks values quickly.

The function returns True only for values that jsonschema's Draft 2020-12 validator accepts. It
returns False if it cannot decide (an unsupported keyword, a value of an unusual class, an ambiguous
``oneOf``); the caller then uses jsonschema. Keywords that jsonschema does not know are ignored.

Source: JSON Schema 2020-12, Core and Validation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from tap_core.limits.regex import compile_pattern
from tap_core.schema.size_limit import count_objects
from tap_core.schema.validators import check_deadline, has_unique_items, limit_time

__all__ = ["FormatChecker", "compile_validator"]

FormatChecker = Callable[[object, str], bool]
"""Function of a value and a format name that returns True if the value has that format."""


class _Missing:
    """Class of the placeholder for a missing property of an object, in generated code."""


_MISSING: Final = _Missing()
_NUMBERS: Final = frozenset({int, float, Decimal})
_CLASSES: Final[Mapping[str, frozenset[type]]] = {
    "string": frozenset({str}),
    "null": frozenset({type(None)}),
    "boolean": frozenset({bool}),
    "integer": frozenset({int}),
    "number": _NUMBERS,
    "object": frozenset({dict}),
    "array": frozenset({list}),
}
_JSON_CLASSES: Final = frozenset().union(*_CLASSES.values())
_SCALARS: Final = _JSON_CLASSES - {dict, list}

_COMPARISONS: Final = {
    "minimum": "<",
    "maximum": ">",
    "exclusiveMinimum": "<=",
    "exclusiveMaximum": ">=",
}
_STRING_KEYWORDS: Final = frozenset({"minLength", "maxLength", "pattern"})
_NUMBER_KEYWORDS: Final = frozenset({*_COMPARISONS, "multipleOf"})
_ARRAY_KEYWORDS: Final = frozenset({"items", "minItems", "maxItems", "uniqueItems"})
_OBJECT_KEYWORDS: Final = frozenset(
    {"properties", "required", "additionalProperties", "minProperties", "maxProperties"}
)
_COMBINATORS: Final = frozenset({"anyOf", "allOf", "oneOf"})
_SUPPORTED: Final = (
    _STRING_KEYWORDS
    | _NUMBER_KEYWORDS
    | _ARRAY_KEYWORDS
    | _OBJECT_KEYWORDS
    | _COMBINATORS
    | {"type", "enum", "const", "format"}
)
_UNSUPPORTED: Final = frozenset(
    {
        "$ref",
        "$dynamicRef",
        "contains",
        "dependentRequired",
        "dependentSchemas",
        "if",
        "not",
        "patternProperties",
        "prefixItems",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_UNDECIDED: Final = ["return False"]
"""Source lines for a schema that only jsonschema can check."""

_SMALL_SCHEMA: Final = 20
"""Maximum number of JSON objects in a schema that needs no deadline for checking a record."""


def compile_validator(
    schema: Any, *, formats: Collection[str] = (), conforms: FormatChecker | None = None
) -> Callable[[Any], bool]:
    """Compile a JSON Schema to a fast function that checks values.

    The function returns True only if a value is valid. If it returns False or raises an error, the
    value may still be valid, and the caller must check it with jsonschema.

    Args:
        schema: The JSON Schema.
        formats: String formats to check, such as "date-time". Other formats are ignored.
        conforms: Function that returns True if a string has a format; None to check no formats.
    """
    generator = _CodeGenerator(formats, conforms)
    try:
        name = generator.add_function(schema)
        source = "\n".join(generator.source)
        exec(source, generator.names)  # noqa: S102 - source of literals and generated names
    except (RecursionError, MemoryError, SyntaxError):  # nested beyond what Python compiles
        return lambda _value: False
    check: Callable[[Any], bool] = generator.names[name]
    return limit_time(check) if generator.is_timed else check


class _CodeGenerator:
    """Generator of Python source for functions that check values against JSON Schemas.

    A generated function returns True only for a valid value. A result of False does not prove that
    the value is invalid, since the function does not know all keywords.
    """

    def __init__(self, formats: Collection[str], conforms: FormatChecker | None) -> None:
        self.source: list[str] = []
        self.names: dict[str, Any] = {
            "missing": _MISSING,
            "conforms": conforms,
            "only_once": has_unique_items,
            "check_deadline": check_deadline,
            "scalars": _SCALARS,
            "numbers": _NUMBERS,
        }
        self._formats = formats if conforms is not None else ()
        self._classes: dict[frozenset[type], str] = {}
        self._variables = 0
        self.is_timed = False
        """True if the generated code calls `check_deadline`, also through `has_unique_items`."""

    def add_function(self, schema: Any, beginning: Sequence[str] = ()) -> str:
        """Generate a function that checks values against a schema, and return its name.

        ``beginning`` are source lines to put at the start of the function.
        """
        value = self._new_variable()
        return self._define_function(value, [*beginning, *self._check(schema, value)])

    def _define_function(self, value: str, body: list[str]) -> str:
        name = self._bind(None)  # `exec` assigns the function to this name
        self.source += [f"def {name}({value}):", *_indent(body), "    return True"]
        return name

    def _bind(self, value: Any) -> str:
        """Make an object available to the generated code as a constant, and return its name."""
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def _new_variable(self) -> str:
        self._variables += 1
        return f"v{self._variables}"

    def _bind_classes(self, classes: frozenset[type]) -> str:
        if classes not in self._classes:
            self._classes[classes] = self._bind(classes)
        return self._classes[classes]

    # Keywords for values of any class

    def _check(self, schema: Any, value: str) -> list[str]:
        """Return source lines that check the variable named ``value`` against a schema.

        The lines execute ``return False`` unless the value is certainly valid.
        """
        if schema is True:
            return []
        if not isinstance(schema, dict) or not schema.keys().isdisjoint(_UNSUPPORTED):
            return _UNDECIDED
        if not self._get_keywords(schema):
            return []
        lines = [
            f"if {value}.__class__ not in {self._bind_classes(_get_classes(schema))}: return False"
        ]
        lines += self._check_enum(schema, value)
        for test, body in (
            (f"{value}.__class__ is str", self._check_string(schema, value)),
            (f"{value}.__class__ in numbers", self._check_number(schema, value)),
            (f"{value}.__class__ is list", self._check_array(schema, value)),
            (f"{value}.__class__ is dict", self._check_object(schema, value)),
        ):
            if body:
                lines += [f"if {test}:", *_indent(body)]
        return lines + self._check_format(schema, value) + self._check_combinators(schema, value)

    def _get_keywords(self, schema: dict[str, Any]) -> set[str]:
        """Return the keywords of a JSON Schema for which code must be generated.

        ``format`` is one of them only if the schema's format must be checked.
        """
        keywords = schema.keys() & _SUPPORTED
        return keywords if schema.get("format") in self._formats else keywords - {"format"}

    def _check_enum(self, schema: dict[str, Any], value: str) -> list[str]:
        """Return source lines that check the variable ``value`` against ``enum`` and ``const``.

        The lines compare classes too: in Python 1 equals True, but in JSON 1 and true differ.
        """
        allowed = [schema["enum"]] if "enum" in schema else []
        allowed += [[schema["const"]]] if "const" in schema else []
        lines = []
        for values in allowed:
            allowed_pairs = frozenset(
                (constant.__class__, constant)
                for constant in values
                if constant.__class__ in _SCALARS
            )
            pair = f"({value}.__class__, {value})"
            test = f"{value}.__class__ not in scalars or {pair} not in {self._bind(allowed_pairs)}"
            lines.append(f"if {test}: return False")
        return lines

    def _check_format(self, schema: dict[str, Any], value: str) -> list[str]:
        if schema.get("format") not in self._formats:
            return []
        return [f"if not conforms({value}, {self._bind(schema['format'])}): return False"]

    def _check_combinators(self, schema: dict[str, Any], value: str) -> list[str]:
        lines = []
        for word, joint in (("anyOf", " or "), ("allOf", " and "), ("oneOf", " or ")):
            if word not in schema:
                continue
            if word == "oneOf" and not _are_exclusive(schema[word]):
                return _UNDECIDED
            timed = self._check_time(schema[word])
            calls = joint.join(
                f"{self.add_function(branch, timed)}({value})" for branch in schema[word]
            )
            lines.append(f"if not ({calls}): return False")
        return lines

    def _check_time(self, schemas: Any) -> list[str]:
        """Return a source line that raises an error if the validation of a record takes too long.

        Code that runs repeatedly for one record needs this line if it checks a value against many
        ``schemas``. Return no line if ``schemas`` are small.
        """
        if count_objects(schemas, most=_SMALL_SCHEMA) <= _SMALL_SCHEMA:
            return []
        self.is_timed = True
        return ["check_deadline()"]

    # Keywords for values of one class

    def _check_string(self, schema: dict[str, Any], value: str) -> list[str]:
        lines = self._check_length(schema, value, "minLength", "maxLength")
        if "pattern" in schema:
            search = self._bind(compile_pattern(schema["pattern"]).search)
            lines.append(f"if {search}({value}) is None: return False")
        return lines

    def _check_number(self, schema: dict[str, Any], value: str) -> list[str]:
        lines = [
            f"if {value} {sign} {self._bind(schema[word])}: return False"
            for word, sign in _COMPARISONS.items()
            if word in schema
        ]
        divisor = schema.get("multipleOf")
        if isinstance(divisor, float):  # jsonschema rounds differently
            return _UNDECIDED
        if divisor is not None:
            lines.append(f"if {value} % {self._bind(divisor)}: return False")
        return lines

    def _check_array(self, schema: dict[str, Any], value: str) -> list[str]:
        lines = self._check_length(schema, value, "minItems", "maxItems")
        item = self._new_variable()
        items = schema.get("items", True)
        body = self._unnest(item, self._check(items, item))
        if body:
            lines += [f"for {item} in {value}:", *_indent([*self._check_time(items), *body])]
        if schema.get("uniqueItems"):
            self.is_timed = True
            lines.append(f"if len({value}) > 1 and not only_once({value}): return False")
        return lines

    def _check_object(self, schema: dict[str, Any], value: str) -> list[str]:
        properties = schema.get("properties", {})
        required = set(schema.get("required", ()))
        lines = self._check_length(schema, value, "minProperties", "maxProperties")
        lines += [
            f"if {name!r} not in {value}: return False"
            for name in sorted(required - properties.keys())
        ]
        for name, inner in properties.items():
            lines += self._check_property(value, name, inner, required=name in required)
        return lines + self._check_additional(schema, value)

    def _check_property(self, value: str, name: str, schema: Any, *, required: bool) -> list[str]:
        lookup = f"{value}.get({name!r}, missing)"
        if self._is_type_only(schema):
            classes = _get_classes(schema) if required else _get_classes(schema) | {_Missing}
            return [f"if {lookup}.__class__ not in {self._bind_classes(classes)}: return False"]
        item = self._new_variable()
        body = self._unnest(item, self._check(schema, item))
        if not body:
            return [f"if {name!r} not in {value}: return False"] if required else []
        lines = [f"{item} = {lookup}", f"if {item} is not missing:", *_indent(body)]
        return [*lines, "else: return False"] if required else lines

    def _is_type_only(self, schema: Any) -> bool:
        if not isinstance(schema, dict) or not schema.keys().isdisjoint(_UNSUPPORTED):
            return False
        return self._get_keywords(schema) == {"type"}

    def _check_additional(self, schema: dict[str, Any], value: str) -> list[str]:
        additional = schema.get("additionalProperties", True)
        declared = self._bind(frozenset(schema.get("properties", ())))
        if additional is False:
            return [f"if not {declared}.issuperset({value}): return False"]
        name, item = self._new_variable(), self._new_variable()
        body = self._unnest(item, self._check(additional, item))
        if not body:
            return []
        step = [*self._check_time(additional), f"{item} = {value}[{name}]", *body]
        return [
            f"for {name} in {value}:",
            f"    if {name} not in {declared}:",
            *_indent(_indent(step)),
        ]

    def _unnest(self, item: str, body: list[str]) -> list[str]:
        """Move source lines with nested blocks to a new function, and return a line that calls it.

        Python limits the number of nested blocks, and deeply nested schemas would exceed the limit.
        Lines without blocks are returned unchanged. ``item`` is the name of the variable to check.
        """
        if not any(line.endswith(":") for line in body):
            return body
        return [f"if not {self._define_function(item, body)}({item}): return False"]

    def _check_length(self, schema: dict[str, Any], value: str, least: str, most: str) -> list[str]:
        return [
            f"if len({value}) {sign} {self._bind(schema[word])}: return False"
            for word, sign in ((least, "<"), (most, ">"))
            if word in schema
        ]


def _get_classes(schema: dict[str, Any]) -> frozenset[type]:
    """Return the Python classes of the values that a schema's ``type`` allows.

    Without ``type``, return the classes of all JSON values.
    """
    if "type" not in schema:
        return _JSON_CLASSES
    names = schema["type"]
    listed = [names] if isinstance(names, str) else names
    return frozenset().union(*(_CLASSES.get(name, frozenset()) for name in listed))


def _are_exclusive(branches: list[Any]) -> bool:
    """Return True if at most one schema of a ``oneOf`` can match a value, as their types differ."""
    if not all(isinstance(branch, dict) and "type" in branch for branch in branches):
        return False
    classes = [_get_classes(branch) for branch in branches]
    return sum(map(len, classes)) == len(frozenset().union(*classes))


def _indent(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
