"""Factory of jsonschema validators that are safe for untrusted schemas.

The validators resolve references only within their schema: they send no requests and open no
files. Regular expressions are matched within the limits of `tap_core.limits.regex`, the items of an
array are compared in less than quadratic time, and the check of a value ends after
`SCHEMA_SECONDS`. Everything else, including messages, is as in jsonschema.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from functools import cache
from itertools import pairwise
from types import FunctionType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from tap_core.exceptions import InvalidJSONSchema, LimitExceededError
from tap_core.limits.environment import Limit
from tap_core.limits.regex import compile_pattern, search

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, FormatChecker

__all__ = [
    "SCHEMA_SECONDS",
    "check_deadline",
    "find_schema_errors",
    "get_validator_class",
    "has_unique_items",
    "limit_time",
    "make_safe_validator",
]

SCHEMA_SECONDS: Final = Limit("TAP_CORE_SCHEMA_SECONDS", 30)
"""Maximum number of seconds that jsonschema may take to check one value; see also `limit_time`.

References of a small schema can lead to more subschemas than any computer can check.
"""

_LIBRARY_PREFIX: Final = "jsonschema._"
_CONTAINERS: Final = (list, tuple, dict, Mapping)
_NUMBERS: Final = frozenset({int, float})
_EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_LIMITED_RE: Final = SimpleNamespace(**{**vars(re), "search": search})


@cache
def get_validator_class() -> type[Draft202012Validator]:
    """Return a validator class for JSON Schema Draft 2020-12 that is safe for untrusted schemas.

    Matching of a regular expression has a time limit. A reference to another document is an error.
    """
    from jsonschema import Draft202012Validator

    kind: type[Draft202012Validator] = make_safe_validator(Draft202012Validator)
    return kind


def find_schema_errors(schema: Any) -> Iterator[tuple[list[str | int], str]]:
    """Yield a (path, message) pair for each violation of JSON Schema Draft 7 in a schema."""
    from jsonschema import Draft7Validator

    kind = make_safe_validator(Draft7Validator)
    for error in kind(kind.META_SCHEMA, format_checker=kind.FORMAT_CHECKER).iter_errors(schema):
        yield list(error.absolute_path), f"this is not a valid JSON Schema: {error.message}."


@cache
def make_safe_validator(base: Any) -> Any:
    """Return a version of a jsonschema validator class that is safe for untrusted schemas.

    The check of a value and the matching of a regular expression have time limits, and references
    are resolved only within the schema itself. The result is cached per class.
    """
    from jsonschema import validators

    copied_globals: dict[int, dict[str, Any]] = {}
    checks = {
        name: _limit_function(check, copied_globals) for name, check in base.VALIDATORS.items()
    }
    extend: Any = validators.extend  # its stubs leave it untyped
    safe = extend(base, checks)
    checker = _make_format_checker(base.FORMAT_CHECKER)
    safe.FORMAT_CHECKER = checker
    safe.check_schema = lambda schema, format_checker=checker: base.check_schema(
        schema, format_checker=format_checker
    )
    safe.__init__ = _add_empty_registry(safe.__init__)
    safe.iter_errors = _set_deadline(_report_references(safe.iter_errors))
    safe.evolve = _evolve_safely(safe, safe.evolve)
    return safe


def has_unique_items(items: Sequence[Any]) -> bool:
    """Return True if no two items of a JSON array are equal: ``[1, true]``, but not ``[1, 1.0]``.

    Texts and digests of the items are compared, because other methods are slow for malicious
    arrays: jsonschema compares every item with every other, chosen numbers have equal hashes, and
    sorting compares nested items again at each level.
    """
    classes = {item.__class__ for item in items}
    if classes == {str}:
        return len(set(items)) == len(items)
    if classes <= _NUMBERS and all(item == item for item in items):  # noqa: PLR0124  not NaN
        return all(number != following for number, following in pairwise(sorted(items)))
    digests = set()
    for item in items:
        check_deadline()
        key = _digest(item) if isinstance(item, _CONTAINERS) else _describe_scalar(item)
        if key in digests:
            return False
        digests.add(key)
    return True


def _digest(value: Any) -> bytes:
    """Return a SHA-256 digest of a JSON array or object. Only equal values have the same digest.

    Raise LimitExceededError after the deadline for the validation of the whole value.
    """
    from hashlib import sha256

    digest = sha256()
    remaining = [value]
    while remaining:
        check_deadline()
        item = remaining.pop()
        if isinstance(item, (list, tuple)):
            part = f"array {len(item)}:"
            remaining.extend(item)
        elif isinstance(item, Mapping):
            names = sorted(item)
            part = f"object {len(names)}:" + "".join(map(_describe_scalar, names))
            remaining.extend(item[name] for name in names)
        else:
            part = _describe_scalar(item)
        digest.update(part.encode("utf-8", "surrogatepass"))
    return digest.digest()


def _describe_scalar(value: Any) -> str:
    """Return a text for a JSON scalar. Equal scalars have the same text.

    The text begins with its length, so that no text is the beginning of another one.
    """
    kind = value.__class__
    if value != value:  # noqa: PLR0124  NaN equals only itself
        text = f"nan {id(value)}"
    elif kind in {int, float, Decimal}:
        text = f"number {_EXACT.normalize(Decimal(value)) if value else 0}"
    else:
        text = f"{kind.__name__} {value}"
    return f"{len(text)}:{text}"


def _add_empty_registry(original: Any) -> Any:
    """Return a version of a validator's ``__init__`` with an empty registry of documents.

    A reference to another document is then an error. ``original`` is the method to wrap.
    """

    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        from referencing import Registry

        make: Any = Registry  # its constructor is not typed
        kwargs.setdefault("registry", make())
        original(self, *args, **kwargs)

    return initialize


def _report_references(original: Any) -> Any:
    """Return a version of a validator's ``iter_errors`` that raises `InvalidJSONSchema`.

    The new version raises this error for a reference to a schema that is not in the same document,
    and for an unknown ``$schema``. ``original`` is the method to wrap.
    """

    def iter_errors(self: Any, instance: Any, _schema: Any = None) -> Iterator[Any]:
        from referencing.exceptions import CannotDetermineSpecification, Unresolvable

        try:
            yield from original(self, instance, _schema)
        except Unresolvable as error:
            raise InvalidJSONSchema(
                f"The schema has nothing at '{error.ref}', and references to other documents are"
                " not resolved: put the referenced schema under its `$defs`."
            ) from None
        except CannotDetermineSpecification as error:
            raise InvalidJSONSchema(
                f"The schema names a dialect that is not known: {error.contents!r:.200}."
            ) from None

    return iter_errors


class _Check(threading.local):
    """Deadline and time limit for checking one value by a schema in the current thread."""

    deadline: float | None = None
    """Time (`time.monotonic`) when the check must have ended; None without a check."""

    seconds: float = 0
    """Maximum duration of the check in seconds."""


_check: Final = _Check()


def _set_deadline(original: Any) -> Any:
    """Return a version of a validator's ``iter_errors`` that sets a deadline for each value.

    Subschemas, for which jsonschema calls it again, keep the deadline of the whole value.
    ``original`` is the method to wrap.
    """

    def iter_errors(self: Any, instance: Any, _schema: Any = None) -> Iterator[Any]:
        if _check.deadline is not None:
            yield from original(self, instance, _schema)
            return
        _begin_check(SCHEMA_SECONDS.value)
        try:
            yield from original(self, instance, _schema)
        finally:
            _check.deadline = None

    return iter_errors


def _begin_check(seconds: float) -> None:
    _check.seconds, _check.deadline = seconds, time.monotonic() + seconds


def limit_time(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a version of the function ``check`` that has a deadline for checking a value.

    The time limit is half of `SCHEMA_SECONDS`, because jsonschema may check the value again.
    ``check`` must call `check_deadline` regularly.
    """

    def limited_check(value: Any) -> bool:
        _begin_check(SCHEMA_SECONDS.value / 2)
        try:
            return check(value)
        finally:
            _check.deadline = None

    return limited_check


