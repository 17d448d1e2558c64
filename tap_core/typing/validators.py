"""The JSON Schema validator that configurations are checked with, and its defaults.

Rules of the room: ``jsonschema`` is slow to import, so it is imported when a validator
is asked for; `DEFAULT_JSONSCHEMA_VALIDATOR` exists from its first use on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from copy import deepcopy
from typing import Any

from tap_core.schema import validators as bound
from tap_core.types import JsonSchema

__all__ = ["extend_validator_with_defaults"]


def __getattr__(name: str) -> Any:
    """Import the validator class on its first use.

    The package's face shows this function as its own.
    """
    if name == "DEFAULT_JSONSCHEMA_VALIDATOR":
        return bound.validator_class()
    msg = f"tap_core.typing has no attribute {name!r}"
    raise AttributeError(msg)


def extend_validator_with_defaults(validator_class: Any) -> Any:
    """Return a validator class that puts in the ``default`` of absent properties.

    The instance is filled in place, at each depth before it is validated there.
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
    return bound.bound_validator(extend(validator_class, {"properties": fill_and_validate}))
