"""The screen as lines of plain text, and its goldens."""

from __future__ import annotations

import os
import re
import time
from difflib import unified_diff
from pathlib import Path
from typing import Any

from textual.app import App
from textual.geometry import Size
from textual.pilot import Pilot

from tests.support.parameters import mostly_long

GOLDENS = Path(__file__).parents[1] / "app" / "goldens"
SIZES = ((80, 24), (100, 30), (140, 40))
TRIED_SIZES = mostly_long(SIZES, [(80, 24)])
"""Sizes as parameters of tests: short runs try the smallest only."""
DIALOGS = ("devices", "everything", "finished", "help", "progress", "repeating", "reset", "settings", "solution")
"""Beginnings of the names of goldens that hold a dialog without the screen below it."""


def screen_lines(app: App[Any]) -> list[str]:
    """Return the screen's lines without trailing spaces."""
    width, height = app.size
    strips = app.screen._compositor.render_strips(Size(width, height))  # the compositor has no public way to its text
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


def screen_text(app: App[Any]) -> str:
    return "\n".join(screen_lines(app))


async def assert_golden(pilot: Pilot[None], name: str, patience_s: float = 60.0) -> None:
    """Wait until the screen equals `goldens/NAME.WxH.txt`; with `GPUTUTOR_UPDATE_GOLDENS=1`, write that file."""
    only = ".dialog" if name.startswith(DIALOGS) else ""
    width, height = pilot.app.size
    golden = GOLDENS / f"{name}.{width}x{height}.txt"
    await pilot.pause()
    if os.environ.get("GPUTUTOR_UPDATE_GOLDENS"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(as_golden(pilot.app, only), encoding="utf-8")
    wanted = golden.read_text(encoding="utf-8")
    deadline = time.monotonic() + patience_s
    while as_golden(pilot.app, only) != wanted and time.monotonic() < deadline:
        await pilot.pause()
    shown = as_golden(pilot.app, only)
    changes = "\n".join(unified_diff(wanted.splitlines(), shown.splitlines(), golden.name, "the screen", lineterm=""))
    assert shown == wanted, changes


def as_golden(app: App[Any], only: str = "") -> str:
    lines = screen_lines(app)
    if only:
        region = app.screen.query_one(only).region
        lines = [line[region.x : region.right].rstrip() for line in lines[region.y : region.bottom]]
    return "\n".join(lines).rstrip() + "\n"


_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u202e]")


def assert_harmless(pilot: Pilot[None]) -> None:
    app = pilot.app
    for strip in app.screen._compositor.render_strips(Size(*app.size)):
        for segment in strip:
            assert not _STEERING.search(segment.text), segment
