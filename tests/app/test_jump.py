"""Letters over everything that a learner can jump to."""

from __future__ import annotations

import pytest
from textual.geometry import Offset
from textual.pilot import Pilot

from gpututor.app.commands import Pane
from gpututor.app.screens.jump import LETTERS, JumpScreen, JumpTarget, lettered
from gpututor.app.widgets.results import CheckRow
from gpututor.course.loader import load_course
from tests.support.apps import AppEnv, main_screen, run_checks, until, until_shown
from tests.support.parameters import mostly_long
from tests.support.screens import screen_lines
from tests.support.tiny_course import write_course

SIZES = [(80, 24), (100, 30), (140, 40), (180, 50), (40, 12)]


def letters(pilot: Pilot[None]) -> dict[str, Offset]:
    assert isinstance(pilot.app.screen, JumpScreen)
    return pilot.app.screen.letters


async def jump(pilot: Pilot[None], key: str = "semicolon") -> dict[str, Offset]:
    await pilot.press(key)
    await until(pilot, lambda: isinstance(pilot.app.screen, JumpScreen), "for the letters")
    await until_shown(pilot, "Press a letter to go there."[: pilot.app.size.width - 2])
    return letters(pilot)


def letter_before(pilot: Pilot[None], words: str) -> str:
    """Return the letter right before some words."""
    for letter, offset in letters(pilot).items():
        if screen_lines(pilot.app)[offset.y][offset.x + 1 :].lstrip().startswith(words):
            return letter
    raise AssertionError(f"no letter before {words!r}: {screen_lines(pilot.app)}")


@pytest.mark.parametrize("size", mostly_long(SIZES, [(80, 24)]), ids=str)
@pytest.mark.parametrize("keys", [(), ("1",), ("2",), ("e", "escape"), ("r",), ("h",)], ids=str)
async def test_no_letter_is_cut_and_none_hides_another(
    pilot: Pilot[None], size: tuple[int, int], keys: tuple[str, ...]
) -> None:
    for key in keys:
        await pilot.press(key)
        await until(pilot, lambda: not main_screen(pilot).running, "for the verdicts")
        await pilot.pause()
    shown = await jump(pilot)
    assert len(set(shown.values())) == len(shown) > 5
    lines = screen_lines(pilot.app)
    assert all(len(line) <= size[0] for line in lines)
    for letter, offset in shown.items():
        assert pilot.app.screen.region.contains_point(offset)
        assert lines[offset.y][offset.x] == letter


async def test_letters_lead_to_panes_links_and_checks_until_a_resize(pilot: Pilot[None]) -> None:
    await jump(pilot)
    await pilot.press(letter_before(pilot, "5 Results"))
    await until(pilot, lambda: main_screen(pilot).panes.current is Pane.RESULTS, "for the pane")
    assert pilot.app.screen is main_screen(pilot)
    await pilot.press("2")
    await until_shown(pilot, "1.2 Twice 2: Double a number.")
    await jump(pilot)
    await pilot.press(letter_before(pilot, "1.2 Twice 2"))
    await until(pilot, lambda: main_screen(pilot).exercise.label == "1.2", "for the task")
    await pilot.press("backspace")
    await until(pilot, lambda: main_screen(pilot).panes.current is Pane.LESSON, "for the lesson")
    await run_checks(pilot)
    await until_shown(pilot, "passed The check called loads holds")
    await jump(pilot)
    await pilot.press(letter_before(pilot, "✓ passed    The check called loads"))
    first = main_screen(pilot).panes.results.rows[0]
    await until(pilot, lambda: pilot.app.focused is first, "for the check")
    assert isinstance(first, CheckRow)
    await jump(pilot)
    await pilot.resize_terminal(100, 30)
    await until(pilot, lambda: pilot.app.screen is main_screen(pilot), "for the end")


async def test_a_letter_on_a_pane_goes_into_it_also_from_the_editor(env: AppEnv) -> None:
    async with env.start((140, 40)) as pilot:
        screen = main_screen(pilot)
        await pilot.press("e")
        await until(pilot, lambda: pilot.app.focused is screen.panes.editor, "for the editor")
        before = screen.panes.editor.text
        await jump(pilot, "ctrl+o")
        await pilot.press(letter_before(pilot, "Results"))
        await until(pilot, lambda: screen.panes.current is Pane.RESULTS, "for the results")
        assert screen.panes.editor.text == before


async def test_a_letter_on_a_row_of_a_scrolled_list_opens_it(env: AppEnv) -> None:
    env.course = load_course(write_course(env.folder / "long", exercises=6, lessons=6))
    async with env.start() as pilot:
        await pilot.press("1", "G")
        await until_shown(pilot, "6.6 Twice 6")
        await jump(pilot)
        await pilot.press(letter_before(pilot, "○ 6.2 Twice 2"))
        await until(pilot, lambda: main_screen(pilot).exercise.label == "6.2", "for the exercise")


@pytest.mark.parametrize(
    "key",
    mostly_long(
        ["escape", "space", "1", "semicolon", "enter", "tab", "f4", "ctrl+s"], ["escape", "1", "enter", "ctrl+s"]
    ),
)
async def test_any_other_key_closes_and_does_nothing_else(pilot: Pilot[None], env: AppEnv, key: str) -> None:
    await jump(pilot)
    await pilot.press(key)
    await until(pilot, lambda: pilot.app.screen is main_screen(pilot), "for the end")
    assert main_screen(pilot).panes.current is Pane.TASK
    assert not env.client.requests


def test_more_targets_than_letters_get_no_letter_twice() -> None:
    targets = [JumpTarget(Offset(x % 50, x % 7), list) for x in range(300)]
    by_letter = lettered(targets)
    assert list(by_letter) == list(LETTERS)
    assert len({target.offset for target in by_letter.values()}) == len(LETTERS)
