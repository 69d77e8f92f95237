"""The web page of `gpututor serve`. Importing this module needs the extra `browser`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import aiohttp_jinja2
import jinja2
from aiohttp import web
from textual_serve.server import Server

HEADERS = {
    "Content-Security-Policy": "default-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers: the page loads nothing from other servers, and no other page sees the key or shows the app in a frame."""


def application(command: str, host: str, port: int, key: str) -> web.Application:
    """Return the web application: the page, its files and its WebSocket below `/key/`; all else is refused."""
    origin = f"http://{host}:{port}"

    @web.middleware
    async def guard(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        # A page of another server has another origin; a foreign DNS name that leads to this machine is another host.
        # The page names its files by this host, so even `localhost` would be another server to it.
        origins = {origin} if request.headers.get("Upgrade", "").lower() == "websocket" else {origin, None}
        if request.host != f"{host}:{port}" or request.headers.get("Origin") not in origins:
            raise web.HTTPForbidden(text="Open the address that gpututor printed: it answers no other page.")
        return await handler(request)

    async def add_slash(request: web.Request) -> web.Response:
        raise web.HTTPMovedPermanently(f"/{key}/")

    async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(HEADERS)

    server = Server(command, host=host, port=port, title="gpututor")
    app = web.Application(middlewares=[guard])
    aiohttp_jinja2.setup(app, loader=jinja2.FileSystemLoader(server.templates_path))
    app.add_routes(
        [
            web.get(f"/{key}", add_slash),
            web.get(f"/{key}/", server.handle_index, name="index"),
            web.get(f"/{key}/ws", server.handle_websocket, name="websocket"),
            web.static(f"/{key}/static", server.statics_path, name="static"),
        ]
    )
    app.on_response_prepare.append(add_headers)
    return app
