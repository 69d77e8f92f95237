"""Navigation: the list and its filters, widths, tabs, the palette, and the start where a learner left off."""

from __future__ import annotations

import re

import pytest
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import Input

from gpututor.app.commands import COMMANDS, WIDGETS, Pane, help_keys
from gpututor.app.main.screen import MainScreen
from gpututor.app.screens.help import ABOUT
from gpututor.app.wording import reflowed
from gpututor.course.loader import load_course
from gpututor.paths import builtin_course
from gpututor.progress.overview import State, filter_rows, lesson_rows
from gpututor.progress.store import ExerciseProgress
from tests.support.apps import AppEnv, edit, main_screen, run_checks, until, until_shown
from tests.support.parameters import mostly_long
from tests.support.screens import screen_lines, screen_text
from tests.support.tiny_course import RIGHT, append, write_course

SIZES = [(80, 24), (100, 30), (140, 40)]


@pytest.fixture
def long_env(env: AppEnv) -> AppEnv:
    """Return an app with five lessons of four exercises each; 3.2 has a title and summary of its own."""
    folder = write_course(env.folder / "long", exercises=4, lessons=5)
    settings = folder / "03_lesson_3" / "02_twice_3_2" / "exercise.toml"
    text = re.sub('title = ".*"', 'title = "Pinned [memory]"', settings.read_text())
    settings.write_text(re.sub('summary = ".*"', 'summary = "Copy without a wait."', text))
    env.course = load_course(folder)
    return env


def listed_labels(pilot: Pilot[None]) -> list[str]:
    """Return the labels of the exercises in the list."""
    rows = main_screen(pilot).panes.course.list.options
    return re.findall(r"\b\d\.\d\b", "\n".join(str(row.prompt) for row in rows))


def cursor_row(pilot: Pilot[None]) -> str:
    option = main_screen(pilot).panes.course.list.highlighted_option
    return "" if option is None else str(option.id)


async def pass_first(pilot: Pilot[None]) -> None:
    main_screen(pilot).panes.editor.load_text(RIGHT)
    await run_checks(pilot)


# The list


def test_words_in_any_order_and_case_narrow_the_list(long_env: AppEnv) -> None:
    rows = lesson_rows(long_env.course, {})

    def labels(words: str, state: State | None = None) -> list[str]:
        return [row.label for _, kept in filter_rows(rows, words, state) for row in kept]

    assert labels("MEMORY pinned") == ["3.2"]
    assert labels("wait copy") == ["3.2"], "the summary is looked through too"
    assert labels("small pinned") == ["3.2"], "and the lesson's title"
    assert labels("3.") == ["3.1", "3.2", "3.3", "3.4"]
    assert labels("nothing of this") == []
    assert len(labels("")) == 20
    passed = lesson_rows(long_env.course, {long_env.course.exercises[0].key: ExerciseProgress(1, True)})
    assert [row.label for _, kept in filter_rows(passed, "", State.PASSED) for row in kept] == ["1.1"]


async def test_v_shows_a_learning_path_and_the_first_match_is_marked(long_env: AppEnv) -> None:
    path = f'[[path]]\nname = "core"\ntitle = "core path"\nexercises = ["{long_env.course.find("3.2").slug}"]\n'
    append(long_env.course.folder / "course.toml", path)
    long_env.course = load_course(long_env.course.folder)
    async with long_env.start() as pilot:
        await pilot.press("1")
        await until(pilot, lambda: len(listed_labels(pilot)) == 20, "for the whole list")
        assert screen_text(pilot.app).count("★") == 1
        await pilot.press("v", "v", "v", "v")
        await until(pilot, lambda: listed_labels(pilot) == ["3.2"], "for the learning path")
        await until_shown(pilot, "Course: core path, 1 of 20")
        await pilot.press("v")
        await until(pilot, lambda: len(listed_labels(pilot)) == 20, "for the whole list again")
        await pilot.press("1", "G", "slash", *"2.")
        first = f"exercise {long_env.course.find('2.1').key}"
        await until(pilot, lambda: cursor_row(pilot) == first, "for the first match")
        await pilot.press("backspace", "backspace", *"pimned")
        await until(pilot, lambda: listed_labels(pilot) == ["3.2"], "for a match in spite of the mistake")
        row = main_screen(pilot).panes.course.list.highlighted_option
        assert row is not None
        assert isinstance(row.prompt, Content)
        accented = [span for span in row.prompt.spans if "accent" in str(span.style)]
        assert [row.prompt.plain[span.start : span.end] for span in accented] == ["Pinned"]


