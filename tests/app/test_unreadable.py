"""A file that others remove or spoil: told in words, with what to do, and what was typed is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

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
from tests.support.screens import screen_text


async def test_a_file_that_is_removed_is_told_and_saving_writes_it_anew(env: AppEnv) -> None:
    file = env.file()
    async with env.start(size=(100, 30)) as pilot:
        file.unlink()
        await until_shown(pilot, "Another program removed your file. ^s writes it anew.")
        assert not is_asking(pilot)
        await pilot.press("e", "escape")
        assert not file.exists(), "only an edit or a command writes it anew"
        await pilot.press("ctrl+s")
        await until(pilot, file.exists, "for the file")
        await until(pilot, lambda: "file removed" not in screen_text(pilot.app), "for the word")
        assert file.read_text() == main_screen(pilot).editor_text


async def test_a_removed_file_comes_back_with_the_next_edit_or_from_outside(env: AppEnv) -> None:
    file = env.file()
    async with env.start(size=(100, 30)) as pilot:
        text = file.read_text()
        file.unlink()
        await until_shown(pilot, "file removed")
        await pilot.press("e", *"m=1")
        await until(pilot, lambda: file.exists() and file.read_text() == "m=1" + text, "for the autosave")
        await until(pilot, lambda: "file removed" not in screen_text(pilot.app), "for the word")
        file.unlink()
        await until_shown(pilot, "file removed")
        file.write_text(text)
        await until(pilot, lambda: main_screen(pilot).editor_text == text, "for the text")
        await until(pilot, lambda: "file removed" not in screen_text(pilot.app), "for the word")


def make_bytes(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00")


def make_huge(file: Path) -> None:
    file.write_bytes(b"#" * (2 << 20))


def repair(file: Path, text: str) -> None:
    if file.is_dir():
        file.rmdir()
    file.write_text(text)


SPOILT = [
    (make_folder, "cannot be read: Not an ordinary file", "move this away"),
    (make_bytes, "is not UTF-8 text (line 1)", "Save it as UTF-8 in your editor"),
    (make_huge, "is larger than 1 MiB", "A solution is a short Python file"),
]


@pytest.mark.long
@pytest.mark.parametrize(("spoil", "words", "advice"), SPOILT)
async def test_a_file_that_becomes_unreadable_is_reported_once(
    env: AppEnv, spoil: Callable[[Path], None], words: str, advice: str
) -> None:
    async with env.start(size=(140, 40)) as pilot:
        screen, text = main_screen(pilot), env.file().read_text()
        spoil(env.file())
        await until(pilot, lambda: is_asking(pilot), "for the dialog")
        for told in (env.file().name, words, advice):
            await until_shown(pilot, told)
        await pilot.press("escape", "e", *"m=1")
        for _ in range(5):
            screen.files._first_edit_at = 0.0
            screen.check_disk()
            await pilot.pause()
        assert not is_asking(pilot), "typing goes on"
        assert "not saved: ^s shows why" in screen_text(pilot.app)
        await pilot.press("ctrl+s")
        await until_shown(pilot, words)
        assert env.client.requests == []
        await pilot.press("escape")
        assert [kept.read_text() for kept in drafts_folder().iterdir()] == ["m=1" + text]
        repair(env.file(), text)
        await until(pilot, lambda: env.file().is_file() and env.file().read_text() == "m=1" + text, "for the autosave")
        assert list(drafts_folder().iterdir()) == [], "what is saved needs no draft"


@pytest.mark.parametrize(("spoil", "words", "advice"), SPOILT)
async def test_a_file_unreadable_at_the_start_opens_once_it_is_fixed(
    env: AppEnv, spoil: Callable[[Path], None], words: str, advice: str
) -> None:
    spoil(env.file())
    async with env.start(size=(140, 40)) as pilot:
        screen = main_screen(pilot)
        for told in (env.file().name, words, advice):
            await until_shown(pilot, told)
        await pilot.press("escape", "e", *"abc", "ctrl+s")
        await until_shown(pilot, words)
        await pilot.press("escape")
        repair(env.file(), "a = 1\n")
        await until(pilot, lambda: screen.editor_text == "a = 1\n", "for the text")
        await pilot.press("m")
        await until(pilot, lambda: env.file().read_text() == "ma = 1\n", "for the autosave")


async def test_a_file_that_is_no_text_can_be_reset_here(env: AppEnv) -> None:
    make_bytes(env.file())
    async with env.start() as pilot:
        await until(pilot, lambda: is_asking(pilot), "for the dialog")
        await pilot.press("escape", "x", "y")
        await until(pilot, lambda: main_screen(pilot).editor_text == main_screen(pilot).exercise.starter, "the starter")
        assert [kept.read_bytes() for kept in (env.workspace_folder / ".backups").iterdir()] == [b"\xff\xfe\x00"]


@pytest.mark.long
async def test_leaving_with_an_unwritable_file_keeps_a_draft(
    env: AppEnv,
) -> None:
    async with env.start(size=(100, 30)) as pilot:
        text = env.file().read_text()
        stop_ticking(pilot)
        await pilot.press("e", *"m=1")
        make_folder(env.file())
        await pilot.press("ctrl+q")
        await until_shown(pilot, "Your text is kept apart")
        await pilot.press("s")
        assert pilot.app.is_running
        await pilot.press("ctrl+q")
        await until(pilot, lambda: is_asking(pilot), "for the question")
        await pilot.press("l")
        await until(pilot, lambda: not pilot.app.is_running, "for the end")
    repair(env.file(), text)
    async with env.start(size=(100, 30)) as pilot:
        await until_shown(pilot, "There is text here that was not saved last time")
        assert env.file().read_text() == text, "nothing is written before the answer"
        await pilot.press("d")
        await until_shown(pilot, "- m=1def")
        await pilot.press("escape")
        await until(pilot, lambda: is_asking(pilot), "for the question again")
        await pilot.press("m")
        await until(pilot, lambda: env.file().read_text() == "m=1" + text, "for the text")
        assert backups(env) == [text]
    async with env.start() as pilot:
        await pilot.pause()
        assert not is_asking(pilot)


async def test_a_draft_that_is_not_wanted_is_kept_in_the_backups(env: AppEnv) -> None:
    async with env.start() as pilot:
        stop_ticking(pilot)
        await pilot.press("e", *"m=1")
        env.file().write_text("theirs = 1\n")
        main_screen(pilot).files.rescue()
    async with env.start() as pilot:
        await until(pilot, lambda: is_asking(pilot), "for the question")
        await pilot.press("escape")
        await until(pilot, lambda: main_screen(pilot).editor_text == "theirs = 1\n", "for the file's text")
        assert [kept[:6] for kept in backups(env)] == ["m=1def"]
    assert env.file().read_text() == "theirs = 1\n"
    assert list(drafts_folder().iterdir()) == []


@pytest.mark.long
async def test_text_typed_after_a_postponed_conflict_survives_kill_9(pilot: Pilot[None], env: AppEnv) -> None:
    await start_conflict(env, pilot)
    await until(pilot, lambda: len(list(drafts_folder().iterdir())) == 1, "for the draft")
    await pilot.press("escape", *"23")
    draft = next(iter(drafts_folder().iterdir()))
    await until(pilot, lambda: draft.read_text().startswith("m=123def"), "for the newer draft")
    await pilot.press("ctrl+s", "m")
    await until(pilot, lambda: env.file().read_text().startswith("m=123def"), "for the file")
    assert not draft.exists()
