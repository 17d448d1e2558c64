"""Record transformations: add and remove fields, rename keys, flatten nested values.

Records are changed in place. The results equal those of airbyte-cdk 7.39. If a transformation
renames two keys to the same name, the later key wins, because airbyte-cdk's result is not
deterministic.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, cast

from tap_core.manifest.dpath import (
    MISSING,
    delete_at,
    find_all,
    iterate_leaves,
    make_getter,
    make_remover,
    set_at,
)
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import (
    Condition,
    InterpolatedText,
    InterpolatedValue,
    TemplateScope,
    resolve,
)
from tap_core.manifest.literals import get_literal_types
from tap_core.manifest.type_hints import PlainText
from tap_core.types import Record

__all__ = [
    "AddFields",
    "AddedFieldDefinition",
    "DpathFlattenFields",
    "FlattenFields",
    "KeyTransformation",
    "KeysReplace",
    "KeysToLower",
    "KeysToSnakeCase",
    "RemoveFields",
]

_Change: TypeAlias = Callable[[Record, TemplateScope], None]


@dataclass(frozen=True)
class AddedFieldDefinition:
    """Declaration of a field that AddFields adds to records: path, and value or template."""

    path: list[PlainText]
    value: InterpolatedValue
    value_type: Literal["string", "number", "integer", "boolean"] | None = None

    def __post_init__(self) -> None:
        """Raise ManifestError if the option `path` is empty."""
        if not self.path:
            raise ManifestError("path is empty: name the field that is added.")

    get_literal_types = staticmethod(get_literal_types)


@dataclass(frozen=True)
class AddFields:
    """Transformation that adds fields to records, or replaces their values.

    Missing parent objects are created.
    """

    fields: list[AddedFieldDefinition]
    condition: Condition | None = None

    @cached_property
    def transform(self) -> _Change:
        """Function that adds the fields to a record in place.

        The condition is evaluated for each field, with the field's ``value`` and ``path`` as
        variables.
        """
        fields = [(added.path, added.value, _make_setter(added.path)) for added in self.fields]
        condition = self.condition

        def change(record: Record, scope: TemplateScope) -> None:
            path: list[str] = []
            try:
                for path, template, set_value in fields:
                    value = resolve(template, scope)
                    if condition is None or resolve(
                        condition, {**scope, "value": value, "path": path}
                    ):
                        set_value(record, value)
            except ManifestError as error:
                raise _add_field_name(".".join(path), error) from None

        return change


@dataclass(frozen=True)
class RemoveFields:
    """Transformation that removes the fields at the given paths, which may contain wildcards."""

    field_pointers: list[list[PlainText]]
    condition: Condition | None = None

    @cached_property
    def transform(self) -> _Change:
        """Function that removes fields from a record in place.

        With a condition the paths are ignored, as in airbyte-cdk. The condition is evaluated for
        every scalar value, which the template reads as ``property``. If it is true, the value is
        removed.
        """
        if self.condition is not None:
            return self._remove_by_value
        if all(len(pointer) == 1 and pointer[0].isidentifier() for pointer in self.field_pointers):
            names = [pointer[0] for pointer in self.field_pointers]

            def remove_names(record: Record, scope: TemplateScope) -> None:  # noqa: ARG001  (the Protocol's parameter)
                for name in names:
                    record.pop(name, None)

            return remove_names
        removers = [make_remover(pointer) for pointer in self.field_pointers]

        def remove(record: Record, scope: TemplateScope) -> None:  # noqa: ARG001  (the Protocol's parameter)
            for remove_path in removers:
                remove_path(record)

        return remove

    def _remove_by_value(self, record: Record, scope: TemplateScope) -> None:
        for holder, name in list(iterate_leaves(record)):
            try:
                is_removed = resolve(self.condition, {**scope, "property": holder[name]})
            except ManifestError as error:
                raise _add_field_name(str(name), error) from None
            if is_removed:
                delete_at((holder, name))


@dataclass(frozen=True)
class KeysToLower:
    """Transformation that converts top-level field names to lower case."""

    def transform(self, record: Record, scope: TemplateScope) -> None:  # noqa: ARG002  (the Protocol's parameter)
        """Convert the names of a record's top-level fields to lower case, in place."""
        _replace_fields(record, {name.lower(): value for name, value in record.items()})


@dataclass(frozen=True)
class KeysToSnakeCase:
    """Transformation that converts field names to snake_case, including those in nested objects.

    Objects inside lists stay unchanged.
    """

    def transform(self, record: Record, scope: TemplateScope) -> None:  # noqa: ARG002  (the Protocol's parameter)
        """Convert the field names of a record to snake_case, in place."""
        _replace_fields(record, _rename_fields(record, _snake_case_names.__getitem__))


@dataclass(frozen=True)
class KeysReplace:
    """Transformation that replaces a text in field names, including those in nested objects.

    Objects inside lists stay unchanged.
    """

    old: InterpolatedText
    new: InterpolatedText

    def transform(self, record: Record, scope: TemplateScope) -> None:
        """Replace the text `old` with `new` in the field names of a record, in place."""
        old, new = str(resolve(self.old, scope)), str(resolve(self.new, scope))
        _replace_fields(record, _rename_fields(record, lambda name: name.replace(old, new)))


