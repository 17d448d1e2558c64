"""Compatibility import path of singer_sdk; nothing is defined here.

The names are defined in `tap_core.parsing.jsonpath`.
"""

from __future__ import annotations

from tap_core.parsing.jsonpath import _compile_jsonpath as _compile_jsonpath
from tap_core.parsing.jsonpath import extract_jsonpath as extract_jsonpath
