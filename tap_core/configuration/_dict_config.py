"""Compatibility import path of singer_sdk; nothing is defined here.

The names are defined in `tap_core.config.loading`.
"""

from __future__ import annotations

from tap_core.config.loading import TRUTHY as TRUTHY
from tap_core.config.loading import (
    merge_missing_config_jsonschema as merge_missing_config_jsonschema,
)
from tap_core.config.loading import parse_environment_config as parse_environment_config
