"""Copying to the clipboard: the key, the palette's entries, and the word in the status line."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from gpututor.app.main.copying import COPIES
from tests.support.apps import AppEnv, edit, main_screen, run_checks, settle, until, until_shown
from tests.support.screens import screen_text


async def test_the_key_copies_the_report_in_the_results_and_else_the_path(pilot: Pilot[None], env: AppEnv) -> None:
    await pilot.press("5", "y")
    await until_shown(pilot, "There are no results yet.")
    assert pilot.app.clipboard == ""
    await run_checks(pilot)
    await pilot.press("5", "y")
    report = pilot.app.clipboard
    await until_shown(pilot, f"Copied {len(report.splitlines())} lines.")
    for part in ("1.1 Twice 1", "✗ failed", "a result on cpu", "Create it there", "hello"):
        assert part in report
    for pane in "123":
        await pilot.press(pane, "y")
        assert pilot.app.clipboard == str(env.file())
    await until_shown(pilot, f"/{env.file().name}  saved")
    await pilot.press("j")
    assert "Copied" not in screen_text(pilot.app), "until the next key"
    await edit(pilot, "x = 1\ny = 2\n")
    await pilot.press("alt+a", "ctrl+c")
    await settle(pilot)
    await until_shown(pilot, "Copied 2 lines.")
    assert pilot.app.clipboard == "x = 1\ny = 2\n"


async def test_the_screen_of_the_full_report_copies_it_and_says_so(pilot: Pilot[None]) -> None:
    await run_checks(pilot)
    await pilot.press("5", "v")
    await until_shown(pilot, "y copy")
    await pilot.press("y")
    report = pilot.app.clipboard
    assert report.startswith("✗ Failed")
    for part in ("a result on cpu", "Create it there", "hello"):
        assert part in report
    await until_shown(pilot, f"Copied {len(report.splitlines())} lines.")


async def test_a_pasted_report_cannot_control_the_terminal(env: AppEnv) -> None:
    async with env.start() as pilot:
        await run_checks(pilot)
        results = main_screen(pilot).panes.results
        assert results.report is not None
        results.report = replace(results.report, reason="\x1b]0;title\x07")
        await pilot.press("5", "y")
        assert "\x1b" not in pilot.app.clipboard
        assert "\\x1b]0;title" in pilot.app.clipboard


@pytest.mark.parametrize("title", COPIES)
async def test_the_palette_copies_each_text(pilot: Pilot[None], env: AppEnv, title: str) -> None:
    await run_checks(pilot)
    await pilot.press("ctrl+p", *title.lower())
    await until_shown(pilot, COPIES[title][1])
    await pilot.press("enter")
    await until(pilot, lambda: pilot.app.clipboard != "", "for the text")
    await until_shown(pilot, "Copied")
    wanted = {
        "Copy the report": "1.1 Twice 1\n\n✗ Failed",
        "Copy the path of my file": str(env.file()),
        "Copy the command that grades this": "gpututor grade 1.1",
    }
    assert pilot.app.clipboard.startswith(wanted[title])


async def test_the_command_finds_the_file_in_another_shell(
    pilot: Pilot[None], env: AppEnv, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    course, folder = str(env.course.folder), str(env.workspace_folder)
    main_screen(pilot).copying.copy_command()
    assert shlex.split(pilot.app.clipboard)[3:] == ["--course", course], "it is the folder made last"
    monkeypatch.setenv("GPUTUTOR_HOME", str(tmp_path / "another home"))
    main_screen(pilot).copying.copy_command()
    assert shlex.split(pilot.app.clipboard)[3:] == ["--course", course, "--workspace", folder]
    monkeypatch.chdir(env.workspace_folder)
    main_screen(pilot).copying.copy_command()
    assert shlex.split(pilot.app.clipboard)[3:] == ["--course", course], "it is found from there"
