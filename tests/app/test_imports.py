"""What the app's process imports, and when: never torch, and nothing heavy before the first paint."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from gpututor.course.loader import load_course
from tests.support import ROOT
from tests.support.tiny_course import write_course

BEFORE_THE_FIRST_PAINT = """
import sys
from pathlib import Path
import gpututor.cli.main
from gpututor.app import app
from gpututor.course.loader import load_course
from gpututor.course.workspace import make_workspace
from gpututor.grading.client import GradingClient
from gpututor.hardware.inventory import load_inventory
from gpututor.progress.store import ProgressStore

folder = Path(sys.argv[1])
course = load_course(folder / "course")
screen = app.GpututorApp(
    course=course, workspace=make_workspace(folder / "work", course)[0], progress=ProgressStore(folder / "progress"),
    client=GradingClient(), find_devices=load_inventory,
)
seen = set()

def paint(self, *arguments, draw=app.GpututorApp._display):
    seen.update(sys.modules)
    draw(self, *arguments)
    self.exit()

app.GpututorApp._display = paint
screen.run(headless=True)
print(sorted(seen))
"""

AN_EVENING = """
import asyncio, sys
from pathlib import Path
from tests.support.apps import AppEnv
from gpututor.course.loader import load_course

async def main():
    folder = Path(sys.argv[1])
    async with AppEnv(folder, load_course(folder / "course")).start((140, 40)) as pilot:
        for key in sys.argv[2:]:
            await pilot.press(key)
            await pilot.pause()

asyncio.run(main())
print(sorted(sys.modules))
"""

HEAVY = {
    "torch": "minutes of memory, seconds",
    "numpy": "80 ms; traces need it",
    "markdown_it": "40 ms; Markdown comes after the first paint",
    "textual.widgets._text_area": "15 ms; the editor comes after the first paint",
    "textual.widgets._markdown": "40 ms",
    "pygments.lexers.python": "12 ms; colours come after the first paint",
    "jedi": "100 ms; lives in a child process",
    "parso": "jedi's",
    "tomlkit": "40 ms",
    "multiprocessing": "the judge is another process",
    "xml.etree": "pictures",
    "urllib.request": "nothing is fetched",
    "importlib.metadata": "20 ms; versions and plug-ins",
    "argparse": "5 ms, and 10 ms for the parsers of all verbs",
    "gpututor.grading.recording": "3 ms; recordings are read after runs",
    "gpututor.app.screens.trace": "1 ms",
    "gpututor.app.main.external_editor": "2 ms",
    "gpututor.app.editor.line_costs": "1 ms",
}
NEVER = {"torch", "jedi", "gpututor.judge", "gpututor.checks", "gpututor.worker", "gpututor.devices"}
READING = (
    "1",
    "j",
    "enter",
    "2",
    "4",
    "x",
    "f1",
    "escape",
    "h",
    "s",
    "y",
    "escape",
    "ctrl+p",
    "escape",
    "slash",
    "escape",
)
AROUND = ("comma", "escape", "D", "escape", "w", "escape", "semicolon", "escape")
RUNNING = ("4", "ctrl+s", "f12", "d", "escape")


def modules_after(program: str, folder: Path, *words: str) -> set[str]:
    write_course(folder / "course", exercises=2, lessons=2)
    (folder / "course" / "01_lesson_1" / "lesson.md").write_text("# Code\n\n    x = 1\n\n```\nsome text\n```\n")
    load_course(folder / "course")
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder), *words], capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return set(ast.literal_eval(done.stdout.splitlines()[-1]))


def test_nothing_heavy_is_imported_before_the_first_paint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTUTOR_HOME", str(tmp_path / "home"))
    modules = modules_after(BEFORE_THE_FIRST_PAINT, tmp_path)
    assert "gpututor.app.main.screen" in modules
    assert {name: HEAVY[name] for name in modules & HEAVY.keys()} == {}


def test_until_something_was_run_numpy_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTUTOR_HOME", str(tmp_path / "home"))
    modules = modules_after(AN_EVENING, tmp_path, *READING, *AROUND)
    assert "markdown_it" in modules
    assert {*NEVER, "numpy"} & modules == set()
    assert sum(name.startswith("pygments.lexers.") for name in modules) < 12, "a language is guessed"


def test_the_process_of_the_app_never_imports_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTUTOR_HOME", str(tmp_path / "home"))
    modules = modules_after(AN_EVENING, tmp_path, *READING, *RUNNING, *AROUND)
    assert "gpututor.app.screens.trace" in modules
    assert NEVER & modules == set()
