"""Write a tap once by subclassing `Stream`; run it under every protocol."""

from __future__ import annotations

from tap_core import streams
from tap_core.plugin_base import PluginBase
from tap_core.streams import Stream
from tap_core.tap_base import Tap

__all__ = ["PluginBase", "Stream", "Tap", "streams"]
