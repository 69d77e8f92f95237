"""Running the checks: one by one, stopped, superseded, broken."""

from __future__ import annotations

from gpututor.app.commands import Pane
from gpututor.app.screens.dialogs import QuestionDialog
from gpututor.grading.events import GradeRequest
from gpututor.grading.report import Outcome, Report, Status
from tests.app.conftest import Desk, main_screen, until, until_shown
from tests.app.screen import screen_text
from tests.app.scripted import BROKEN, ScriptedClient, failure, report, verdict


async def test_the_grader_is_warmed_while_the_learner_reads(desk: Desk) -> None:
    async with desk.start() as pilot:
        await until(pilot, desk.client.warmed.is_set, "for the warming")


async def test_checks_appear_as_they_arrive(desk: Desk) -> None:
    desk.client = ScriptedClient(holds=True)
    async with desk.start() as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "The check called loads holds" in screen_text(pilot.app), "for the first check")
        assert "Running" in screen_text(pilot.app)
        assert "parity" not in screen_text(pilot.app)
        assert main_screen(pilot).running


async def test_escape_stops_a_run_and_nothing_is_recorded(desk: Desk) -> None:
    desk.client = ScriptedClient(holds=True)
    async with desk.start() as pilot:
        screen = main_screen(pilot)
        await pilot.press("r")
        await until(pilot, lambda: "loads" in screen_text(pilot.app), "for the first check")
        await pilot.press("escape")
        await until(pilot, lambda: not screen.running, "for the end")
        await until_shown(pilot, "Stopped. Nothing was recorded.")
        assert screen.learner.progress.attempts(screen.exercise.key) == []


async def test_a_newer_run_takes_the_place_of_an_older_one(desk: Desk) -> None:
    desk.client = ScriptedClient(holds=True)
    async with desk.start() as pilot:
        screen = main_screen(pilot)
        await pilot.press("r")
        await until(pilot, lambda: len(desk.client.requests) == 1, "for the first run")
        desk.client.holds = False
        screen.panes.editor.load_text("def twice(number):\n    return 2 * number\n")
        await pilot.press("r")
        await until(pilot, lambda: not screen.running, "for the second run")
        await until_shown(pilot, "✓ Passed")
        assert len(screen.learner.progress.attempts(screen.exercise.key)) == 1


async def test_quitting_stops_the_run(desk: Desk) -> None:
    desk.client = ScriptedClient(holds=True)
    async with desk.start() as pilot:
        await pilot.press("r")
        await until(pilot, lambda: len(desk.client.requests) == 1, "for the run")
        await pilot.press("ctrl+q")
        await until(pilot, desk.client.cancelled.is_set, "for the cancel")
    assert desk.progress().attempts(desk.course.exercises[0].key) == []


async def test_a_run_that_ends_after_the_learner_went_on_is_recorded_but_not_shown(desk: Desk) -> None:
    desk.client = ScriptedClient(holds=True)
    async with desk.start() as pilot:
        screen = main_screen(pilot)
        await pilot.press("r")
        await until(pilot, lambda: "loads" in screen_text(pilot.app), "for the first check")
        await pilot.press("n", "5")
        desk.client.holds = False
        desk.client.released.set()
        await until(pilot, lambda: not screen.running, "for the end")
        await until_shown(pilot, "Not run yet")
        assert len(screen.learner.progress.attempts(desk.course.exercises[0].key)) == 1


async def test_a_grader_that_breaks_is_told_in_a_dialog(desk: Desk) -> None:
    desk.client.breaks = BROKEN
    async with desk.start() as pilot:
        await pilot.press("r")
        await until(pilot, lambda: isinstance(pilot.app.screen, QuestionDialog), "for the dialog")
        await pilot.pause()
        text = screen_text(pilot.app)
        assert "The judge could not be started." in text
        assert "gpututor.log" in text
        await pilot.press("escape")
        assert not main_screen(pilot).running


async def test_a_fault_that_nobody_foresaw_is_logged_and_told(desk: Desk) -> None:
    desk.client.breaks = ZeroDivisionError("[/int]")
    async with desk.start() as pilot:
        await pilot.press("r")
        await until(pilot, lambda: isinstance(pilot.app.screen, QuestionDialog), "for the dialog")
    assert "ZeroDivisionError" in (desk.folder / "home" / "cache" / "gpututor.log").read_text()


async def test_several_scenarios_are_told_apart(desk: Desk) -> None:
    def judge(request: GradeRequest) -> Report:
        return report(
            request, verdict("loads"), failure(), verdict("loads", scenario="no GPU"), failure(scenario="no GPU")
        )

    desk.client = ScriptedClient(judge)
    async with desk.start(size=(140, 40)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: not main_screen(pilot).running, "for the verdicts")
        await pilot.pause()
        text = screen_text(pilot.app)
        assert text.index("one GPU: cuda:0") < text.index("no GPU: cuda:0")
        rows = list(main_screen(pilot).panes.results.rows)
        assert [row.is_open for row in rows] == [False, True, False, False], "only the first failure is opened"
        await pilot.press("j", "j", "space")
        await until(pilot, lambda: rows[3].is_open, "for the second failure to open")


async def test_why_nothing_could_be_graded_is_told(desk: Desk) -> None:
    def judge(request: GradeRequest) -> Report:
        return report(request, outcome=Outcome.NOT_GRADABLE_HERE, reason="This needs two GPUs. Use --device virtual.")

    desk.client = ScriptedClient(judge)
    async with desk.start() as pilot:
        await pilot.press("r")
        await until(pilot, lambda: not main_screen(pilot).running, "for the end")
        await until_shown(pilot, "Not gradable here")
        assert "This needs two GPUs." in screen_text(pilot.app)


async def test_text_from_outside_is_shown_as_it_is_and_never_as_markup(desk: Desk) -> None:
    nasty = "[/int] [@click=app.quit]x[/] [red]"

    def judge(request: GradeRequest) -> Report:
        words = {"expected": nasty, "got": nasty, "why": nasty, "advice": nasty}
        not_run = verdict("parity", Status.NOT_RUN)
        return report(request, failure(**words), not_run, output=f"printed {nasty}\n", traceback=f"trace {nasty}")

    desk.client = ScriptedClient(judge)
    desk.file().write_text(f"def twice(number):\n    return {nasty!r}\n")
    async with desk.start(size=(140, 60)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: not main_screen(pilot).running, "for the verdicts")
        await pilot.pause()
        text = screen_text(pilot.app)
        assert text.count(nasty) >= 7, text
        assert pilot.app.is_running


async def test_a_very_long_output_stays_bounded(desk: Desk) -> None:
    def judge(request: GradeRequest) -> Report:
        return report(request, verdict("loads"), output="\x1b[2J\tline\n" * 5000)

    desk.client = ScriptedClient(judge)
    async with desk.start() as pilot:
        await pilot.press("r")
        await until(pilot, lambda: not main_screen(pilot).running, "for the verdicts")
        await pilot.press("G", "G")
        await until(pilot, lambda: "4800 more lines are not shown" in screen_text(pilot.app), "for the end")
        assert "\x1b" not in screen_text(pilot.app)
        assert main_screen(pilot).panes.current is Pane.RESULTS
