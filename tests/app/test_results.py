"""The results pane: a headline that stays, progress of long runs, and long texts in full."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from gpututor.app.main.screen import MainScreen
from gpututor.app.screens.help import AllTextScreen
from gpututor.app.widgets.base import PlainText
from gpututor.app.widgets.output import DETAIL_LINES, LongText, bounded, printed
from gpututor.app.widgets.results import CHANGED
from gpututor.grading.events import GradeRequest
from gpututor.grading.report import Report, RunSummary, Status
from gpututor.grading.report_text import RunProgress
from tests.support.apps import AppEnv, main_screen, until, until_shown
from tests.support.screens import screen_text
from tests.support.scripted_client import ScriptedClient, failure, report, verdict


def long_run(request: GradeRequest) -> Report:
    return report(request, *(verdict(f"check {n}") for n in range(30)), failure(), output="line\n" * 300)


@pytest.mark.long
async def test_after_a_restart_outcome_and_device_are_above_the_failure(env: AppEnv) -> None:
    env.client = ScriptedClient(long_run)
    async with env.start() as pilot:
        await pilot.press("r")
        await until_shown(pilot, "Create it there")
    async with env.start() as pilot:
        await pilot.press("5")
        await until_shown(pilot, "Create it there")
        assert "✗ Failed: 30 of 31 checks passed" in screen_text(pilot.app)[:400]
        assert "On cuda:0, virtual T4 (modelled)" in screen_text(pilot.app)[:400]
        for key in ("G", "g", "k", "j"):
            await pilot.press(key)
            await pilot.pause()
            assert "✗ Failed: 30 of 31 checks passed" in screen_text(pilot.app)[:400]


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
    await until_shown(pilot, f"This is your last run. {CHANGED}")


async def test_a_long_run_tells_how_long_and_where_it_is(env: AppEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    env.client = ScriptedClient(holds=True)
    async with env.start() as pilot:
        results = main_screen(pilot).panes.results
        await pilot.press("r")
        await until(pilot, lambda: len(results.rows) == 1, "for the first check")
        assert "Running. Esc stops it." in screen_text(pilot.app)
        now = [0.0]
        progress = RunProgress(lambda: now[0])
        monkeypatch.setattr(results, "_progress", progress)
        now[0] = 2.5
        await until_shown(pilot, "Loading PyTorch, 2 s. Esc stops it.")
        progress.scenario_started(2, 3)
        progress.call_began(1, 4)
        now[0] = 65.5
        await until_shown(pilot, "Running for 1 min 05 s. Esc stops it.")
        await until_shown(pilot, "machine 2 of 3, call 1 of 4")
        progress.pairs_timed(12, 200)
        await until_shown(pilot, "machine 2 of 3, timing pair 12 of at most 200")


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
        await until(pilot, lambda: screen.runs._parts == {}, "for the late report")
        assert "Stopped. Nothing was recorded." in screen_text(pilot.app)
        assert screen.learner.progress.attempts(screen.exercise.key) == []
        assert list(screen.attempts.recordings.folder.iterdir()) == []


async def test_what_is_cut_is_marked_and_read_in_full(env: AppEnv) -> None:
    got = "\n".join(f"row {n}: " + "0.125 " * 30 for n in range(50))

    def judge(request: GradeRequest) -> Report:
        return report(request, verdict("loads"), failure(got=got), output="the end\n")

    env.client = ScriptedClient(judge)
    async with env.start() as pilot:
        await pilot.press("r")
        await until(pilot, lambda: not main_screen(pilot).running, "for the end")
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
        widest = max(range(len(text._lines)), key=lambda row: len(text._lines[row][0]))
        text.scroll_to(y=widest, animate=False)
        wanted = text._lines[widest][0]  # to its last letter, beside the scroll bar
        await until(pilot, lambda: wanted in screen_text(pilot.app), "for the widest line")
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is main_screen(pilot), "to come back")


async def test_without_results_there_is_nothing_to_read(pilot: Pilot[None]) -> None:
    await pilot.press("v")
    await until_shown(pilot, "There are no results yet.")


async def test_ten_thousand_lines_stay_usable(env: AppEnv) -> None:
    output = "".join(f"step {n}: loss [red]{n / 7:.3f}[/] \x1b[2J\n" for n in range(10_000))
    env.client = ScriptedClient(lambda request: report(request, verdict("loads"), output=output))
    async with env.start() as pilot:
        await pilot.press("r")
        await until(pilot, lambda: not main_screen(pilot).running, "for the end")
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


async def test_a_check_that_did_not_run_is_in_the_whole_text_too(env: AppEnv) -> None:
    env.client = ScriptedClient(lambda request: report(request, failure(), verdict("parity", Status.NOT_RUN)))
    async with env.start() as pilot:
        await pilot.press("r")
        await until(pilot, lambda: not main_screen(pilot).running, "for the end")
        await pilot.press("v")
        await until_shown(pilot, "○ not run  The check called parity holds")


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

        monkeypatch.setattr(results, "_progress", None)  # else it goes on by itself
        monkeypatch.setattr(Screen, "_refresh_layout", noticed)
        device.update_often("On cuda:0, call 2 of 4")
        await until_shown(pilot, "On cuda:0, call 2 of 4")
        assert layouts == []
        device.update_often("On cuda:0, call 3 of 4, which has more to say than there is room for in a line")
        await until_shown(pilot, "there is room")
        await until_shown(pilot, "in a line")
        assert device.size.height == 2
