"""Imports, garbage collection and painting: each step of the event loop stays short."""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual._compositor import Compositor
from textual.geometry import Region
from textual.pilot import Pilot
from textual.widgets.markdown import MarkdownBlock

from gpututor.app import runtime
from gpututor.app.runtime import LONG_QUIET_S, QUIET_S, GcScheduler
from gpututor.course.loader import load_course
from tests.support import ROOT
from tests.support.apps import AppEnv, main_screen, until
from tests.support.screens import screen_text
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
    "pygments.lexers.python": "12 ms; colors come after the first paint",
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
READING = (*"1j", "enter", *"24x", "f1", "escape", *"hsy", "escape", "ctrl+p", "escape", "slash", "escape")
AROUND = ["comma", "escape", "D", "escape", "w", "escape", "semicolon", "escape"]
RUNNING = ["4", "ctrl+s", "f12", "d", "escape"]


def modules_after(program: str, folder: Path, *words: str) -> set[str]:
    write_course(folder / "course", exercises=2, lessons=2)
    (folder / "course" / "01_lesson_1" / "lesson.md").write_text("# Code\n\n    x = 1\n\n```\nsome text\n```\n")
    load_course(folder / "course")
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder), *words], capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return set(ast.literal_eval(done.stdout.splitlines()[-1]))


def test_nothing_heavy_is_imported_before_the_first_paint(tmp_path: Path) -> None:
    modules = modules_after(BEFORE_THE_FIRST_PAINT, tmp_path)
    assert "gpututor.app.main.screen" in modules
    assert {name: HEAVY[name] for name in modules & HEAVY.keys()} == {}


def test_until_something_was_run_numpy_is_not_imported(tmp_path: Path) -> None:
    modules = modules_after(AN_EVENING, tmp_path, *READING, *AROUND)
    assert "markdown_it" in modules
    assert {*NEVER, "numpy"} & modules == set()
    assert sum(name.startswith("pygments.lexers.") for name in modules) < 12, "a language is guessed"


def test_the_process_of_the_app_never_imports_torch(tmp_path: Path) -> None:
    modules = modules_after(AN_EVENING, tmp_path, *READING, *RUNNING, *AROUND)
    assert "gpututor.app.screens.trace" in modules
    assert NEVER & modules == set()


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """Yield the generations that the garbage collector examines; restore its settings afterwards."""
    looked_at: list[int] = []

    def note(phase: str, about: dict[str, int]) -> None:
        if phase == "start":
            looked_at.append(about["generation"])

    threshold = gc.get_threshold()
    gc.callbacks.append(note)
    yield looked_at
    gc.callbacks.remove(note)
    gc.unfreeze()
    gc.set_threshold(*threshold)


def test_a_full_collection_waits_for_a_long_pause(collections: list[int]) -> None:
    now = 0.0
    collector = GcScheduler(lambda: now)
    collector.collect_if_idle()
    assert collections == []  # before the start everything is new
    collector.start()
    gc.set_threshold(0)
    collector.note_input()
    waste = [[] for _ in range(5000)]  # type: ignore[var-annotated]
    collector.collect_if_idle()
    assert collections == []  # a key came
    now += QUIET_S
    collector.collect_if_idle()
    collector.collect_if_idle()
    assert collections == [1]
    now += LONG_QUIET_S
    collector.collect_if_idle()
    collector.collect_if_idle()
    assert collections == [1, 2]
    assert waste


def test_no_change_of_the_focus_restyles_what_is_inside_a_pane() -> None:
    names = [*runtime.FIRST, *runtime.LATER]
    assert not [name for name in names if ":focus-within" in runtime.path_of(name).read_text("utf-8")]


async def test_the_frame_says_where_the_keys_go(env: AppEnv) -> None:
    async with env.start((140, 40)) as pilot:
        panes = main_screen(pilot).panes
        await pilot.press("l")
        await until(pilot, lambda: panes.course.has_class("-focused"), "for the list")
        await pilot.press("5")
        await until(pilot, lambda: panes.results.has_class("-focused"), "for the results")
        assert not panes.course.has_class("-focused")
        assert panes.results.styles.border_top != panes.course.styles.border_top


async def test_changes_in_one_step_are_painted_once_in_the_next_step(
    pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    await pilot.pause()
    painted: list[str] = []
    render = Compositor.render_update

    def counted(self: Compositor, *arguments: object, **named: object) -> object:
        painted.append(screen_text(pilot.app))
        return render(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Compositor, "render_update", counted)
    screen = main_screen(pilot)
    for word in ("one", "two", "three"):
        screen.status.show_message(word)
        screen._refresh_layout()
    assert not painted
    await until(pilot, lambda: bool(painted), "for a paint")
    assert "three" in painted[0]


async def test_what_changes_between_the_layout_and_the_paint_is_painted(
    pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    await pilot.pause()
    painted: list[list[Region]] = []
    render = Compositor.render_update

    def noted(self: Compositor, *arguments: object, **named: object) -> object:
        painted.append(list(self._dirty_regions))
        return render(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Compositor, "render_update", noted)
    screen = main_screen(pilot)
    screen._compositor_refresh()
    screen.status.show_message("late")
    screen._dirty_widgets.add(screen.status)  # as the screen does when it hears of it
    await until(pilot, lambda: bool(painted), "for a paint")
    assert screen.status.region in painted[0]


@pytest.mark.long
async def test_words_of_a_text_share_the_styles_of_the_text(env: AppEnv) -> None:
    task = env.course.exercises[0].folder / "task.md"
    task.write_text("# Task\n\nUse `torch` **now**, and *only* it.\n\n- one `item`\n", encoding="utf-8")
    async with env.start() as pilot:
        reader = main_screen(pilot).panes.reader
        blocks = list(reader.query(MarkdownBlock))
        assert len(blocks) >= 4
        assert not any(block._component_styles for block in blocks)
        paragraph = next(block for block in blocks if "torch" in block._content.plain)
        assert paragraph._get_style(".code_inline").foreground != paragraph._get_style(".em").foreground
        assert paragraph._get_style(".strong").bold
        assert paragraph._get_style(".em").italic
