"""Draws the pictures of the README anew, from the app itself: `python docs/pictures.py`."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from textual.pilot import Pilot

from gpututor import paths
from gpututor.app.app import GpututorApp
from gpututor.app.main.screen import MainScreen
from gpututor.course.catalogue import load_course
from gpututor.course.workspace import make_workspace
from gpututor.grading.client import GradingClient
from gpututor.progress.store import ProgressStore

DOCS = Path(__file__).parent
EXERCISE = "born_on_the_device"
MISTAKE = "made_and_moved.py"


async def picture() -> str:
    """The app after a run that failed, with the mistake's line named, as SVG."""
    course = load_course(paths.builtin_course())
    exercise = course.find(EXERCISE)
    workspace, _ = make_workspace(paths.default_workspace(), course)
    wrong = (exercise.folder / "wrong" / MISTAKE).read_text(encoding="utf-8")
    # Without the two lines that tell what is wrong.
    workspace.write(exercise, "".join(wrong.splitlines(keepends=True)[2:]))
    progress, client = ProgressStore(paths.progress_file()), GradingClient()
    progress.set_current_exercise(exercise.key)
    try:
        app = GpututorApp(course=course, workspace=workspace, progress=progress, client=client)
        async with app.run_test(size=(140, 40)) as pilot:
            screen = app.screen
            assert isinstance(screen, MainScreen)
            await until(pilot, lambda: screen.is_ready)
            await pilot.press("ctrl+s")
            await until(pilot, lambda: screen.running)
            await until(pilot, lambda: not screen.running)
            await pilot.pause(0.5)
            return app.export_screenshot(title="gpututor")
    finally:
        client.close()
        progress.close()


async def until(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    while not holds():
        await pilot.pause(0.05)


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        os.environ["GPUTUTOR_HOME"] = home
        svg = asyncio.run(picture())
    # The reader's own monospace font will do; nothing is to be fetched.
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL).replace("Fira Code", "monospace")
    svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)
    (DOCS / "app.svg").write_text(svg, encoding="utf-8")
    print(DOCS / "app.svg")


if __name__ == "__main__":
    main()
