"""State: what a tap remembers from one sync to the next, and when it may be kept."""

from __future__ import annotations

from tap_core.state.checkpoint import Cadence as Cadence
from tap_core.state.cursor import Cursor as Cursor
from tap_core.state.document import StateDocument as StateDocument
from tap_core.state.load import read_state as read_state
from tap_core.state.manager import StreamStateManager as StreamStateManager
from tap_core.state.order import Order as Order
from tap_core.state.order import order_of as order_of
