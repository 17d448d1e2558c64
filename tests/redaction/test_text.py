"""Redaction of secrets and control characters in texts, in linear time."""

from __future__ import annotations

import base64
import html
import json
import re
import time
import tracemalloc
import xml.sax.saxutils
from urllib.parse import quote, quote_plus

import pytest
from requests.utils import requote_uri

from tap_core.redaction import (
    Secrets,
    clean_document,
    collect_secrets,
    escape_control_characters,
    make_redactor,
    redact_text,
)
from tap_core.redaction.text import _clean_shapes, find_embedded_secrets, redact_parameters

VALUE = 'cAn4ry+"/é\\x&y='


def _in_capitals(match: re.Match[str]) -> str:
    r"""Return JSON's escape of a character as .NET writes it, such as ``\u002B``."""
    return f"\\u{ord(match[0]):04X}"


@pytest.mark.parametrize(
    "write",
    [
        str,
        lambda text: quote(text, safe=""),
        lambda text: re.sub("%..", lambda match: match[0].lower(), quote(text, safe="")),
        quote_plus,
        lambda text: quote(quote(text, safe=""), safe=""),
        requote_uri,
        lambda text: quote(text, safe="+").replace("%C3%A9", "%c3%a9"),
        json.dumps,
        lambda text: json.dumps(text, ensure_ascii=False),
        lambda text: json.dumps(json.dumps({"x": text})),
        repr,
        lambda text: repr(text.encode()),
        html.escape,
        lambda text: html.escape(text).replace("&quot;", "&#34;").replace("+", "&#43;"),
        xml.sax.saxutils.escape,
        lambda text: "".join(f"&#x{ord(letter):X};" for letter in text),
        lambda text: json.dumps(re.sub(r"[^\w\\]|é", _in_capitals, text)).replace("\\\\u", "\\u"),
        lambda text: json.dumps(json.dumps({"x": re.sub(r"[^\w\\]|é", _in_capitals, text)})),
        lambda text: "".join(f"\\x{ord(letter):02x}" for letter in text),
        lambda text: text.encode().decode("latin-1"),
        str.lower,
        str.upper,
        lambda text: text.encode().hex(),
        lambda text: text.encode().hex().upper(),
        lambda text: base64.b64encode(text.encode()).decode(),
        *(
            lambda text, user=user: base64.b64encode(f"{user}:{text}".encode()).decode()
            for user in ("a", "ab", "abc", "someone@example.com")
        ),
        lambda text: base64.urlsafe_b64encode(f"u:{text}".encode()).decode(),
    ],
)
def test_known_secret_is_hidden_in_every_encoding(write):
    """SEC5: a secret is hidden in every encoding in which programs and servers write it."""
    written = write(VALUE)
    redacted = Secrets.from_values([VALUE]).hide_values(f"before {written} after")
    assert "***" in redacted
    assert redacted.startswith("before ")
    assert redacted.endswith(" after")
    assert "can4ry" not in redacted.lower()
    assert "&#x63;&#x41;" not in redacted
    assert "6341" not in redacted
    inner = base64.b64encode(VALUE.encode()).decode().rstrip("=")[:-1]
    assert inner[4:] not in redacted


KEY = (
    "-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: AES-128\n\nMIIEow+/IBAAKCAQEA=\n"
    "-----END RSA PRIVATE KEY-----"
)


@pytest.mark.parametrize("written", [KEY, KEY.replace("\n", "\\n"), KEY[:70]])
def test_private_key_is_hidden_without_a_secret_name(written):
    """SEC5: a private key is hidden in every text."""
    assert redact_text(f"key of {written}") == "key of -----BEGIN RSA PRIVATE KEY-----***"


def test_private_key_is_a_secret_of_every_setting():
    """SEC5: a line of the key is hidden too."""
    hide = collect_secrets({"file": KEY}).hide_values
    assert hide("line MIIEow+/IBAAKCAQEA= of the key") == "line *** of the key"


def test_secret_is_found_at_any_depth():
    value = {"password": "deep-s3cret"}
    for _ in range(3_000):
        value = {"a": [value]}
    assert collect_secrets({"file": value}).values == ("deep-s3cret",)


def test_public_key_and_certificate_are_not_hidden():
    for text in (KEY.replace("PRIVATE", "PUBLIC"), "-----BEGIN CERTIFICATE-----\nMII"):
        assert redact_text(text) == text


def test_text_around_an_escaped_secret_keeps_its_escapes():
    line = r'{"a": "\u0022", "b": "x\u0026y\u002Bz", "c": "x&#38;y+z", "d": "\\&amp;"}'
    expected = r'{"a": "\u0022", "b": "***", "c": "***", "d": "\\&amp;"}'
    assert Secrets.from_values(["x&y+z"]).hide_values(line) == expected


