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
from tests.support.apps import AppEnv, main_screen


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
