"""Saving, changes by other programs, and files that cannot be read or written."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from gpututor.app.main.screen import MainScreen
from gpututor.app.screens.diff import DiffDialog
from gpututor.errors import ProgressError
from gpututor.paths import drafts_folder
from gpututor.progress.store import ProgressStore
from tests.support.apps import (
    AppEnv,
    backups,
    edit_both,
    is_asking,
    main_screen,
    make_folder,
    start_conflict,
    stop_ticking,
    until,
    until_shown,
)
from tests.support.random_actions import key_event
from tests.support.screens import TRIED_SIZES, assert_golden, screen_text


async def test_typing_is_saved_by_itself_and_not_graded(pilot: Pilot[None], env: AppEnv) -> None:
    tick = stop_ticking(pilot)  # as many keys may take as long as the autosave waits
    await pilot.press("e", *"x=1")
    await until_shown(pilot, "not saved yet")
    tick()
    await until(pilot, lambda: env.file().read_text().startswith("x=1def"), "for the autosave")
    assert env.client.requests == []
    await until(pilot, lambda: "not saved yet" not in screen_text(pilot.app), "for the word")


@pytest.mark.parametrize("leave", [("f3",), ("ctrl+n",), ("ctrl+q",), ("f1",)])
async def test_leaving_the_editor_saves_at_once(pilot: Pilot[None], env: AppEnv, leave: tuple[str, ...]) -> None:
    stop_ticking(pilot)  # only leaving may save here
    await pilot.press("e", *"x=1", *leave)
    await until(pilot, lambda: env.file().read_text().startswith("x=1def"), "for the file")


async def test_no_key_is_taken_after_the_last_save(pilot: Pilot[None], env: AppEnv) -> None:
    stop_ticking(pilot)
    editor = main_screen(pilot).panes.editor
    await pilot.press("e", "x")
    for key in ("ctrl+q", "y"):
        pilot.app.post_message(key_event(key))
    await pilot.pause()
    assert env.file().read_text() == editor.text
    assert editor.text.startswith("xdef")


@pytest.mark.parametrize("size", TRIED_SIZES, ids=str)
async def test_a_conflict_looks_as_agreed(pilot: Pilot[None], env: AppEnv) -> None:
    await start_conflict(env, pilot)
    await until(pilot, lambda: "See a diff" in screen_text(pilot.app), "for the dialog")
    await pilot.pause()
    await assert_golden(pilot, "conflict")
    await pilot.press("m")


@pytest.mark.parametrize(("answer", "chosen", "backup"), [("m", "m=1def", "theirs"), ("f", "theirs", "m=1def")])
async def test_in_a_conflict_either_text_is_taken_and_the_other_backed_up(
    pilot: Pilot[None], env: AppEnv, answer: str, chosen: str, backup: str
) -> None:
    await start_conflict(env, pilot)
    assert env.file().read_text() == "theirs = 1\n", "nothing is written before the answer"
    await pilot.press(answer)
    await until_shown(pilot, "Backup: .backups/")
    assert main_screen(pilot).editor_text[:6] == env.file().read_text()[:6] == chosen
    assert [text[:6] for text in backups(env)] == [backup]


async def test_in_a_conflict_a_diff_can_be_seen_first(pilot: Pilot[None], env: AppEnv) -> None:
    await start_conflict(env, pilot)
    await pilot.press("d")
    await until(pilot, lambda: isinstance(pilot.app.screen, DiffDialog), "for the diff")
    await until_shown(pilot, "- m=1def")
    assert "+ theirs = 1" in screen_text(pilot.app)
    await pilot.press("escape")
    await until(pilot, lambda: is_asking(pilot), "for the question again")
    await pilot.press("m")
    await until(pilot, lambda: env.file().read_text().startswith("m=1def"), "for my text")


@pytest.mark.long
async def test_in_a_conflict_escape_decides_nothing_and_the_next_save_asks_again(
    pilot: Pilot[None], screen: MainScreen, env: AppEnv
) -> None:
    await start_conflict(env, pilot)
    await pilot.press("escape")
    await until_shown(pilot, "Changed on disk too: ^s asks again.")
    await pilot.press(*"23")
    for _ in range(3):
        screen.check_disk()
        await pilot.pause()
    assert not is_asking(pilot), "typing continues"
    assert screen.editor_text.startswith("m=123def")
    assert env.file().read_text() == "theirs = 1\n"
    assert backups(env) == []
    await pilot.press("ctrl+s")
    await until(pilot, lambda: is_asking(pilot), "for the question again")
    assert env.client.requests == []
    await pilot.press("escape")
    env.file().write_text("theirs = 2\n")
    await until(pilot, lambda: is_asking(pilot), "for the question about a still newer text")
    await pilot.press("m")
    await until(pilot, lambda: env.file().read_text().startswith("m=123def"), "for my text")
    assert backups(env) == ["theirs = 2\n"]


async def test_an_unwritable_file_is_reported_once_and_the_text_stays(
    env: AppEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async with env.start() as pilot:
        monkeypatch.setattr("gpututor.course.workspace.replace_known", full)
        await pilot.press("e", "m")
        await until(pilot, lambda: is_asking(pilot), "for the dialog")
        await until_shown(pilot, "No space left on device")
        monkeypatch.undo()
        await pilot.press("escape", "2")
        await until(pilot, lambda: env.file().read_text().startswith("m2def"), "for the next autosave")


async def test_progress_that_cannot_be_written_is_told_and_learning_goes_on(
    env: AppEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ProgressError("The progress cannot be written: [/int]", "Free some space.")

    async with env.start((140, 30)) as pilot:
        for name in ("record", "summary", "open_hints", "hints_used", "attempts", "set_current_exercise"):
            monkeypatch.setattr(ProgressStore, name, broken)
        await pilot.press("h", "n", "1", "r")
        await until_shown(pilot, "The attempt is not in your progress yet. The progress cannot be written: [/int]")
        await pilot.press("3")
        assert main_screen(pilot).exercise.label == "1.2"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
async def test_a_terminal_that_is_closed_loses_nothing(env: AppEnv, number: signal.Signals) -> None:
    async with env.start() as pilot:
        await pilot.press("e", *"m=1")
        os.kill(os.getpid(), number)
        await until(pilot, lambda: not pilot.app.is_running or env.file().read_text().startswith("m=1def"), "to save")

    assert env.file().read_text().startswith("m=1def")


@pytest.mark.parametrize(("answer", "text", "backup"), [("m", "m=1def", "theirs"), ("f", "theirs", "m=1def")])
async def test_a_terminal_that_is_closed_in_a_conflict_keeps_both_texts(
    env: AppEnv, answer: str, text: str, backup: str
) -> None:
    async with env.start() as pilot:
        await edit_both(env, pilot)
        main_screen(pilot).files.rescue()
    assert env.file().read_text() == "theirs = 1\n"
    async with env.start() as pilot:
        await until_shown(pilot, "Unsaved text from last time")
        await pilot.press("escape")
        await until(pilot, lambda: main_screen(pilot).editor_text == "theirs = 1\n", "for the file's text")
        await pilot.press("e", "x", "escape")
        await until(pilot, lambda: env.file().read_text() == "xtheirs = 1\n", "for an edit to be saved")
        await pilot.press("n", "p")
        await until_shown(pilot, "Unsaved text from last time")
        await pilot.press("escape", "e", "backspace")
        await until(pilot, lambda: env.file().read_text() == "theirs = 1\n", "for the text as it was")
        assert backups(env) == []
    async with env.start() as pilot:
        await until_shown(pilot, "Unsaved text from last time")
        await pilot.press(answer)
        await until(pilot, lambda: not is_asking(pilot) and backups(env) != [], "for the end")
        assert [kept[:6] for kept in backups(env)] == [backup]
        assert main_screen(pilot).editor_text.startswith(text)
    assert env.file().read_text().startswith(text)
    assert list(drafts_folder().iterdir()) == []


@pytest.mark.long
async def test_where_nothing_can_be_kept_taking_theirs_costs_nobody_s_text(pilot: Pilot[None], env: AppEnv) -> None:
    (env.workspace_folder / ".backups").write_text("in the way")
    await start_conflict(env, pilot)
    await pilot.press("f")
    await until_shown(pilot, "The file cannot be used")
    await pilot.press("c")
    await until_shown(pilot, "not saved: ^s shows why")
    assert not is_asking(pilot)
    await pilot.press("ctrl+s")
    await until_shown(pilot, "changed on disk and in the editor")
    assert env.file().read_text() == "theirs = 1\n"
    assert main_screen(pilot).editor_text.startswith("m=1def")
    await pilot.press("escape")


async def test_who_is_typing_is_not_asked_under_the_fingers(
    pilot: Pilot[None], screen: MainScreen, env: AppEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(screen.files, "_clock", lambda: now)
    await pilot.press("e", "x")
    env.file().write_text("theirs = 1\n")
    for letter in "more":
        now += 0.9
        await pilot.press(letter)
        screen.check_disk()
        assert not is_asking(pilot)
    await until_shown(pilot, "Stop typing to choose a version")
    assert screen.editor_text.startswith("xmore")
    assert env.file().read_text() == "theirs = 1\n"
    now += 1.1
    await until(pilot, lambda: is_asking(pilot), "for the question")


async def test_a_removed_file_is_reported_and_a_save_or_edit_restores_it(env: AppEnv) -> None:
    file = env.file()
    async with env.start(size=(100, 30)) as pilot:
        file.unlink()
        await until_shown(pilot, "Another program removed your file. A run writes it again.")
        assert not is_asking(pilot)
        await pilot.press("e", "escape")
        assert not file.exists(), "only an edit or a command writes it anew"
        await pilot.press("ctrl+s")
        await until(pilot, file.exists, "for the file")
        await until(pilot, lambda: "file removed" not in screen_text(pilot.app), "for the word")
        assert file.read_text() == main_screen(pilot).editor_text
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


def repair(file: Path, text: str) -> None:
    if file.is_dir():
        file.rmdir()
    file.write_text(text)


SPOILT = [
    (make_folder, "cannot be read: Not an ordinary file", "move this away"),
    (lambda file: file.write_bytes(b"\xff\xfe\x00"), "is not UTF-8 text (line 1)", "Save it as UTF-8 in your editor"),
    (lambda file: file.write_bytes(b"#" * (2 << 20)), "is larger than 1 MiB", "A solution is a short Python file"),
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
        for phrase in (env.file().name, words, advice):
            await until_shown(pilot, phrase)
        await pilot.press("escape", "e", *"m=1")
        for _ in range(5):
            screen.files._first_edit_at = 0.0
            screen.check_disk()
            await pilot.pause()
        assert not is_asking(pilot), "typing continues"
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
        for phrase in (env.file().name, words, advice):
            await until_shown(pilot, phrase)
        await pilot.press("escape", "e", *"abc", "ctrl+s")
        await until_shown(pilot, words)
        assert env.client.requests == []
        assert not env.file().is_file() or b"abc" not in env.file().read_bytes(), "the file is left alone"
        await pilot.press("escape")
        repair(env.file(), "a = 1\n")
        await until(pilot, lambda: screen.editor_text == "a = 1\n", "for the text")
        await pilot.press("m")
        await until(pilot, lambda: env.file().read_text() == "ma = 1\n", "for the autosave")


async def test_a_file_that_is_no_text_can_be_reset_here(env: AppEnv) -> None:
    env.file().write_bytes(b"\xff\xfe\x00")
    async with env.start() as pilot:
        await until(pilot, lambda: is_asking(pilot), "for the dialog")
        await pilot.press("escape", "x", "y")
        await until(pilot, lambda: main_screen(pilot).editor_text == main_screen(pilot).exercise.starter, "the starter")
        assert [kept.read_bytes() for kept in (env.workspace_folder / ".backups").iterdir()] == [b"\xff\xfe\x00"]


@pytest.mark.long
async def test_leaving_with_an_unwritable_file_keeps_a_draft(env: AppEnv) -> None:
    async with env.start(size=(100, 30)) as pilot:
        text = env.file().read_text()
        stop_ticking(pilot)
        await pilot.press("e", *"m=1")
        make_folder(env.file())
        await pilot.press("ctrl+q")
        await until_shown(pilot, "Your text is stored as a draft")
        await pilot.press("s")
        assert pilot.app.is_running
        await pilot.press("ctrl+q")
        await until_shown(pilot, "Your text is stored as a draft")
        await pilot.press("l")
        await until(pilot, lambda: not pilot.app.is_running, "for the end")
    repair(env.file(), text)
    async with env.start(size=(100, 30)) as pilot:
        await until_shown(pilot, "Unsaved text from last time")
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