@dataclass(frozen=True)
class KeyTransformation:
    """Option of DpathFlattenFields: prefix and suffix to add to the names of moved fields."""

    prefix: str | None = None
    suffix: str | None = None

    def rename(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of the fields with `prefix` and `suffix` added to their names."""
        before, after = self.prefix or "", self.suffix or ""
        return {f"{before}{name}{after}": value for name, value in fields.items()}


@dataclass(frozen=True)
class DpathFlattenFields:
    """Transformation that moves the fields of one nested object to the top level of the record.

    If the top level already has a field with one of these names, the record stays unchanged. With
    `replace_record` the moved fields replace the whole record instead.
    """

    field_path: list[str]
    delete_origin_value: bool = False
    replace_record: bool = False
    key_transformation: KeyTransformation | None = None

    @cached_property
    def _find(self) -> Callable[[Any], Any]:
        path = self.field_path
        if "*" not in path:
            return make_getter(path)
        every = find_all(path)
        return lambda record: next(iter(every(record)), MISSING)

    @cached_property
    def _remove(self) -> Callable[[Any], None]:
        return make_remover(self.field_path)

    def transform(self, record: Record, scope: TemplateScope) -> None:  # noqa: ARG002  (the Protocol's parameter)
        """Move the fields of the nested object at `field_path` to the top level, in place."""
        origin = self._find(record)
        if not isinstance(origin, dict):
            return
        fields = cast(dict[str, Any], origin)
        if self.key_transformation:
            fields = self.key_transformation.rename(fields)
        if self.replace_record and fields:
            _replace_fields(record, dict(fields))
        elif not fields.keys() & record.keys():
            if self.delete_origin_value:
                self._remove(record)
            record.update(fields)


@dataclass(frozen=True)
class FlattenFields:
    """Transformation that moves all nested values to the top level of the record.

    A name that would occur twice is prefixed with the name of the parent field.
    """

    flatten_lists: bool = True

    def transform(self, record: Record, scope: TemplateScope) -> None:  # noqa: ARG002  (the Protocol's parameter)
        """Move all nested values of a record to its top level, in place."""
        _replace_fields(record, _flatten(record, into_lists=self.flatten_lists))


def _add_field_name(name: str, error: ManifestError) -> ManifestError:
    """Return a copy of an error whose message begins with the field name ``name``."""
    return ManifestError(f"field '{name}': {error}")


def _make_setter(path: list[str]) -> Callable[[Record, Any], None]:
    """Return a function that sets the value at a path in a record; missing parents are created.

    The function raises ManifestError if a parent in the path is a scalar value.
    """
    if len(path) == 1:
        name = path[0]
        return lambda record, value: record.__setitem__(name, value)
    return lambda record, value: _set_value(record, path, value)


def _set_value(record: Record, path: list[str], value: Any) -> None:
    try:
        set_at(record, path, value)
    except (TypeError, ValueError) as error:
        raise ManifestError(
            f"The field {'.'.join(path)} cannot be added to a record: {error}. Use another path, or"
            " remove the conflicting field first."
        ) from None


def _replace_fields(record: Record, fields: dict[str, Any]) -> None:
    record.clear()
    record.update(fields)


def _rename_fields(record: Mapping[str, Any], rename: Callable[[str], str]) -> dict[str, Any]:
    return {
        rename(name): _rename_fields(cast(Record, value), rename)
        if isinstance(value, dict)
        else value
        for name, value in record.items()
    }


_MAX_CACHED_LENGTH: Final = 200
_MAX_CACHED_NAMES: Final = 8_192
"""Maximum number of cached names; `_MAX_CACHED_LENGTH` is the maximum length of each.

A source may send an unlimited number of different names.
"""

# A non-ASCII letter without an ASCII form is treated as lower case and kept.
_WORDS: Final = re.compile(r"[A-Z]+[^\0-`{-\x7f]*|[^\0-`{-\x7f]+|[0-9]+|([^A-Za-z0-9]+)")
"""Groups of upper-case letters, lower-case letters, digits and separators in a name.

Lower-case letters are matched by excluding the other ranges, which is faster.
"""


class _SnakeCaseNames(dict[str, str]):
    """Cache of snake_case names by original name, with limits of its size and name length."""

    def __missing__(self, name: str) -> str:
        converted = _to_snake_case(name)
        if len(name) <= _MAX_CACHED_LENGTH and len(self) < _MAX_CACHED_NAMES:
            self[name] = converted
        return converted


def _to_snake_case(name: str) -> str:
    """Return a name in snake_case without accents: ``'firstName'`` becomes ``'first_name'``."""
    parts = unicodedata.normalize("NFKD", name)
    plain = "".join(char for char in parts if not unicodedata.combining(char))
    words = ["" if match[1] else match[0] for match in _WORDS.finditer(plain)]
    # An empty word at the start or the end keeps a leading or trailing underscore.
    words = [*words[:1], *filter(None, words[1:-1]), *words[1:][-1:]]
    if words and words[0].isdigit():
        words.insert(0, "")
    return "_".join(words).lower()


_snake_case_names: Final = _SnakeCaseNames()


def _flatten(record: Record, *, into_lists: bool) -> dict[str, Any]:
    """Return a record without nested objects: its scalar values by name, as airbyte-cdk does it.

    A value in an object keeps its name. If the name is already used, it becomes ``parent.name``. If
    ``into_lists`` is True, list elements are values too (``parent.0``), and from the first element
    on every name gets its parent's name as a prefix.
    """
    flat: dict[str, Any] = {}
    waiting: list[tuple[str, Any]] = [("_", record)]
    prefixed = False
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            for key, inner in cast(Record, value).items():
                free = not prefixed and key not in flat
                waiting.append((key if free else f"{name}.{key}", inner))
        elif isinstance(value, list) and into_lists:
            prefixed = prefixed or bool(value)
            waiting.extend((f"{name}.{index}", inner) for index, inner in enumerate(value))
        else:
            flat[name] = value
    return flat
