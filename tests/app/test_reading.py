"""What the reader shows: the newest hint is in sight, and no pane's text stands under the title of another."""

from __future__ import annotations

import pytest
from textual.await_complete import AwaitComplete

from gpututor.app.widgets.markdown import CourseText
from gpututor.course.loader import load_course
from tests.support.apps import AppEnv, main_screen, until_shown
from tests.support.parameters import mostly_long
from tests.support.screens import screen_text

HINTS = 4


def hints(env: AppEnv) -> None:
    """Give the first exercise hints of which two fill a screen of 24 lines."""
    parts = (f"## Step {n}\n\n" + "".join(f"Line {m} of {n}.\n\n" for m in range(1, 7)) for n in range(1, HINTS + 1))
    (env.course.exercises[0].folder / "hints.md").write_text("\n".join(parts))
    env.course = load_course(env.course.folder)


@pytest.mark.parametrize("at_once", [True, False], ids=["in one moment", "one by one"])
async def test_the_newest_hint_is_in_sight(env: AppEnv, at_once: bool) -> None:
    hints(env)
    async with env.start() as pilot:
        for number in range(1, HINTS + 1):
            await pilot.press("h")
            if not at_once:
                await until_shown(pilot, f"Line 6 of {number}.")
                await until_shown(pilot, f"Step {number}")
        await until_shown(pilot, f"Line 6 of {HINTS}.")
        await until_shown(pilot, f"Step {HINTS}")
        assert "Line 1 of 1." not in screen_text(pilot.app)
        await pilot.press("g")
        await until_shown(pilot, "Line 1 of 1.")
        await pilot.press("h")
        await until_shown(pilot, f"Line 6 of {HINTS}.")


@pytest.mark.parametrize("size", mostly_long([(80, 24), (100, 30)], [(80, 24)]), ids=str)
async def test_no_text_stands_under_the_title_of_another_pane(
    env: AppEnv, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    update = CourseText.update
    displayed: list[bool] = []

    def looked_at(self: CourseText, markdown: str) -> AwaitComplete:
        displayed.append(self.display)
        return update(self, markdown)

    async with env.start(size) as pilot:
        monkeypatch.setattr(CourseText, "update", looked_at)
        reader = main_screen(pilot).panes.reader
        for key, title, words in (
            ("2", "Lesson", "1.2 Twice 2: Double a number."),
            ("t", "Task", "Write twice(number)."),
        ) * 2:
            await pilot.press(key)
            await until_shown(pilot, words)
            assert reader.border_title == title
    assert displayed
    assert not any(displayed), "what stood there goes before the title changes"