@pytest.mark.parametrize("line_break", ["\n", "\r\n    ", "\\n", "\\\\r\\\\n\t"])
@pytest.mark.parametrize("write", [str, lambda text: base64.b64encode(text.encode()).decode()])
def test_secret_that_is_broken_over_lines_is_hidden(write, line_break):
    """SEC5: programs wrap long values, such as Base64 after 76 characters."""
    broken = line_break.join(re.findall("..?.?.?.?.?.?", write("cAn4ry-value-of-a-token")))
    redacted = Secrets.from_values(["cAn4ry-value-of-a-token"]).hide_values(f"is {broken};\nend")
    assert redacted.startswith("is ***")
    assert redacted.endswith(";\nend")
    assert len(redacted) <= len("is ***==;\nend")


@pytest.mark.parametrize("part", ['\\"', "\\/", r"\u0041", r"\x41", r"\\"])
def test_backslash_of_a_secret_is_kept_where_other_characters_are_escaped(part):
    """SEC5: the secret's own backslash does not count as a second escape."""
    secret = f"pä{part}q-long-secret"
    text = json.dumps({"m": secret}).replace(r"\u00e4", r"\u00E4")
    assert Secrets.from_values([secret]).hide_values(text) == '{"m": "***"}'


def test_lines_that_join_to_a_short_secret_are_not_hidden():
    assert Secrets.from_values(["1234"]).hide_values("12\n34") == "12\n34"


def test_each_line_of_a_multiline_key_is_hidden():
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\n-----END PRIVATE KEY-----\n"
    hide = make_redactor({"private_key": key})
    assert hide("line: MIIEvQIBADANBgkqhkiG9w0BAQEF") == "line: ***"
    assert "MIIE" not in hide(json.dumps({"k": key}))


@pytest.mark.parametrize(
    "text, redacted",
    [
        ("GET /a?key=abc&code=x&page_token=1", "GET /a?key=***&code=***&page_token=1"),
        ('"GET /a?api_key=abc HTTP/1.1" 200', '"GET /a?api_key=*** HTTP/1.1" 200'),
        ("https://u:p@w@host/x", "https://***@host/x"),
        (r'{"url": "https:\/\/u:pw@h"}', r'{"url": "https:\/\/***@h"}'),
        ("jdbc:oracle:thin:scott/tiger@h:1", "jdbc:oracle:thin:***@h:1"),
        ("jdbc:sqlserver://h;user=u;password=p;x=1", "jdbc:sqlserver://h;user=u;password=***;x=1"),
        ("{'password': 'a\\'b', 'x': 1}", "{'password': '***', 'x': 1}"),
        ('say \\"token\\": \\"abc\\\\"def\\" end', 'say \\"token\\": \\"***\\" end'),
        ('{"token": 12345, "x": null}', '{"token": "***", "x": null}'),
        ("Authorization: Bearer abc", "Authorization: Bearer ***"),
        ("X-Api-Key: abc", "X-Api-Key: ***"),
        ("-Djavax.net.ssl.trustStorePassword=abc -Dx=1", None),
        ("exit code: 1, token: expired, key=id", "exit code: 1, token: expired, key=id"),
        ("a sentence without any", "a sentence without any"),
    ],
)
def test_values_that_a_text_names_as_secret_are_hidden(text, redacted):
    expected = redacted or "-Djavax.net.ssl.trustStorePassword=*** -Dx=1"
    assert redact_text(text) == expected
    assert redact_text(expected) == expected


