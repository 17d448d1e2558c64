"""The state manager, where the Singer SDK has it."""

from __future__ import annotations

from tap_core.state.manager import StreamStateManager as StreamStateManager