@pytest.mark.parametrize("size", mostly_long(SIZES, [(80, 24)]), ids=str)
async def test_a_slash_opens_a_filter_that_narrows_the_list_at_once(long_env: AppEnv, pilot: Pilot[None]) -> None:
    await pilot.press("1", "slash", *"pinn")
    await until(pilot, lambda: listed_labels(pilot) == ["3.2"], "for the one exercise")
    await until_shown(pilot, "Course: “pinn”, 1 of 20")
    await until_shown(pilot, "Esc Show all")
    assert "0 of 4 passed" in screen_text(pilot.app) or "0/4" in screen_text(pilot.app)
    await until_shown(pilot, "Enter Open")
    await pilot.press("enter")
    await until(pilot, lambda: main_screen(pilot).exercise.label == "3.2", "for the exercise")
    await pilot.press("1")
    await until(pilot, lambda: len(listed_labels(pilot)) == 20, "for the whole list")
    assert main_screen(pilot).panes.course.filter is None
    assert "Course:" not in screen_text(pilot.app)


@pytest.mark.long
async def test_a_filter_is_left_by_escape_and_by_opening_a_lesson(long_env: AppEnv, pilot: Pilot[None]) -> None:
    await pilot.press("1", "slash", *"pinned")
    await until(pilot, lambda: listed_labels(pilot) == ["3.2"], "for the one exercise")
    await pilot.press("escape")
    await until(pilot, lambda: len(listed_labels(pilot)) == 20, "for the whole list")
    course = main_screen(pilot).panes.course
    assert course.filter is None
    assert pilot.app.focused is course.list
    assert cursor_row(pilot) == long_env.course.exercises[0].key.join(("exercise ", "")), "the learner's own row"
    await pilot.press("slash", "escape")
    assert course.filter is None, "without words, too"
    assert main_screen(pilot).panes.current is Pane.COURSE
    await pilot.press("escape")
    assert main_screen(pilot).panes.current is Pane.TASK
    await pilot.press("1", "slash", *"[/x]")
    await until_shown(pilot, "Nothing matches “[/x]”. Esc shows all.")
    await pilot.press("enter", "down", "enter")
    assert main_screen(pilot).exercise.label == "1.1"
    assert main_screen(pilot).panes.current is Pane.COURSE
    await pilot.press("escape")
    await until(pilot, lambda: len(listed_labels(pilot)) == 20, "for the whole list")
    await pilot.press("1", "slash", *"qnp?;/v")
    assert pilot.app.query_one(Input).value == "qnp?;/v"
    assert main_screen(pilot).exercise.label == "1.1"
    await pilot.press("tab")
    await until(pilot, lambda: main_screen(pilot).panes.current is Pane.LESSON, "for the lesson")
    await pilot.press("1")
    await until_shown(pilot, "Course: “qnp?;/v”, 0 of 20")
    await pilot.press("escape")
    await pilot.press("1", "v", "slash", *"pinned", "up", "enter")
    lesson = long_env.course.lessons[2].slug
    await until(pilot, lambda: main_screen(pilot).navigator.lesson.slug == lesson, "for the lesson")
    await pilot.press("1")
    await until_shown(pilot, "Course: to do, 20 of 20")
    await until_shown(pilot, "Esc Show all")


@pytest.mark.long
async def test_the_cursor_moves_to_the_nearest_listed_row_and_back(long_env: AppEnv) -> None:
    keys = {exercise.label: f"exercise {exercise.key}" for exercise in long_env.course.exercises}
    async with long_env.start() as pilot:
        await pilot.press("1", "j", "j")
        assert cursor_row(pilot) == keys["1.3"]
        await pilot.press("slash", *"pinned")
        await until(pilot, lambda: cursor_row(pilot) == keys["3.2"], "for the row that is left")
        await pilot.press(*["backspace"] * 6)
        await until(pilot, lambda: cursor_row(pilot) == keys["1.3"], "for the row of before")
        await pilot.press(*"twice", "down", "down", "up", "enter")
        await until(pilot, lambda: main_screen(pilot).exercise.label == "1.2", "for the row below the first match")


