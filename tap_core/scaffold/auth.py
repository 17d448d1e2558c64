"""The ways in which a new HTTP tap can say who it is.

Rules of the room: pieces of code as text, which the templates put together. Each way has
the half of the tap and the half of the service that plays the API in the project's tests.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AUTHENTICATION", "Authentication"]


@dataclass(frozen=True)
class Authentication:
    """One way: what the client, the settings and the tests have of it."""

    imports: str = ""
    """Name to import from `tap_core.authenticators`."""
    helper: str = ""
    """Class that stands before the client's."""
    member: str = ""
    """The property of the client's class."""
    settings: str = ""
    """Lines of the settings' schema."""
    values: str = ""
    """Those settings in the tests, as items of a dict."""
    check: str = "True"
    """Expression over ``headers`` by which the service in the tests lets a request in."""


def _secret(name: str, description: str) -> str:
    return f"""\
        th.Property(
            "{name}",
            th.StringType,
            required=True,
            secret=True,
            description="{description}",
        ),
"""


def _member(made: str) -> str:
    name = made.partition("(")[0]
    return f"""
    @cached_property
    def authenticator(self) -> {name}:
        \"\"\"What puts the tap's identity on each request.\"\"\"
        return {made}
"""


_OAUTH = '''

class ServiceAuthenticator(OAuthAuthenticator):
    """Asks for an access token with the client's id and secret; renews it in time."""

    @property
    def oauth_request_body(self) -> dict[str, Any]:
        """What the token endpoint is sent."""
        return {
            "grant_type": "client_credentials",
            "client_id": self.client_id,
            "client_secret": self.client_secret,
        }
'''

AUTHENTICATION: dict[str, Authentication] = {
    "none": Authentication(),
    "api-key": Authentication(
        imports="APIKeyAuthenticator",
        member=_member('APIKeyAuthenticator(key="X-API-Key", value=self.config["api_key"])'),
        settings=_secret("api_key", "Key of the API"),
        values='"api_key": "k-1"',
        check='headers["X-API-Key"] == "k-1"',
    ),
    "bearer": Authentication(
        imports="BearerTokenAuthenticator",
        member=_member('BearerTokenAuthenticator(token=self.config["token"])'),
        settings=_secret("token", "Token of the API"),
        values='"token": "t-1"',
        check='headers["Authorization"] == "Bearer t-1"',
    ),
    "basic": Authentication(
        imports="BasicAuthenticator",
        member=_member(
            "BasicAuthenticator(\n"
            '            username=self.config["username"], password=self.config["password"]\n'
            "        )"
        ),
        settings=(
            '        th.Property("username", th.StringType, required=True, description="Who"),\n'
            + _secret("password", "The user's password")
        ),
        values='"username": "u", "password": "p"',
        check='headers["Authorization"] == "Basic dTpw"',
    ),
    "oauth": Authentication(
        imports="OAuthAuthenticator",
        helper=_OAUTH,
        member=_member(
            "ServiceAuthenticator(\n"
            '            client_id=self.config["client_id"],\n'
            '            client_secret=self.config["client_secret"],\n'
            "            auth_endpoint=f\"{self.config['api_url']}/oauth/token\",\n"
            "        )"
        ),
        settings=(
            '        th.Property("client_id", th.StringType, required=True, description="Who"),\n'
            + _secret("client_secret", "The client's secret")
        ),
        values='"client_id": "c", "client_secret": "s"',
        check='headers["Authorization"] == "Bearer fresh"',
    ),
}
"""Name on the command line to its pieces."""
