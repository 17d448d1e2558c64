"""Taps of rare features: unusual names, namespaces, a user-chosen cursor, a shared state, tokens.

The first argument selects the tap.
"""

from __future__ import annotations

import sys
from functools import cached_property

from tap_core import RESTStream, Stream, Tap
from tap_core import typing as th
from tap_core.authenticators import OAuthAuthenticator

ODD = 'Grün / ☃ "quoted"\\'


class Named(Stream):
    """A stream with a namespace, whose name and fields are unusual."""

    name = ODD
    namespace = "schéma a"
    schema = {"properties": {"": {"type": "string"}, "a.b ": {"type": "integer"}}}

    def get_records(self, context):
        yield {"": "ünïcode\u2028", "a.b ": 1}


class Twin(Stream):
    """One of two streams with equal names in different namespaces."""

    schema = {"properties": {"id": {"type": "integer"}}}
    name_in_namespace = "twin"

    def __init__(self, tap, number):
        super().__init__(tap, name=f"twin-{number}")
        self.number = number

    @property
    def namespace(self):
        return f"space {self.number}"

    def get_records(self, context):
        yield {"id": self.number}


class Free(Stream):
    """A stream whose cursor the user chooses, with an estimate."""

    name = "free"
    allow_any_replication_key = True
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType),
        th.Property("day", th.DateType),
    ).to_dict()

    def estimate_sync(self):
        return 3, 90

    def get_records(self, context):
        key = self.replication_key
        since = self.get_starting_replication_key_value(context) if key else None
        for number in (1, 2, 3):
            row = {"id": number, "day": f"2024-01-{10 - number:02}"}
            if since is None or row[key] >= since:
                yield row


class Logged(Stream):
    """A stream of changes from a log whose position all streams share."""

    schema = {"properties": {"id": {"type": "integer"}}}

    def get_records(self, context):
        for number in (1, 2, 3):
            if number > self._tap.position:
                yield {"id": number}
        if self.name == "right":  # the last of the streams that share it
            self.tap_state["log_position"] = 3


class Things(RESTStream):
    """A stream behind a token endpoint whose refresh tokens are valid once."""

    name = "things"
    path = "/things"
    records_jsonpath = "$.data[*]"
    schema = {"properties": {"id": {"type": "integer"}}}

    @property
    def url_base(self):
        return self.config["url"]

    @property
    def authenticator(self):
        return Login(self.config["refresh_token"], auth_endpoint=self.config["url"] + "/token")


class Login(OAuthAuthenticator):
    """An authenticator that sends the refresh token."""

    def __init__(self, token, **options):
        super().__init__(**options)
        self._token = token

    @property
    def oauth_request_body(self):
        return {"grant_type": "refresh_token", "refresh_token": self._token}


class TapOdd(Tap):
    """A tap of unusual names, namespaces and a user-chosen cursor."""

    name = "tap-odd"
    config_jsonschema = {"properties": {"url": {"type": "string"}}}

    def discover_streams(self):
        return [Named(self), Free(self), Twin(self, 1), Twin(self, 2)]


class TapLog(Tap):
    """A tap of two streams that share a state."""

    name = "tap-log"
    has_shared_state = True
    config_jsonschema = {}

    def discover_streams(self):
        return [Logged(self, name="left"), Logged(self, name="right")]

    @cached_property
    def position(self):
        """The log position at the end of the previous sync."""
        return self.state.get("log_position", 0)


class TapTokens(Tap):
    """A tap with one stream behind a token endpoint."""

    name = "tap-tokens"
    config_jsonschema = th.PropertiesList(
        th.Property("url", th.StringType, required=True),
        th.Property("refresh_token", th.StringType, required=True, secret=True),
    ).to_dict()

    def discover_streams(self):
        return [Things(self)]


if __name__ == "__main__":
    {"odd": TapOdd, "log": TapLog, "tokens": TapTokens}[sys.argv.pop(1)].cli()