@pytest.mark.long
@pytest.mark.parametrize("size", mostly_long(SIZES, [(80, 24)]), ids=str)
async def test_v_shows_what_is_to_do_started_passed_and_all(long_env: AppEnv, pilot: Pilot[None]) -> None:
    await pass_first(pilot)
    await pilot.press("1", "v")
    await until_shown(pilot, "Course: to do, 19 of 20")
    assert "1.1" not in listed_labels(pilot)
    await until_shown(pilot, "v Started")
    await pilot.press("v")
    await until_shown(pilot, "Course: started, 0 of 20")
    await until_shown(pilot, "No exercise is started.")
    await pilot.press("v")
    await until_shown(pilot, "Course: passed, 1 of 20")
    assert listed_labels(pilot) == ["1.1"]
    await pilot.press("v")
    await until(pilot, lambda: len(listed_labels(pilot)) == 20, "for the whole list")
    assert "Course:" not in screen_text(pilot.app)


async def test_a_passed_exercise_leaves_the_to_do_list_and_the_cursor_stays(
    long_env: AppEnv, pilot: Pilot[None]
) -> None:
    await pilot.press("1", "v", "t")
    await pass_first(pilot)
    await pilot.press("1")
    await until_shown(pilot, "Course: to do, 19 of 20")
    assert "1.1" not in listed_labels(pilot)
    assert cursor_row(pilot) == f"exercise {long_env.course.exercises[1].key}"


# Widths and tabs


@pytest.mark.parametrize("size", mostly_long(SIZES, [(80, 24)]), ids=str)
async def test_tabs_keep_their_places_whatever_the_title(env: AppEnv, size: tuple[int, int]) -> None:
    titles = [f"{exercise.label} {exercise.title}" for exercise in load_course(builtin_course()).exercises]
    async with env.start(size) as pilot:
        tabs = main_screen(pilot).tabs
        for pane in Pane:
            places = set()
            for title in titles:
                tabs.show(list(Pane).index(pane), title)
                line = tabs.render().plain
                shown = title if len(title) <= 27 or size[0] > 80 else f"{title[:26]}…"
                assert line.rstrip().endswith(f" {shown}"), line
                assert len(line) <= size[0]
                places.add(tuple(tabs.places()))
                assert pane.heading in line
                assert all(str(number) in line for number in range(1, 7))
            assert len(places) == 1


async def test_a_click_on_a_narrow_tab_goes_there(env: AppEnv) -> None:
    async with env.start((50, 20)) as pilot:
        screen = main_screen(pilot)
        for pane in (Pane.RESULTS, Pane.COURSE, Pane.HINTS, Pane.CODE):
            offset = screen.tabs.places()[list(Pane).index(pane)]
            await pilot.click(offset=(offset.x + 1, offset.y))
            assert screen.panes.current is pane


@pytest.mark.parametrize("size", mostly_long([(40, 10), (60, 20), *SIZES], [(80, 24)]), ids=str)
@pytest.mark.parametrize(
    "keys",
    mostly_long([*[(digit,) for digit in "123456"], ("1", "v"), ("1", "slash", "t")], [("1",), ("4",), ("1", "v")]),
    ids=str,
)
async def test_no_footer_is_cut(pilot: Pilot[None], size: tuple[int, int], keys: tuple[str, ...]) -> None:
    await run_checks(pilot)
    await pilot.press("escape", *keys)
    await pilot.pause()
    line = main_screen(pilot).key_bar.render()
    assert line.plain.strip()
    assert len(line.plain.rstrip()) <= size[0]


@pytest.mark.parametrize("size", mostly_long([*SIZES, (170, 45)], [(80, 24), (170, 45)]), ids=str)
async def test_every_title_of_the_course_is_whole_in_the_list(env: AppEnv, size: tuple[int, int]) -> None:
    env.course = load_course(builtin_course())
    async with env.start(size) as pilot:
        await pilot.press("1")
        course = main_screen(pilot).panes.course.list
        await until(pilot, lambda: course.region.area > 0, "for the list")
        await pilot.pause()
        assert course.option_count == len(env.course.lessons) + len(env.course.exercises)
        assert not [str(row.prompt) for row in course.options if "…" in str(row.prompt)]


async def test_next_after_a_lesson_is_its_exercise_and_page_keys_wait(pilot: Pilot[None], screen: MainScreen) -> None:
    course = main_screen(pilot).panes.course.list
    assert not course.size
    course.highlighted = 1
    for turn in ("page_down", "page_up"):
        await course.run_action(turn)
        assert course.highlighted == 1
    await pilot.press("n", "n")
    assert (screen.exercise.label, screen.panes.current) == ("2.1", Pane.LESSON)
    await pilot.press("n")
    assert (screen.exercise.label, screen.panes.current) == ("2.1", Pane.TASK)
    await pilot.press("n")
    assert screen.exercise.label == "2.2"


# The palette


