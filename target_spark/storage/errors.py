"""What a storage of objects says when it refuses, in words for the person who runs it.

Rules of the room: pure. Such an error is known by the names of its exceptions, and said with
the setting that is wrong; what the storage answered goes in as it came, and never a value of a
setting. What fails for a while and then passes is the business of `target_spark.storage.retry`.
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
            "nothing says with which credentials it is reached. Set {keys}; or give the process the"
            " variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ),
    ),
    (
        re.compile(r"UnknownStoreException|NoSuchBucketException"),
        (
            "there is no such bucket. Make it, or set path and staging to one that there is; where"
            " it is on another server than Amazon's, say so by {s3a}endpoint in the setting spark"
        ),
    ),
    (
        re.compile(r"SignatureDoesNotMatch|InvalidAccessKeyId|Status Code: 40[13]\b"),
        (
            "it does not let us in with these credentials, or they may not do this. Check {keys},"
            " and that they may read, write, list and delete there"
        ),
    ),
    (
        re.compile(r"ClassNotFoundException: Class org\.apache\.hadoop\.fs\.s3a\.S3AFileSystem"),
        (
            "Spark has no jars for it. They are fetched where path or staging is such an address,"
            " or the setting spark has a key that begins with {s3a}; or give them in the setting"
            " jars"
        ),
    ),
    (
        re.compile(r"fs\.s3a\.impl\.InstantiationIOException"),
        "what the setting spark says of it ({s3a}...) cannot be used",
    ),
)


def find_storage_error(text: str) -> str | None:
    """Return what a storage refused, and the way out, if an error's text says that one did."""
    for sign, words in _SIGNS:
        if sign.search(text):
            bucket = _BUCKET.search(text)
            where = f" (bucket {bucket[1]})" if bucket else ""
            return f"object storage{where}: {words.format(keys=_KEYS, s3a=_S3A)}"
    return None
