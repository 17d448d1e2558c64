"""Taps for what few sources have: odd names, namespaces, a free cursor, a shared position, tokens.

Written as an author writes a tap. The setting `kind` chooses the tap.
"""

from __future__ import annotations

import sys
from functools import cached_property

from tap_core import RESTStream, Stream, Tap
from tap_core import typing as th
from tap_core.authenticators import OAuthAuthenticator

ODD = 'Grün / ☃ "quoted"\\'


class Named(Stream):
    """A stream and fields of odd names, in a namespace."""

    name = ODD
    namespace = "schéma a"
    schema = {"properties": {"": {"type": "string"}, "a.b ": {"type": "integer"}}}

    def get_records(self, context):
        yield {"": "ünïcode\u2028", "a.b ": 1}


class Twin(Stream):
    """A stream of the same name as another, in a namespace of its own."""

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
    """Read by whatever field the user chooses; tells before how much there is."""

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
    """Reads the changes of one table from a log that all streams share."""

    schema = {"properties": {"id": {"type": "integer"}}}

    def get_records(self, context):
        for number in (1, 2, 3):
            if number > self._tap.position:
                yield {"id": number}
        if self.name == "right":  # the last of the streams that share it
            self.tap_state["log_position"] = 3


class Things(RESTStream):
    """Behind a token endpoint where each refresh token is good for once."""

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
    """Asks with the refresh token."""

    def __init__(self, token, **how):
        super().__init__(**how)
        self._token = token

    @property
    def oauth_request_body(self):
        return {"grant_type": "refresh_token", "refresh_token": self._token}


class TapOdd(Tap):
    """Names and cursors."""

    name = "tap-odd"
    config_jsonschema = {"properties": {"url": {"type": "string"}}}

    def discover_streams(self):
        return [Named(self), Free(self), Twin(self, 1), Twin(self, 2)]


class TapLog(Tap):
    """Streams that share a position."""

    name = "tap-log"
    has_shared_state = True
    config_jsonschema = {}

    def discover_streams(self):
        return [Logged(self, name="left"), Logged(self, name="right")]

    @cached_property
    def position(self):
        """Where the log was read to before this sync."""
        return self.state.get("log_position", 0)


class TapTokens(Tap):
    """One stream behind a login."""

    name = "tap-tokens"
    config_jsonschema = th.PropertiesList(
        th.Property("url", th.StringType, required=True),
        th.Property("refresh_token", th.StringType, required=True, secret=True),
    ).to_dict()

    def discover_streams(self):
        return [Things(self)]


if __name__ == "__main__":
    {"odd": TapOdd, "log": TapLog, "tokens": TapTokens}[sys.argv.pop(1)].cli()
