"""Values by JSONPath, by singer_sdk's path."""

from __future__ import annotations

from tap_core.parsing.jsonpath import _compile_jsonpath as _compile_jsonpath
from tap_core.parsing.jsonpath import extract_jsonpath as extract_jsonpath
