"""Compatibility module for plugins that import ``singer_sdk.helpers._conformers``.

It only re-exports names of `tap_core.sql.identifiers`.
"""

from __future__ import annotations

from tap_core.sql.identifiers import replace_leading_digit as replace_leading_digit
from tap_core.sql.identifiers import snakecase as snakecase
