"""Explanations of object storage errors, such as missing S3 credentials, for the user.

An error is recognized by the names of its Java exceptions. The explanation names the setting to
correct, but never contains its value. Transient errors are handled in
`target_spark.storage.retry`.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["find_storage_error"]

_S3A: Final = "spark.hadoop.fs.s3a."
_KEYS: Final = (
    f"{_S3A}access.key and {_S3A}secret.key, or {_S3A}aws.credentials.provider, in the setting"
    " spark"
)
_BUCKET: Final = re.compile(r"\bs3a://([^/\s`'\"]+)")

_SIGNS: Final = (
    (
        re.compile(r"NoAwsCredentialsException|NoAuthWithAWSException"),
        (
            "no credentials are configured. Set {keys}; or set the environment variables"
            " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ),
    ),
    (
        re.compile(r"UnknownStoreException|NoSuchBucketException"),
        (
            "there is no such bucket. Create it, or set path and staging to an existing one; if it"
            " is on another server than Amazon's, set {s3a}endpoint in the setting spark"
        ),
    ),
    (
        re.compile(r"SignatureDoesNotMatch|InvalidAccessKeyId|Status Code: 40[13]\b"),
        (
            "it rejects these credentials, or they lack a permission. Check {keys},"
            " and that they may read, write, list and delete there"
        ),
    ),
    (
        re.compile(r"ClassNotFoundException: Class org\.apache\.hadoop\.fs\.s3a\.S3AFileSystem"),
        (
            "Spark has no jars for it. They are fetched if path or staging is such an address,"
            " or the setting spark has a key that begins with {s3a}; or set their paths in the"
            " setting jars"
        ),
    ),
    (
        re.compile(r'No FileSystem for scheme "?(?P<scheme>[a-z][\w+.-]*)'),
        (
            "Spark has no jars for addresses that begin with {scheme}://. Set the paths of its jars"
            " in the setting jars, or its packages in spark.jars.packages in the setting spark"
        ),
    ),
    (
        re.compile(r"fs\.s3a\.impl\.InstantiationIOException"),
        "its configuration in the setting spark ({s3a}...) is invalid",
    ),
)


def find_storage_error(text: str) -> str | None:
    """Return a phrase with the cause of an object storage error and its remedy.

    Return None if the error is not recognized. An example of a cause is "there is no such bucket".

    Args:
        text: The error message, with the class names of its Java exceptions.
    """
    for sign, remedy in _SIGNS:
        if found := sign.search(text):
            bucket = _BUCKET.search(text)
            where = f" (bucket {bucket[1]})" if bucket else ""
            return (
                f"object storage{where}: {remedy.format(keys=_KEYS, s3a=_S3A, **found.groupdict())}"
            )
    return None
