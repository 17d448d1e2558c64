"""Explanations for the user of errors of object storage, catalogs and Iceberg.

An error is recognized by the names of its Java exceptions. The explanation names the setting to
correct, but never contains its value. Transient errors are handled in
`target_spark.storage.commit_retry`.
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
_AZURE: Final = "spark.hadoop.fs.azure."
_GOOGLE: Final = "spark.hadoop.fs.gs."
_CATALOG: Final = "spark.sql.catalog.<name>."
_BUCKET: Final = re.compile(r"\b(?:s3a|gs|abfss?)://([^/\s`'\"]+)")

_SETTINGS: Final = {
    "keys": _KEYS,
    "s3a": _S3A,
    "azure": _AZURE,
    "google": _GOOGLE,
    "catalog": _CATALOG,
}

_STORAGE_SIGNS: Final = (
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
        re.compile(
            r"ClassNotFoundException: Class org\.apache\.hadoop\.fs\.azurebfs\.\w+ not found"
        ),
        (
            "Spark has no jars for it. They are fetched if path or staging is such an address,"
            " or the setting spark has a key that begins with {azure}; or set the path of"
            " hadoop-azure in the setting jars"
        ),
    ),
    (
        re.compile(r"Invalid configuration value detected for fs\.azure\.account\.key"),
        (
            "no credentials are configured. Set {azure}account.key.ACCOUNT.dfs.core.windows.net,"
            " or {azure}account.auth.type and its settings, in the setting spark"
        ),
    ),
    (
        re.compile(r'Operation failed: "[^"\n]*", 40[13], \w+, https?://'),
        (
            "it rejects these credentials, or they lack a permission. Check the settings that"
            " begin with {azure}account in the setting spark"
        ),
    ),
    (
        re.compile(r"Invalid configuration value detected for fs\.azure\.account\.hns\.enabled"),
        (
            "the storage account does not answer. Check its name in path and staging, and that"
            " this machine can reach it"
        ),
    ),
    (
        re.compile(
            r'No FileSystem for scheme "?gs\b|Class com\.google\.cloud\.hadoop[\w.]* not found'
        ),
        (
            "Spark has no jars for addresses that begin with gs://. Set the path of"
            " gcs-connector-VERSION-shaded.jar (com.google.cloud.bigdataoss:gcs-connector) in the"
            " setting jars"
        ),
    ),
    (
        re.compile(r"ComputeEngineCredentials cannot find the metadata server"),
        (
            "no credentials are configured. Set {google}auth.type to SERVICE_ACCOUNT_JSON_KEYFILE"
            " and {google}auth.service.account.json.keyfile to the path of the key, in the setting"
            " spark"
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

_CATALOG_SIGNS: Final = (
    (
        re.compile(r"\borg\.apache\.iceberg\.exceptions\.NotAuthorizedException\b"),
        (
            "it rejects these credentials, or its token has expired. Check {catalog}credential,"
            " {catalog}oauth2-server-uri and {catalog}scope, or {catalog}token, in the setting"
            " spark; only a credential renews its token"
        ),
    ),
    (
        re.compile(r"\borg\.apache\.iceberg\.exceptions\.ForbiddenException\b"),
        (
            "these credentials lack a permission. Let them create and change namespaces and"
            " tables in {catalog}warehouse"
        ),
    ),
    (
        re.compile(
            r"Cannot initialize (?:Catalog|FileIO) implementation (?P<implementation>[\w.$]+):"
        ),
        (
            "Spark cannot load {implementation}. Set the package of its jars in"
            " spark.jars.packages in the setting spark, or their paths in the setting jars (for"
            " Glue and S3FileIO: org.apache.iceberg:iceberg-aws-bundle)"
        ),
    ),
    (
        re.compile(r"java\.sql\.SQLException: No suitable driver\b"),
        (
            "Spark has no driver for its database. Set the driver's package in"
            " spark.jars.packages in the setting spark, or its path in the setting jars"
        ),
    ),
)

_ICEBERG_SIGNS: Final = (
    (
        re.compile(
            r"Expected sorted (?:snapshot|previous metadata) log entries"
            r"|Invalid update timestamp \S+ before "
        ),
        (
            "the clock of this machine is more than a minute behind the last commit of the table."
            " Set the clock, or wait until the time of that commit has passed"
        ),
    ),
)


def find_storage_error(text: str) -> str | None:
    """Return the cause of an error of storage, catalog or Iceberg, and its remedy; None if unknown.

    The text is a phrase, such as "object storage (bucket a): there is no such bucket. Create it, or
    set path and staging to an existing one".

    Args:
        text: The error message, with the class names of its Java exceptions.
    """
    bucket = _BUCKET.search(text)
    where = f" (bucket {bucket[1]})" if bucket else ""
    for subject, signs in (
        (f"object storage{where}", _STORAGE_SIGNS),
        ("the catalog", _CATALOG_SIGNS),
        ("Iceberg", _ICEBERG_SIGNS),
    ):
        for sign, remedy in signs:
            if match := sign.search(text):
                return f"{subject}: {remedy.format(**_SETTINGS, **match.groupdict())}"
    return None
