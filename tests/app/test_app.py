"""The whole app: first start, a learner's path, kills, random actions and crashes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from textual.pilot import Pilot

from gpututor.app.app import GpututorApp
from gpututor.app.commands import Pane
from gpututor.app.main.files import FileController
from gpututor.app.main.screen import MainScreen
from gpututor.course.loader import load_course
from gpututor.course.workspace import find_workspace, make_workspace
from gpututor.grading.client import GradingClient
from gpututor.paths import builtin_course, default_workspace, progress_file
from gpututor.progress.overview import State
from gpututor.progress.store import ProgressStore
from tests.support.app_in_terminal import launch, start
from tests.support.apps import AppEnv, main_screen, ready, run_checks, until, until_shown
from tests.support.parameters import mostly_long
from tests.support.random_actions import ACTIONS, LEAVING, Action, blow, key_event
from tests.support.screens import SIZES, screen_text
from tests.support.terminals import Terminal
from tests.support.tiny_course import RIGHT, WITHOUT_A_PLACE, write_course


async def test_a_learner_fails_mends_passes_goes_on_and_finds_it_all_again(env: AppEnv) -> None:
    async with env.start() as pilot:
        screen = main_screen(pilot)
        await pilot.press("e", "down", "end")
        await run_checks(pilot)
        text = screen_text(pilot.app)
        assert "✗ Failed: 1 of 3 checks passed, 1 not run" in text
        assert "✓ passed    The check called loads holds" in text
        assert "○ not run   The check called parity holds" in text
        for words in ("a result on cuda:0", "a result on cpu", "raise NotImplementedError", "pass device=."):
            assert words in text
        await pilot.press("1")
        await until_shown(pilot, "◐ 1.1 Twice 1")
        await pilot.press("5", "enter")
        assert screen.panes.current is Pane.CODE
        assert screen.panes.editor.cursor_location == (1, 4)
        screen.panes.editor.load_text(RIGHT)
        await run_checks(pilot)
        assert "✓ Passed: all 3 checks" in screen_text(pilot.app)
        assert "n opens 1.2 Twice 2" in screen_text(pilot.app)
        assert screen.exercise.label == "1.1", "a pass must not jump away"
        await pilot.press("n")
        assert screen.exercise.label == "1.2"
        await pilot.press("q")
    assert env.file(0).read_text() == RIGHT
    async with env.start() as pilot:
        screen = main_screen(pilot)
        assert screen.exercise.label == "1.2"
        assert screen.attempts.lessons[0].exercises[0].state is State.PASSED
        await pilot.press("1")
        await until_shown(pilot, "✓ 1.1 Twice 1")
        await pilot.press("p", "5")
        await until_shown(pilot, "This is your last run.")


async def test_lists_hints_solution_and_reset_are_a_key_away(
    pilot: Pilot[None], screen: MainScreen, env: AppEnv
) -> None:
    await pilot.press("l", "G", "enter")
    assert (screen.exercise.label, screen.panes.current) == ("2.2", Pane.TASK)
    await pilot.press("l", "g", "enter")
    assert screen.panes.current is Pane.LESSON
    assert "# Lesson 1" in screen.panes.reader.text
    assert screen.exercise.label == "2.2", "reading a lesson leaves the exercise open"
    await pilot.press("6", "6")
    await until(pilot, lambda: "Hints: 0 of 3" in screen_text(pilot.app), "for the hints, none of them open")
    await pilot.press("h")
    await until(pilot, lambda: "Hints: 1 of 3" in screen_text(pilot.app), "for the first hint")
    assert "Look at the name." in screen_text(pilot.app)
    assert "Add it to itself." not in screen_text(pilot.app)
    await pilot.press("t", "h")
    await until(pilot, lambda: "Hints: 1 of 3" in screen_text(pilot.app), "for the hint again")
    await pilot.press("h", "h", "h", "h")
    await until(pilot, lambda: "Hints: 3 of 3" in screen_text(pilot.app), "for the last hint")
    progress = screen.learner.progress
    await until(pilot, lambda: progress.hints_used(screen.exercise.key) == 3, "for their number")
    await pilot.press("s")
    await until_shown(pilot, "See the solution before you have passed?")
    await pilot.press("escape")
    assert "2 * number" not in screen_text(pilot.app)
    await pilot.press("s", "y")
    await until_shown(pilot, "-     raise NotImplementedError")
    assert "+     return 2 * number" in screen_text(pilot.app)
    await pilot.press("escape")
    screen.panes.editor.load_text("mine = 1\n")
    await pilot.press("x", "n")
    assert screen.panes.editor.text == "mine = 1\n"
    await pilot.press("x", "y")
    await pilot.pause()
    assert screen.panes.editor.text == screen.exercise.starter
    (backup,) = (env.workspace_folder / ".backups").iterdir()
    assert backup.read_text() == "mine = 1\n"
    assert backup.name in screen_text(pilot.app)


async def test_a_newer_starter_is_announced_and_not_forced(env: AppEnv) -> None:
    env.file(0).write_text("mine = 1\n")
    (env.course.exercises[0].folder / "starter.py").write_text("def twice(number): ...  # TODO: newer\n")
    async with env.start() as pilot:
        assert "newer starter" in screen_text(pilot.app)
        assert main_screen(pilot).panes.editor.text == "mine = 1\n"


async def test_the_welcome_leads_to_the_first_exercise_in_a_folder_named_once(env: AppEnv) -> None:
    usual, _ = make_workspace(env.folder / "usual", env.course)
    async with env.start(first=True) as pilot:
        text = screen_text(pilot.app)
        assert "No GPU is needed" in text
        assert "~/workspace" in text
        for _ in range(2):
            pilot.app.post_message(key_event("enter"))
        await ready(pilot)
        assert sum(isinstance(screen, MainScreen) for screen in pilot.app.screen_stack) == 1
        assert main_screen(pilot).learner.workspace.folder == env.workspace_folder, "as `--workspace` names one"
        assert main_screen(pilot).exercise.label == "1.1"
        assert main_screen(pilot).panes.current is Pane.TASK
        assert "twice(number)" in screen_text(pilot.app)
    assert find_workspace(course=env.course) == usual, "it is not remembered"
    assert env.file(0).read_text() == env.course.exercises[0].starter


OPENING = "show_help reset search show_settings show_devices show_progress show_history show_glossary"


@pytest.mark.parametrize("command", mostly_long(["begin", *OPENING.split()], ["begin", "reset", "show_devices"]))
async def test_leaving_while_a_screen_opens_does_no_harm(env: AppEnv, command: str) -> None:
    (env.course.folder / "glossary.md").write_text("# Glossary\n\n**host**: the CPU. (1)\n")
    is_first = command == "begin"
    async with env.start(first=is_first) as pilot:
        await pilot.app.screen.run_action("app.begin" if is_first else f"run_command('{command}')")
        pilot.app.exit()
    assert pilot.app.return_code == 0


PERIOD_S = 1.0
"""Longest time until typed text is on disk."""
AT_ONCE = 3
FIRST = "m"
"""A key without a meaning outside the editor; the random letters do not include it."""
LONGEST_S = 3.0


def kill_while_typing(folder: Path, course: Path, seed: int) -> None:
    """Type into a new file for a while, kill the app, and look at the file."""
    moments = random.Random(seed)
    workspace, _ = make_workspace(folder / "workspace", load_course(course))
    file = workspace.path_of(load_course(course).exercises[0])
    typed: list[tuple[float, str]] = []
    late_s = 0.0
    longest_rest_s = moments.choice((0.1, 0.7))
    """Longest pause between two keys: a learner who types without a rest must not lose text either."""
    with start(course, workspace.folder, {"GPUTUTOR_HOME": str(folder / "home")}) as terminal:
        begin_typing(terminal)
        end = time.monotonic() + moments.uniform(0.0, LONGEST_S)
        while time.monotonic() < end:
            letter = moments.choice("abcdefghij0123456789 ")
            terminal.press(letter)
            typed.append((time.monotonic(), letter))
            pause_s = moments.choice((0.005, 0.02, 0.08, longest_rest_s)) if moments.random() < 0.3 else 0.02
            begun = time.monotonic()
            terminal.rest(pause_s)
            late_s = max(late_s, time.monotonic() - begun - pause_s)
    killed = time.monotonic()
    text = file.read_text()
    assert text.endswith(WITHOUT_A_PLACE), f"torn: {text!r}"
    saved = text.removesuffix(WITHOUT_A_PLACE).lstrip(FIRST)
    assert "".join(letter for _, letter in typed).startswith(saved), f"torn: {text!r} of {typed}"
    due = sum(at < killed - PERIOD_S - late_s for at, _ in typed)  # a machine that was late with us was so with the app
    assert len(saved) >= due, (
        f"{due - len(saved)} letters are missing, typed {killed - typed[len(saved)][0]:.2f} s before"
    )


def begin_typing(terminal: Terminal) -> None:
    """Go to the editor, and wait until it shows the first typed keys; later keys may still arrive."""
    terminal.press("f4")
    while f"{FIRST}def twice" not in terminal.grid.text:
        terminal.press(FIRST)
        terminal.rest(0.2)


@pytest.mark.parametrize(
    ("begin", "pieces", "shown"),
    [
        (launch, [("f4",), *"qz 2xyq"], "qz 2xyq"),  # `q` and `2` are commands outside of the editor
        (launch, [("1",), ("j",), ("j",), ("enter",)], "1.3 Twice 3"),
        (launch, [("2",), ("ctrl+p",), *"glossary"], "glossary"),
        (start, [("4", "end", "enter", *"qz 2xyq")], "qz 2xyq"),
        (start, [("1", "j", "j", "enter", *"4z2")], "z2raise"),
        (start, [("/", *"zwice")], "zwice"),
        (start, [("x", "y")], "Reset. Backup"),
    ],
)
def test_from_the_first_paint_on_keys_arrive_in_order(
    tmp_path: Path, begin: Callable[..., Terminal], pieces: list[tuple[str, ...] | str], shown: str
) -> None:
    course = write_course(tmp_path / "course", exercises=3)
    workspace, _ = make_workspace(tmp_path / "work", load_course(course))
    with begin(course, workspace.folder, {"GPUTUTOR_HOME": str(tmp_path / "home")}) as terminal:
        terminal.until(lambda screen: screen.strip() != "", "for the first text")
        for keys in pieces:
            terminal.press(*keys)
        terminal.until_shown(shown)


def test_the_app_ends_with_its_terminal_also_without_a_signal(tmp_path: Path) -> None:
    terminal, inside = pty.openpty()
    environment = {**os.environ, "GPUTUTOR_HOME": str(tmp_path), "TERM": "xterm-256color"}
    with subprocess.Popen(
        [sys.executable, "-m", "gpututor"],
        cwd=tmp_path,
        env=environment,
        start_new_session=True,
        stdin=inside,
        stdout=inside,
        stderr=inside,
    ) as app:
        os.close(inside)
        shown = b""
        while b"Enter" not in shown:
            shown += os.read(terminal, 1 << 16)
        os.close(terminal)
        try:
            app.wait(30)
        finally:
            app.kill()


@pytest.mark.parametrize("kills", mostly_long([6, 200], [6]))
def test_what_is_typed_survives_kill_9(tmp_path: Path, kills: int) -> None:
    course = write_course(tmp_path / "course", exercises=1)
    (course / "01_lesson_1" / "01_twice_1_1" / "starter.py").write_text(WITHOUT_A_PLACE)

    def kill(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        kill_while_typing(folder, course, seed=20_261_122 + number)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(kill, range(kills)))


EXERCISE = "tensors_on_the_device/born_on_the_device"


@contextlib.asynccontextmanager
async def start_real_app() -> AsyncIterator[Pilot[None]]:
    course = load_course(builtin_course())
    progress, client = ProgressStore(progress_file()), GradingClient()
    workspace, _ = make_workspace(default_workspace(), course)
    app = GpututorApp(course=course, workspace=workspace, progress=progress, client=client)
    try:
        async with app.run_test(size=(80, 24)) as pilot:
            await ready(pilot)
            yield pilot
    finally:
        client.close()
        progress.close()


async def grade_with_the_judge(pilot: Pilot[None]) -> str:
    await pilot.press("ctrl+s")
    screen = main_screen(pilot)
    await until(pilot, lambda: not screen.running, "for the verdicts", patience_s=90)
    await pilot.pause()
    return screen_text(pilot.app)


async def test_a_learner_edits_fails_passes_quits_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTUTOR_HOME", str(tmp_path))
    async with start_real_app() as pilot:
        screen = main_screen(pilot)
        screen.navigator.open_exercise(screen.learner.course.find("born_on_the_device"), screen.panes.current)
        await pilot.press("e")
        wrong = next(path for path in screen.exercise.wrong_solutions if "fails: transfers" in path.read_text())
        screen.panes.editor.load_text(wrong.read_text())
        text = await grade_with_the_judge(pilot)
        assert "✗ Failed" in text
        assert "(modelled)" in text
        failure = screen.panes.results.first_failure
        assert failure is not None
        assert failure.verdict.check == "transfers"
        assert failure.verdict.line is not None
        await pilot.press("enter")
        await until(pilot, lambda: screen.panes.editor.cursor_location[0] + 1 == failure.verdict.line, "for the line")
        screen.panes.editor.load_text(screen.exercise.solution)
        assert "✓ Passed" in await grade_with_the_judge(pilot)
        await pilot.press("q")
    async with start_real_app() as pilot:
        screen = main_screen(pilot)
        assert screen.exercise.key == EXERCISE
        rows = {row.key: row for lesson in screen.attempts.lessons for row in lesson.exercises}
        assert (rows[EXERCISE].state, rows[EXERCISE].attempts) == (State.PASSED, 2)


@pytest.mark.long
async def test_an_endless_loop_can_be_stopped_and_the_next_run_is_graded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTUTOR_HOME", str(tmp_path))
    async with start_real_app() as pilot:
        screen = main_screen(pilot)
        screen.navigator.open_exercise(screen.learner.course.find("born_on_the_device"), screen.panes.current)
        screen.panes.editor.load_text("def make_grid(height, width, device):\n    while True: pass\n")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "On cuda:0" in screen_text(pilot.app), "for the run to begin", patience_s=90)
        assert screen.running
        await pilot.press("escape")
        await until(pilot, lambda: not screen.running, "for the end")
        await until_shown(pilot, "Stopped. Nothing was recorded.")
        screen.panes.editor.load_text(screen.exercise.solution)
        assert "✓ Passed" in await grade_with_the_judge(pilot)


STORMS = {
    "size": st.sampled_from(SIZES),
    "actions": st.lists(ACTIONS, min_size=15, max_size=45),
    "leaving": st.sampled_from(LEAVING),
    "first": st.sampled_from([False, False, True]),
}
RULES = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)


def storm(size: tuple[int, int], actions: list[Action], leaving: str, first: bool) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        asyncio.run(blow(Path(folder), size, actions, leaving, first=first))


@settings(RULES, max_examples=3, derandomize=True)
@given(**STORMS)
def test_a_storm_neither_crashes_the_app_nor_loses_text(
    size: tuple[int, int], actions: list[Action], leaving: str, first: bool
) -> None:
    storm(size, actions, leaving, first)


@pytest.mark.long
@pytest.mark.parametrize("part", range(5))  # so that all cores take part
@settings(RULES, max_examples=50, print_blob=True)
@given(**STORMS)
def test_250_storms_neither_crash_the_app_nor_lose_text(
    part: int, size: tuple[int, int], actions: list[Action], leaving: str, first: bool
) -> None:
    storm(size, actions, leaving, first)


SCREENS = {
    "help": "f1",
    "reset": "x",
    "solution": "s",
    "search": "slash",
    "jump": "semicolon",
    "settings": "comma",
    "devices": "D",
    "progress": "w",
    "attempts": "a",
    "device": "d",
    "everything that was said": "v",
    "palette": "ctrl+p",
}


@pytest.mark.parametrize("name", mostly_long(list(SCREENS), ["progress"]))
async def test_a_screen_survives_a_terminal_of_any_width(env: AppEnv, name: str) -> None:
    async with env.start() as pilot:
        await pilot.press("r")
        await until(pilot, lambda: not main_screen(pilot).running, "for the verdicts")
        await pilot.press(SCREENS[name])
        await until(pilot, lambda: not main_screen(pilot).is_active, f"for {name}")
        for size in ((8, 21), (5, 5), (7, 7), (10, 20), (1, 1), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause(0.05)
        assert pilot.app.is_running


@pytest.mark.long
async def test_screens_open_and_close_in_one_moment(env: AppEnv) -> None:
    """Both keys reach the same screen; Textual alone would then close the main screen too."""
    async with env.start((100, 30)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: not main_screen(pilot).running, "for the verdicts")
        for name, key in SCREENS.items():
            await pilot.press(key)
            await until(pilot, lambda: not main_screen(pilot).is_active, f"for {name}")
            for _ in range(3):
                pilot.app.post_message(key_event("escape"))
            await until(pilot, lambda: main_screen(pilot).is_active, f"for the end of {name}")
            assert len(pilot.app.screen_stack) == 1, name
        for _ in range(3):
            for key in SCREENS.values():
                pilot.app.post_message(key_event(key))
                pilot.app.post_message(key_event("escape"))
            await pilot.pause()
            await pilot.press("escape", "escape", "escape")
        await until(pilot, lambda: main_screen(pilot).is_active, "for the main screen")


class Unforeseen(Exception):
    pass


async def break_while_typing(env: AppEnv) -> None:
    def fail() -> None:
        raise Unforeseen("[/red] in our code")

    async with env.start() as pilot:
        await pilot.press("e", "m", "i", "n", "e")
        main_screen(pilot).call_later(fail)
        await until(pilot, lambda: not pilot.app.is_running, "for the end")


async def test_a_crash_saves_the_open_file_and_names_the_log(env: AppEnv, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Unforeseen):
        await break_while_typing(env)
    assert env.file().read_text().startswith("mine")
    log = (env.folder / "home" / "cache" / "gpututor.log").read_text()
    assert "Unforeseen: [/red] in our code" in log
    assert "in fail" in log
    said = capsys.readouterr().err
    assert "gpututor stopped in an unexpected way: Unforeseen('[/red] in our code')" in said
    assert "Your file is saved" in said
    assert "Traceback" not in said


def refuse(_: FileController) -> None:
    raise OSError("full")


async def test_a_crash_reports_a_file_that_cannot_be_saved(
    env: AppEnv, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileController, "rescue", refuse)
    with pytest.raises(Unforeseen):
        await break_while_typing(env)
    assert "Your last edits could not be saved." in capsys.readouterr().err


async def test_a_closed_terminal_ends_the_app_although_the_disk_is_full(
    pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileController, "rescue", refuse)
    assert isinstance(pilot.app, GpututorApp)
    pilot.app.leave_at_once()
    await until(pilot, lambda: not pilot.app.is_running, "for the end")
