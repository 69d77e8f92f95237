"""The app in a browser: who gets in, what is shown, and what is left when it ends."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.command_line import run_gpututor
from tests.support.timeouts import wait_for

ADDRESS = re.compile(r"(http://127\.0\.0\.1:(\d+))/([\w-]{32})/")
BINARY = 2
"""Opcode of WebSocket frames with bytes."""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[re.Match[str]]:
    """Serve the app from an empty folder; yield the address."""
    monkeypatch.setenv("GPUTUTOR_HOME", str(tmp_path / "home"))
    command = [sys.executable, "-m", "gpututor", "serve", "--no-browser"]
    server = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    printed = ADDRESS.search(server.stdout.readline())
    assert printed is not None
    yield printed
    server.send_signal(signal.SIGINT)
    assert server.wait(30) == 0


def without_sequences(text: str) -> str:
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", text)


async def status(url: str, **headers: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        return response.status


def test_only_the_printed_address_shows_the_page(address: re.Match[str]) -> None:
    server, port, key = address.groups()

    async def visit() -> list[int]:
        return [
            await status(f"{server}/{key}/"),
            await status(f"{server}/{key}"),
            await status(f"{server}/"),
            await status(f"{server}/{key[::-1]}/ws"),
            await status(f"{server}/{key}/", Host=f"tutor.example:{port}"),
            await status(f"{server}/{key}/", Host=f"localhost:{port}"),
            await status(f"{server}/{key}/", Origin="http://tutor.example"),
            await status(f"{server}/{key}/", Origin=f"http://localhost:{port}"),
        ]

    assert asyncio.run(visit()) == [200, 200, 404, 404, 403, 403, 403, 403]


@pytest.mark.parametrize("package", ["aiohttp", "aiohttp_jinja2", "jinja2", "textual_serve"])
def test_a_missing_package_of_the_extra_is_explained(package: str, tmp_path: Path) -> None:
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError('No module named {package}')\n")
    ended = run_gpututor("serve", "--no-browser", PYTHONPATH=str(tmp_path), GPUTUTOR_HOME=str(tmp_path / "home"))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "Traceback" not in ended.stderr
    assert "pip install 'gpututor[browser]'" in ended.stderr


@pytest.mark.parametrize("origin", [None, "http://tutor.example", "null"])
def test_another_page_cannot_open_the_app(address: re.Match[str], origin: str | None) -> None:
    async def connect() -> None:
        async with aiohttp.ClientSession() as session:
            await session.ws_connect(f"{address[0]}ws", origin=origin)

    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        asyncio.run(connect())
    assert refused.value.status == 403


def test_the_app_answers_keys_and_ends_with_its_tab(address: re.Match[str], tmp_path: Path) -> None:
    async def learn() -> None:
        async with aiohttp.ClientSession() as session:
            tab = await session.ws_connect(f"{address[0]}ws?width=100&height=30", origin=address[1])
            await seen(tab, "Enter")
            await tab.send_json(["stdin", "\r"])
            await seen(tab, "describe_gpus")
            await tab.close()

    async def seen(tab: aiohttp.ClientWebSocketResponse, words: str) -> None:
        """Wait until the app draws the words, which it may do in several parts."""
        text = ""
        while words not in without_sequences(text):
            text += (await tab.receive_bytes(timeout=60)).decode(errors="replace")

    asyncio.run(learn())
    assert list((tmp_path / "home").rglob("01_find_the_gpu.py"))
    wait_for(lambda: str(tmp_path) not in _folders_of_apps(), 30)


def _folders_of_apps() -> str:
    """Return the working folders of processes that run the app, one in a line."""
    folders = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cmdline").read_bytes().endswith(b"-m\0gpututor\0"):
                folders.append(str((process / "cwd").readlink()))
        except OSError:
            continue
    return "\n".join(folders)


class Page:
    """A page of a headless browser, driven by the Chrome DevTools protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._number = socket, 0
        self._received = b""

    async def send(self, method: str, **params: Any) -> Any:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        while (answer := json.loads((await self._socket.receive(timeout=60)).data)).get("id") != self._number:
            if answer.get("method") == "Network.webSocketFrameReceived":
                frame = answer["params"]["response"]
                self._received += base64.b64decode(frame["payloadData"]) if frame["opcode"] == BINARY else b""
        return answer["result"]

    @property
    def received(self) -> str:
        """Text that the app sent to the page, which draws it on a canvas."""
        return without_sequences(self._received.decode(errors="replace"))

    async def value(self, expression: str) -> Any:
        return (await self.send("Runtime.evaluate", expression=expression))["result"].get("value")

    async def picture(self) -> bytes:
        return base64.b64decode((await self.send("Page.captureScreenshot"))["data"])


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Page]:
    """Start a headless browser with an empty page."""
    assert CHROMIUM is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", f"--user-data-dir={folder}"]
    chromium = subprocess.Popen([CHROMIUM, *options, "--window-size=1200,800"], stderr=subprocess.PIPE, text=True)
    try:
        assert chromium.stderr is not None
        port = next(match[1] for line in chromium.stderr if (match := re.search(r"ws://[\d.]+:(\d+)/", line)))
        async with aiohttp.ClientSession() as session:
            pages = await (await session.get(f"http://127.0.0.1:{port}/json")).json()
            page = next(page for page in pages if page["type"] == "page")
            yield Page(await session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0))
    finally:
        chromium.kill()
        chromium.wait()


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_a_browser_shows_the_app_and_sends_its_keys(address: re.Match[str], tmp_path: Path) -> None:
    async def learn() -> tuple[bytes, bytes]:
        async with browser(tmp_path / "browser") as page:
            await page.send("Network.enable")
            await page.send("Page.navigate", url=address[0])
            while "-first-byte" not in str(await page.value("document.body.className")):
                await asyncio.sleep(0.2)
            await asyncio.sleep(1)
            welcome = await page.picture()
            for kind in ("mousePressed", "mouseReleased"):
                await page.send("Input.dispatchMouseEvent", type=kind, x=900, y=100, button="left", clickCount=1)
            enter = {"key": "Enter", "text": "\r", "windowsVirtualKeyCode": 13}
            while not list((tmp_path / "home").rglob("01_find_the_gpu.py")):
                await page.send("Input.dispatchKeyEvent", type="keyDown", **enter)
                await asyncio.sleep(1)
            while "describe_gpus" not in page.received:
                await page.value("0")  # reads what arrived meanwhile
                await asyncio.sleep(0.2)
            return welcome, await page.picture()

    welcome, task = asyncio.run(asyncio.wait_for(learn(), 120))
    assert len(task) > len(welcome) > 10_000, "the task has more letters than the welcome"
