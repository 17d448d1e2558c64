"""Stream maps: rename, filter, compute and duplicate streams by a setting."""

from __future__ import annotations

from tap_core.exceptions import MapExpressionError as MapExpressionError
from tap_core.exceptions import MapperNotInitialized as MapperNotInitialized
from tap_core.exceptions import StreamMapConfigError as StreamMapConfigError
from tap_core.mapper.language import md5 as md5
from tap_core.mapper.language import sha256 as sha256
from tap_core.mapper.maps import CustomStreamMap as CustomStreamMap
from tap_core.mapper.maps import DefaultStreamMap as DefaultStreamMap
from tap_core.mapper.maps import RemoveRecordTransform as RemoveRecordTransform
from tap_core.mapper.maps import SameRecordTransform as SameRecordTransform
from tap_core.mapper.maps import StreamMap as StreamMap
from tap_core.mapper.options import MAPPER_ALIAS_OPTION as MAPPER_ALIAS_OPTION
from tap_core.mapper.options import MAPPER_ELSE_OPTION as MAPPER_ELSE_OPTION
from tap_core.mapper.options import MAPPER_FILTER_OPTION as MAPPER_FILTER_OPTION
from tap_core.mapper.options import MAPPER_KEY_PROPERTIES_OPTION as MAPPER_KEY_PROPERTIES_OPTION
from tap_core.mapper.options import MAPPER_SOURCE_OPTION as MAPPER_SOURCE_OPTION
from tap_core.mapper.options import NULL_STRING as NULL_STRING
from tap_core.mapper.options import StreamMapsDict as StreamMapsDict
from tap_core.mapper.plugin import PluginMapper as PluginMapper
