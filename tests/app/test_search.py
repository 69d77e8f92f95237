"""Searching the names and texts of the course, and the sections of a lesson."""

from __future__ import annotations

import threading

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from gpututor.app.commands import Pane
from gpututor.app.course_index import MOST_RESULTS, TextIndex, excerpt
from gpututor.app.main.screen import MainScreen
from gpututor.app.screens.search import SearchScreen
from gpututor.course.loader import load_course
from gpututor.course.model import Lesson
from gpututor.paths import builtin_course
from tests.support.apps import AppEnv, burst, main_screen, until, until_shown
from tests.support.screens import TRIED_SIZES, screen_lines, screen_text

LESSON = "# Lesson 2\n\n" + "Some words.\n\n" * 60 + "## Pinned memory\n\nA page-locked\nbuffer is quick to `copy`.\n\n"


@pytest.fixture
def searchable(env: AppEnv) -> AppEnv:
    """Return an app whose lesson 2 and exercise 2.2 contain the words of the tests."""
    (env.course.lessons[1].folder / "lesson.md").write_text(LESSON + "Some words.\n\n" * 60)
    (env.course.exercises[3].folder / "task.md").write_text("# Twice\n\nMake a buffer [/bold] that is locked.\n")
    env.course = load_course(env.course.folder)
    return env


# The index


def test_words_are_found_in_any_order_with_headings_and_paragraphs_as_one(searchable: AppEnv) -> None:
    index = TextIndex(searchable.course)
    (passage,) = index.find("COPY page-locked buffer").passages
    assert isinstance(passage.page, Lesson)
    assert passage.where == "Lesson 2  Small things › Pinned memory"
    assert passage.text == "A page-locked buffer is quick to copy."
    assert LESSON.split("\n")[passage.line] == "A page-locked"
    (searchable.course.lessons[1].folder / "lesson.md").write_text(
        "# Lesson 2\n\n## Streams\n\nStreams are queues.\n\nTwo streams run side by side.\n"
    )
    results = TextIndex(load_course(searchable.course.folder)).find("streams")
    assert [passage.text for passage in results.passages] == ["Streams are queues.", "Two streams run side by side."]
    assert (results.total, results.passages[0].line) == (2, 2), "the heading is the better place"


def test_names_come_before_headings_and_texts_and_the_best_are_listed() -> None:
    course = load_course(builtin_course())
    results = TextIndex(course).find("pinned memory")
    assert results.passages[0].where == "Task 5.5  Pinned memory"
    assert results.passages[1].where.endswith("› Pinned memory")
    assert results.total > 3
    first, second, *_ = TextIndex(course).find("autocast").passages
    assert (first.where, second.where) == ("Task 7.1  Autocast", "Lesson 7  Precision › Autocast")
    for words in ("compile", "9.2"):
        assert TextIndex(course).find(words).passages[0].where == "Task 9.2  Compile"
    results = TextIndex(course).find("e")
    assert results.total > MOST_RESULTS == len(results.passages)


def test_hints_and_solutions_are_not_searched_nor_unreadable_texts(searchable: AppEnv) -> None:
    index = TextIndex(searchable.course)
    assert index.find("Look at the name").total == 0
    assert index.find("return 2").total == 0
    assert index.find("").total == 0
    assert index.find("   ").total == 0
    assert index.find("*** [/] \\ (").total == 0
    (searchable.course.exercises[0].folder / "task.md").unlink()
    assert TextIndex(searchable.course).find("buffer").total == 2


def test_an_excerpt_holds_the_words_and_marks_what_is_left_out() -> None:
    text = "The first words say little, and then comes the needle that one looks for in all of the hay around it."
    for width in (20, 30, 50, 200):
        shown, marks = excerpt(text, "NEEDLE", width)
        assert len(shown) <= width
        assert [shown[start:end] for start, end in marks] == ["needle"]
        assert (len(shown) == len(text)) is ("…" not in shown)
    assert excerpt("İstanbul", "istanbul", 20)[0] == "İstanbul"


# The screen


@pytest.mark.parametrize("size", TRIED_SIZES, ids=str)
async def test_each_place_takes_two_lines_and_what_is_cut_is_marked(env: AppEnv, size: tuple[int, int]) -> None:
    env.course = load_course(builtin_course())
    async with env.start(size) as pilot:
        await pilot.press("slash", *"copy")
        await until_shown(pilot, f"the best {MOST_RESULTS}")
        results = pilot.app.screen.query_one(OptionList)
        assert results.virtual_size.height == 2 * MOST_RESULTS


@pytest.mark.parametrize("size", TRIED_SIZES, ids=str)
async def test_a_slash_searches_as_one_types_and_enter_opens_the_place(
    searchable: AppEnv, pilot: Pilot[None], screen: MainScreen
) -> None:
    await pilot.press("slash", *"page-locked")
    await until_shown(pilot, "Search: 1 place")
    await until_shown(pilot, "Lesson 2 Small things › Pinned memory")
    await until_shown(pilot, "A page-locked buffer is quick to copy.")
    await pilot.press("enter")
    await until_shown(pilot, "A page-locked buffer is quick to copy.")
    assert main_screen(pilot).is_current
    assert screen.panes.current == "lesson"
    assert screen.exercise.label == "1.1", "reading a lesson leaves the exercise open"
    await pilot.press("backspace")
    assert screen.panes.current == "task"


