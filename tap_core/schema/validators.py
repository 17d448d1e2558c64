"""Factory of jsonschema validators that are safe for untrusted schemas.

Validators resolve references only within their schema: they send no requests and open no
files. Regular expressions are matched within the limits of `tap_core.limits.regex`.
Everything else, including messages, is jsonschema's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from types import FunctionType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from tap_core.exceptions import InvalidJSONSchema
from tap_core.limits.regex import compile_pattern, search

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, FormatChecker

__all__ = ["bound_validator", "find_schema_errors", "validator_class"]

_OF_LIBRARY: Final = "jsonschema._"
_BOUND_RE: Final = SimpleNamespace(**{**vars(re), "search": search})


@cache
def validator_class() -> type[Draft202012Validator]:
    """Return the restricted validator class for schemas of Draft 2020-12."""
    from jsonschema import Draft202012Validator

    kind: type[Draft202012Validator] = bound_validator(Draft202012Validator)
    return kind


def find_schema_errors(schema: Any) -> Iterator[tuple[list[str | int], str]]:
    """Yield path and message of each error that Draft 7's meta-schema finds in a schema."""
    from jsonschema import Draft7Validator

    kind = bound_validator(Draft7Validator)
    for error in kind(kind.META_SCHEMA, format_checker=kind.FORMAT_CHECKER).iter_errors(schema):
        yield list(error.absolute_path), f"this is no JSON Schema: {error.message}."


@cache
def bound_validator(base: Any) -> Any:
    """Return a variant of a jsonschema validator class that is safe for untrusted schemas.

    Its regular expressions are matched within limits, and it resolves references only within its
    schema. The variant is created once per class.
    """
    from jsonschema import validators

    known: dict[int, dict[str, Any]] = {}
    checks = {name: _copied(check, known) for name, check in base.VALIDATORS.items()}
    extend: Any = validators.extend  # its stubs leave it untyped
    made = extend(base, checks)
    checker = _format_checker(base.FORMAT_CHECKER)
    made.FORMAT_CHECKER = checker
    made.check_schema = lambda schema, format_checker=checker: base.check_schema(
        schema, format_checker=format_checker
    )
    made.__init__ = _in_its_schema(made.__init__)
    made.iter_errors = _telling_references(made.iter_errors)
    made.evolve = _staying_bound(made, made.evolve)
    return made


def _in_its_schema(original: Any) -> Any:
    """Return a validator's constructor that uses an empty registry unless one is passed."""

    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        from referencing import Registry

        make: Any = Registry  # its constructor is not typed
        kwargs.setdefault("registry", make())
        original(self, *args, **kwargs)

    return initialize


def _telling_references(original: Any) -> Any:
    """Return an ``iter_errors`` that raises `InvalidJSONSchema` for unresolvable references."""

    def iter_errors(self: Any, instance: Any, _schema: Any = None) -> Iterator[Any]:
        from referencing.exceptions import CannotDetermineSpecification, Unresolvable

        try:
            yield from original(self, instance, _schema)
        except Unresolvable as error:
            raise InvalidJSONSchema(
                f"The schema has nothing at '{error.ref}', and references are resolved in the"
                " schema alone: put what is meant under its `$defs`."
            ) from None
        except CannotDetermineSpecification as error:
            raise InvalidJSONSchema(
                f"The schema names a dialect that is not known: {error.contents!r:.200}."
            ) from None

    return iter_errors


def _staying_bound(made: Any, original: Any) -> Any:
    """Return an ``evolve`` that also restricts validators for another ``$schema``."""

    def evolve(self: Any, **changes: Any) -> Any:
        found = original(self, **changes)
        if type(found) is made:
            return found
        kind: Any = type(found)
        return bound_validator(kind)(
            found.schema,
            format_checker=found.format_checker,
            registry=found._registry,  # noqa: SLF001  there is no public way to either
            _resolver=found._resolver,  # noqa: SLF001
        )

    return evolve


def _format_checker(base: FormatChecker) -> FormatChecker:
    """Return a copy of a format checker whose check of ``regex`` has limits."""
    from jsonschema import FormatChecker

    made = FormatChecker(formats=())
    made.checkers = {**base.checkers, "regex": (_is_pattern, re.error)}
    return made


def _is_pattern(value: object) -> bool:
    return not isinstance(value, str) or compile_pattern(value) is not None


# The library's functions, with bound regular expressions


def _copied(function: Any, known: dict[int, dict[str, Any]]) -> Any:
    """Return a copy of a jsonschema function that matches patterns within limits.

    ``known`` caches the copied globals by the id of the originals. Other values are returned as
    they
    are.
    """
    if not isinstance(function, FunctionType) or not function.__module__.startswith(_OF_LIBRARY):
        return function
    made = FunctionType(
        function.__code__,
        _names(function.__globals__, known),
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _names(given: Mapping[str, Any], known: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Return copied module globals in which ``re`` and jsonschema's functions are replaced."""
    if id(given) in known:
        return known[id(given)]
    made = known[id(given)] = dict(given)
    for name, value in given.items():
        if value is re:
            made[name] = _BOUND_RE
        elif isinstance(value, ModuleType) and value.__name__.startswith(_OF_LIBRARY):
            made[name] = SimpleNamespace(**_names(vars(value), known))
        else:
            made[name] = _copied(value, known)
    return made
