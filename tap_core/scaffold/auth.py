"""Authentication methods that `tap-core new` offers for a new HTTP tap.

Each method is a set of code fragments that the project templates insert into the tap and into the
mock API of its tests.
"""

from __future__ import annotations

from dataclasses import dataclass

from tap_core.scaffold.settings import ProjectSetting

__all__ = ["AUTHENTICATION", "Authentication"]


@dataclass(frozen=True)
class Authentication:
    """Authentication method of a new tap: source code for its client, settings and tests."""

    imports: str = ""
    """Name to import from `tap_core.authenticators`."""
    helper: str = ""
    """Source code of a class to insert before the client's class."""
    member: str = ""
    """Source code of the property in the client's class."""
    settings: tuple[ProjectSetting, ...] = ()
    """Settings of the authentication."""
    values: str = ""
    """Source code of dict items: values of the authentication settings in the tests."""
    check: str = "True"
    """Python expression that is true if the mock API accepts a request with ``headers``."""


def _make_secret_setting(name: str, description: str) -> ProjectSetting:
    """Return a required, secret setting for a new tap."""
    return ProjectSetting(name, description, "password", required=True)


def _render_authenticator(constructor: str) -> str:
    """Return the source code of a tap's property ``authenticator``.

    ``constructor`` is the Python expression that the property returns.
    """
    name = constructor.partition("(")[0]
    return f"""
    @cached_property
    def authenticator(self) -> {name}:
        \"\"\"The authenticator, which adds the credentials to each request.\"\"\"
        return {constructor}
"""


_OAUTH = '''

class ServiceAuthenticator(OAuthAuthenticator):
    """Requests an access token with the client's id and secret, and renews it before it expires."""

    @property
    def oauth_request_body(self) -> dict[str, Any]:
        """Body of the request to the token endpoint."""
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
        member=_render_authenticator(
            'APIKeyAuthenticator(key="X-API-Key", value=self.config["api_key"])'
        ),
        settings=(_make_secret_setting("api_key", "Key of the API"),),
        values='"api_key": "k-1"',
        check='headers["X-API-Key"] == "k-1"',
    ),
    "bearer": Authentication(
        imports="BearerTokenAuthenticator",
        member=_render_authenticator('BearerTokenAuthenticator(token=self.config["token"])'),
        settings=(_make_secret_setting("token", "Token of the API"),),
        values='"token": "t-1"',
        check='headers["Authorization"] == "Bearer t-1"',
    ),
    "basic": Authentication(
        imports="BasicAuthenticator",
        member=_render_authenticator(
            "BasicAuthenticator(\n"
            '            username=self.config["username"], password=self.config["password"]\n'
            "        )"
        ),
        settings=(
            ProjectSetting("username", "Name of the user", required=True),
            _make_secret_setting("password", "Password of the user"),
        ),
        values='"username": "u", "password": "p"',
        check='headers["Authorization"] == "Basic dTpw"',
    ),
    "oauth": Authentication(
        imports="OAuthAuthenticator",
        helper=_OAUTH,
        member=_render_authenticator(
            "ServiceAuthenticator(\n"
            '            client_id=self.config["client_id"],\n'
            '            client_secret=self.config["client_secret"],\n'
            "            auth_endpoint=f\"{self.config['api_url']}/oauth/token\",\n"
            "        )"
        ),
        settings=(
            ProjectSetting("client_id", "Id of the client", required=True),
            _make_secret_setting("client_secret", "Secret of the client"),
        ),
        values='"client_id": "c", "client_secret": "s"',
        check='headers["Authorization"] == "Bearer fresh"',
    ),
}
"""Authentication methods by their name on the command line."""
