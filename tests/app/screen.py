"""What is on the screen, as lines of plain text; and goldens of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from textual.app import App
from textual.geometry import Size

GOLDENS = Path(__file__).parent / "goldens"
SIZES = ((80, 24), (140, 40))


def screen_lines(app: App[Any]) -> list[str]:
    """The screen's lines, without the spaces at their ends."""
    width, height = app.size
    strips = app.screen._compositor.render_strips(Size(width, height))  # the compositor has no public way to its text
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


def screen_text(app: App[Any]) -> str:
    return "\n".join(screen_lines(app))


def assert_golden(app: App[Any], name: str) -> None:
    """Compare the screen with `goldens/NAME.WxH.txt`; `GPUTUTOR_UPDATE_GOLDENS=1` writes it instead."""
    width, height = app.size
    golden = GOLDENS / f"{name}.{width}x{height}.txt"
    text = screen_text(app).rstrip() + "\n"
    if os.environ.get("GPUTUTOR_UPDATE_GOLDENS"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8"), f"the screen differs from {golden.name}"
