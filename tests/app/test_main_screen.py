"""The main screen: calls of its controllers, the status bar and the key bar."""

from __future__ import annotations

import ast
import inspect
from functools import partial
from operator import attrgetter
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import TextArea

import gpututor.app.main
from gpututor.app.commands import BY_ID, COMMANDS, FOOTERS
from gpututor.app.main.attempts import AttemptController
from gpututor.app.main.editing import EditorController
from gpututor.app.main.files import FileController
from gpututor.app.main.runs import RunController
from gpututor.app.main.screen import MainScreen
from gpututor.app.widgets.results import CheckRow
from gpututor.settings import SettingsFile
from tests.support.apps import AppEnv, main_screen, until, until_shown
from tests.support.parameters import mostly_long
from tests.support.screens import screen_lines
from tests.support.scripted_client import ScriptedClient


def log_calls(monkeypatch: pytest.MonkeyPatch, *methods: tuple[type, str]) -> list[str]:
    """Log the calls of methods, which still do their work."""
    calls: list[str] = []

    def watch(kind: type, name: str) -> None:
        method = getattr(kind, name)

        def logged(*arguments: object, **named: object) -> object:
            calls.append(f"{kind.__name__}.{name}")
            return method(*arguments, **named)

        monkeypatch.setattr(kind, name, logged)

    for kind, name in methods:
        watch(kind, name)
    return calls


