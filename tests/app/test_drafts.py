"""What could not be saved is found again: each app has drafts of its own, and no app takes one that another holds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpututor.app.app import crash_message
from gpututor.app.open_file import Draft
from gpututor.paths import drafts_folder
from tests.support.apps import (
    AppEnv,
    backups,
    is_asking,
    main_screen,
    make_folder,
    start_conflict,
    stop_ticking,
    until,
    until_shown,
)

HOLDER = """
import sys
from pathlib import Path
from gpututor.app.open_file import Draft
draft = Draft(Path(sys.argv[1]))
draft.save("first")
draft.save(sys.argv[2])
print("kept", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUTUTOR_HOME", str(tmp_path / "home"))
    return tmp_path / "01 [odd] name.py"


def holder(file: Path, text: str) -> subprocess.Popen[str]:
    """Another app that has a draft of the file."""
    command = [sys.executable, "-c", HOLDER, str(file), text]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "kept\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_drafts_of_killed_apps_are_offered_oldest_first_but_not_locked_ones(file: Path) -> None:
    one, two = holder(file, "one"), holder(file, "two")
    mine = Draft(file)
    mine.save("mine")
    late = Draft(file)
    assert late.take_left("") is None
    kill(one)
    kill(two)
    assert late.take_left("") == "one"
    assert Draft(file).take_left("") == "two", "what was taken is held"
    late.remove()
    mine.release()
    assert Draft(file.with_name("other.py")).take_left("") is None
    assert Draft(file).take_left("") == "mine"


def test_a_draft_that_the_file_holds_is_removed(file: Path) -> None:
    kill(holder(file, "known"))
    assert Draft(file).take_left("known") is None
    assert list(drafts_folder().iterdir()) == []


def test_a_draft_that_cannot_be_read_is_left_alone(file: Path) -> None:
    draft = Draft(file)
    draft.save("text")
    (path,) = drafts_folder().iterdir()
    draft.release()
    path.write_bytes(b"\xff")
    assert Draft(file).take_left("") is None
    assert path.exists()


async def test_two_apps_in_a_conflict_lose_neither_text(env: AppEnv) -> None:
    async with env.start() as pilot:
        await start_conflict(env, pilot)
        other = holder(env.file(), "the other's")
        await pilot.press("escape", *"23")
        await until(pilot, lambda: len(list(drafts_folder().iterdir())) == 2, "for both drafts")
        main_screen(pilot).files.rescue()
    kill(other)
    async with env.start() as pilot:
        await until(pilot, lambda: is_asking(pilot), "for the first question")
        offered = [main_screen(pilot).editor_text]
        await pilot.press("m")
        await until(pilot, lambda: main_screen(pilot).editor_text not in offered, "for the second draft")
        await until(pilot, lambda: is_asking(pilot), "for the second question")
        offered.append(main_screen(pilot).editor_text)
        assert sorted(text[:7] for text in offered) == ["m=123de", "the oth"]
        await pilot.press("f")
        await until(pilot, lambda: not is_asking(pilot), "for the end")
        assert env.file().read_text() == offered[0]
        assert sorted(backups(env)) == sorted(["theirs = 1\n", offered[1]])
    assert list(drafts_folder().iterdir()) == []


async def test_the_same_app_offers_an_unsaved_exercise_again(env: AppEnv) -> None:
    file = env.file()
    async with env.start(size=(100, 30)) as pilot:
        stop_ticking(pilot)
        await pilot.press("e", *"m=1")
        make_folder(file)
        await pilot.press("ctrl+n")
        await until_shown(pilot, "Your text is kept apart")
        await pilot.press("l")
        await until(pilot, lambda: main_screen(pilot).exercise.label == "1.2", "for the next exercise")
        file.rmdir()
        await pilot.press("p")
        await until_shown(pilot, "There is text here that was not saved last time")
        await pilot.press("m")
        await until(pilot, lambda: file.read_text().startswith("m=1"), "for the text")


async def test_a_write_by_another_program_during_a_save_is_a_conflict(
    env: AppEnv,
) -> None:
    file = env.file()
    async with env.start() as pilot:
        fsync = os.fsync

        def late(descriptor: int) -> None:
            patch.undo()
            file.write_text("theirs = 1\n")
            fsync(descriptor)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", late)
            await pilot.press("e", "m")
            await until(pilot, lambda: is_asking(pilot), "for the question")
        assert file.read_text() == "theirs = 1\n"
        await pilot.press("m")
        await until(pilot, lambda: file.read_text().startswith("mdef"), "for my text")
        assert backups(env) == ["theirs = 1\n"]


async def test_what_is_said_of_the_file_when_the_app_breaks(env: AppEnv) -> None:
    file = env.file()
    make_folder(file)
    async with env.start() as pilot:
        assert "No file was open." in str(crash_message(None, [main_screen(pilot)]))
    file.rmdir()
    async with env.start() as pilot:
        await pilot.press("e", "m")
        assert "Your file is saved." in str(crash_message(None, [main_screen(pilot)]))
        await start_conflict(env, pilot)
        assert "kept apart" in str(crash_message(None, [main_screen(pilot)]))
