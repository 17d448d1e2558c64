"""Rules for names of secret settings, in Python and for Spark."""

from __future__ import annotations

import re

import pytest

from tap_core.redaction import SPARK_REDACTION_REGEX, is_secret, is_secret_name, is_secret_parameter

SECRET = [
    *("password", "PASSWORD", "client_secret", "clientSecret", "api_key", "apikey", "api-key"),
    *("account.key", "account_key", "accountKey", "private_key", "encryption.key", "storageKey"),
    *("sas", "SasUrl", "sig", "Sig", "signature", "Authorization", "passphrase", "dsn", "DSN"),
    *("conn_string", "connection-string", "connectionString", "jdbc_url", "webhook_url"),
    *("refresh_token", "page_access_token", "sync_api_key", "next_password", "x-auth", "dbPass"),
    *("credential", "credentials_json", "service_account_info", "DB_PASS", "sessionId", "pwd"),
    *("ssh_key", "sessionKey", "hmac-key"),
]
HARMLESS = [
    *("primary_keys", "key_properties", "replication_key", "sort_key", "key", "code", "keys"),
    *("page_token", "next_token", "nextPageToken", "syncToken", "cursor", "author", "passenger"),
    *("postcode", "tokenizer", "keyboard", "secretary", "design", "SIGNAL", "auth_type", "side"),
    *("signature_version", "session_length", "path", "column_key", "compass", "PASSENGER", ""),
]
SPARK_KEYS = [
    "spark.sql.catalog.rest.credential",
    "spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net",
    "spark.hadoop.fs.azure.sas.container.account",
    "spark.hadoop.fs.gs.auth.service.account.private.key",
    "spark.hadoop.google.cloud.auth.service.account.private.key",
    "spark.hadoop.fs.s3a.encryption.key",
    "spark.hadoop.fs.s3a.secret.key",
    "spark.hadoop.fs.s3a.access.key",
    "spark.hadoop.fs.swift.service.x.apikey",
    "spark.sql.catalog.rest.header.Authorization",
    "spark.hadoop.javax.jdo.option.ConnectionURL",
    "spark.ssl.keyPassword",
]


@pytest.mark.parametrize("name", SECRET)
def test_secret_name_is_recognized_in_every_spelling(name):
    assert is_secret_name(name)
    assert is_secret(name)
    assert is_secret_parameter(name)


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_name_is_not_secret(name):
    assert not is_secret_name(name)


def test_key_and_code_are_secret_only_as_parameters():
    assert is_secret_parameter("key")
    assert is_secret_parameter("CODE")
    assert not is_secret_parameter("page_token")


def test_schema_keyword_overrides_the_name_rule():
    assert not is_secret("token_count", {"secret": False})
    assert is_secret("plain", {"secret": True})
    assert is_secret("plain", {"format": "password"})


@pytest.mark.parametrize("key", SPARK_KEYS)
def test_storage_and_catalog_keys_are_secret_for_python_and_spark(key):
    assert is_secret_name(key)
    assert re.search(SPARK_REDACTION_REGEX, key)


@pytest.mark.parametrize(
    "value", ["jdbc:postgresql://h/db?user=u&password=p", "postgres://u:p@h/db", "-Dx.keypass=p"]
)
def test_values_with_a_password_are_redacted_by_spark(value):
    assert re.search(SPARK_REDACTION_REGEX, value)


@pytest.mark.parametrize(
    "text",
    ["spark.sql.shuffle.partitions", "spark.app.name", "local[2]", "design", "s3a://b/sig/x"],
)
def test_spark_shows_harmless_settings(text):
    assert not re.search(SPARK_REDACTION_REGEX, text)


@pytest.mark.spark
def test_java_and_python_match_the_pattern_alike(spark):
    jvm = spark.sparkContext._jvm
    pattern = jvm.java.util.regex.Pattern.compile(SPARK_REDACTION_REGEX)
    for text in [*SPARK_KEYS, *SECRET, *HARMLESS, "postgres://u:p@h/db", "local[2]"]:
        assert pattern.matcher(text).find() is bool(re.search(SPARK_REDACTION_REGEX, text)), text
