"""Whatever is pressed, clicked, resized and changed on disk: the instructor's screen goes on, and no result is lost."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from textual.pilot import OutOfBounds, Pilot

from gpututor.app.classroom.app import ClassroomApp, source_of
from gpututor.app.classroom.regrade_client import RegradeClient
from gpututor.classroom.folder import ClassFolder
from tests.support.classes import describe_tiny_checks, graded_class
from tests.support.classroom_app import files, judged
from tests.support.random_actions import Answer, Click, Keys, Resize, Rest, key_event
from tests.support.scripted_client import BROKEN, ScriptedClient
from tests.support.tiny_course import write_course

KEYS = (
    *("enter", "escape", "tab", "shift+tab", "space", "backspace", "up", "down", "left", "right", "home", "end"),
    *("pageup", "pagedown", "f1", "f5", "f10", "ctrl+r", "ctrl+p", "ctrl+u"),
    *"123456789sjkghlGnpdRvrtc/?[]+-.aowk",
)
DISK = ("class.json", "class.secret", "options.json", "journal", "submissions", "recordings", "replaced", "course")
DAMAGE = ("removed", "broken", "restored")
Action = Keys | Click | Resize | Answer | Rest | tuple[str, str]
ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.builds(Keys, st.lists(st.sampled_from(KEYS), min_size=1, max_size=8).map(tuple)),
    st.builds(Keys, st.sampled_from([("enter", "R", "g"), ("enter", "d"), ("R", "g", "escape"), ("R", "g", "t")])),
    st.builds(Click, st.integers(0, 99), st.integers(0, 99), st.integers(1, 2)),
    st.builds(Resize, st.integers(8, 200), st.integers(3, 60)),
    st.builds(Answer, st.booleans()),
    st.builds(Rest, st.integers(1, 10)),
    st.tuples(st.sampled_from(DAMAGE), st.sampled_from(DISK)),
)


async def blow(base: Path, size: tuple[int, int], actions: list[Action]) -> None:
    """Start the screen on a class below `base`, and do all that."""
    course = write_course(base / "course", exercises=2, lessons=2)
    folder = ClassFolder(base / "class")
    graded_class(folder, files(), course)
    shutil.copytree(folder.folder, base / "kept")
    shutil.copytree(course, base / "kept" / "course")
    ends = iter(range(1_000_000))

    def judge(request: object) -> object:
        """Anything that a judge can say."""
        number = next(ends) % 4
        if number == 3:
            raise BROKEN
        return judged("lesson_1/twice_1_1", request.submission, (None, True, False)[number])  # type: ignore[attr-defined]

    client = ScriptedClient(judge)  # type: ignore[arg-type]
    app = ClassroomApp(source_of(folder), RegradeClient(folder, client))
    app.animation_level = "none"
    async with app.run_test(size=size) as pilot:
        for action in actions:
            await _do(pilot, client, base, action)
            if app._exit:
                break
        assert not any(path.is_symlink() for path in folder.folder.rglob("*"))


async def _do(pilot: Pilot[None], client: ScriptedClient, base: Path, action: Action) -> None:
    match action:
        case Keys(keys):
            for key in keys:
                pilot.app.post_message(key_event(key))
            await pilot.pause()
        case Click(x, y, times):
            width, height = pilot.app.size
            with contextlib.suppress(OutOfBounds):
                await pilot.click(offset=(x * width // 100, y * height // 100), times=times)
        case Resize(columns, lines):
            await pilot.resize_terminal(columns, lines)
        case Answer(holds):
            client.holds = holds
            client.released.set()
        case Rest(moments):
            for _ in range(moments):
                await pilot.pause(0.01)
        case (how, name):
            _damage(base, str(how), str(name))


def _damage(base: Path, how: str, name: str) -> None:
    """Another program removes something of the class, writes nonsense, or puts back what was there."""
    path = base / ("course" if name == "course" else f"class/{name}")
    kept = base / "kept" / name
    with contextlib.suppress(OSError):
        if how == "broken":
            for file in [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]:
                file.write_bytes(b"\xff{")
            return
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if how == "restored" and kept.exists():
        with contextlib.suppress(OSError):
            shutil.copytree(kept, path) if kept.is_dir() else shutil.copy(kept, path)


def storm(size: tuple[int, int], actions: list[Action]) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUTUTOR_HOME", f"{folder}/home")
        describe_tiny_checks(patch)
        asyncio.run(blow(Path(folder), size, actions))


STORMS: Mapping[str, st.SearchStrategy[object]] = {
    "size": st.sampled_from([(80, 24), (140, 40), (60, 15)]),
    "actions": st.lists(ACTIONS, min_size=15, max_size=45),
}
RULES = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))  # so that all cores take part
@settings(RULES, max_examples=25, print_blob=True)
@given(**STORMS)
def test_100_storms_do_not_crash_the_instructors_screen(
    part: int, size: tuple[int, int], actions: list[Action]
) -> None:
    storm(size, actions)
