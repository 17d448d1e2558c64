"""Compatibility module for plugins that import ``singer_sdk.helpers._classproperty``.

It only re-exports names of `tap_core.compat.classproperty`.
"""

from __future__ import annotations

from tap_core.compat.classproperty import classproperty as classproperty
