"""An MCP server over HTTP that requires OAuth, with the authorization server of FastMCP.

The authorization server grants every request without a page for the user. The server prints its URL
and listens on a free port.

Usage: oauth.py
"""

import socket

import uvicorn
from fastmcp import FastMCP
from fastmcp.server.auth.auth import ClientRegistrationOptions
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from mcp.server.auth.provider import AccessToken, RefreshToken
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken


class Provider(InMemoryOAuthProvider):
    """Counts refreshes, and rejects access tokens that have expired early."""

    def __init__(self, base_url: str) -> None:
        registration = ClientRegistrationOptions(enabled=True)
        super().__init__(base_url=base_url, client_registration_options=registration)
        self.refreshes = 0
        self.expired: set[str] = set()
        self.lifetime: int | None = None

    async def verify_token(self, token: str) -> AccessToken | None:
        return None if token in self.expired else await super().verify_token(token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.refreshes += 1
        tokens = await super().exchange_refresh_token(client, refresh_token, scopes)
        if self.lifetime is not None:
            tokens.expires_in, self.lifetime = self.lifetime, None
        return tokens


def build_server(provider: Provider) -> FastMCP:
    server = FastMCP("oauth", auth=provider)

    @server.tool
    def expire_tokens(lifetime: int | None = None) -> str:
        """Rejects all access tokens so far. The next token has this lifetime, in seconds."""
        provider.expired.update(provider.access_tokens)
        provider.lifetime = lifetime
        return "expired"

    @server.tool
    def count_refreshes() -> int:
        """Returns the number of refreshed tokens."""
        return provider.refreshes

    return server


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        app = build_server(Provider(base_url)).http_app()
        print(f"{base_url}/mcp", flush=True)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listener])


main()