def check_deadline() -> None:
    """Raise LimitExceededError if this thread's check of a value by its schema takes too long."""
    if _check.deadline is not None and time.monotonic() > _check.deadline:
        raise LimitExceededError(
            f"The check of a value against its schema takes longer than {_check.seconds:g} seconds:"
            f" simplify the schema, or raise {SCHEMA_SECONDS.variable}."
        )


def _evolve_safely(safe: Any, original: Any) -> Any:
    """Return a version of a validator's ``evolve`` that creates only safe validators.

    jsonschema calls ``evolve`` to create the validator of a subschema, whose class depends on
    ``$schema``. The new version returns a validator of the safe version of that class, and checks
    the deadline. ``safe`` is the safe class of the parent, and ``original`` the method to wrap.
    """

    def evolve(self: Any, **changes: Any) -> Any:
        check_deadline()
        validator = original(self, **changes)
        if type(validator) is safe:
            return validator
        kind: Any = type(validator)
        return make_safe_validator(kind)(
            validator.schema,
            format_checker=validator.format_checker,
            registry=validator._registry,  # noqa: SLF001  not available publicly
            _resolver=validator._resolver,  # noqa: SLF001
        )

    return evolve


def _make_format_checker(base: FormatChecker) -> FormatChecker:
    """Return a copy of a format checker that limits the size and time of checks for ``regex``."""
    from jsonschema import FormatChecker

    checker = FormatChecker(formats=())
    checker.checkers = {**base.checkers, "regex": (_is_pattern, re.error)}
    return checker


def _is_pattern(value: object) -> bool:
    return not isinstance(value, str) or compile_pattern(value) is not None


# jsonschema's functions, with limits for regular expressions


def _limit_function(function: Any, copied_globals: dict[int, dict[str, Any]]) -> Any:
    """Return a copy of a jsonschema function that matches regular expressions within limits.

    A value of any other kind is returned unchanged. ``copied_globals`` is a cache of copied module
    globals, by the ``id`` of the original globals.
    """
    if not isinstance(function, FunctionType) or not function.__module__.startswith(
        _LIBRARY_PREFIX
    ):
        return function
    copy = FunctionType(
        function.__code__,
        _limit_globals(function.__globals__, copied_globals),
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _limit_globals(
    module_globals: Mapping[str, Any], copied_globals: dict[int, dict[str, Any]]
) -> dict[str, Any]:
    """Return a copy of a module's globals with safe versions of ``re`` and jsonschema functions."""
    if id(module_globals) in copied_globals:
        return copied_globals[id(module_globals)]
    copy = copied_globals[id(module_globals)] = dict(module_globals)
    for name, value in module_globals.items():
        if value is re:
            copy[name] = _LIMITED_RE
        elif name == "uniq":
            copy[name] = has_unique_items
        elif isinstance(value, ModuleType) and value.__name__.startswith(_LIBRARY_PREFIX):
            copy[name] = SimpleNamespace(**_limit_globals(vars(value), copied_globals))
        else:
            copy[name] = _limit_function(value, copied_globals)
    return copy
