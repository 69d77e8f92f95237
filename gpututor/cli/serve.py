"""Serve the app to a browser on this machine, for people without a good terminal.

Open the address that it prints. The address contains a random key, which is new each time. Do not share it: with the
key, anyone on this machine can run code as you. The server listens on the loopback address only. Each tab has an app
of its own, and Ctrl-C ends all of them. It needs `pip install 'gpututor[browser]'`.
"""

from __future__ import annotations

import argparse
import importlib
import secrets
import shlex
import socket
import sys
import webbrowser
from typing import TYPE_CHECKING

from gpututor.cli.options import whole_number
from gpututor.errors import UsageError
from gpututor.processes import has_graphical_browser

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

HOST = "127.0.0.1"
EXTRA = ("aiohttp", "aiohttp_jinja2", "jinja2", "textual_serve.server")
"""Modules of the extra `browser`."""
HEADERS = {
    "Content-Security-Policy": "default-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers: the page loads nothing from other servers, and no other page sees the key or shows the app in a frame."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    port = whole_number(0, 65535)
    parser.add_argument("--port", type=port, default=0, help="the port; 0, the default, chooses a free one")
    parser.add_argument("--no-browser", action="store_true", help="print the address, and open no browser")


def main(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C; return 0. Raises `UsageError` without the extra, or if the port is taken."""
    try:
        for module in EXTRA:
            importlib.import_module(module)
    except ImportError:
        raise UsageError(
            "`gpututor serve` needs packages that are not installed.",
            "Run `pip install 'gpututor[browser]'` in gpututor's environment.",
        ) from None
    from aiohttp import web

    listening = _listening_socket(arguments.port)
    port = listening.getsockname()[1]
    key = secrets.token_urlsafe(24)
    address = f"http://{HOST}:{port}/{key}/"

    async def ready(app: web.Application) -> None:
        print(f"gpututor is at {address}\nKeep this address to yourself. Ctrl-C stops the server.", flush=True)
        if not arguments.no_browser and has_graphical_browser():
            webbrowser.open(address)

    app = application(_command(arguments), port, key)
    app.on_startup.append(ready)
    web.run_app(app, sock=listening, print=None, shutdown_timeout=1.0)
    return 0


def _listening_socket(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        advice = "Choose another one with --port, or leave it out."
        raise UsageError(f"Port {port} cannot be used ({error.strerror}).", advice) from error


def _command(arguments: argparse.Namespace) -> str:
    """Return the shell command of the app in a tab."""
    words = [sys.executable, "-m", "gpututor"]
    for option in ("course", "workspace"):
        if (folder := getattr(arguments, option)) is not None:
            words += [f"--{option}", str(folder.absolute())]
    return shlex.join(words)


def application(command: str, port: int, key: str) -> web.Application:
    """Return the web application: the page, its files and its WebSocket below `/key/`; all else is refused."""
    import aiohttp_jinja2
    import jinja2
    from aiohttp import web
    from textual_serve.server import Server

    host = f"{HOST}:{port}"
    origin = f"http://{host}"

    @web.middleware
    async def guard(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        # A page of another server has another origin; a foreign DNS name that leads to this machine is another host.
        # The page names its files by this host, so even `localhost` would be another server to it.
        origins = {origin} if request.headers.get("Upgrade", "").lower() == "websocket" else {origin, None}
        if request.host != host or request.headers.get("Origin") not in origins:
            raise web.HTTPForbidden(text="Open the address that gpututor printed: it answers no other page.")
        return await handler(request)

    async def add_slash(request: web.Request) -> web.Response:
        raise web.HTTPMovedPermanently(f"/{key}/")

    async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(HEADERS)

    server = Server(command, host=HOST, port=port, title="gpututor")
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
