"""The import path of singer_sdk for messages as JSON text."""

from __future__ import annotations

from tap_core.documents import deserialize_json as deserialize_json
from tap_core.documents import serialize_json as serialize_json
