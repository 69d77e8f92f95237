"""Much of everything: thousands of verdicts, of printed lines, of events. The app stays small, and answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from gpututor.app.widgets.results import MOST_ROWS
from gpututor.grading.events import GradeRequest
from gpututor.grading.report import Report
from tests.support.apps import AppEnv, main_screen, until, until_shown
from tests.support.recorded_runs import open_device, run_and_open
from tests.support.recordings import long_trace, make_recording
from tests.support.screens import screen_text
from tests.support.scripted_client import ScriptedClient, report, verdict

MANY = 2000


def judge(request: GradeRequest) -> Report:
    verdicts = [verdict(f"number {number}") for number in range(MANY)]
    return report(request, *verdicts, output="".join(f"line {number}\n" for number in range(10_000)))


class LongRun(ScriptedClient):
    """A call of 20,000 events."""

    def record(self, folder: Path, request: GradeRequest) -> None:
        make_recording(folder, long_trace(file=request.file_name), file=request.file_name)


def widgets(pilot: Pilot[None]) -> int:
    return len(pilot.app.screen.query("*"))


@pytest.mark.long
async def test_floods_of_verdicts_and_lines_need_a_bounded_number_of_widgets(env: AppEnv) -> None:
    env.client = ScriptedClient(judge)
    async with env.start((100, 30)) as pilot:
        screen = main_screen(pilot)
        before = widgets(pilot)
        await pilot.press("e", "m", "ctrl+s", "f4", "i", "n", "e")
        await until(pilot, lambda: not screen.running, "for the end")
        await until(pilot, lambda: screen.editor_text.startswith("mine"), "for what was typed meanwhile")
        assert len(screen.panes.results.rows) == MOST_ROWS
        assert widgets(pilot) - before < 6 * MOST_ROWS
        await pilot.press("f6", "G")
        await until_shown(pilot, "9,800 more lines")
        assert f"{MANY - MOST_ROWS:,} more checks: v shows all" in str(
            screen.panes.results.body.query(".reason").last().render()
        )
        await pilot.press("g", "j", "j")
        await until_shown(pilot, "✓ passed   The check called number 2 holds")
        await pilot.press("v", "G")
        await until_shown(pilot, "line 9999")
        await pilot.press("escape", "n")
        await until(pilot, lambda: widgets(pilot) < before + 60, "for the rows to go")


@pytest.mark.long
async def test_a_timeline_of_twenty_thousand_events_is_walked_zoomed_and_left(env: AppEnv) -> None:
    env.client = LongRun()
    async with env.start((140, 40)) as pilot:
        await run_and_open(pilot)
        before = widgets(pilot)
        assert before < 100
        seen = set()
        for key in (
            "right",
            "+",
            "+",
            "right",
            "down",
            "right",
            "n",
            "-",
            "up",
            "0",
            "end",
            "left",
            "2",
            "3",
            "4",
            "5",
        ):
            await pilot.press(key)
            await pilot.pause()
            seen.add(screen_text(pilot.app))
        assert len(seen) > 8
        await pilot.press("1", "escape")
        await until(pilot, lambda: main_screen(pilot).is_active, "for the main screen")
        await open_device(pilot)
        assert widgets(pilot) <= before + 10
