"""The settings of a tap that reads a folder.

Rules of the room: names, titles and defaults are singer_sdk's (version 0.54), whose users
have them in their configurations. What stands under the name of a protocol are keywords
of fsspec's file system of that name.

Source: fsspec, "API Reference", section "Built-in Implementations".
"""

from __future__ import annotations

from enum import Enum

from tap_core import typing as th
from tap_core.types import JsonSchema

__all__ = ["BASE_CONFIG_SCHEMA", "DEFAULT_MERGE_STREAM_NAME", "FTP", "SFTP", "ReadMode"]

DEFAULT_MERGE_STREAM_NAME = "files"
"""The stream of all files, where the settings name no other."""


class ReadMode(str, Enum):
    """Whether files become one stream each, or one together."""

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
            description="Who logs in; nobody where it is not set.",
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
            description="How many seconds the server may be silent.",
        ),
        th.Property(
            "encoding",
            th.StringType,
            default="utf-8",
            title="Encoding",
            description="The encoding of file names.",
        ),
    ),
    description="How an FTP server is reached.",
)
"""The setting for `filesystem: ftp`."""

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
                    description="Who logs in.",
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
                    description="How many seconds the server may be silent.",
                ),
            ),
            title="SSH Connection Settings",
            description="How the connection is made.",
        ),
    ),
    description="How an SFTP server is reached.",
)
"""The setting for `filesystem: sftp`."""

BASE_CONFIG_SCHEMA: JsonSchema = th.PropertiesList(
    th.Property(
        "filesystem",
        th.StringType,
        required=True,
        default="local",
        examples=["local", "ftp", "sftp"],
        title="Filesystem",
        description="Where the folder is: the name of a file system that fsspec knows.",
    ),
    th.Property(
        "path",
        th.StringType,
        required=True,
        title="Directory Path",
        description="The folder in which the files are.",
    ),
    th.Property(
        "read_mode",
        th.StringType,
        required=True,
        allowed_values=[mode.value for mode in ReadMode],
        title="Read Mode",
        description=(
            "`one_stream_per_file` makes a stream of each file, `merge` one of all together."
        ),
    ),
    th.Property(
        "stream_name",
        th.StringType,
        required=True,
        default=DEFAULT_MERGE_STREAM_NAME,
        title="Stream Name (Merge Mode)",
        description="The name of the one stream, where `read_mode` is `merge`.",
    ),
    FTP,
    SFTP,
).to_dict()
"""The settings of every `FolderTap`."""
