"""Validation of records against their JSON Schema, with the results of jsonschema.

A fast function from `tap_core.sinks.compiled_validator` accepts most valid records. Any other
record is checked by jsonschema's Draft 2020-12 validator, whose error message is raised after the
path of the property. jsonschema is imported only then, because its import is slow.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tap_core.config.validation import setting_path
from tap_core.exceptions import InvalidJSONSchema, InvalidRecord, LimitExceededError
from tap_core.redaction.row_values import are_rows_shown, describe_value
from tap_core.schema.validators import get_validator_class
from tap_core.sinks.compiled_validator import compile_validator
from tap_core.sinks.schema_check import is_valid_schema
from tap_core.types import JsonSchema, Record

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, FormatChecker

__all__ = ["BaseJSONSchemaValidator", "JSONSchemaValidator"]


class BaseJSONSchemaValidator(abc.ABC):
    """Base class of validators for the records of one stream; subclass it for custom validation."""

    def __init__(self, schema: JsonSchema) -> None:
        self.schema = schema

    @abc.abstractmethod
    def validate(self, record: Record) -> None:
        """Check that a record matches the schema.

        Raises:
            InvalidRecord: The record does not match the schema.
        """


class JSONSchemaValidator(BaseJSONSchemaValidator):
    """Validator that gives the same results as the package jsonschema, but faster.

    Args:
        schema: JSON Schema of the records. It is compiled at the first record and must not change
            afterwards.
        validate_formats: True to check string formats too.
        format_checker: Checks the formats. The default checks all formats that jsonschema supports.

    Raises:
        InvalidJSONSchema: The schema is not a valid JSON Schema.
    """

    def __init__(
        self,
        schema: JsonSchema,
        *,
        validate_formats: bool = False,
        format_checker: FormatChecker | None = None,
    ) -> None:
        super().__init__(schema)
        self._validate_formats = validate_formats
        self._format_checker = format_checker
        if not is_valid_schema(schema):
            self._check_schema()

    @cached_property
    def validator(self) -> Draft202012Validator:
        """Validator of the package jsonschema for the records' schema, created when needed."""
        return get_validator_class()(self.schema, format_checker=self._get_format_checker())

    @cached_property
    def certain_check(self) -> Callable[[Any], bool]:
        """Fast compiled function that returns True only for valid records.

        If it returns False or raises an error, call `validate_with_jsonschema` to decide.
        """
        if not self._validate_formats:
            return compile_validator(self.schema)
        checker = self._get_format_checker()
        return compile_validator(self.schema, formats=checker.checkers, conforms=checker.conforms)

    def validate(self, record: Record) -> None:
        """Check that a record matches the schema.

        Raises:
            InvalidRecord: The record does not match the schema. The message has the path of the
                property and the reason of jsonschema.
        """
        try:
            if self.certain_check(record):
                return
        except LimitExceededError:
            raise
        except Exception:  # noqa: BLE001, S110  an unusual value: jsonschema decides
            pass
        self.validate_with_jsonschema(record)

    def validate_with_jsonschema(self, record: Record) -> None:
        """Check a record with the package jsonschema. Call it if `certain_check` is not True.

        Raises:
            InvalidRecord: The record does not match the schema.
            InvalidJSONSchema: A reference leads out of the schema or cannot be resolved.
            LimitExceededError: A pattern of the schema takes too long.
        """
        from jsonschema import ValidationError

        try:
            self.validator.validate(record)
        except ValidationError as error:
            path = setting_path(error.absolute_path)
            prefix = f"{path}: " if path else ""
            if are_rows_shown():
                raise InvalidRecord(f"{prefix}{error.message}", record) from error
            raise InvalidRecord(f"{prefix}{_without_value(error)}", record) from None
        except (ArithmeticError, RecursionError, ValueError) as error:
            raise InvalidRecord(
                f"a value is beyond what can be compared with the schema ({type(error).__name__})",
                record,
            ) from None

    def _get_format_checker(self) -> FormatChecker:
        from jsonschema import FormatChecker

        if not self._validate_formats:
            return FormatChecker(formats=())
        return self._format_checker or get_validator_class().FORMAT_CHECKER

    def _check_schema(self) -> None:
        from jsonschema import SchemaError

        try:
            get_validator_class().check_schema(self.schema)
        except SchemaError as error:
            raise InvalidJSONSchema(f"Schema Validation Error: {error}") from error


def _without_value(error: Any) -> str:
    """Return the message of a jsonschema error without the invalid value, which may be secret.

    The message has only the type and the length of the value.
    """
    if error.validator in {"required", "dependentRequired"}:  # the message names only fields
        return str(error.message)
    value = describe_value(error.instance)
    return f"{value} does not fit {error.validator} {error.validator_value!r}"
