"""The screen as text: goldens, small and colorless terminals, footers that are never cut."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from gpututor.app.commands import BY_ID, COMMANDS, FOOTERS, Pane
from gpututor.app.wording import initial_cursor
from gpututor.course.loader import load_course
from gpututor.course.model import Exercise
from gpututor.paths import builtin_course
from tests.support.apps import AppEnv, main_screen, run_checks, settle, until, until_shown
from tests.support.parameters import mostly_long
from tests.support.screens import TRIED_SIZES, assert_golden, screen_lines, screen_text
from tests.support.scripted_client import ScriptedClient, failure, report, verdict
from tests.support.tiny_course import RIGHT, write_course

STEPS: dict[str, tuple[str, ...]] = {
    "course": ("1",),
    "lesson": ("2",),
    "task": (),
    "code": ("4",),
    "failure": ("4", "ctrl+s"),
    "failure_line": ("4", "ctrl+s", "f12"),
    "hints": ("h", "h"),
    "help": ("f1",),
    "reset": ("x",),
    "solution": ("s", "y"),
    "filter": ("1", "slash", "2"),
    "search": ("slash", *"small"),
    "jump": ("semicolon",),
    "everything": ("r", "v"),
}
"""Keys that open each screen from the start."""


@pytest.mark.parametrize("size", TRIED_SIZES, ids=str)
@pytest.mark.parametrize("name", STEPS)
async def test_the_screen_looks_as_agreed(pilot: Pilot[None], name: str) -> None:
    for key in STEPS[name]:
        await pilot.press(key)
        await settle(pilot)
    await assert_golden(pilot, name)


@pytest.mark.parametrize("size", TRIED_SIZES, ids=str)
async def test_the_welcome_looks_as_agreed(env: AppEnv, size: tuple[int, int]) -> None:
    async with env.start(size, first=True) as pilot:
        await pilot.pause()
        await assert_golden(pilot, "welcome")


@pytest.mark.parametrize(
    "size", mostly_long([(60, 20), (40, 10), (8, 5), (2, 1), (200, 60)], [(40, 10), (2, 1)]), ids=str
)
async def test_no_size_crashes(pilot: Pilot[None]) -> None:
    for key in ("1", "2", "3", "4", "f6", "6", "f1", "escape", "x", "escape", "s", "escape"):
        await pilot.press(key)
    await run_checks(pilot)
    assert main_screen(pilot).panes.results.first_failure is not None


def rows_from_head(exercise: Exercise) -> int:
    """Return the number of lines from the head of the starter's function to its first TODO."""
    before = exercise.starter.splitlines()[: initial_cursor(exercise.starter.splitlines())[0]]
    heads = [row for row, line in enumerate(before) if line.startswith(f"def {exercise.entry}(")]
    return len(before) - heads[0] if heads else 0


@pytest.mark.parametrize("size", mostly_long([(80, 24), (100, 30)], [(80, 24)]), ids=str)
async def test_a_new_exercise_opens_where_there_is_something_to_write(env: AppEnv, size: tuple[int, int]) -> None:
    """The TODO is in sight with the head of its function, even in the exercise where they are farthest apart."""
    env.course = load_course(builtin_course())
    far = max(env.course.exercises, key=rows_from_head)
    async with env.start(size, at_top=False) as pilot:
        screen = main_screen(pilot)
        screen.navigator.open_exercise(far, Pane.CODE)
        await until_shown(pilot, "# TODO")
        await until_shown(pilot, f"def {far.entry}(")
        editor = screen.panes.editor
        row, column = editor.cursor_location
        assert editor.document[row][column:].startswith("# TODO")
        editor.move_cursor((1, 0))
        await pilot.press("shift+f9", "f9")
        await until(pilot, lambda: screen.exercise.key == far.key, "for the exercise again")
        assert editor.cursor_location == (1, 0), "a place that is remembered holds"


async def test_the_code_above_the_task_shows_where_to_write(env: AppEnv) -> None:
    """The first TODO of each file is in sight with the line after it, though the task has the focus."""
    env.course = load_course(builtin_course())
    lesson = env.course.lessons[3].exercises
    async with env.start((100, 30), at_top=False) as pilot:
        screen = main_screen(pilot)
        editor = screen.panes.editor
        screen.navigator.open_exercise(lesson[0], Pane.CODE)
        for exercise in lesson[1:]:
            await pilot.press("ctrl+n")
            await until_shown(pilot, f"{exercise.label} {exercise.title}")
            await settle(pilot)
            assert screen.panes.current is Pane.TASK
            row, top = editor.cursor_location[0], editor.scroll_offset.y
            assert top <= row < top + editor.scrollable_content_region.height - 1, exercise.label


