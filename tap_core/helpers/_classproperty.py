"""Compatibility import path of singer_sdk; nothing is defined here.

The names are defined in `tap_core.compat.classproperty`.
"""

from __future__ import annotations

from tap_core.compat.classproperty import classproperty as classproperty
