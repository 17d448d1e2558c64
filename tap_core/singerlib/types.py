"""Compatibility module for plugins that import ``singer_sdk.singerlib.types``.

It only re-exports a name of `tap_core.types`.
"""

from __future__ import annotations

from tap_core.types import KeyProperties as KeyProperties
