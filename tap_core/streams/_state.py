"""Compatibility import path of the Meltano Singer SDK for `StreamStateManager`."""

from __future__ import annotations

from tap_core.state.manager import StreamStateManager as StreamStateManager