async def test_the_palette_lists_commands_then_exercises_in_course_order(env: AppEnv) -> None:
    env.course = load_course(write_course(env.folder / "eleven", exercises=1, lessons=11))
    async with env.start((140, 40)) as pilot:
        from gpututor.app.screens.palette import CommandProvider

        provider = CommandProvider(main_screen(pilot))
        names = [str(hit.text) async for hit in provider.discover()]
        assert names[: len(COMMANDS)] == [command.title for command in COMMANDS]
        labels = [name.split()[0] for name in names[len(COMMANDS) :] if "Twice" in name]
        assert labels == [exercise.label for exercise in env.course.exercises]
        await pilot.press("ctrl+p", *"twice")
        await until_shown(pilot, "11.1 Twice 1")
        text = screen_text(pilot.app)
        assert text.index("2.1 Twice") < text.index("10.1 Twice"), "equally good ones keep the course's order"
        await pilot.press(*["backspace"] * 5, *"11.1")
        await until(pilot, lambda: "10.1 Twice" not in screen_text(pilot.app), "for the exercise alone")
        await pilot.press("enter")
        await until(pilot, lambda: main_screen(pilot).exercise.label == "11.1", "for the exercise to open")


# Where the learner left off


async def test_the_app_reopens_the_last_exercise_pane_and_line(env: AppEnv) -> None:
    async with env.start() as pilot:
        await pilot.press("n", "e", "down", "end")
        assert main_screen(pilot).panes.editor.cursor_location == (1, 37)
        await pilot.press("ctrl+q")
    async with env.start() as pilot:
        screen = main_screen(pilot)
        assert (screen.exercise.label, screen.panes.current) == ("1.2", Pane.TASK)
        await until_shown(pilot, "COMMAND")
        await pilot.press("5", "1", "e")  # commands, which must not end up in the file
        assert screen.panes.editor.cursor_location == (1, 37)
        assert "51" not in screen.editor_text
        await until_shown(pilot, "EDIT")
        await pilot.press("escape", "2", "q")
    async with env.start() as pilot:
        assert main_screen(pilot).panes.current is Pane.LESSON


async def test_a_learner_who_comes_back_reads_how_far_they_are(env: AppEnv) -> None:
    async with env.start() as pilot:
        assert "Welcome back" not in screen_text(pilot.app)
        await edit(pilot, RIGHT)
        await run_checks(pilot)
        await until_shown(pilot, "✓ Passed")
        main_screen(pilot).attempts.writer.wait(20)
        await pilot.press("ctrl+q")
    async with env.start() as pilot:
        await until_shown(pilot, f"Welcome back: 1 of {len(env.course.exercises)} exercises passed.")


@pytest.mark.long
async def test_the_cursor_that_was_left_is_in_sight(env: AppEnv) -> None:
    env.file().write_text("".join(f"line_{number} = 0\n" for number in range(300)))
    async with env.start() as pilot:
        await pilot.press("e")
        main_screen(pilot).panes.editor.move_cursor((299, 4))
        await pilot.press("ctrl+q")
    async with env.start() as pilot:
        await pilot.press("e")
        await until_shown(pilot, "line_299 = 0")
        await pilot.press("escape", "n", "p", "e")
        await until_shown(pilot, "line_299 = 0")
        assert main_screen(pilot).panes.editor.cursor_location[0] == 299


async def test_a_line_that_became_short_meanwhile_is_shown_from_its_start(env: AppEnv) -> None:
    env.file().write_text(f"x = '{'long ' * 60}'\n")
    async with env.start((140, 40)) as pilot:
        await pilot.press("e", "end")
        await until(pilot, lambda: main_screen(pilot).panes.editor.scroll_offset.x > 0, "for the line's end")
        await pilot.press("ctrl+q")
    env.file().write_text("x = 'no longer than this'\n")
    async with env.start((140, 40)) as pilot:
        await until_shown(pilot, "1 x = 'no longer than this'")
        assert main_screen(pilot).panes.editor.scroll_offset.x == 0


