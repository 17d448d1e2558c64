"""Compatibility module for plugins that import ``singer_sdk.helpers.jsonpath``.

It only re-exports names of `tap_core.parsing.jsonpath`.
"""

from __future__ import annotations

from tap_core.parsing.jsonpath import _compile_jsonpath as _compile_jsonpath
from tap_core.parsing.jsonpath import extract_jsonpath as extract_jsonpath
