"""Redaction: removal of secrets, such as passwords, from logs and messages."""

from tap_core.redaction.config import (
    collect_secrets,
    is_secret,
    is_secret_text,
    make_redactor,
    property_schema,
)
from tap_core.redaction.names import (
    SECRET_NAME_PATTERN,
    SPARK_REDACTION_REGEX,
    is_secret_name,
    is_secret_parameter,
)
from tap_core.redaction.process_secrets import (
    redact,
    redact_line,
    redact_lines,
    register_secrets,
    write_to_stderr,
)
from tap_core.redaction.text import (
    HIDDEN,
    Secrets,
    clean_document,
    escape_control_characters,
    redact_text,
)
from tap_core.redaction.urls import redact_url

__all__ = [
    "HIDDEN",
    "SECRET_NAME_PATTERN",
    "SPARK_REDACTION_REGEX",
    "Secrets",
    "clean_document",
    "collect_secrets",
    "escape_control_characters",
    "is_secret",
    "is_secret_name",
    "is_secret_parameter",
    "is_secret_text",
    "make_redactor",
    "property_schema",
    "redact",
    "redact_line",
    "redact_lines",
    "redact_text",
    "redact_url",
    "register_secrets",
    "write_to_stderr",
]