def test_the_first_place_to_write_is_told_by_its_words() -> None:
    assert initial_cursor(["def f():", "    raise NotImplementedError", "# TODO"]) == (1, 4)
    assert initial_cursor(["def f():", '    """Text."""', "    return 1"]) == (0, 0), "nothing says so"
    for exercise in load_course(builtin_course()).exercises:
        assert initial_cursor(exercise.starter.splitlines()) != (0, 0), exercise.key


async def test_a_resize_changes_the_panes_and_another_exercise_the_news(pilot: Pilot[None]) -> None:
    assert "def twice" not in screen_text(pilot.app)
    await pilot.resize_terminal(180, 45)
    await until(pilot, lambda: "def twice" in screen_text(pilot.app), "for the editor")
    assert "○ 1.2 Twice 2" in screen_text(pilot.app)
    await pilot.resize_terminal(80, 24)
    await until(pilot, lambda: "def twice" not in screen_text(pilot.app), "for one pane")
    await pilot.press("f")
    assert "No failed check points at a line." in screen_text(pilot.app)
    await pilot.press("n")
    await until(pilot, lambda: "No failed check" not in screen_text(pilot.app), "for the news to go")


@pytest.mark.parametrize("pane", list(Pane))
async def test_the_footer_fits_80_columns_and_keeps_help_and_quit(pilot: Pilot[None], pane: Pane) -> None:
    main_screen(pilot).show_pane(pane)
    await settle(pilot)
    footer = screen_lines(pilot.app)[-1]
    useless = {"open_check", "go_to_failure", "show_history", "go_back"}  # nothing has run, no link was followed
    if pane is Pane.CODE:
        useless |= {"next_exercise", "show_solution"}
    shown = [BY_ID[id].title for id in FOOTERS[pane] if id not in useless]
    assert all(title in footer for title in shown), footer


async def footer(pilot: Pilot[None]) -> str:
    await settle(pilot)
    return screen_lines(pilot.app)[-1]


async def test_the_footer_names_only_what_the_learner_can_do_now(pilot: Pilot[None]) -> None:
    await pilot.press("5")
    assert "Go to line" not in await footer(pilot), "nothing was run"
    await pilot.press("r")
    assert "f Go to line" in await footer(pilot)
    main_screen(pilot).panes.editor.load_text(RIGHT)
    await pilot.press("r")
    assert "Go to line" not in await footer(pilot), "it passed"
    await pilot.press("h")
    assert "h Hint" in await footer(pilot)
    await pilot.press("h", "h")
    assert "Hint" not in (await footer(pilot)), "all hints are shown"
    await pilot.press("n", "n", "n")
    assert "Next" not in await footer(pilot), "this is the last exercise"


async def test_the_footer_of_the_editor_follows_the_result(pilot: Pilot[None]) -> None:
    await pilot.press("e")
    before = await footer(pilot)
    assert "Go to line" not in before
    assert "Next" not in before
    assert "Solution" not in before
    await run_checks(pilot)
    await pilot.press("e")
    assert "F12 Go to line" in await footer(pilot)
    main_screen(pilot).panes.editor.load_text(RIGHT)
    await run_checks(pilot)
    await pilot.press("e")
    after = await footer(pilot)
    assert "^n Next  F8 Solution" in after
    assert "Go to line" not in after


async def test_a_folded_failure_with_the_cursor_names_the_key_that_opens_it(env: AppEnv) -> None:
    env.client = ScriptedClient(lambda request: report(request, verdict("loads"), failure(), failure(scenario="other")))
    async with env.start() as pilot:
        await pilot.press("r")
        assert "Space" not in await footer(pilot), "the first failure is open"
        await pilot.press("j")
        assert "Space Open" in await footer(pilot)
        await pilot.press("space")
        assert "Space" not in await footer(pilot)
        await pilot.press("space")
        assert "Space Open" in await footer(pilot)


def test_no_key_means_two_things() -> None:
    keys = [key for command in COMMANDS for key in (*command.keys, *command.letters)]
    assert len(keys) == len(set(keys))
    assert not {"ctrl+enter", "ctrl+m", "ctrl+i", "ctrl+h", "ctrl+b", "ctrl+a", "ctrl+p"} & set(keys)


@pytest.mark.parametrize(("width", "words"), [(80, "0 of 6 passed"), (128, "0/6")])
async def test_all_lessons_of_a_long_list_show_their_progress_alike(env: AppEnv, width: int, words: str) -> None:
    """Some titles leave space for the words and others do not; the scroll bar of a long list takes a column."""
    course = write_course(env.folder / "long", exercises=6, lessons=8)
    settings = course / "02_lesson_2" / "lesson.toml"
    settings.write_text(settings.read_text().replace("Small things", "Architectures that suit a GPU"))
    env.course = load_course(course)
    async with env.start((width, 70)) as pilot:
        await pilot.press("1")
        await until_shown(pilot, words)
        assert screen_text(pilot.app).count(words) == 8
        await pilot.resize_terminal(width, 24)
        await until_shown(pilot, words)
