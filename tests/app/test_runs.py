"""Runs of the checks, and their results."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from gpututor.app.commands import Pane
from gpututor.app.main.screen import MainScreen
from gpututor.app.screens.base import QuestionDialog
from gpututor.app.screens.help import AllTextScreen
from gpututor.app.widgets.base import PlainText
from gpututor.app.widgets.output import DETAIL_LINES, LongText, bounded, printed
from gpututor.app.widgets.results import CHANGED
from gpututor.classroom.packing import write_student_course
from gpututor.course.loader import load_course
from gpututor.grading.events import (
    CallStarted,
    GradeRequest,
    GradingEvent,
    OutputPrinted,
    ScenarioStarted,
    TimingProgressed,
    WaitingForDevice,
)
from gpututor.grading.report import Outcome, RunSummary, Status
from gpututor.grading.report_text import RunProgress
from tests.support.apps import AppEnv, edit, main_screen, run_checks, until, until_shown, write
from tests.support.parameters import mostly_long
from tests.support.screens import screen_text
from tests.support.scripted_client import BROKEN, ScriptedClient, failure, report, verdict
from tests.support.tiny_course import RIGHT, WRONG


async def test_checks_appear_as_they_arrive_and_quitting_stops_the_run(env: AppEnv) -> None:
    env.client.holds = True
    async with env.start() as pilot:
        await until(pilot, env.client.warmed.is_set, "for the warming, while the learner reads")
        await pilot.press("r")
        await until(pilot, lambda: "The check called loads holds" in screen_text(pilot.app), "for the first check")
        assert "Running" in screen_text(pilot.app)
        assert "parity" not in screen_text(pilot.app)
        assert main_screen(pilot).running
        await pilot.press("ctrl+q")
        await until(pilot, env.client.cancelled.is_set, "for the cancel")
    assert env.progress().attempts(env.course.exercises[0].key) == []


async def test_waiting_for_a_device_that_another_grading_has_is_told(env: AppEnv) -> None:
    class Waits(ScriptedClient):
        def grade(self, request: GradeRequest) -> Iterator[GradingEvent]:
            yield WaitingForDevice("cuda:0")
            yield from super().grade(request)

    env.client = Waits(holds=True)
    async with env.start() as pilot:
        await pilot.press("r")
        await until_shown(pilot, "Waiting: another grading is using cuda:0")


async def test_a_newer_run_takes_the_place_of_an_older_one(env: AppEnv) -> None:
    env.client = ScriptedClient(holds=True)
    async with env.start() as pilot:
        screen = main_screen(pilot)
        await pilot.press("r")
        await until(pilot, lambda: len(env.client.requests) == 1, "for the first run")
        env.client.holds = False
        screen.panes.editor.load_text(RIGHT)
        await pilot.press("r")
        await until(pilot, lambda: not screen.running, "for the second run")
        await until_shown(pilot, "✓ Passed")
        screen.attempts.writer.wait(20)
        assert len(screen.learner.progress.attempts(screen.exercise.key)) == 1


async def test_the_run_of_a_left_exercise_is_recorded_but_not_shown(env: AppEnv) -> None:
    env.client = ScriptedClient(holds=True)
    async with env.start() as pilot:
        screen = main_screen(pilot)
        await pilot.press("r")
        await until(pilot, lambda: "loads" in screen_text(pilot.app), "for the first check")
        await pilot.press("n", "5")
        await until_shown(pilot, "1.1 is still running. Esc stops it.")
        env.client.holds = False
        env.client.released.set()
        await until(pilot, lambda: not screen.running, "for the end")
        await until_shown(pilot, "Not run yet")
        screen.attempts.writer.wait(20)
        assert len(screen.learner.progress.attempts(env.course.exercises[0].key)) == 1


@pytest.mark.parametrize(("first", "second"), [(WRONG, RIGHT), (RIGHT, WRONG), (WRONG, "")], ids=str)
async def test_a_run_that_was_left_shows_only_its_own_results(env: AppEnv, first: str, second: str) -> None:
    env.file().write_text(first)
    async with env.start((100, 40)) as pilot:
        screen = main_screen(pilot)
        await run_checks(pilot)
        env.client.holds = True
        screen.panes.editor.load_text(second)
        await pilot.press("r")
        await until(pilot, lambda: len(screen.panes.results.rows) == 1, "for the first check")
        await pilot.press("n", "p", "5")
        await until(pilot, lambda: "… Running" in screen_text(pilot.app), "for the run")
        assert [row.verdict.check for row in screen.panes.results.rows] == ["loads"]
        if not second:
            await pilot.press("escape")
            await until_shown(pilot, "Stopped. Nothing was recorded.")
            assert "placement" not in screen_text(pilot.app)
            return
        env.client.released.set()
        await until_shown(pilot, "✓ Passed: all 3 checks" if second == RIGHT else "✗ Failed: 1 of 3 checks passed")
        await until_shown(pilot, "hello")
        text = screen_text(pilot.app)
        assert ("a result on cpu" in text) is (second == WRONG)
        assert text.count("hello") == 1
        assert CHANGED not in text


@pytest.mark.parametrize(
    ("fault", "words"), [(BROKEN, "The judge could not be started."), (ZeroDivisionError("[/int]"), "[/int]")]
)
async def test_a_grader_that_breaks_is_reported_in_a_dialog(env: AppEnv, fault: Exception, words: str) -> None:
    env.client.breaks = fault
    async with env.start() as pilot:
        await pilot.press("r")
        await until(pilot, lambda: isinstance(pilot.app.screen, QuestionDialog), "for the dialog")
        await until_shown(pilot, words)
        await until_shown(pilot, "gpututor.log")
        await pilot.press("escape")
        await until(pilot, lambda: not main_screen(pilot).running, "for the run to be over")
    log = env.folder / "home" / "cache" / "gpututor.log"
    assert fault is BROKEN or "ZeroDivisionError" in log.read_text(), "an unexpected error is logged"


async def test_several_scenarios_are_told_apart(env: AppEnv) -> None:
    verdicts = [make(scenario=name) for name in ("one GPU", "no GPU") for make in (partial(verdict, "loads"), failure)]
    env.client.judge = lambda request: report(request, *verdicts)
    async with env.start(size=(140, 40)) as pilot:
        await run_checks(pilot)
        text = screen_text(pilot.app)
        assert "On 2 kinds of machine, in " in text
        assert text.index("one GPU: cuda:0") < text.index("no GPU: cuda:0")
        rows = list(main_screen(pilot).panes.results.rows)
        assert [row.is_open for row in rows] == [False, True, False, False], "only the first failure is opened"
        await pilot.press("j", "j", "space")
        await until(pilot, lambda: rows[3].is_open, "for the second failure to open")


@pytest.mark.long
async def test_the_scenario_of_a_check_is_visible_after_scrolling(env: AppEnv) -> None:
    here = [verdict(f"check {number}") for number in range(20)]
    there = [verdict(f"check {number}", scenario="no GPU") for number in range(30)]
    env.client.judge = lambda request: report(request, *here, *there, failure(scenario="no GPU"))
    async with env.start() as pilot:
        await pilot.press("r")
        await until_shown(pilot, "Create it there: pass device=.")
        await until_shown(pilot, "no GPU: cuda:0, virtual T4 (modelled)")
        assert "The check called check 0 holds" not in screen_text(pilot.app), "the heading itself is out of sight"
        await pilot.press("g")
        await until_shown(pilot, "The check called check 0 holds")
        assert screen_text(pilot.app).count("one GPU: cuda:0") == 1
        assert "no GPU: cuda:0" not in screen_text(pilot.app)


@pytest.mark.parametrize("size", mostly_long([(80, 24), (100, 30)], [(80, 24)]), ids=str)
async def test_a_pass_is_shown_from_its_top_however_long_the_list(env: AppEnv, size: tuple[int, int]) -> None:
    checks = [verdict(f"check {number}") for number in range(30)]
    env.client.judge = lambda request: report(request, *checks, output="line\n" * 30)
    async with env.start(size) as pilot:
        results = main_screen(pilot).panes.results
        await pilot.press("r")
        await until_shown(pilot, "✓ Passed: all 30 checks")
        await pilot.press("G")
        await until(pilot, lambda: results.body.scroll_offset.y > 0, "to scroll down")
        await pilot.press("r")
        await until_shown(pilot, "✓ Passed: all 30 checks")
        await until_shown(pilot, "The check called check 0 holds")


@pytest.mark.parametrize("before", [1, 30])
async def test_a_failure_is_shown_with_the_headline_also_after_a_restart(env: AppEnv, before: int) -> None:
    checks = [verdict(f"check {number}") for number in range(before)]
    env.client.judge = lambda request: report(request, *checks, failure(), output="line\n" * 40)
    headline = f"✗ Failed: {before} of {before + 1} checks passed"
    for key in "r5":
        async with env.start() as pilot:
            await pilot.press(key)
            await until_shown(pilot, "Create it there: pass device=.")
            assert headline in screen_text(pilot.app)[:400]
            assert "On cuda:0, virtual T4 (modelled)" in screen_text(pilot.app)[:400]
            assert "✗ failed    The check called placement holds" in screen_text(pilot.app)
            for move in "Ggkj" if key == "5" else "":
                await pilot.press(move)
                await pilot.pause()
                assert headline in screen_text(pilot.app)[:400]


@pytest.mark.parametrize("status", [Status.PASSED, Status.FAILED])
async def test_only_a_pass_says_what_changed_on_the_timeline(env: AppEnv, status: Status) -> None:
    settings = env.course.exercises[0].folder / "exercise.toml"
    settings.write_text(f'timeline = "One copy instead of ten."\n{settings.read_text()}')
    settings = env.course.exercises[1].folder / "exercise.toml"
    settings.write_text(settings.read_text().replace("Twice 2", "Where is it?"))
    env.course = load_course(env.course.folder)
    env.client = ScriptedClient(lambda request: report(request, verdict("loads", status)))
    async with env.start() as pilot:
        await run_checks(pilot)
        passes = status is Status.PASSED
        await until_shown(pilot, "On the timeline: One copy instead of ten." if passes else "✗ Failed")
        assert ("On the timeline" in screen_text(pilot.app)) is passes
        assert ("n opens 1.2 Where is it?" in screen_text(pilot.app)) is passes
        assert "?." not in screen_text(pilot.app), "a question mark needs no full stop"


async def test_why_nothing_could_be_graded_is_told(env: AppEnv) -> None:
    reason = "This needs two GPUs. Use --device virtual."
    env.client.judge = lambda request: report(request, outcome=Outcome.NOT_GRADABLE_HERE, reason=reason)
    async with env.start() as pilot:
        await run_checks(pilot)
        await until_shown(pilot, "Not gradable here")
        assert "This needs two GPUs." in screen_text(pilot.app)


async def test_a_course_without_checks_says_how_to_hand_in(env: AppEnv, tmp_path: Path) -> None:
    write_student_course(env.course, tmp_path / "handed_out")
    env.course = load_course(tmp_path / "handed_out")
    async with env.start() as pilot:
        await pilot.press("s")
        await until_shown(pilot, "This course comes without checks and solutions")
        await pilot.press("enter", "r")
        await until_shown(pilot, "This course comes without checks and solutions")
        await until_shown(pilot, "`gpututor pack`")
        assert not main_screen(pilot).running


async def test_results_are_marked_as_soon_as_the_file_differs(
    pilot: Pilot[None], screen: MainScreen, env: AppEnv
) -> None:
    await pilot.press("r")
    await until_shown(pilot, "Create it there")
    assert CHANGED not in screen_text(pilot.app)
    ran = screen.editor_text
    env.file().write_text("theirs = 1\n")
    await until_shown(pilot, CHANGED)
    env.file().write_text(ran)
    await until(pilot, lambda: CHANGED not in screen_text(pilot.app), "for the mark to go")
    await pilot.press("e", "x", "escape", "5")
    await until_shown(pilot, CHANGED)
    screen.attempts.show_last_report()
    await until_shown(pilot, f"{CHANGED} █ This is your last run.")


async def test_a_long_run_tells_how_long_and_where_it_is(env: AppEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    env.client = ScriptedClient(holds=True)
    async with env.start() as pilot:
        results = main_screen(pilot).panes.results
        await pilot.press("r")
        await until(pilot, lambda: len(results.rows) == 1, "for the first check")
        assert "Esc stops it." in screen_text(pilot.app)
        now = [0.0]
        progress = RunProgress(lambda: now[0], limit_s=10.0)
        monkeypatch.setattr(results, "_progress", progress)
        now[0] = 2.5
        await until_shown(pilot, "Loading PyTorch, 2 s. Esc stops it.")
        progress.note(ScenarioStarted("", "", 1, 1))
        now[0] = 4.5
        await until_shown(pilot, "Running for 4 s, limit 10 s. Esc stops it.")
        progress.note(ScenarioStarted("", "", 2, 3))
        progress.note(CallStarted(1, 4))
        now[0] = 65.5
        await until_shown(pilot, "Running for 1 min 05 s, limit 10 s per machine. Esc stops it.")
        await until_shown(pilot, "machine 2 of 3, call 1 of 4")
        progress.note(TimingProgressed("", 12, 200))
        await until_shown(pilot, "machine 2 of 3, timing pair 12 of at most 200")


async def test_the_status_shows_time_limit_and_newest_line_in_any_pane(
    env: AppEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpututor.grading.report_text.LOADING_S", 0.0)
    env.client = ScriptedClient(holds=True)
    async with env.start() as pilot:
        screen = main_screen(pilot)
        await pilot.press("r", "3")
        await until(pilot, lambda: len(screen.panes.results.rows) == 1, "for the first check")
        await until_shown(pilot, "COMMAND Running for 0 s, limit 10 s")
        screen.runs.follow(screen.runs.gradings.newest, OutputPrinted("[red]epoch 3[/] \x1b[2J"))
        await until_shown(pilot, "limit 10 s · [red]epoch 3[/] \\x1b[2J")
        await pilot.press("escape")
        await until_shown(pilot, "COMMAND Stopped")


@pytest.mark.parametrize("typing", [False, True])
async def test_a_failure_after_an_outside_save_comes_forward_unless_the_learner_types(
    env: AppEnv, typing: bool
) -> None:
    write('auto_run = "other editor"\n')
    async with env.start() as pilot:
        screen = main_screen(pilot)
        await pilot.press("e" if typing else "3")
        env.file().write_text(WRONG)
        await until(pilot, lambda: screen.panes.results.report is not None, "for the report")
        wanted = Pane.CODE if typing else Pane.RESULTS
        await until(pilot, lambda: screen.panes.current is wanted, "for the pane")
        assert pilot.app.focused is screen.panes.editor or not typing


async def test_a_failure_after_a_save_is_shown_when_the_editor_is_left(env: AppEnv) -> None:
    write('auto_run = "saved"\n')
    async with env.start() as pilot:
        screen = main_screen(pilot)
        await edit(pilot, "def twice(number):\n    return number\n")
        await pilot.press("escape")
        await until(pilot, lambda: screen.panes.results.report is not None, "for the report")
        await until(pilot, lambda: screen.panes.current is Pane.RESULTS, "for the results")


@pytest.mark.parametrize("auto_run", ["other editor", "saved"])
async def test_neither_a_reset_nor_a_restored_attempt_runs_by_itself(env: AppEnv, auto_run: str) -> None:
    write(f'auto_run = "{auto_run}"\n')
    async with env.start() as pilot:
        screen = main_screen(pilot)
        starter = screen.editor_text
        env.file().write_text(RIGHT)
        await until_shown(pilot, "✓ Passed")
        await pilot.press("x", "y")
        await until(pilot, lambda: screen.editor_text == starter, "for the reset")
        screen.check_disk()
        await pilot.press("a", "b")
        await until(pilot, lambda: screen.editor_text == RIGHT, "for the attempt's text")
        screen.check_disk()
        assert len(env.client.requests) == 1
        assert env.file().read_text() == RIGHT


async def test_the_setting_starts_no_run_for_what_was_saved_before(env: AppEnv) -> None:
    async with env.start() as pilot:
        screen = main_screen(pilot)
        env.file().write_text(RIGHT)
        await until(pilot, lambda: screen.editor_text == RIGHT, "for the reload")
        write('auto_run = "other editor"\n')
        await until(pilot, lambda: screen.learner.settings.now.auto_run != "asked", "for the setting")
        screen.check_disk()
        assert env.client.requests == []


async def test_undo_to_what_another_editor_saved_starts_no_run(env: AppEnv) -> None:
    write('auto_run = "other editor"\n')
    async with env.start() as pilot:
        screen = main_screen(pilot)
        env.file().write_text(RIGHT)
        await until_shown(pilot, "✓ Passed")
        await pilot.press("e", "x", "escape")
        screen.check_disk()
        await pilot.press("ctrl+z", "escape")
        await until(pilot, lambda: env.file().read_text() == RIGHT, "for the undo")
        screen.check_disk()
        assert len(env.client.requests) == 1


async def test_a_run_that_another_run_stops_is_named(env: AppEnv) -> None:
    env.client = ScriptedClient(holds=True)
    async with env.start() as pilot:
        await pilot.press("r")
        await until(pilot, lambda: main_screen(pilot).running, "for the run")
        await pilot.press("n", "r")
        await until_shown(pilot, "Stopped the run of 1.1")


async def test_a_stop_is_shown_before_the_judge_answers(env: AppEnv) -> None:
    env.client = ScriptedClient(holds=True)
    env.client.cancel = lambda: None  # type: ignore[method-assign]
    async with env.start() as pilot:
        screen = main_screen(pilot)
        await pilot.press("r")
        await until(pilot, lambda: len(screen.panes.results.rows) == 1, "for the first check")
        await pilot.press("escape")
        assert not screen.running
        await until_shown(pilot, "Stopped. Nothing was recorded.")
        env.client.holds = False
        env.client.released.set()  # the judge had its report ready: it came too late
        await until(pilot, lambda: screen.runs.gradings._parts == {}, "for the late report")
        assert "Stopped. Nothing was recorded." in screen_text(pilot.app)
        assert screen.learner.progress.attempts(screen.exercise.key) == []
        assert list(screen.attempts.recordings.folder.iterdir()) == []


async def test_what_is_cut_is_marked_and_read_in_full(env: AppEnv) -> None:
    got = "\n".join(f"row {n}: " + "0.125 " * 30 for n in range(50))

    env.client.judge = lambda request: report(request, verdict("loads"), failure(got=got), output="the end\n")
    async with env.start() as pilot:
        await run_checks(pilot)
        await until(pilot, lambda: main_screen(pilot).panes.results.section == 2, "for the focus")
        await pilot.press("v")
        await until(pilot, lambda: isinstance(pilot.app.screen, AllTextScreen), "for all of it")
        await until_shown(pilot, "✗ failed  The check called placement holds")
        text = pilot.app.screen.query_one(LongText)
        await pilot.press("G")
        await until_shown(pilot, "the end")
        await pilot.press("k", "k", "k", "k", "g")
        await until_shown(pilot, "✗ Failed: 1 of 2 checks passed")
        assert all(len(line[0]) <= text.scrollable_content_region.width for line in text._lines)
        whole = " ".join(line[0].strip() for line in text._lines)
        assert " ".join(got.split()) in " ".join(whole.split())
        assert "Line 2 raise NotImplementedError" in " ".join(whole.split()), "the line with its text, as in the pane"
        widest = max(range(len(text._lines)), key=lambda row: len(text._lines[row][0]))
        text.scroll_to(y=widest, animate=False)
        wanted = text._lines[widest][0]  # to its last letter, beside the scroll bar
        await until(pilot, lambda: wanted in screen_text(pilot.app), "for the widest line")
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is main_screen(pilot), "to come back")


async def test_ten_thousand_lines_stay_usable(env: AppEnv) -> None:
    output = "".join(f"step {n}: loss [red]{n / 7:.3f}[/] \x1b[2J\n" for n in range(10_000))
    env.client.judge = lambda request: report(request, verdict("loads"), output=output)
    async with env.start() as pilot:
        await pilot.press("v")
        await until_shown(pilot, "There are no results yet.")
        await run_checks(pilot)
        await pilot.press("v")
        await until(pilot, lambda: isinstance(pilot.app.screen, AllTextScreen), "for all of it")
        await until_shown(pilot, "step 3: loss [red]0.429[/] \\x1b[2J")
        await pilot.press("G")
        await until_shown(pilot, "step 9999: loss [red]1428.429[/]")
        await pilot.press("g")
        await until_shown(pilot, "step 3: loss")
        await pilot.resize_terminal(140, 40)
        await until_shown(pilot, "step 12: loss")


def test_texts_are_bounded_by_lines_and_by_characters() -> None:
    assert bounded("a\nb", 2, 10) == "a\nb"
    assert bounded("a\n" * 20, DETAIL_LINES, 100) == "a\n" * (DETAIL_LINES - 1) + "a\n… 8 more lines: v shows all"
    assert bounded("x" * 1500, 5, 700) == "x" * 700 + "… 800 more characters: v shows all"
    run = RunSummary("one GPU", "cuda:0", True, output="y" * 5000 + "\nz")
    assert printed(run).splitlines()[0].endswith("y… v shows all")
    assert len(printed(run)) < 1100


async def test_progress_causes_a_layout_only_if_it_needs_another_line(
    env: AppEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    env.client = ScriptedClient(holds=True)
    async with env.start((60, 24)) as pilot:
        results = main_screen(pilot).panes.results
        await pilot.press("r")
        await until(pilot, lambda: len(results.rows) == 1, "for the first check")
        device = results.query_one(".device", PlainText)
        await until_shown(pilot, "On cuda:0")
        layouts: list[object] = []
        lay_out = Screen._refresh_layout

        def noticed(screen: Screen[object], *arguments: Any, **options: Any) -> None:
            layouts.append(screen)
            lay_out(screen, *arguments, **options)

        monkeypatch.setattr(results, "_progress", None)  # else it continues by itself
        monkeypatch.setattr(Screen, "_refresh_layout", noticed)
        device.update_often("On cuda:0, call 2 of 4")
        await until_shown(pilot, "On cuda:0, call 2 of 4")
        assert layouts == []
        device.update_often("On cuda:0, call 3 of 4, which has more to say than there is room for in a line")
        await until_shown(pilot, "there is room")
        await until_shown(pilot, "in a line")
        assert device.size.height == 2


@pytest.mark.parametrize(
    ("got", "shown"),
    [
        (
            "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and "
            "cpu!, at line 2: x on cuda:0, self.mean on cpu (call 1 of 3)",
            "EDIT x on cuda:0, self.mean on cpu ",
        ),
        ("ZeroDivisionError: division by zero, at line 2", "EDIT ZeroDivisionError: division by zero"),
    ],
)
async def test_the_line_of_an_error_is_shown_with_the_error(env: AppEnv, got: str, shown: str) -> None:
    failed = verdict("runs", Status.FAILED, expected="no error", got=got, line=2)
    env.client = ScriptedClient(lambda request: report(request, verdict("loads"), failed))
    async with env.start() as pilot:
        await pilot.press("r")
        await until_shown(pilot, "no error")
        await pilot.press("f")
        await until_shown(pilot, shown)
        assert main_screen(pilot).panes.editor.cursor_location[0] == 1


@pytest.mark.parametrize("size", [(80, 24), (100, 30)], ids=str)
async def test_a_failed_line_is_shown_between_its_neighbors(env: AppEnv, size: tuple[int, int]) -> None:
    failed = verdict("runs", Status.FAILED, expected="no error", got="KeyError: 'x', at line 60", line=60)
    env.client = ScriptedClient(lambda request: report(request, verdict("loads"), failed))
    env.file().write_text("".join(f"line_{number} = 0\n" for number in range(1, 101)))
    async with env.start(size) as pilot:
        await pilot.press("r")
        await until_shown(pilot, "no error")
        await pilot.press("f")
        await until_shown(pilot, "line_57 = 0")
        assert all(f"line_{number} = 0" in screen_text(pilot.app) for number in range(57, 63))
