"""Compatibility module for plugins that import ``singer_sdk.helpers._util``.

It only re-exports names of `tap_core.parsing.datetimes` and `tap_core.singerlib.json`.
"""

from __future__ import annotations

from tap_core.parsing.datetimes import utc_now as utc_now
from tap_core.singerlib.json import dump_json as dump_json
from tap_core.singerlib.json import load_json as load_json
from tap_core.singerlib.json import read_json_file as read_json_file
