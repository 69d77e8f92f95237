"""The learner's app under a pilot, with a tiny course."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from textual import events
from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

from gpututor.app.app import GpututorApp
from gpututor.app.editor.editor import Editor
from gpututor.app.main import navigation
from gpututor.app.main.screen import MainScreen
from gpututor.app.screens.base import QuestionDialog
from gpututor.course.model import Course
from gpututor.course.workspace import Workspace, make_workspace
from gpututor.paths import settings_file
from gpututor.progress.store import ProgressStore
from tests.support.screens import screen_text
from tests.support.scripted_client import ScriptedClient
from tests.support.timeouts import PATIENCE_S

AnyScreen = TypeVar("AnyScreen", bound=Screen[Any])


async def until(
    pilot: Pilot[None], holds: Callable[[], bool], what: str = "", *, patience_s: float = PATIENCE_S
) -> None:
    """Let the app work until a condition holds."""
    deadline = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience_s:.0f} s in vain {what}; the screen:\n{screen_text(pilot.app)}")
        await pilot.pause()


async def until_shown(pilot: Pilot[None], text: str) -> None:
    """Let the app work until the screen shows a text, whatever its line breaks."""

    def shown() -> bool:
        return " ".join(text.split()) in " ".join(screen_text(pilot.app).replace("│", " ").split())

    await until(pilot, shown, f"for {text!r}")


async def until_on(pilot: Pilot[None], kind: type[AnyScreen]) -> AnyScreen:
    """Wait until a screen of a class is in front, and return it."""
    await until(pilot, lambda: isinstance(pilot.app.screen, kind), f"for {kind.__name__}")
    screen = pilot.app.screen
    assert isinstance(screen, kind)
    return screen


@dataclass
class AppEnv:
    """A course, a workspace and a client that outlive a start of the app."""

    folder: Path
    course: Course
    client: ScriptedClient = field(default_factory=ScriptedClient)

    @property
    def workspace_folder(self) -> Path:
        return self.folder / "workspace"

    @property
    def workspace(self) -> Workspace:
        return make_workspace(self.workspace_folder, self.course)[0]

    def file(self, number: int = 0) -> Path:
        return self.workspace.path_of(self.course.exercises[number])

    def progress(self) -> ProgressStore:
        return ProgressStore(self.folder / "progress.sqlite3")

    @contextlib.asynccontextmanager
    async def start(
        self, size: tuple[int, int] = (80, 24), *, first: bool = False, at_top: bool = True
    ) -> AsyncIterator[Pilot[None]]:
        """Start the app under test; `first`: as at the very first start, without a workspace.

        `at_top`: files open at their top, where most tests type; else where there is something to write.
        """
        progress = self.progress()
        app = GpututorApp(
            course=self.course,
            workspace=None if first else self.workspace,
            progress=progress,
            client=self.client,
            new_workspace=self.workspace_folder,
        )
        app.animation_level = "none"
        at_its_top = mock.patch.object(navigation, "initial_cursor", return_value=(0, 0))
        try:
            with at_its_top if at_top else contextlib.nullcontext():
                async with app.run_test(size=size) as pilot:
                    if not first:
                        await ready(pilot)
                    yield pilot
        finally:
            progress.close()


async def ready(pilot: Pilot[None]) -> None:
    """Wait until the main screen has all that comes after its first paint."""
    await until(pilot, lambda: any(isinstance(each, MainScreen) for each in pilot.app.screen_stack), "for the screen")
    screen = main_screen(pilot)
    screen.panes.editor.cursor_blink = False
    await until(pilot, lambda: screen.is_ready, "for the texts")
    await until(pilot, lambda: pilot.app.focused is not None, "for a focus")


def main_screen(pilot: Pilot[None]) -> MainScreen:
    screen = next(screen for screen in pilot.app.screen_stack if isinstance(screen, MainScreen))
    assert isinstance(screen, MainScreen)
    return screen


def stop_ticking(pilot: Pilot[None]) -> Callable[[], None]:
    """Stop the timers that look at the file; return a function that starts them again."""
    timers = list(main_screen(pilot)._timers)
    for timer in timers:
        timer.pause()

    def start() -> None:
        for timer in timers:
            timer.resume()

    return start


async def edit(pilot: Pilot[None], text: str | None = None) -> Editor:
    """Go to the editor, and put a text into it."""
    editor = main_screen(pilot).panes.editor
    await pilot.press("e")
    await until(pilot, lambda: editor.has_focus, "for the editor")
    if text is not None:
        editor.show(text)
        await pilot.pause()
    return editor


async def run_checks(pilot: Pilot[None]) -> None:
    await pilot.press("ctrl+s")
    await until(pilot, lambda: not main_screen(pilot).running, "for the verdicts")
    await pilot.pause()


DEFAULT_START = "def twice(number):"


def burst(app: App[None], *keys: str) -> None:
    """Send all keys at once: the app answers the first after the last has arrived."""
    for key in keys:
        app.post_message(events.Key(key, key if len(key) == 1 else None))


def is_asking(pilot: Pilot[None]) -> bool:
    return isinstance(pilot.app.screen, QuestionDialog)


def backups(env: AppEnv) -> list[str]:
    folder = env.workspace_folder / ".backups"
    return [path.read_text() for path in folder.iterdir()] if folder.exists() else []


async def edit_both(env: AppEnv, pilot: Pilot[None]) -> Callable[[], None]:
    """Change the file in the editor and on disk, before the app looks; return a function that lets it look again."""
    start_ticking = stop_ticking(pilot)  # as many keys may take as long as the autosave waits
    await pilot.press("e", *"m=1")
    env.file().write_text("theirs = 1\n")
    return start_ticking


async def start_conflict(env: AppEnv, pilot: Pilot[None]) -> None:
    (await edit_both(env, pilot))()
    await until(pilot, lambda: is_asking(pilot), "for the question")


def make_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


async def settle(pilot: Pilot[None]) -> None:
    """Wait until two looks at the screen show the same."""
    before = ""
    await until(pilot, lambda: not main_screen(pilot).running, "for the verdicts")
    while before != (now := screen_text(pilot.app)):
        before = now
        await pilot.pause()
        await pilot.pause()


def write(text: str) -> Path:
    path = settings_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
