"""Import path of singer_sdk; the words are in `tap_core.sinks.files`."""

from tap_core.sinks.files import DEFAULT_BATCH_SIZE as DEFAULT_BATCH_SIZE
from tap_core.sinks.files import BaseBatchFileEncoding as BaseBatchFileEncoding
from tap_core.sinks.files import BatchConfig as BatchConfig
from tap_core.sinks.files import BatchFileFormat as BatchFileFormat
from tap_core.sinks.files import StorageTarget as StorageTarget
