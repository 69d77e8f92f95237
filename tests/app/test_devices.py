"""The screen of devices: what is here, where runs happen, which GPU the virtual one is."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from gpututor.app.screens.devices import VIRTUAL_GPU
from gpututor.app.wording import planned_device, reason_against
from gpututor.course.loader import load_course
from gpututor.doctor import NOTE, OK, WRONG, Diagnosis
from gpututor.hardware import inventory as inventory_module
from gpututor.hardware.gpus import gpu_names
from gpututor.hardware.inventory import Device, Inventory
from gpututor.paths import settings_file
from gpututor.settings import read_settings
from tests.support.apps import AppEnv, main_screen, run_checks, until, until_shown
from tests.support.parameters import mostly_long
from tests.support.screens import assert_golden, screen_text

GPU = Device("cuda:0", "cuda", "NVIDIA H200 [/x]", 140 << 30)
CPU = Device("cpu", "cpu", "x86_64")
WITH_GPU = Inventory("2.13.0", (CPU, GPU), "2026-01-02T03:04:05+00:00")
WITHOUT = Inventory("2.13.0", (CPU,), "2026-01-02T03:04:05+00:00")


@pytest.fixture(autouse=True)
def no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the screen from examining the machine that runs the tests."""
    monkeypatch.setattr("gpututor.doctor.findings", lambda *folders: iter(()))
    monkeypatch.setattr(inventory_module, "load_inventory", lambda refresh=False: WITH_GPU)


@pytest.mark.parametrize("size", mostly_long([(80, 24), (140, 40)], [(80, 24)]), ids=str)
@pytest.mark.parametrize("page", ["1", "2"])
async def test_the_devices_look_as_agreed(pilot: Pilot[None], page: str) -> None:
    main_screen(pilot).runs._inventory = WITH_GPU
    await pilot.press("D", page)
    await until_shown(pilot, "Tab next page")
    await assert_golden(pilot, f"devices_{page}")


async def test_on_a_small_terminal_all_of_each_page_can_be_reached(env: AppEnv) -> None:
    async with env.start((60, 15)) as pilot:
        main_screen(pilot).runs._inventory = WITH_GPU
        await pilot.press("D")
        await until_shown(pilot, "Esc closes")
        await pilot.press("pagedown", "pagedown")
        await until_shown(pilot, "▸ 1.1 Twice 1 runs on")
        await pilot.press("2")
        await until_shown(pilot, "the exercise's own")
        await pilot.press("pageup", "pageup")
        await until_shown(pilot, "A model of a GPU")


async def test_the_device_is_chosen_with_enter_and_holds_at_once(env: AppEnv) -> None:
    async with env.start() as pilot:
        screen = main_screen(pilot)
        screen.runs._inventory = WITH_GPU
        await pilot.press("D")
        await until_shown(pilot, "● auto")
        assert "▸ 1.1 Twice 1 runs on cuda:0, NVIDIA H200 [/x]." in screen_text(pilot.app)
        await pilot.press("j", "enter")
        await until_shown(pilot, "● virtual")
        assert "runs on virtual T4 (modelled)." in screen_text(pilot.app)
        await pilot.press("j", "j", "enter", "escape")
        await until(pilot, lambda: pilot.app.screen is screen, "for the main screen")
        assert "cuda:0, NVIDIA H200 [/x]" in screen_text(pilot.app)
        await run_checks(pilot)
        assert env.client.requests[0].device == "cuda:0"
    assert read_settings(settings_file()).settings.device == "cuda:0"


async def test_the_model_of_the_virtual_gpu_is_chosen(env: AppEnv) -> None:
    async with env.start((100, 40)) as pilot:
        await pilot.press("D", "tab")
        await until_shown(pilot, "● the exercise's own")
        text = screen_text(pilot.app)
        assert all(name in text for name in gpu_names())
        assert all(line in text for line in VIRTUAL_GPU)
        await pilot.press("j", "j", "enter")
        await until_shown(pilot, f"● {gpu_names()[1]}")
        await pilot.press("escape", "r")
        await until(pilot, lambda: bool(env.client.requests), "for the run")
        assert env.client.requests[0].gpu == gpu_names()[1]


