"""Settings: display, changes at once, storage, and messages about a wrong file."""

from __future__ import annotations

import re

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from gpututor.app.app import GpututorApp
from gpututor.app.commands import SCREENS, Pane
from gpututor.app.screens.choices import EditorDialog
from gpututor.app.screens.settings import SettingsScreen
from gpututor.paths import settings_file
from gpututor.settings import SETTINGS, read_settings
from tests.support.apps import AppEnv, burst, main_screen, run_checks, until, until_shown, write
from tests.support.screens import TRIED_SIZES, assert_golden, screen_text
from tests.support.tiny_course import RIGHT


def app_of(pilot: Pilot[None]) -> GpututorApp:
    assert isinstance(pilot.app, GpututorApp)
    return pilot.app


@pytest.mark.parametrize("size", TRIED_SIZES, ids=str)
async def test_the_settings_look_as_agreed(env: AppEnv, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "vim")
    async with env.start(size) as pilot:
        await pilot.press("comma")
        await until_shown(pilot, "File: ~/home/config/settings.toml")
        await assert_golden(pilot, "settings")


@pytest.mark.parametrize("size", [(100, 30), (140, 40)], ids=str)
async def test_all_settings_are_seen_at_once_if_they_fit(env: AppEnv, size: tuple[int, int]) -> None:
    async with env.start(size) as pilot:
        await pilot.press("comma")
        await until_shown(pilot, "Settings")
        for setting in SETTINGS:
            await until_shown(pilot, setting.help)
        assert pilot.app.screen.query_one("#settings", OptionList).max_scroll_y == 0


async def test_a_change_of_a_setting_applies_at_once_and_is_saved(env: AppEnv) -> None:
    async with env.start((80, 30)) as pilot:
        await pilot.press("comma")
        await until_shown(pilot, "Settings")
        for setting in SETTINGS:
            await until_shown(pilot, setting.title)
            await until_shown(pilot, setting.help)
            await pilot.press("j")
        await pilot.press("home", "right")
        await until(pilot, lambda: pilot.app.theme == "day", "for the light colors")
        await pilot.press("left", "j", "j", "j", "enter")
        assert pilot.app.theme == "night"
        assert "◂ none ▸" in screen_text(pilot.app)
        assert pilot.app.animation_level == "none"
        assert main_screen(pilot).panes.editor.cursor_blink is False
        await pilot.press("escape")
        assert pilot.app.screen is main_screen(pilot)
    kept = read_settings(settings_file()).settings
    assert (kept.theme, kept.motion) == ("night", "none")


async def test_the_next_start_has_what_was_chosen(env: AppEnv) -> None:
    write('theme = "contrast"\nmotion = "none"\ndevice = "virtual"\ngpu = "H100"\n')
    async with env.start() as pilot:
        assert pilot.app.theme == "contrast"
        assert pilot.app.animation_level == "none"
        assert "virtual H100 (modelled)" in screen_text(pilot.app)
        await run_checks(pilot)
        assert (env.client.requests[0].device, env.client.requests[0].gpu) == ("virtual", "H100")


async def test_a_command_for_the_own_editor_is_typed(env: AppEnv) -> None:
    async with env.start() as pilot:
        await pilot.press("comma", "j")
        await until_shown(pilot, "Enter edit Esc closes")
        await pilot.press(*"hx")
        await until_shown(pilot, "Command; empty: $VISUAL, else $EDITOR")
        await until_shown(pilot, "Enter saves Esc cancels")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, SettingsScreen), "for the settings")
        assert main_screen(pilot).learner.settings.now.editor == "hx"
        await until_shown(pilot, "Own editor hx")
        assert pilot.app.screen.query_one(OptionList).highlighted == 1, "the row keeps its highlight"
        await pilot.press("enter", "end", *" -x", "escape")
        assert main_screen(pilot).learner.settings.now.editor == "hx", "Esc keeps what was"
        assert isinstance(pilot.app.screen, SettingsScreen)
        await until_shown(pilot, "Enter edit Esc closes")
        await pilot.press("k")
        await until_shown(pilot, "← → changes Enter all themes Esc closes")
    assert read_settings(settings_file()).settings.editor == "hx"


async def test_all_letters_but_those_that_the_help_names_start_the_command(pilot: Pilot[None]) -> None:
    (help_,) = (command.help for command in SCREENS["settings"] if command.id == "edit")
    others = []
    for letter in "ahjkloqz":
        await pilot.press("comma", "j", letter)
        await pilot.pause()
        if not isinstance(pilot.app.screen, EditorDialog):
            others.append(letter)
        while pilot.app.screen is not main_screen(pilot):
            await pilot.press("escape")
            await pilot.pause()
    assert others == re.findall(r"\b[a-z]\b", help_)


async def test_the_box_gets_bursts_and_the_app_takes_edits_of_the_file(pilot: Pilot[None]) -> None:
    await pilot.press("comma", "j")
    burst(pilot.app, *"nano", "enter")
    await until(pilot, lambda: main_screen(pilot).learner.settings.now.editor == "nano", "for the command")
    await pilot.press("escape")
    write('theme = "day"\n')
    await until(pilot, lambda: pilot.app.theme == "day", "for the colors")
    await pilot.press("comma")
    write('theme = "contrast"\n')
    await until(pilot, lambda: "◂ contrast ▸" in screen_text(pilot.app), "for the row")


