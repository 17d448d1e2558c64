"""Settings of a tap that reads the files of a folder.

Names, titles and defaults are those of singer_sdk (version 0.54), because existing configurations
use them. A setting with the name of a protocol, such as ``sftp``, contains the keyword arguments of
fsspec's file system for this protocol. Source: fsspec, "API Reference", section "Built-in
Implementations".
"""

from __future__ import annotations

from enum import Enum

from tap_core import typing as th
from tap_core.types import JsonSchema

__all__ = ["BASE_CONFIG_SCHEMA", "DEFAULT_MERGE_STREAM_NAME", "FTP", "SFTP", "ReadMode"]

DEFAULT_MERGE_STREAM_NAME = "files"
"""Default name of the single stream if all files are merged into one stream."""


class ReadMode(str, Enum):
    """Value of the setting ``read_mode``: one stream for each file, or one stream for all files."""

    one_stream_per_file = "one_stream_per_file"
    merge = "merge"


FTP = th.Property(
    "ftp",
    th.ObjectType(
        th.Property(
            "host",
            th.StringType,
            required=True,
            title="FTP Host",
            description="The server's name or address.",
        ),
        th.Property(
            "port",
            th.IntegerType,
            default=21,
            title="FTP Port",
            description="The server's port.",
        ),
        th.Property(
            "username",
            th.StringType,
            title="FTP Username",
            description="The user name; anonymous if not set.",
        ),
        th.Property(
            "password",
            th.StringType,
            secret=True,
            title="FTP Password",
            description="The password of that user.",
        ),
        th.Property(
            "timeout",
            th.IntegerType,
            default=60,
            title="Timeout",
            description="The timeout for responses of the server, in seconds.",
        ),
        th.Property(
            "encoding",
            th.StringType,
            default="utf-8",
            title="Encoding",
            description="The encoding of file names.",
        ),
    ),
    description="The connection to an FTP server.",
)
"""Setting with the connection for ``filesystem: ftp``."""

SFTP = th.Property(
    "sftp",
    th.ObjectType(
        th.Property(
            "host",
            th.StringType,
            required=True,
            title="SFTP Host",
            description="The server's name or address.",
        ),
        th.Property(
            "ssh_kwargs",
            th.ObjectType(
                th.Property(
                    "port",
                    th.IntegerType,
                    default=22,
                    title="SFTP Port",
                    description="The server's port.",
                ),
                th.Property(
                    "username",
                    th.StringType,
                    required=True,
                    title="SFTP Username",
                    description="The user name.",
                ),
                th.Property(
                    "password",
                    th.StringType,
                    secret=True,
                    title="SFTP Password",
                    description="The password of that user.",
                ),
                th.Property(
                    "pkey",
                    th.StringType,
                    secret=True,
                    title="SFTP Private Key",
                    description="The private key of that user.",
                ),
                th.Property(
                    "timeout",
                    th.IntegerType,
                    default=60,
                    title="Timeout",
                    description="The timeout for responses of the server, in seconds.",
                ),
            ),
            title="SSH Connection Settings",
            description="The SSH connection.",
        ),
    ),
    description="The connection to an SFTP server.",
)
"""Setting with the connection for ``filesystem: sftp``."""

BASE_CONFIG_SCHEMA: JsonSchema = th.PropertiesList(
    th.Property(
        "filesystem",
        th.StringType,
        required=True,
        default="local",
        examples=["local", "ftp", "sftp"],
        title="Filesystem",
        description="The file system of the folder, by its name in fsspec.",
    ),
    th.Property(
        "path",
        th.StringType,
        required=True,
        title="Directory Path",
        description="The folder that contains the files.",
    ),
    th.Property(
        "read_mode",
        th.StringType,
        required=True,
        allowed_values=[mode.value for mode in ReadMode],
        title="Read Mode",
        description=(
            "`one_stream_per_file` creates a stream per file, `merge` one stream for all files."
        ),
    ),
    th.Property(
        "stream_name",
        th.StringType,
        required=True,
        default=DEFAULT_MERGE_STREAM_NAME,
        title="Stream Name (Merge Mode)",
        description="The name of the stream if `read_mode` is `merge`.",
    ),
    FTP,
    SFTP,
).to_dict()
"""JSON Schema of the settings of every `FolderTap`."""
