"""Files shared with other programs, and drafts of text that was not saved."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from gpututor.app import open_file
from gpututor.app.app import GpututorApp
from gpututor.app.main.screen import MainScreen
from gpututor.app.open_file import SETTLED_NS, Draft, OpenFile
from gpututor.app.screens.base import QuestionDialog
from gpututor.paths import drafts_folder
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
from tests.support.screens import screen_text


def leave_draft(file: Path, text: str) -> None:
    draft = Draft(file)
    draft.save(text)
    draft.release()


def by_moving_over(file: Path, text: str) -> None:
    """Replace the file at once, as editors with atomic saves do."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def by_moving_away(file: Path, text: str) -> None:
    """Write like vim with `backupcopy=no`: for a moment there is no file."""
    file.rename(file.with_suffix(".py~"))
    file.write_text(text)


@pytest.mark.parametrize("write", [Path.write_text, by_moving_over, by_moving_away])
async def test_a_change_is_shown(
    pilot: Pilot[None], screen: MainScreen, env: AppEnv, write: Callable[[Path, str], None]
) -> None:
    for number in range(5):
        write(env.file(), f"theirs = {number}\n")
        await until(pilot, lambda number=number: screen.editor_text == f"theirs = {number}\n", "for the text")  # type: ignore[misc]
    assert not is_asking(pilot)
    assert "Reloaded" in screen_text(pilot.app)
    screen.panes.editor.undo()
    assert screen.editor_text == "theirs = 3\n", "undo goes back across a reload"