async def test_themes_are_previewed_and_kept_only_by_enter(env: AppEnv) -> None:
    async with env.start() as pilot:
        settings = main_screen(pilot).learner.settings
        await pilot.press("comma", "enter", "j", "j")
        await until(pilot, lambda: pilot.app.theme == "terminal", "for the preview")
        assert settings.now.theme == "night", "not kept yet"
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.theme == "night", "for the old theme")
        await pilot.press("enter", "G")
        await until(pilot, lambda: pilot.app.theme == "tokyo-night", "for the preview")
        await pilot.press("enter")
        await until_shown(pilot, "◂ tokyo-night ▸")
    assert read_settings(settings_file()).settings.theme == "tokyo-night"


async def test_an_invalid_setting_is_reported_at_the_start_and_explained(env: AppEnv) -> None:
    path = write(text := 'motion = "some"\ndevice = "cpu"\ntheme = "no-such"\n')
    async with env.start((100, 30)) as pilot:
        await until_shown(pilot, "A setting is invalid. Press , to see which.")
        assert main_screen(pilot).learner.settings.now.device == "cpu", "the rest holds"
        await pilot.press("comma")
        await until_shown(pilot, 'line 1: motion cannot be "some"')
        await until_shown(pilot, 'line 3: theme cannot be "no-such"')
        await pilot.press("escape")
        path.write_text("")
        await until(pilot, lambda: not main_screen(pilot).status.message, "the corrected file")
        path.write_text(text)
        await until_shown(pilot, "A setting is invalid")
        assert pilot.app.theme == "night"
        assert pilot.app.animation_level == "none", "as the test set it"
    assert path.read_text() == text


async def test_the_palettes_theme_and_the_settings_agree(env: AppEnv) -> None:
    async with env.start() as pilot:
        pilot.app.theme = "nord"
        await until(pilot, lambda: app_of(pilot).settings.now.theme == "nord", "for the settings")
        await pilot.press("comma")
        await until_shown(pilot, "◂ nord ▸")
    assert read_settings(settings_file()).settings.theme == "nord"
    async with env.start() as pilot:
        assert pilot.app.theme == "nord"


@pytest.mark.long
async def test_without_colors_a_theme_is_chosen_all_the_same(env: AppEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with env.start() as pilot:
        await pilot.press("comma")
        await until_shown(pilot, "◂ night ▸")
        await pilot.press("right")
        await until_shown(pilot, "◂ day ▸")
        await pilot.press("right")
        await until_shown(pilot, "◂ terminal ▸")
    assert read_settings(settings_file()).settings.theme == "terminal"


async def test_a_choice_that_cannot_be_written_holds_and_is_told(env: AppEnv) -> None:
    write("= broken\n")
    async with env.start() as pilot:
        await pilot.press("comma", "right")
        await until_shown(pilot, "The choice could not be written")
        assert pilot.app.theme == "day"
    assert settings_file().read_text() == "= broken\n"


async def test_unless_asked_for_nothing_runs_by_itself(pilot: Pilot[None], env: AppEnv) -> None:
    env.file().write_text(RIGHT)
    await until(pilot, lambda: main_screen(pilot).editor_text == RIGHT, "for the reload")
    for _ in range(5):
        main_screen(pilot).check_disk()
    assert env.client.requests == []


async def test_a_save_by_another_editor_runs_the_checks_quietly(env: AppEnv) -> None:
    write('auto_run = "other editor"\n')
    async with env.start() as pilot:
        await pilot.press("e", *"x = 1", "enter")
        main_screen(pilot).files.save()
        for _ in range(5):
            main_screen(pilot).check_disk()
        assert env.client.requests == [], "what is typed here waits for ^s"
        env.file().write_text(RIGHT)
        await until(pilot, lambda: len(env.client.requests) == 1, "for the run")
        assert env.client.requests[0].submission == RIGHT
        await until_shown(pilot, "✓ Passed")
        assert main_screen(pilot).panes.current is Pane.CODE


async def test_every_save_runs_what_is_python(env: AppEnv) -> None:
    write('auto_run = "saved"\n')
    async with env.start() as pilot:
        await pilot.press("e", *"x = (", "enter")
        await until_shown(pilot, "Saved, not run: line 1 is not finished.")
        assert env.client.requests == []
        main_screen(pilot).panes.editor.load_text(RIGHT)
        await until(pilot, lambda: len(env.client.requests) == 1, "for the run")
        assert main_screen(pilot).panes.current is Pane.CODE
        await pilot.press("f5")
        await until(pilot, lambda: len(env.client.requests) == 2, "for the run that was asked for")


@pytest.mark.long
async def test_shifted_function_keys_work_as_terminals_send_them(pilot: Pilot[None]) -> None:
    """xterm and its kin send Shift+F2 as F14."""
    await pilot.press("e", "f14")
    assert isinstance(pilot.app.screen, SettingsScreen)
    await pilot.press("f14")
    await pilot.press("f22")
    await until_shown(pilot, "Start 1.1 Twice 1 again?")


@pytest.mark.long
async def test_costs_that_are_hidden_stay_hidden(env: AppEnv) -> None:
    async with env.start() as pilot:
        assert main_screen(pilot).panes.editor.costs_on
        main_screen(pilot).editing.switch_costs()
        assert read_settings(settings_file()).settings.costs is False
    async with env.start() as pilot:
        assert not main_screen(pilot).panes.editor.costs_on
        await pilot.press("comma", *"jjjjjj", "right")
        await until(pilot, lambda: main_screen(pilot).panes.editor.costs_on, "for the costs")


async def test_with_faults_in_the_file_all_settings_are_still_reached(env: AppEnv) -> None:
    write('them = "day"\nmotion = "some"\ncosts = 3\ngpu = "T5"\nx = 1\n')
    async with env.start() as pilot:
        await pilot.press("comma")
        await until_shown(pilot, "◂ night ▸")
        for setting in SETTINGS:
            await until_shown(pilot, setting.help)
            await pilot.press("j")
        await until_shown(pilot, "Esc closes")
