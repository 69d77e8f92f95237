"""Help for the learner: steps through comparisons, finished lessons, progress, exercises worth repeating."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from gpututor import checks
from gpututor.app.commands import Pane
from gpututor.app.main.screen import MainScreen
from gpututor.app.screens.devices import DevicesScreen
from gpututor.app.screens.diff import DiffDialog, diff_lines
from gpututor.app.screens.progress import ProgressScreen, progress_overview
from gpututor.app.screens.welcome import Finished, FinishedScreen
from gpututor.app.widgets.folding import FOLD
from gpututor.course.loader import load_course
from gpututor.grading.report import Status
from gpututor.judge.verdicts import BUILTIN_CHECKS
from gpututor.paths import builtin_course
from gpututor.progress.review import RecurringFailure, check_names, general_rule, lesson_about, to_remember
from tests.support.apps import AppEnv, main_screen, run_checks, until, until_shown
from tests.support.parameters import mostly_long
from tests.support.screens import assert_golden, screen_lines, screen_text
from tests.support.scripted_client import report, verdict
from tests.support.tiny_course import RIGHT

# Comparisons


def test_changes_are_numbered_and_what_goes_stands_before_what_comes() -> None:
    lines = diff_lines("a\nb\nc\nd\n", "a\nB\nc\nd\ne\n")
    assert [(line.sign, line.text, line.change) for line in lines] == [
        (" ", "a", 0),
        ("-", "b", 1),
        ("+", "B", 0),
        (" ", "c", 0),
        (" ", "d", 0),
        ("+", "e", 2),
    ]


async def test_comparisons_and_long_summaries_are_walked_and_cut_nothing(env: AppEnv) -> None:
    before = "".join(f"line {number}\n" for number in range(120))
    after = before.replace("line 50\n", "line fifty\n").replace("line 100\n", "")
    remember = "\n".join(f"- Point {number}, long enough to be more than one line of a dialog." for number in range(20))
    words = " ".join(f"word{number}" for number in range(40))
    async with env.start() as pilot:
        pilot.app.push_screen(DiffDialog("Two", before, after, ("mine", "theirs")))
        await until_shown(pilot, "▸- line 50")
        assert "Change 1 of 2" in screen_text(pilot.app)
        await pilot.press("right_square_bracket")
        await until_shown(pilot, "▸- line 100")
        await pilot.press("right_square_bracket", "[")
        await until_shown(pilot, "▸- line 50")
        top = pilot.app.screen.query_one("#diff").scroll_y
        await pilot.press("space")
        await until(pilot, lambda: pilot.app.screen.query_one("#diff").scroll_y > top + 5, "for the next page")
        await pilot.press("escape")
        assert pilot.app.screen is main_screen(pilot)
        lesson = main_screen(pilot).attempts.lessons[0]
        finished = Finished(lesson, remember, "2.1 Twice 1", "Lesson 2, Small things.")
        pilot.app.push_screen(FinishedScreen(finished))
        await until_shown(pilot, "• Point 0")
        for part in ("Next: 2.1 Twice 1.", "n opens 2.1", "minutes were planned"):
            assert part in screen_text(pilot.app)
        await pilot.press("end")
        await until_shown(pilot, "• Point 19")
        await pilot.press("escape")
        pilot.app.push_screen(DiffDialog("Two", f"x\n{words}\n", "x\n", ("mine", "theirs")))
        await until_shown(pilot, FOLD.strip())
        text = re.sub(rf"│|- {FOLD}", "", screen_text(pilot.app))
        assert words in " ".join(text.split()), "no word is broken"
        await pilot.resize_terminal(140, 40)
        await until_shown(pilot, "word0 word1 word2 word3 word4 word5 word6 word7 word8 word9 word10 word11")


async def test_an_opened_solution_is_noted_before_a_pass_and_not_after(pilot: Pilot[None]) -> None:
    progress = main_screen(pilot).learner.progress
    await pilot.press("s", "escape")
    assert progress.solutions_opened() == frozenset()
    await pilot.press("s", "y", "escape")
    key = main_screen(pilot).exercise.key
    await until(pilot, lambda: progress.solutions_opened() == {key}, "for the note")
    await pilot.press("n")
    main_screen(pilot).panes.editor.load_text(RIGHT)
    await run_checks(pilot)
    await pilot.press("s")
    await until_shown(pilot, "Both are the same.")
    assert len(progress.solutions_opened()) == 1


# A finished lesson


def remember(env: AppEnv) -> None:
    """Add a section to remember to the first lesson."""
    path = env.course.folder / "01_lesson_1" / "lesson.md"
    path.write_text(f"{path.read_text()}\n## Remember\n\n- Twice is `2 *`.\n- Or add.\n\n## Read on\n\nMore.\n")
    env.course = load_course(env.course.folder)


async def test_a_finished_lesson_is_a_moment_and_n_goes_on(env: AppEnv) -> None:
    remember(env)
    async with env.start() as pilot:
        screen = main_screen(pilot)
        for number in range(2):
            screen.panes.editor.load_text(RIGHT)
            await run_checks(pilot)
            if number == 0:
                assert pilot.app.screen is screen, "one of two is no finished lesson"
                await pilot.press("n")
        await until_shown(pilot, "✓ Lesson 1 is finished: Small things.")
        await until_shown(pilot, "• Twice is 2 *.")
        text = screen_text(pilot.app)
        for words in ("2 exercises, 2 attempts; 10 minutes were planned.", "Next: 2.1 Twice 1.", "n opens 2.1"):
            assert words in text
        assert "Read on" not in text
        await assert_golden(pilot, "finished")
        await pilot.press("n")
        await until(pilot, lambda: screen.exercise.label == "2.1", "for the next lesson")
        assert screen.panes.current is Pane.LESSON, "a new lesson begins with its text"


async def test_a_finished_lesson_can_be_left_and_is_not_announced_twice(pilot: Pilot[None], screen: MainScreen) -> None:
    for keys in (["n"], []):
        screen.panes.editor.load_text(RIGHT)
        await run_checks(pilot)
        await pilot.press(*keys)
    await until(pilot, lambda: isinstance(pilot.app.screen, FinishedScreen), "for the moment")
    await pilot.press("escape")
    await until_shown(pilot, "Lesson 1 is finished: Small things.")
    await until_shown(pilot, "s compares with the solution; n opens 2.1 Twice 1.")
    await run_checks(pilot)
    assert pilot.app.screen is screen


async def test_the_title_of_a_passed_exercise_has_a_check_mark(pilot: Pilot[None], screen: MainScreen) -> None:
    def title() -> str:
        return screen_lines(pilot.app)[0]

    assert "✓" not in title()
    screen.panes.editor.load_text(RIGHT)
    await run_checks(pilot)
    await until(pilot, lambda: "✓ 1.1 Twice 1" in title(), "for the check mark")
    await pilot.press("n")
    await until(pilot, lambda: "1.2 Twice 2" in title() and "✓" not in title(), "for the next exercise")
    await pilot.press("p")
    await until(pilot, lambda: "✓ 1.1 Twice 1" in title(), "for the passed exercise")


async def test_a_pass_names_the_next_steps_and_a_reset_the_way_back(pilot: Pilot[None], screen: MainScreen) -> None:
    await pilot.press("x")
    await until_shown(pilot, "Your text is saved in .backups")
    assert "with a, then b" not in screen_text(pilot.app), "nothing was run yet"
    await pilot.press("n")
    screen.panes.editor.load_text(RIGHT)
    await run_checks(pilot)
    await until_shown(pilot, "s compares with the solution; n opens 1.2 Twice 2.")
    await until(pilot, lambda: "s Solution" in screen_lines(pilot.app)[-1], "for the key, at 80 columns")
    await pilot.press("x")
    await until_shown(pilot, "To get back a version that you ran")
    await pilot.press("y")
    await until(pilot, lambda: screen.editor_text != RIGHT, "for the starter")
    await pilot.press("a")
    await until(pilot, lambda: pilot.app.screen is not screen, "for the attempts")
    await pilot.press("b")
    await until(pilot, lambda: screen.editor_text == RIGHT, "for the text")


async def test_who_does_not_look_at_the_results_is_not_interrupted(pilot: Pilot[None], screen: MainScreen) -> None:
    for number in range(2):
        screen.panes.editor.load_text(RIGHT)
        await pilot.press("e")
        screen.runs.run_checks(quietly=True)
        await until(pilot, lambda: not screen.running, "for the verdicts")
        await pilot.pause()
        assert pilot.app.screen is screen
        if number == 0:
            await pilot.press("ctrl+n")
    assert screen.panes.current is Pane.CODE
    assert "Lesson 1 is finished" in str(screen.panes.results._notice.render())


async def test_the_finished_course_is_told_and_points_at_what_is_worth_repeating(
    pilot: Pilot[None], screen: MainScreen, env: AppEnv
) -> None:
    for exercise in env.course.exercises:
        screen.navigator.open_exercise(exercise, Pane.CODE)
        screen.panes.editor.load_text(RIGHT)
        await run_checks(pilot)
        if isinstance(pilot.app.screen, FinishedScreen) and exercise is not env.course.exercises[-1]:
            await pilot.press("escape")
    await until_shown(pilot, "You have passed every exercise of the course: all 4, in 2 lessons.")
    await pilot.press("w")
    await until_shown(pilot, "4 of 4 exercises passed")
    await pilot.press("escape", "n")
    await until_shown(pilot, "This is the last exercise")


# Progress


def test_kinds_of_checks_belong_to_lessons_which_say_what_to_remember() -> None:
    course = load_course(builtin_course())
    names = check_names(course)

    def about(check: str) -> str:
        return lesson_about(RecurringFailure(check, "", 1, ("somewhere/else",)), names)

    assert about("transfers") == "tensors_on_the_device"
    assert about("syncs") == "measure_it"
    assert about("memory") == "memory_and_layout"
    assert about("precision") == "precision"
    assert about("no_such_check") == about("value") == about("parity") == "somewhere"
    assert [about(check) for check in BUILTIN_CHECKS] == ["", "", ""], "every exercise has the grader's own"
    for lesson in course.lessons:
        assert to_remember(lesson.text).startswith("- "), lesson.title
        assert "\n## " not in to_remember(lesson.text)
    assert to_remember("# A\n\nWords\n") == ""


def test_each_kind_of_check_is_told_in_general_words() -> None:
    modules = [path.read_text() for path in Path(checks.__file__).parent.glob("*.py")]
    kinds = {kind for text in modules for kind in re.findall(r"\bname: str = \"(\w+)\"", text)}
    kinds |= {kind for text in modules for kind in re.findall(r"^NAME = \"(\w+)\"", text, re.MULTILINE)}
    assert {"parity", "speed", "unmodified"} < kinds
    for kind in (*BUILTIN_CHECKS, *sorted(kinds)):
        assert general_rule(RecurringFailure(kind, "f() does it", 1, ("a/b",))) != "f() does it", kind
    assert general_rule(RecurringFailure("my_own", "f() does it", 1, ("a/b",))) == "f() does it"


async def test_load_and_run_failures_have_a_general_rule_and_no_lesson(env: AppEnv) -> None:
    env.client.judge = lambda request: report(
        request,
        replace(verdict("loads", Status.FAILED), sentence="The file loads and defines twice()"),
        replace(verdict("runs", Status.FAILED), sentence="twice() runs to its end"),
    )
    async with env.start() as pilot:
        await run_checks(pilot)
        await pilot.press("w")
        await until_shown(pilot, "1 ×  The file did not load")
        text = screen_text(pilot.app)
        assert "1 ×  The run stopped before its end" in text
        assert "defines twice()" not in text
        assert "▸" not in text[text.index("Checks that failed most often") :]


@pytest.mark.parametrize("size", mostly_long([(80, 24), (140, 40)], [(80, 24)]), ids=str)
async def test_progress_looks_as_agreed(env: AppEnv, size: tuple[int, int]) -> None:
    failed = verdict("transfers", Status.FAILED)
    figures = "0.48 × the baseline's time: 1.20 ms against 2.50 ms (modelled)"
    env.client.judge = lambda request: (
        report(request, verdict("speed", measured=figures)) if "2 *" in request.submission else report(request, failed)
    )
    async with env.start(size) as pilot:
        screen = main_screen(pilot)
        await pilot.press("h")
        for _ in range(2):
            await run_checks(pilot)
        screen.panes.editor.load_text(RIGHT)
        await run_checks(pilot)
        await pilot.press("n")
        await run_checks(pilot)
        await pilot.press("w")
        await until_shown(pilot, "1 of 4 exercises passed")
        await assert_golden(pilot, "progress")
        await pilot.press("tab")
        await until_shown(pilot, "tried once, not passed yet")
        await assert_golden(pilot, "repeating")


async def test_the_screen_of_progress_opens_lessons_and_exercises_or_says_why_not(
    pilot: Pilot[None], screen: MainScreen
) -> None:
    await run_checks(pilot)
    await pilot.press("n", "w")
    await until_shown(pilot, "Checks that failed most often")
    assert "1 ×  Where the outputs live" in screen_text(pilot.app)
    await pilot.press("j", "enter")
    await until(pilot, lambda: "# Lesson 2" in screen.panes.reader.text, "for the lesson")
    await pilot.press("w")
    await until_shown(pilot, "Checks that failed most often")
    await pilot.press("2")
    await until_shown(pilot, "1.1 Twice 1")
    await pilot.press("enter")
    await until(pilot, lambda: screen.exercise.label == "1.1", "for the exercise")
    screen.learner.progress.close()
    path = screen.learner.progress.path
    for other in path.parent.glob(f"{path.name}*"):
        other.unlink()
    path.mkdir()
    await pilot.press("w")
    await until_shown(pilot, "cannot be read or written")
    await pilot.press("escape")
    path.rmdir()


@pytest.mark.long
async def test_a_repetition_starts_from_the_starter_and_a_quick_pass_ends_it(
    pilot: Pilot[None], screen: MainScreen, env: AppEnv
) -> None:
    for _ in range(3):
        await run_checks(pilot)
    screen.panes.editor.load_text(RIGHT)
    await run_checks(pilot)
    await pilot.press("n", "w", "2")
    await until_shown(pilot, "passed after 3 failures")
    await pilot.press("x")
    await until_shown(pilot, "Start 1.1 Twice 1 again?")
    await pilot.press("y")
    await until(pilot, lambda: screen.editor_text == screen.exercise.starter, "for the starter")
    assert [kept.read_text() for kept in (env.workspace_folder / ".backups").iterdir()] == [RIGHT]
    assert progress_overview(env.course, screen.learner.progress).repeats != ()
    screen.panes.editor.load_text(RIGHT)
    await run_checks(pilot)
    assert progress_overview(env.course, screen.learner.progress).repeats == ()
    await pilot.press("w", "2")
    await until_shown(pilot, "○ Nothing: you passed these with few tries")


@pytest.mark.parametrize(
    ("key", "kind"),
    [("w", ProgressScreen), ("shift+f7", ProgressScreen), ("f19", ProgressScreen), ("shift+f1", DevicesScreen)],
)
async def test_the_screen_closes_with_the_key_that_opened_it(pilot: Pilot[None], key: str, kind: type) -> None:
    await pilot.press(key)
    await until(pilot, lambda: isinstance(pilot.app.screen, kind), "for the screen")
    await pilot.press(key)
    await until(pilot, lambda: pilot.app.screen is main_screen(pilot), "for the main screen")
