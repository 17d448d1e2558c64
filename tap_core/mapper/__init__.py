"""Stream maps: the setting ``stream_maps`` renames, filters, changes and duplicates streams."""

from __future__ import annotations

from tap_core.exceptions import MapExpressionError as MapExpressionError
from tap_core.exceptions import MapperNotInitialized as MapperNotInitialized
from tap_core.exceptions import StreamMapConfigError as StreamMapConfigError
from tap_core.mapper.constants import MAPPER_ALIAS_OPTION as MAPPER_ALIAS_OPTION
from tap_core.mapper.constants import MAPPER_ELSE_OPTION as MAPPER_ELSE_OPTION
from tap_core.mapper.constants import MAPPER_FILTER_OPTION as MAPPER_FILTER_OPTION
from tap_core.mapper.constants import MAPPER_KEY_PROPERTIES_OPTION as MAPPER_KEY_PROPERTIES_OPTION
from tap_core.mapper.constants import MAPPER_SOURCE_OPTION as MAPPER_SOURCE_OPTION
from tap_core.mapper.constants import NULL_STRING as NULL_STRING
from tap_core.mapper.constants import StreamMapsDict as StreamMapsDict
from tap_core.mapper.functions import check_uuid as check_uuid
from tap_core.mapper.functions import md5 as md5
from tap_core.mapper.functions import sha256 as sha256
from tap_core.mapper.functions import uuid4 as uuid4
from tap_core.mapper.plugin_mapper import PluginMapper as PluginMapper
from tap_core.mapper.stream_maps import CustomStreamMap as CustomStreamMap
from tap_core.mapper.stream_maps import DefaultStreamMap as DefaultStreamMap
from tap_core.mapper.stream_maps import RemoveRecordTransform as RemoveRecordTransform
from tap_core.mapper.stream_maps import SameRecordTransform as SameRecordTransform
from tap_core.mapper.stream_maps import StreamMap as StreamMap
