"""Compatibility module for plugins that import ``singer_sdk.configuration._dict_config``.

It only re-exports names of `tap_core.config.loading`.
"""

from __future__ import annotations

from tap_core.config.loading import TRUTHY as TRUTHY
from tap_core.config.loading import (
    merge_missing_config_jsonschema as merge_missing_config_jsonschema,
)
from tap_core.config.loading import parse_environment_config as parse_environment_config