@pytest.mark.parametrize("size", [16_000, pytest.param(1_000_000, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "shape",
    [
        *(
            "x",
            "a=",
            "key ",
            "key key key",
            'token="',
            "\\",
            "'",
            '"',
            'token:\\"',
            "token=",
            "://",
        ),
        *("@", "a@", "//u", "Bearer ", "password='\\", "a.b-", "\n", "key:", " ", "=", "Token a "),
        *("-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----a", "&#", "\\u", "&amp;"),
        *("//u:p/", "//:", "//u:p/@", "pwd={", "pwd={}}"),
    ],
)
def test_redaction_of_hostile_texts_takes_linear_time(shape, size):
    """A quadratic search takes 6 seconds for an excerpt of 16 kB."""
    text = (shape * (size // len(shape) + 1))[:size]
    started = time.monotonic()
    redact_text(text)
    redact_parameters(text)
    assert sum(map(len, find_embedded_secrets(text))) <= size
    assert time.monotonic() - started < 60  # a quadratic search takes hours


def test_redaction_of_a_million_equal_letters_takes_linear_time():
    assert redact_text("x" * 1_000_000) == redact_parameters("x" * 1_000_000)


def test_very_long_secret_is_hidden_without_its_encodings():
    """SEC13: a server chooses the length of an access token."""
    token = "\xff" * 4_900_000
    tracemalloc.start()
    try:
        assert Secrets.from_values([token]).hide(f"Bearer {token}!") == "Bearer ***!"
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()
    longest = "\xff" * 100_000
    assert Secrets.from_values([longest]).hide(quote(longest)) == "***"


def test_secrets_are_collected_from_urls_options_and_json_texts():
    secrets = collect_secrets(
        {
            "url": "https://user:pw%401234@h/x",
            "jdbc": "jdbc:sqlserver://h;user=u;password=jdbcpw1",
            "spark": {
                "spark.driver.extraJavaOptions": "-Djavax.net.ssl.keyStorePassword=storepw1",
                "spark.hadoop.fs.azure.account.key.a": "azurekey1",
            },
            "text": '{"private_key": "jsonkey1", "type": "service"}',
        }
    ).values
    assert {"pw@1234", "jdbcpw1", "storepw1", "azurekey1", "jsonkey1"} <= set(secrets)
    assert not {"service", "user", "u"} & set(secrets)


@pytest.mark.parametrize("sign", "/#?\\ \"'<")
@pytest.mark.parametrize("url", ["https://user:{}@h/x", "jdbc:postgresql://u:{}@h:5432/db"])
def test_password_in_a_url_is_hidden_if_it_is_not_percent_encoded(url, sign):
    """SEC5: parsers take a part of such a password for the port, and quote it in their errors."""
    password = f"Sup3r{sign}Secret9"
    secrets = collect_secrets({"api_url": url.format(password)})
    assert not {"Sup3r", "Secret9"} & set(re.split(r"\W", secrets.hide(url.format(password))))
    assert secrets.hide("no port: Sup3r, no path: Secret9") == "no port: ***, no path: ***"


@pytest.mark.parametrize(
    "url", ["https://h:8080/a@b", "https://h/a:b@c", "https://h:443?x=a:b@c", "https://h/x y:z@q"]
)
def test_port_or_path_of_a_url_is_no_password(url):
    assert collect_secrets({"api_url": url}).values == ()


def test_password_in_braces_of_odbc_is_hidden():
    """SEC5: braces enclose values with a semicolon."""
    text = "Driver={ODBC Driver 18};Server=h;Uid=u;Pwd={Sup3r;Sec}}ret9};Port=1433"
    assert redact_text(text) == "Driver={ODBC Driver 18};Server=h;Uid=u;Pwd=***;Port=1433"


def test_values_of_a_secret_object_are_secret_except_constants_of_the_schema():
    schema = {
        "properties": {
            "credentials": {
                "type": "object",
                "oneOf": [{"properties": {"auth_type": {"const": "Client"}}}],
            },
            "token_url": {"default": "https://login.example/"},
            "streams": {"additionalProperties": {"type": "object"}},
        }
    }
    config = {
        "credentials": {"auth_type": "Client", "inner": {"plain": "canary1"}},
        "token_url": "https://login.example/",
        "streams": {"tokens": {"write_mode": "append"}},
    }
    assert collect_secrets(config, schema).values == ("canary1",)


def test_redacted_document_keeps_its_structure():
    document = {"a": ["x"], "token": 5, "n": None, "password": None}
    assert clean_document(document, str.upper) == {
        "a": ["X"],
        "token": "***",
        "n": None,
        "password": None,
    }
    assert clean_document({"tokens": {"n": 1}}, str, by_name=False) == {"tokens": {"n": 1}}


def test_control_characters_are_escaped_and_tabs_are_not():
    """SEC7: control characters are escaped and tabs are not."""
    hostile = "a\nb\r\x1b[31m\x00\x7f\x85\x9b\u2028\u2029\u202e\u2066\ud800\tc é 漢"
    redacted = escape_control_characters(hostile)
    assert redacted == (
        r"a\nb\r\x1b[31m\x00\x7f\x85\x9b\u2028\u2029\u202e\u2066\ud800" + "\tc é 漢"
    )
    assert len(redacted.splitlines()) == 1
    assert escape_control_characters(redacted) == redacted


LINES = [
    "request 17 took 0.25 seconds, status 200",
    'METRIC: {"value":0.12,"tags":{"stream":"s1","url":"/a?page=2&token=s3cret5","status":200}}',
    "oracle:thin:user1/pw2@host3 and postgres://u4:pw5@host6/db7",
    "oracle:oci8:user1/pw2@host3",
    "Authorization: AWS4-HMAC-SHA256 Credential=AKIA12/2024, x-api-key: 12345",
    "password=AWS4-HMAC-SHA256",
    "oauth2=1 auth2=2 auth=3 token1: 'abc4' code=5 key6=7 key=8 ?code=9&sig=0 sig1=2",
]


@pytest.mark.parametrize("line", LINES)
def test_same_line_with_other_digits_is_redacted_as_if_it_were_the_first(line):
    other_lines = [
        re.sub("[0-9]", lambda _, add=add: str((int(_[0]) + add) % 10), line) for add in range(10)
    ]
    redacted = []
    for other in other_lines:
        _clean_shapes.clear()
        redacted.append(redact_text(other))
    _clean_shapes.clear()
    assert [redact_text(other) for other in other_lines] == redacted
    assert [redact_text(other) for other in other_lines] == redacted
