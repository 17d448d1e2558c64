"""A tap that sends secrets in every way and logs all its settings; run as a program."""

from __future__ import annotations

from typing import Any

from tap_core import typing as th
from tap_core.authenticators import OAuthAuthenticator, SimpleAuthenticator
from tap_core.authenticators.token_endpoint import RetryPolicy
from tap_core.streams import RESTStream
from tap_core.tap_base import Tap


class CanaryStream(RESTStream[Any]):
    """A stream without retries."""

    records_jsonpath = "$.data[*]"
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}

    @property
    def url_base(self) -> str:
        return str(self.config["url"])

    def backoff_max_tries(self) -> int:
        return 1

    def prepare_request(self, context: Any, next_page_token: Any) -> Any:
        request = super().prepare_request(context, next_page_token)
        self.logger.debug("Sending %s %s", request.url, dict(request.headers))
        self.logger.debug("The body is %r, the settings are %s", request.body, dict(self.config))
        return request


class InQuery(CanaryStream):
    """Sends the key in a query parameter with an innocuous name, and in a header."""

    name = "in_query"
    path = "/rows"

    @property
    def authenticator(self) -> Any:
        return SimpleAuthenticator(stream=self, auth_headers={"X-Value": self.config["x_value"]})

    def get_url_params(self, context: Any, next_page_token: Any) -> dict[str, Any]:
        return {"k": self.config["k"]}


class InBody(CanaryStream):
    """Sends the key in the body of a POST."""

    name = "in_body"
    path = "/rows"
    http_method = "POST"

    def prepare_request_payload(self, context: Any, next_page_token: Any) -> dict[str, Any]:
        return {"sent": self.config["sent"], "deep": {"k": self.config["k"]}}


class Login(OAuthAuthenticator):
    """Requests an access token with a refresh token, without retries."""

    patience = RetryPolicy(timeout=5, tries=1)

    @property
    def oauth_request_body(self) -> dict[str, Any]:
        return {
            "grant_type": "refresh_token",
            "refresh_token": self.config["refresh_token"],
            "client_secret": self.config["client_secret"],
        }


class ByToken(CanaryStream):
    """Sends an OAuth access token."""

    name = "by_token"
    path = "/rows"

    @property
    def authenticator(self) -> Any:
        return Login(stream=self, auth_endpoint=f"{self.config['url']}/token")


class CanaryTap(Tap):
    """Tap of all these streams."""

    name = "tap-canary"
    config_jsonschema = th.PropertiesList(
        th.Property("url", th.StringType, required=True),
        th.Property("k", th.StringType, secret=True),
        th.Property("x_value", th.StringType, secret=True),
        th.Property("sent", th.StringType, secret=True),
        th.Property("refresh_token", th.StringType),
        th.Property("client_secret", th.StringType),
        th.Property("database", th.StringType),
        th.Property("conn", th.StringType),
        th.Property("credentials", th.ObjectType()),
        th.Property("service", th.StringType),
        th.Property("only", th.StringType),
    ).to_dict()

    def discover_streams(self) -> Any:
        self.logger.debug("All of it: %r", self.config)
        streams = [InQuery(self), InBody(self), ByToken(self)]
        return [stream for stream in streams if self.config.get("only") in {None, stream.name}]


if __name__ == "__main__":
    CanaryTap.cli()