async def test_a_burst_of_letters_and_deletions_keeps_its_order(pilot: Pilot[None]) -> None:
    keys = (*"abc", "backspace", *"de", "backspace", "f")
    for openers, is_open in ((("slash",), SearchScreen), (("1", "slash"), MainScreen)):
        await pilot.press(*openers)
        await until(pilot, lambda: isinstance(pilot.app.focused, Input), "for the input")
        assert isinstance(pilot.app.screen, is_open)
        field = pilot.app.focused
        assert isinstance(field, Input)
        burst(pilot.app, *keys)
        await until(pilot, lambda field=field: field.value == "abdf", "for the letters")  # type: ignore[misc]
        await pilot.press("escape")


async def test_a_task_that_was_found_is_opened_with_its_exercise(
    searchable: AppEnv, pilot: Pilot[None], screen: MainScreen
) -> None:
    await pilot.press("e", "shift+f3", *"locked", "down", "up")
    await until_shown(pilot, "Make a buffer [/bold] that is locked.")
    await until_shown(pilot, "Search: 2 places")
    row = next(n for n, place in enumerate(_places(pilot.app.screen)) if "Task 2.2" in place)
    await pilot.press(*["down"] * row, "enter")
    await until(pilot, lambda: screen.exercise.label == "2.2", "for the exercise")
    assert screen.panes.current is Pane.TASK


def _places(screen: object) -> list[str]:
    assert isinstance(screen, SearchScreen)
    return [passage.where for passage in screen._results.passages]


async def test_nothing_found_and_no_sections_are_reported(searchable: AppEnv, pilot: Pilot[None]) -> None:
    await pilot.press("slash", *"xyzzy[/]")
    await until_shown(pilot, "Search: nothing has “xyzzy[/]”")
    await pilot.press("enter", "down", "enter")
    assert isinstance(pilot.app.screen, SearchScreen)
    await pilot.press("escape")
    assert main_screen(pilot).is_current
    await pilot.press("C")
    await until_shown(pilot, "This lesson has no sections.")


@pytest.mark.long
async def test_the_words_are_there_again_at_the_next_search(searchable: AppEnv, pilot: Pilot[None]) -> None:
    await pilot.press("slash")
    await until(pilot, lambda: isinstance(pilot.app.focused, Input), "for the line of words")
    await pilot.press(*"locked")
    await until_shown(pilot, "Search: 2 places")
    await pilot.press("escape")
    await until(pilot, lambda: pilot.app.screen is main_screen(pilot), "for the main screen")
    await pilot.press("slash")
    await until_shown(pilot, "Search: 2 places")
    await until(pilot, lambda: isinstance(pilot.app.focused, Input), "for the line of words")
    await pilot.press(*"page")
    await until(pilot, lambda: screen_lines(pilot.app)[4].split()[1:2] == ["page"], "for the new words only")


async def test_it_can_be_typed_in_while_the_texts_are_still_read(searchable: AppEnv) -> None:
    go_on = threading.Event()

    def slowly() -> TextIndex:
        assert go_on.wait(60)
        return TextIndex(searchable.course)

    async with searchable.start() as pilot:
        pilot.app.push_screen(SearchScreen(slowly))
        await pilot.pause()
        await pilot.press(*"page-locked")
        await until_shown(pilot, "Search: reading the texts")
        go_on.set()
        await until_shown(pilot, "Search: 1 place")


@pytest.mark.long
async def test_a_resize_draws_the_lines_anew(searchable: AppEnv) -> None:
    async with searchable.start((140, 40)) as pilot:
        await pilot.press("slash", *"page-locked")
        await until_shown(pilot, "Search: 1 place")
        await pilot.resize_terminal(40, 12)
        await until(pilot, lambda: "Lesson 2" in screen_text(pilot.app) and "…" in screen_text(pilot.app), "for a cut")
        await pilot.press("enter")
        await until_shown(pilot, "A page-locked")


# The contents of a lesson


@pytest.fixture
def sectioned(env: AppEnv) -> AppEnv:
    """Return an app whose second lesson has sections."""
    sections = "".join(f"## Part {number} [/]\n\n{'Words. ' * 200}\n\n" for number in range(1, 10))
    (env.course.lessons[1].folder / "lesson.md").write_text(f"# Lesson 2\n\n{sections}")
    env.course = load_course(env.course.folder)
    return env


@pytest.mark.parametrize("size", TRIED_SIZES, ids=str)
async def test_the_contents_of_a_lesson_lead_to_its_sections(sectioned: AppEnv, size: tuple[int, int]) -> None:
    async with sectioned.start(size) as pilot:
        screen = main_screen(pilot)
        screen.navigator.read_lesson(sectioned.course.lessons[1])
        await until_shown(pilot, "Part 1 [/]")
        await pilot.press("C")
        await until_shown(pilot, "Part 9 [/]")
        text = screen_text(pilot.app)
        assert text.index("Part 1 [/]") < text.index("Part 9 [/]"), "in the lesson's order"
        await pilot.press(*"prt7", "backspace", *" 7")
        await until(pilot, lambda: "Part 9" not in screen_text(pilot.app), "for the section alone")
        await pilot.press("enter")
        await until(pilot, lambda: screen.is_current, "for the lesson")
        top = screen.panes.reader.region.y
        await until(pilot, lambda: any("Part 7 [/]" in line for line in screen_lines(pilot.app)[top : top + 4]), "it")
        assert screen.panes.current is Pane.LESSON
        await pilot.press("backspace")
        assert screen.panes.current is Pane.LESSON


async def test_the_palette_finds_the_sections_of_all_lessons(sectioned: AppEnv) -> None:
    async with sectioned.start() as pilot:
        await pilot.press("ctrl+p", *"part 3")
        await until_shown(pilot, "Lesson 2: Part 3 [/]")
        await pilot.press("enter")
        await until(pilot, lambda: main_screen(pilot).navigator.lesson.number == 2, "for the lesson")
