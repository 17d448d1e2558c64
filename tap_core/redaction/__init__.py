"""Redaction: decides what is secret, and removes it from everything that is written."""

from tap_core.redaction.addresses import remove_addresses
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
from tap_core.redaction.text import HIDDEN, Secrets, escape_control_characters, redact_text
from tap_core.redaction.urls import redact_url

__all__ = [
    "HIDDEN",
    "SECRET_NAME_PATTERN",
    "SPARK_REDACTION_REGEX",
    "Secrets",
    "collect_secrets",
    "escape_control_characters",
    "is_secret",
    "is_secret_name",
    "is_secret_parameter",
    "is_secret_text",
    "make_redactor",
    "property_schema",
    "redact_text",
    "redact_url",
    "remove_addresses",
]
