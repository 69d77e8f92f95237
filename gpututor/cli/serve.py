"""Serve the app to a browser on this machine, for people without a good terminal.

Open the address that it prints. The address contains a random key, which is new each time. Do not share it: with the
key, anyone on this machine can run code as you. The server listens on the loopback address only. Each tab has an app
of its own, and Ctrl-C ends all of them. It needs `pip install 'gpututor[browser]'`.
"""

from __future__ import annotations

import argparse
import secrets
import shlex
import socket
import sys
import webbrowser

from gpututor.cli.options import whole_number
from gpututor.errors import UsageError
from gpututor.processes import has_graphical_browser

HOST = "127.0.0.1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    port = whole_number(0, 65535)
    parser.add_argument("--port", type=port, default=0, help="the port; 0, the default, chooses a free one")
    parser.add_argument("--no-browser", action="store_true", help="print the address, and open no browser")


def main(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C; return 0. Raises `UsageError` without the extra, or if the port is taken."""
    try:
        from aiohttp import web

        from gpututor.cli.serve_page import application
    except ImportError:
        raise UsageError(
            "`gpututor serve` needs packages that are not installed.",
            "Run `pip install 'gpututor[browser]'` in gpututor's environment.",
        ) from None
    listening = _listening_socket(arguments.port)
    port = listening.getsockname()[1]
    key = secrets.token_urlsafe(24)
    address = f"http://{HOST}:{port}/{key}/"

    async def ready(app: web.Application) -> None:
        print(f"gpututor is at {address}\nKeep this address to yourself. Ctrl-C ends it.", flush=True)
        if not arguments.no_browser and has_graphical_browser():
            webbrowser.open(address)

    app = application(_command(arguments), HOST, port, key)
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