async def test_an_exercise_that_cannot_run_there_says_so_with_the_reason(env: AppEnv) -> None:
    settings = env.course.exercises[0].folder / "exercise.toml"
    settings.write_text(re.sub("devices = .*", 'devices = ["virtual", "cuda"]', settings.read_text()))
    env.course = load_course(env.course.folder)
    async with env.start() as pilot:
        await pilot.press("D")
        await until_shown(pilot, "● auto")
        await pilot.press("j", "j", "enter")
        await until_shown(pilot, "○ 1.1 Twice 1: not gradable here. ")
        await pilot.press("escape")
        await until_shown(pilot, "cpu: not gradable here")


def test_a_device_that_this_machine_lacks_is_a_reason(env: AppEnv) -> None:
    exercise = env.course.exercises[0]
    assert reason_against(exercise, WITHOUT, "cuda") == "This machine has no device cuda."
    assert reason_against(exercise, WITH_GPU, "cuda:1") == "This machine has no device cuda:1."
    assert reason_against(exercise, WITH_GPU, "cuda:0") == ""
    assert reason_against(exercise, None, "cuda") == "", "not known yet"
    assert planned_device(exercise, WITHOUT, "auto", "H100") == "virtual H100 (modelled)"
    assert planned_device(exercise, WITH_GPU, "cuda") == "cuda:0, NVIDIA H200 [/x]"


async def test_what_is_here_streams_in_and_says_what_to_do(env: AppEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    folders: list[Path] = []

    def diagnose(*where: Path) -> Iterator[Diagnosis]:
        folders.extend(where)
        yield Diagnosis(OK, "Python", "3.11 [/b]")
        go_on.wait()
        yield Diagnosis(NOTE, "isolation", "no bubblewrap", "Install it.")
        yield Diagnosis(WRONG, "torch", "is not installed", "`pip install torch`")

    monkeypatch.setattr("gpututor.doctor.findings", diagnose)
    async with env.start() as pilot:
        await pilot.press("D", "3")
        await until_shown(pilot, "✓ ok     Python        3.11 [/b]")
        assert "… Checking." in screen_text(pilot.app)
        go_on.set()
        await until_shown(pilot, "✗ 1 to fix.")
        text = screen_text(pilot.app)
        for words in ("! note   isolation     no bubblewrap", "Install it.", "✗ wrong  torch", "`pip install torch`"):
            assert words in text
        await pilot.press("r")
        await until_shown(pilot, "✗ 1 to fix.")
        assert len(pilot.app.screen.query("FindingRow")) == 3, "the rows of the first check are gone"
        await pilot.press("escape")
        await until_shown(pilot, "cuda:0, NVIDIA H200 [/x]")
    assert folders[:2] == [env.course.folder, env.workspace_folder]


async def test_a_check_that_breaks_is_reported(env: AppEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    def diagnose(*where: Path) -> Iterator[Diagnosis]:
        yield Diagnosis(OK, "Python", "3.11")
        raise RuntimeError("a driver [/x] fell over")

    monkeypatch.setattr("gpututor.doctor.findings", diagnose)
    async with env.start() as pilot:
        await pilot.press("D", "3")
        await until_shown(pilot, "the check itself failed: RuntimeError('a driver [/x] fell over')")
        await until_shown(pilot, "✗ 1 to fix.")


async def test_on_a_small_screen_the_last_model_is_reached(pilot: Pilot[None]) -> None:
    await pilot.press("D", "2")
    await until_shown(pilot, "● the exercise's own")
    await pilot.press("end")
    await until_shown(pilot, f"○ {gpu_names()[-1]}")