async def test_where_one_is_is_noted_also_without_quitting(env: AppEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpututor.app.main.screen.KEEP_PLACE_EVERY_S", 0.05)
    async with env.start() as pilot:
        screen = main_screen(pilot)
        await pilot.press("5")
        await until(pilot, lambda: '"results"' in (screen.learner.progress.place() or ""), "for the place")


def store_place(env: AppEnv, place: str) -> str:
    """Store the learner's place, in which `{key}` is the first exercise's key, and return it."""
    place = place.replace("{key}", env.course.exercises[0].key)
    progress = env.progress()
    progress.set_place(place)
    progress.close()
    return place


async def test_leaving_before_the_file_is_open_forgets_no_place(env: AppEnv) -> None:
    place = store_place(env, '["{key}", "code", 1, 4]')
    async with env.start() as pilot:
        screen = main_screen(pilot)
        screen.files._file = None
        screen.panes.editor.move_cursor((0, 0))
        screen.navigator.keep_place()
        screen.attempts.writer.wait(20)
        assert screen.learner.progress.place() == place


@pytest.mark.parametrize(
    "place",
    ["", "nothing", "[1, 2]", '["x/y", "code", 3, 4]', '["{key}", "cellar", 0, 0]', "[]", '["{key}", "code", 1000, 7]'],
)
async def test_a_place_that_is_not_there_any_more_is_the_task(env: AppEnv, place: str) -> None:
    store_place(env, place)
    async with env.start() as pilot:
        assert main_screen(pilot).panes.current is Pane.TASK
        assert main_screen(pilot).panes.editor.cursor_location[0] <= 3, "a line beyond the end is the last"


@pytest.mark.long
async def test_a_text_is_shown_again_where_it_was_left(env: AppEnv) -> None:
    for lesson in env.course.lessons:
        (lesson.folder / "lesson.md").write_text("# Long\n\n" + "".join(f"Word {n}.\n\n" for n in range(80)))
    async with env.start() as pilot:
        reader = main_screen(pilot).panes.reader
        await pilot.press("2")
        await until_shown(pilot, "Word 3.")
        await pilot.press("space", "space")
        await until(pilot, lambda: reader.scroll_y > 20, "for the scrolling")
        left = reader.scroll_y
        await pilot.press("3")
        await until_shown(pilot, "Write twice(number).")
        await pilot.press("2")
        await until(pilot, lambda: reader.scroll_y == left, "for the place of before")
        await pilot.press("n", "n", "n")  # its exercise, the one behind it, the next lesson
        await until(pilot, lambda: main_screen(pilot).exercise.label == "2.1" and reader.scroll_y == 0, "for the top")


# Help


@pytest.mark.parametrize("pane", list(Pane))
async def test_the_help_begins_with_the_pane_in_use(env: AppEnv, pane: Pane) -> None:
    async with env.start() as pilot:
        screen = main_screen(pilot)
        screen.show_pane(pane)
        await pilot.pause()
        await pilot.press("f1")
        await until_shown(pilot, ABOUT[pane])
        lines = screen_lines(pilot.app)
        assert f"{pane.heading}, and all keys" in lines[2]
        for keys, words in help_keys(pane.value if pane.value in WIDGETS else "reader"):
            await until_shown(pilot, words)
            assert any(keys in line for line in lines)
        text = pilot.app.screen.query_one("#keys")
        await pilot.press("G")
        await until(pilot, lambda: text.scroll_y == text.max_scroll_y > 0, "for the end")
        await pilot.press("g")
        await until(pilot, lambda: text.scroll_y == 0, "for the top")


@pytest.mark.parametrize("width", [40, 60, 75, 96])
def test_no_line_of_the_help_is_cut(width: int) -> None:
    from gpututor.app.screens.help import help_content

    for pane in Pane:
        text = help_content(pane, COMMANDS, width).plain
        assert all(len(line) <= width for line in text.splitlines()), text
        flat = " ".join(text.split())
        assert all(" ".join(command.help.split()) in flat for command in COMMANDS)


async def test_the_task_is_next_to_the_code_after_coming_back(env: AppEnv) -> None:
    async with env.start((140, 40)) as pilot:
        await pilot.press("5", "ctrl+q")
    async with env.start((140, 40)) as pilot:
        assert main_screen(pilot).panes.current is Pane.RESULTS
        await until_shown(pilot, "─ Task ─")
        assert main_screen(pilot).panes.reader.text.startswith(env.course.exercises[0].task)


def test_before_it_is_drawn_markdown_stands_as_plain_text() -> None:
    text = "# Two\n\nOne\n`line` **now**.\n\n- a\n  b\n- c\n\n    code(\n      2)\n\n1. first\n   too\n2. second"
    assert reflowed(text) == "Two\n\nOne line now.\n\n• a b\n• c\n\n code(\n   2)\n\n1. first too\n2. second"
    links = "*Lesson 1:* [Meet the `device`](../lesson.md), 2 * 3 * 4"
    assert reflowed(links) == "Lesson 1: Meet the device, 2 * 3 * 4"
