"""JSON Schema validator for config settings, with support for default values.

``jsonschema`` is slow to import, so it is imported when ``DEFAULT_JSONSCHEMA_VALIDATOR`` is first
accessed.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, MutableMapping
from copy import deepcopy
from typing import Any

from tap_core.config.similar_names import suggest
from tap_core.schema import validators as safe_validators
from tap_core.types import JsonSchema

__all__ = ["extend_validator_with_defaults"]


def __getattr__(name: str) -> Any:
    """Return ``DEFAULT_JSONSCHEMA_VALIDATOR``, a validator class that is created on first access.

    Raises:
        AttributeError: The name is unknown. The message suggests a similar name in
            `tap_core.typing`, because that package uses this function too.
    """
    if name == "DEFAULT_JSONSCHEMA_VALIDATOR":
        return safe_validators.get_validator_class()
    if name.startswith("_"):  # names that Python's import system looks up
        raise AttributeError(f"tap_core.typing has no attribute {name!r}")
    known = importlib.import_module("tap_core.typing").__dict__
    helpers = {member for member in known if not member.startswith("_")}
    hint = suggest(f"{name}Type" if f"{name}Type" in helpers else name, helpers)
    raise AttributeError(f"tap_core.typing has no attribute {name!r}{hint and f'.{hint}'}")


def extend_validator_with_defaults(validator_class: Any) -> Any:
    """Return a subclass of a validator class that sets missing properties to their ``default``.

    The validated object is changed in place. Defaults are set before the object's properties are
    validated.
    """
    from jsonschema import validators

    validate_properties = validator_class.VALIDATORS["properties"]

    def fill_and_validate(
        validator: Any,
        properties: Mapping[str, JsonSchema],
        instance: Any,
        schema: JsonSchema,
    ) -> Iterator[Any]:
        if isinstance(instance, MutableMapping):
            for name, definition in properties.items():
                if "default" in definition:
                    instance.setdefault(name, deepcopy(definition["default"]))
        yield from validate_properties(validator, properties, instance, schema)

    extend: Any = validators.extend  # its stubs leave it untyped
    return safe_validators.make_safe_validator(
        extend(validator_class, {"properties": fill_and_validate})
    )