async def test_a_changed_text_goes_to_results_then_search_then_file(
    env: AppEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = (AttemptController, EditorController, FileController)
    async with env.start() as pilot:
        screen = main_screen(pilot)
        calls = log_calls(monkeypatch, *((kind, "text_changed") for kind in order))
        screen.post_message(TextArea.Changed(screen.panes.editor))
        await pilot.pause()
    assert calls[:3] == [f"{kind.__name__}.text_changed" for kind in order]


async def test_unmounting_closes_attempts_then_completion_then_the_file(
    env: AppEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with env.start():
        calls = log_calls(
            monkeypatch, (FileController, "leave"), (EditorController, "close"), (AttemptController, "close")
        )
    assert calls == ["AttemptController.close", "EditorController.close", "FileController.leave"]


async def test_a_stored_attempt_updates_costs_traces_and_lists(
    pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = (AttemptController, "_show_costs"), (AttemptController, "_read_traces"), (MainScreen, "show_lists")
    calls = log_calls(monkeypatch, *methods)
    await pilot.press("r")
    await until_shown(pilot, "d shows the timeline.")
    assert calls[0] == "MainScreen.show_lists", "with the outcome, before it is stored"
    assert sorted(calls[1:]) == ["AttemptController._read_traces", "AttemptController._show_costs", calls[0]]


async def test_a_check_of_the_disk_reads_settings_then_the_file_then_runs(
    screen: MainScreen, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = (SettingsFile, "reload"), (FileController, "check_disk"), (RunController, "run_if_due")
    calls = log_calls(monkeypatch, *methods)
    screen.check_disk()
    assert calls == ["SettingsFile.reload", "FileController.check_disk", "RunController.run_if_due"]


async def test_runs_hear_of_every_loaded_and_reloaded_file(
    pilot: Pilot[None], env: AppEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = log_calls(monkeypatch, (RunController, "file_loaded"))
    await pilot.press("n")
    assert calls == ["RunController.file_loaded"]
    env.file(1).write_text("theirs = 1\n")
    await until(pilot, lambda: len(calls) == 2, "for the new text")


async def test_a_dialog_saves_the_file_and_its_end_checks_the_disk(
    pilot: Pilot[None], screen: MainScreen, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = log_calls(monkeypatch, (FileController, "save"), (MainScreen, "check_disk"))
    await pilot.press("f1")
    await until(pilot, lambda: not screen.is_active, "for the help")
    assert "FileController.save" in calls
    calls.clear()
    await pilot.press("escape")
    await until(pilot, lambda: "MainScreen.check_disk" in calls, "for the check")


async def test_every_command_names_a_handler_and_footers_name_commands(pilot: Pilot[None]) -> None:
    for command in COMMANDS:
        handler = attrgetter(command.handler)(main_screen(pilot))
        inspect.signature(handler).bind()
    assert len(BY_ID) == len(COMMANDS)
    assert {id for ids in FOOTERS.values() for id in ids} <= BY_ID.keys()


def test_controllers_do_not_know_the_screen() -> None:
    folder = Path(gpututor.app.main.__path__[0])
    for path in folder.glob("*.py"):
        if path.name != "screen.py":
            modules = {
                node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)
            }
            assert "gpututor.app.main.screen" not in modules, path.name


@pytest.mark.parametrize("size", mostly_long([(80, 24), (140, 40)], [(80, 24)]), ids=str)
async def test_a_check_that_opens_during_a_run_leaves_the_lists_keys_named(env: AppEnv, size: tuple[int, int]) -> None:
    env.client.holds = True
    async with env.start(size) as pilot:
        await pilot.press("r", "1")
        await until_shown(pilot, "/ Filter")
        main_screen(pilot).post_message(CheckRow.Opened())
        await pilot.pause()
        assert "/ Filter  v To do" in screen_lines(pilot.app)[-1]


@pytest.mark.parametrize("size", mostly_long([(80, 24), (50, 20)], [(80, 24)]), ids=str)
async def test_the_file_state_is_shown_next_to_a_message_of_any_length(pilot: Pilot[None], screen: MainScreen) -> None:
    screen.status.show_message("The message is long. " * 10)
    await until(pilot, lambda: screen_lines(pilot.app)[-2].endswith("…  saved"), "for both")
    await pilot.press("e", "x")
    screen.status.show_message("The message is long. " * 10)
    await until(pilot, lambda: screen_lines(pilot.app)[-2].endswith("saved"), "for both")
    screen.status.show_message("Short.")
    await until(pilot, lambda: screen_lines(pilot.app)[-2].endswith(" saved · virtual T4 (modelled)"), "for all")


async def test_during_a_run_the_footer_offers_to_stop(env: AppEnv) -> None:
    env.client = ScriptedClient(holds=True)
    async with env.start() as pilot:
        await until_shown(pilot, "r Run")
        for key in ("r", "3", "1"):
            await pilot.press(key)
            await until(pilot, lambda: "Esc Stop" in screen_lines(pilot.app)[-1], "for the key")
            assert "r Run" not in screen_lines(pilot.app)[-1]
        await pilot.press("escape")
        await until(pilot, lambda: "r Run" in screen_lines(pilot.app)[-1], "to be asked again")


async def test_ctrl_c_copies_selected_text_and_is_always_answered(pilot: Pilot[None], screen: MainScreen) -> None:
    await pilot.press("ctrl+c")
    await until_shown(pilot, "COMMAND Press q to quit.")
    assert not pilot.app.query("Toast")
    screen.text_select_all()
    await pilot.press("ctrl+c")
    await until_shown(pilot, "Copied")
    assert "number" in pilot.app.clipboard


async def test_the_status_line_has_mode_replies_and_messages(
    pilot: Pilot[None], screen: MainScreen, env: AppEnv
) -> None:
    def shows(mode: str) -> bool:
        return screen_lines(pilot.app)[-2].split()[0] == mode

    await until_shown(pilot, "COMMAND")
    for keys, mode in ((("e",), "EDIT"), (("escape",), "COMMAND"), (("1", "slash"), "EDIT"), (("escape",), "COMMAND")):
        await pilot.press(*keys)
        await until(pilot, partial(shows, mode), f"for {mode}")
    env.file().write_text("x = 1\n")
    await pilot.press("x")
    await until_shown(pilot, "Enter: No, keep it")
    await pilot.press("left")
    await until_shown(pilot, "Enter: Yes, reset")
    await pilot.press("enter")
    await until_shown(pilot, "Reset. Backup: .backups/")
    status = main_screen(pilot).status
    status.show_message("The message.")
    await pilot.press("p")
    await until_shown(pilot, "This is the first exercise of the course.")
    await pilot.press("d")
    await until_shown(pilot, "Nothing has been run yet.")
    await pilot.press("escape")
    await until_shown(pilot, "The message.")
    assert "first exercise of the course" not in screen_lines(pilot.app)[-2]
