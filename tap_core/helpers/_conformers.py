"""Compatibility import path of singer_sdk; nothing is defined here.

The names are defined in `tap_core.sql.identifiers`.
"""

from __future__ import annotations

from tap_core.sql.identifiers import replace_leading_digit as replace_leading_digit
from tap_core.sql.identifiers import snakecase as snakecase
