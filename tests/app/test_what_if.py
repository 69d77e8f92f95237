"""An attempt on other GPUs, in one table."""

from __future__ import annotations

import re

from textual.pilot import Pilot
from textual.widgets import Input

from gpututor.app.screens.trace import DeviceScreen
from gpututor.app.screens.what_if import WhatIfScreen
from gpututor.grading.events import GradeRequest
from gpututor.grading.report import Report
from gpututor.trace.columns import Trace
from tests.support.apps import AppEnv, main_screen, run_checks, until, until_on, until_shown
from tests.support.recorded_runs import loop_trace, open_device
from tests.support.recordings import small_trace
from tests.support.screens import screen_text
from tests.support.scripted_client import BROKEN, ENVIRONMENT, ScriptedClient, failure, report, verdict
from tests.support.tiny_course import RIGHT


def _judged(request: GradeRequest) -> Report:
    """Fail what runs on an H100, and pass everything else."""
    return report(request, verdict("loads"), failure() if request.gpu == "H100" else verdict("placement"))


def _traces(request: GradeRequest) -> list[Trace]:
    """Take half as long on an H100, and run out of memory on an L4."""
    if request.gpu == "L4":
        return [loop_trace(request.file_name)]
    return [small_trace(file=request.file_name, factor=0.5 if request.gpu == "H100" else 1)]


async def ask(pilot: Pilot[None], env: AppEnv, models: str | None = None) -> WhatIfScreen:
    """Run the checks, edit the file, and run the attempt on other GPUs."""
    env.client.traces = _traces
    screen = main_screen(pilot)
    screen.panes.editor.load_text(RIGHT)
    await run_checks(pilot)
    screen.panes.editor.load_text(RIGHT + "# edited\n")
    device = await open_device(pilot)
    await until(pilot, lambda: device.view is not None, "for the attempt")
    await pilot.press("w")
    asked = await until_on(pilot, WhatIfScreen)
    await until(pilot, lambda: asked.query_one(Input).value == "T4, A100 40, H100", "for models to start with")
    if models is not None:
        asked.query_one(Input).value = models
        await pilot.press("enter")
    return asked


def rows(pilot: Pilot[None]) -> dict[str, list[str]]:
    lines = [re.split(r"  +", line.strip()) for line in screen_text(pilot.app).splitlines()]
    return {cells[0]: cells[1:] for cells in lines if len(cells) > 5}


async def test_the_attempt_runs_on_each_model_in_one_table(env: AppEnv) -> None:
    env.client = ScriptedClient(_judged)
    async with env.start() as pilot:
        await ask(pilot, env, "T4, h100, L4")
        await until(pilot, lambda: "L4" in rows(pilot), "for all rows")
        table = rows(pilot)
        assert table["modelled time"] == ["speed", "GPU busy", "peak memory", "fits", "verdict"]
        assert [table["T4"][1], table["H100"][1]] == ["1.00 ×", "2.00 ×"]
        assert [table[model][-2:] for model in ("T4", "H100", "L4")] == [
            ["yes", "passed"], ["yes", "failed"], ["no", "passed"],
        ]  # fmt: skip
        assert "H100: The check called placement holds" in screen_text(pilot.app)
        assert "L4: out of memory: 256 MiB asked for" in screen_text(pilot.app)
        asked = env.client.requests[1:]
        assert [(each.device, each.gpu) for each in asked] == [("virtual", model) for model in ("T4", "H100", "L4")]
        assert {each.submission for each in asked} == {RIGHT}, "the attempt, not the file as it is now"
        assert {request.seed for request in asked} == {ENVIRONMENT.seed}, "the inputs of the attempt on each model"
        screen = main_screen(pilot)
        assert len(screen.learner.progress.ids(screen.exercise.key)) == 1, "nothing is saved as an attempt"
        assert len(screen.attempts.recordings.ids()) == 1


async def test_the_palette_asks_what_if(env: AppEnv) -> None:
    env.client.traces = _traces
    async with env.start() as pilot:
        main_screen(pilot).panes.editor.load_text(RIGHT)
        await run_checks(pilot)
        await pilot.press("ctrl+p", *"what if")
        await until_shown(pilot, "Run the attempt on other models")
        await pilot.press("enter")
        await until_on(pilot, WhatIfScreen)


async def test_a_run_without_gpu_work_says_why_it_has_no_times(env: AppEnv) -> None:
    async with env.start() as pilot:
        asked = await ask(pilot, env)
        env.client.traces = lambda request: [Trace()]
        asked.query_one(Input).value = "T4"
        await pilot.press("enter")
        await until_shown(pilot, "T4: nothing ran on the GPU, so there are no times")
        assert rows(pilot)["T4"][:3] == ["-", "-", "-"]
        asked.query_one(Input).value = "T4, H100"
        await pilot.press("enter")
        await until_shown(pilot, "all: nothing ran on the GPU")


async def test_an_unrecorded_run_says_why_it_has_no_figures(env: AppEnv) -> None:
    async with env.start() as pilot:
        await ask(pilot, env)
        env.client.records = False
        pilot.app.screen.query_one(Input).value = "T4"
        await pilot.press("enter")
        await until_shown(pilot, "T4: no figures, because the run could not be recorded")


async def test_rows_come_one_by_one_until_escape_stops(env: AppEnv) -> None:
    async with env.start() as pilot:
        asked = await ask(pilot, env)
        env.client.holds = True
        await pilot.press("enter")
        await until_shown(pilot, "Running on T4. Esc stops it.")
        await until(pilot, lambda: len(env.client.requests) == 2, "for the first model")
        env.client.released.set()
        await until_shown(pilot, "Running on A100 40. Esc stops it.")
        assert list(rows(pilot)) == ["modelled time", "T4"]
        await until(pilot, lambda: len(env.client.requests) == 3, "for the second model")
        await pilot.press("escape")
        await until_shown(pilot, "Stopped.")
        assert env.client.cancelled.is_set()
        assert pilot.app.screen is asked
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, DeviceScreen), "for the screen before")
        assert len(env.client.requests) == 3, "the third model is left out"


async def test_a_wrong_name_and_a_broken_judge_are_reported(env: AppEnv) -> None:
    async with env.start() as pilot:
        await ask(pilot, env, "T4, H1000000")
        await until_shown(pilot, "No GPU is called 'H1000000'. Did you mean 'H100'")
        assert len(env.client.requests) == 1
        env.client.breaks = BROKEN
        pilot.app.screen.query_one(Input).value = "T4"
        await pilot.press("enter")
        await until_shown(pilot, "T4: The judge could not be started.")


async def test_typing_replaces_the_models_of_the_offer(env: AppEnv) -> None:
    async with env.start() as pilot:
        asked = await ask(pilot, env)
        await pilot.press("L", "4")
        assert asked.query_one(Input).value == "L4"
