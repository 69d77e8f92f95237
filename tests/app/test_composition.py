"""The main screen calls its controllers, each in its turn, and every command names a handler."""

from __future__ import annotations

import ast
import inspect
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
from gpututor.settings import SettingsFile
from tests.support.apps import AppEnv, main_screen, until, until_shown


def log_calls(monkeypatch: pytest.MonkeyPatch, *methods: tuple[type, str]) -> list[str]:
    """Log the calls of methods, which still do their work."""
    calls: list[str] = []

    def watch(kind: type, name: str) -> None:
        method = getattr(kind, name)

        def logged(*arguments: object) -> object:
            calls.append(f"{kind.__name__}.{name}")
            return method(*arguments)

        monkeypatch.setattr(kind, name, logged)

    for kind, name in methods:
        watch(kind, name)
    return calls


async def test_a_changed_text_goes_to_results_then_search_then_file(
    env: AppEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with env.start() as pilot:
        screen = main_screen(pilot)
        calls = log_calls(
            monkeypatch,
            (FileController, "text_changed"),
            (EditorController, "text_changed"),
            (AttemptController, "text_changed"),
        )
        screen.post_message(TextArea.Changed(screen.panes.editor))
        await pilot.pause()
    assert calls[:3] == [
        "AttemptController.text_changed",
        "EditorController.text_changed",
        "FileController.text_changed",
    ]


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
    await until_shown(pilot, "d shows what it did.")
    assert calls[0] == "MainScreen.show_lists", "with the outcome, before it is stored"
    assert sorted(calls[1:]) == ["AttemptController._read_traces", "AttemptController._show_costs", calls[0]]


async def test_a_check_of_the_disk_reads_settings_then_the_file_then_runs(
    screen: MainScreen, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = (SettingsFile, "look"), (FileController, "check_disk"), (RunController, "run_if_due")
    calls = log_calls(monkeypatch, *methods)
    screen.check_disk()
    assert calls == ["SettingsFile.look", "FileController.check_disk", "RunController.run_if_due"]


async def test_runs_hear_of_every_loaded_and_reloaded_file(
    pilot: Pilot[None], env: AppEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = log_calls(monkeypatch, (RunController, "file_loaded"), (RunController, "file_reloaded"))
    await pilot.press("n")
    assert calls == ["RunController.file_loaded"]
    env.file(1).write_text("theirs = 1\n")
    await until(pilot, lambda: calls[1:] == ["RunController.file_reloaded"], "for the new text")


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


async def test_every_command_names_a_handler(pilot: Pilot[None]) -> None:
    for command in COMMANDS:
        handler = attrgetter(command.handler)(main_screen(pilot))
        inspect.signature(handler).bind()


def test_ids_of_commands_are_unique_and_used() -> None:
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
