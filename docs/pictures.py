"""Draw the pictures of the README with the app and real runs: `python docs/pictures.py`."""

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
from gpututor.course.loader import load_course
from gpututor.course.model import Course, Exercise
from gpututor.course.workspace import Workspace, make_workspace
from gpututor.grading.client import QUICKEST, GradingClient
from gpututor.grading.events import GradeRequest, GradingFinished
from gpututor.progress.store import ProgressStore

PICTURES = Path(__file__).parent / "pictures"
SIZE = (140, 38)
FAILURE = ("born_on_the_device", "made_and_moved.py")
TIMELINE = ("prefetcher", "results_come_home.py")


def wrong_solution(exercise: Exercise, name: str) -> str:
    """Return a wrong solution without its first two lines, which name the mistake."""
    wrong = (exercise.folder / "wrong" / name).read_text(encoding="utf-8")
    return "".join(wrong.splitlines(keepends=True)[2:])


async def run_checks(pilot: Pilot[None]) -> None:
    screen = main_screen(pilot)
    await pilot.press("ctrl+s")
    await until(pilot, lambda: screen.running)
    await until(pilot, lambda: not screen.running)
    await pilot.pause(1.0)


async def show_list(pilot: Pilot[None]) -> None:
    await pilot.press("f2")


async def show_failure(pilot: Pilot[None]) -> None:
    await run_checks(pilot)  # loads PyTorch, so that the second run starts at once
    await pilot.press("f3")
    await run_checks(pilot)


async def show_timeline(pilot: Pilot[None]) -> None:
    await run_checks(pilot)
    await pilot.press("f10")
    await pilot.pause(1.0)
    await pilot.press("up", "n", "n")


SCENES: tuple[tuple[str, tuple[str, str], Callable[[Pilot[None]], object]], ...] = (
    ("list", FAILURE, show_list),
    ("failure", FAILURE, show_failure),
    ("timeline", TIMELINE, show_timeline),
)


class Learner:
    """A learner who has passed some exercises, with files and progress of their own."""

    def __init__(self) -> None:
        self.course: Course = load_course(paths.builtin_course())
        self.workspace: Workspace = make_workspace(paths.default_workspace(), self.course)[0]
        self.progress = ProgressStore(paths.progress_file())
        self.client = GradingClient(workers=QUICKEST)

    def close(self) -> None:
        self.client.close()
        self.progress.close()

    def pass_exercises_before(self, last: Exercise) -> None:
        """Record a pass of each exercise before `last`."""
        for exercise in self.course.exercises:
            if exercise.key == last.key:
                return
            request = GradeRequest(str(exercise.folder), exercise.solution, "solution.py")
            for event in self.client.grade(request):
                if isinstance(event, GradingFinished):
                    self.progress.record(event.report, exercise.solution)

    async def picture(self, of: tuple[str, str], act: Callable[[Pilot[None]], object]) -> str:
        """Return the app's screen as SVG, with a wrong solution of an exercise, after `act`."""
        exercise = self.course.find(of[0])
        self.workspace.write(exercise, wrong_solution(exercise, of[1]))
        self.progress.set_current_exercise(exercise.key)
        app = GpututorApp(course=self.course, workspace=self.workspace, progress=self.progress, client=GradingClient())
        async with app.run_test(size=SIZE) as pilot:
            await until(pilot, lambda: main_screen(pilot).is_ready)
            result = act(pilot)
            assert asyncio.iscoroutine(result)
            await result
            await pilot.pause(0.5)
            return app.export_screenshot(title="gpututor")


def main_screen(pilot: Pilot[None]) -> MainScreen:
    return next(screen for screen in pilot.app.screen_stack if isinstance(screen, MainScreen))


async def until(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    while not holds():
        await pilot.pause(0.05)


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        os.environ["GPUTUTOR_HOME"] = home
        learner = Learner()
        try:
            learner.pass_exercises_before(learner.course.find(FAILURE[0]))
            for name, of, act in SCENES:
                svg = asyncio.run(learner.picture(of, act))
                # The reader's own monospace font: the picture must not load a font from the web.
                svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL).replace("Fira Code", "monospace")
                svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)
                (PICTURES / f"{name}.svg").write_text(svg, encoding="utf-8")
                print(PICTURES / f"{name}.svg")
        finally:
            learner.close()


if __name__ == "__main__":
    main()
