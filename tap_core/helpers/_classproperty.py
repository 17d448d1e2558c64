"""The import path of singer_sdk for the descriptor of class properties."""

from __future__ import annotations

from tap_core.compat.classproperty import classproperty as classproperty