async def test_only_another_content_is_a_change_whatever_size_and_time(pilot: Pilot[None], env: AppEnv) -> None:
    screen, file = main_screen(pilot), env.file()
    await pilot.press("e", *"m=1")
    os.utime(file)
    file.write_text(file.read_text())
    await until(pilot, lambda: file.read_text().startswith("m=1def"), "for the autosave")
    os.utime(file)
    for _ in range(3):
        screen.check_disk()
        await pilot.pause()
    assert not is_asking(pilot)
    assert "Reloaded" not in screen_text(pilot.app)
    file.write_text("a = 1\n")
    await until(pilot, lambda: screen.editor_text == "a = 1\n", "for the text")
    before = file.stat()
    file.write_text("a = 2\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    await until(pilot, lambda: screen.editor_text == "a = 2\n", "for a change in the same tick of the clock")


async def test_an_old_file_costs_no_reading(env: AppEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    long_ago = time.time_ns() - 10 * SETTLED_NS
    os.utime(env.file(), ns=(long_ago, long_ago))
    async with env.start() as pilot:
        monkeypatch.setattr("gpututor.course.workspace.Workspace.read", lambda *_: pytest.fail("read"))
        for _ in range(3):
            main_screen(pilot).check_disk()


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
async def test_line_ends_and_a_byte_order_mark_stay_as_they_are(env: AppEnv, mark: bytes, line_end: bytes) -> None:
    env.file().write_bytes(mark + b"a = 1" + line_end + b"b = 2" + line_end)
    async with env.start() as pilot:
        await pilot.press("e", "m", "enter")
        wanted = mark + line_end.join([b"m", b"a = 1", b"b = 2", b""])
        await until(pilot, lambda: env.file().read_bytes() == wanted, f"for the autosave, {env.file().read_bytes()!r}")


@pytest.mark.long
async def test_line_ends_that_another_program_changed_stay_as_it_left_them(env: AppEnv) -> None:
    env.file().write_bytes(b"a = 1\r\n")
    async with env.start() as pilot:
        env.file().write_bytes(b"a = 2\nb = 3\n")
        await until(pilot, lambda: main_screen(pilot).editor_text == "a = 2\nb = 3\n", "for the reload")
        await pilot.press("e", "ctrl+home", "m")
        await until(pilot, lambda: env.file().read_bytes() == b"ma = 2\nb = 3\n", "for the autosave")


@pytest.mark.parametrize(("answer", "first"), [("m", "m=1def"), ("f", "theirs")])
async def test_after_the_answer_quitting_goes_on_by_itself(env: AppEnv, answer: str, first: str) -> None:
    async with env.start() as pilot:
        start_ticking = await edit_both(env, pilot)
        await pilot.press("ctrl+q")
        await until(pilot, lambda: is_asking(pilot), "for the question")
        start_ticking()
        await pilot.press("d", "escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, QuestionDialog), "for the question again")
        await pilot.press(answer)
        await until(pilot, lambda: not pilot.app.is_running, "for the end")
    assert env.file().read_text().startswith(first)


async def test_after_the_answer_the_run_continues_with_the_chosen_text(pilot: Pilot[None], env: AppEnv) -> None:
    await edit_both(env, pilot)
    await pilot.press("ctrl+s", "f")
    await until(pilot, lambda: len(env.client.requests) == 1, "for the run")
    assert env.client.requests[0].submission == "theirs = 1\n"


async def test_escape_in_a_conflict_leaves_the_command_undone(pilot: Pilot[None], env: AppEnv) -> None:
    await edit_both(env, pilot)
    await pilot.press("ctrl+q", "escape")
    await until_shown(pilot, "^s asks again")
    assert pilot.app.is_running
    await pilot.press("ctrl+n", "m")
    await until(pilot, lambda: main_screen(pilot).exercise.label == "1.2", "for the next exercise")


@pytest.mark.long
async def test_quitting_waits_for_the_answer_to_an_open_question(env: AppEnv) -> None:
    async with env.start() as pilot:
        await start_conflict(env, pilot)
        await pilot.press("ctrl+q")
        assert len([screen for screen in pilot.app.screen_stack if isinstance(screen, QuestionDialog)]) == 1
        await until_shown(pilot, "gpututor then quits")
        await pilot.press("m")
        await until(pilot, lambda: not pilot.app.is_running, "for the end")
    assert env.file().read_text().startswith("m=1def")


async def test_two_commands_that_wait_for_an_answer_run_in_order(pilot: Pilot[None], env: AppEnv) -> None:
    screen = main_screen(pilot)
    await edit_both(env, pilot)
    screen.runs.run_checks()
    screen.navigator.next_exercise()
    screen.navigator.next_exercise()
    await until(pilot, lambda: is_asking(pilot), "for the question")
    await pilot.press("m")
    await until(pilot, lambda: screen.exercise.label == "1.2", "for the next exercise")
    assert [request.submission[:6] for request in env.client.requests] == ["m=1def"]


@pytest.mark.long
@pytest.mark.parametrize("label", ["1.1", "1.2"])
async def test_a_conflict_is_resolved_before_another_dialog_opens(pilot: Pilot[None], env: AppEnv, label: str) -> None:
    """A waiting command does not run under the dialog, which asks about its own exercise."""
    screen = main_screen(pilot)
    await edit_both(env, pilot)
    if label == "1.1":
        screen.learning.reset()
        screen.navigator.next_exercise()
    else:
        screen.learning.begin_again(env.course.exercises[1].key)
    await until(pilot, lambda: is_asking(pilot), "for the question")
    await pilot.press("m")
    await until_shown(pilot, f"Start {label}")
    assert screen.exercise.label == label
    await pilot.press("n")


@pytest.mark.long
@pytest.mark.parametrize("answer", ["f", "m"])
async def test_an_undecided_draft_is_not_saved_over_the_file(env: AppEnv, answer: str) -> None:
    leave_draft(env.file(), "draft = 1\n")
    env.file().write_text("theirs = 1\n")
    in_the_way = env.workspace_folder / ".backups"
    in_the_way.write_text("")
    async with env.start() as pilot:
        screen = main_screen(pilot)
        now = 100.0
        screen.files._clock = lambda: now
        await until(pilot, lambda: is_asking(pilot), "for the question")
        await pilot.press(answer)
        await until_shown(pilot, "File exists")
        await pilot.press("escape", "e", "x")
        for _ in range(3):
            now += 10
            screen.check_disk()
            await pilot.pause()
        await pilot.press("f3")
        assert env.file().read_text() == "theirs = 1\n"
        in_the_way.unlink()
        await pilot.press("ctrl+s")
        await until_shown(pilot, "Unsaved text from last time")
        await pilot.press("m")
        await until(pilot, lambda: "draft" in env.file().read_text(), "for my text")
        assert backups(env) == ["theirs = 1\n"]


@pytest.mark.long
async def test_leaving_with_an_undecided_draft_asks_again_next_time(env: AppEnv) -> None:
    leave_draft(env.file(), "draft = 1\n")
    (env.workspace_folder / ".backups").write_text("")
    async with env.start() as pilot:
        await until(pilot, lambda: is_asking(pilot), "for the question")
        await pilot.press("f")
        await until_shown(pilot, "File exists")
        await pilot.press("escape", "ctrl+q")
        await until_shown(pilot, "Your text is stored as a draft")
        await pilot.press("l")
        await until(pilot, lambda: not pilot.app.is_running, "for the end")
    assert Draft(env.file()).take_abandoned("") == "draft = 1\n"


def test_without_locks_a_draft_that_another_app_has_stays_where_it_is(
    env: AppEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    live, other = Draft(env.file()), Draft(env.file())
    live.save("live = 1\n")
    assert live.take_abandoned("") is None, "its own is no draft that is left"
    assert other.take_abandoned("") == "live = 1\n"
    other.remove()
    assert other.take_abandoned("") is None, "it is not taken twice"
    monkeypatch.setattr(open_file, "_copied", set())  # as in another process
    assert Draft(env.file()).take_abandoned("") == "live = 1\n"
    live.remove()


def test_a_file_that_is_there_again_in_the_last_moment_is_kept(env: AppEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = OpenFile(env.workspace, env.course.exercises[0])
    opened.read()
    opened.path.unlink()
    fsync = os.fsync

    def there_again(descriptor: int) -> None:
        fsync(descriptor)
        monkeypatch.undo()
        opened.path.write_text("theirs = 2\n")

    monkeypatch.setattr(os, "fsync", there_again)
    opened.keep_mine("mine = 1\n")
    assert opened.path.read_text() == "mine = 1\n"
    assert backups(env) == ["theirs = 2\n"]


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
    """Start another app that holds a draft of the file."""
    command = [sys.executable, "-c", HOLDER, str(file), text]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "kept\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_drafts_of_killed_apps_are_offered_unless_locked_known_or_unreadable(file: Path) -> None:
    kill(holder(file, "known"))
    assert Draft(file).take_abandoned("known") is None
    assert list(drafts_folder().iterdir()) == []
    first, second = holder(file, "one"), holder(file, "two")
    mine = Draft(file)
    mine.save("mine")
    late = Draft(file)
    assert late.take_abandoned("") is None
    kill(first)
    kill(second)
    assert late.take_abandoned("") == "one"
    assert Draft(file).take_abandoned("") == "two", "what was taken is held"
    late.remove()
    mine.release()
    assert Draft(file.with_name("other.py")).take_abandoned("") is None
    assert Draft(file).take_abandoned("") == "mine"
    leave_draft(odd := file.with_name("odd.py"), "text")
    (path,) = drafts_folder().glob("odd*")
    path.write_bytes(b"\xff")
    assert Draft(odd).take_abandoned("") is None
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
        await until_shown(pilot, "Your text is stored as a draft")
        await pilot.press("l")
        await until(pilot, lambda: main_screen(pilot).exercise.label == "1.2", "for the next exercise")
        file.rmdir()
        await pilot.press("p")
        await until_shown(pilot, "Unsaved text from last time")
        await pilot.press("m")
        await until(pilot, lambda: file.read_text().startswith("m=1"), "for the text")


async def test_a_write_by_another_program_during_a_save_is_a_conflict(env: AppEnv) -> None:
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
        assert isinstance(app := pilot.app, GpututorApp)
        assert "No file was open." in str(app.crash_message(None))
    file.rmdir()
    async with env.start() as pilot:
        await pilot.press("e", "m")
        assert isinstance(app := pilot.app, GpututorApp)
        assert "Your file is saved." in str(app.crash_message(None))
        await start_conflict(env, pilot)
        assert "draft" in str(app.crash_message(None))
