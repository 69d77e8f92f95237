"""The app is killed while a learner types: what was typed more than a second before is in the file, which is whole."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpututor.course.loader import load_course
from gpututor.course.workspace import make_workspace
from tests.support.app_in_terminal import start
from tests.support.terminals import Terminal
from tests.support.tiny_course import WITHOUT_A_PLACE, write_course

PERIOD_S = 1.0
"""What is typed is on disk within this time."""
AT_ONCE = 3
FIRST = "z"
"""Means nothing outside the editor, and is not typed again."""
LONGEST_S = 3.0


def kill_while_typing(folder: Path, course: Path, seed: int) -> None:
    """Type into a new file for a while, kill the app, and look at the file."""
    moments = random.Random(seed)
    workspace, _ = make_workspace(folder / "workspace", load_course(course))
    file = workspace.path_of(load_course(course).exercises[0])
    typed: list[tuple[float, str]] = []
    late_s = 0.0
    longest_rest_s = moments.choice((0.1, 0.7))
    """Who never rests is saved for in time all the same."""
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
    """Go to the editor, and wait until what is typed stands there; some of it may come later."""
    terminal.press("f4")
    while f"{FIRST}def twice" not in terminal.grid.text:
        terminal.press(FIRST)
        terminal.rest(0.2)


def kill_often(tmp_path: Path, kills: int) -> None:
    course = write_course(tmp_path / "course", exercises=1)
    (course / "01_lesson_1" / "01_twice_1_1" / "starter.py").write_text(WITHOUT_A_PLACE)

    def kill(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        kill_while_typing(folder, course, seed=20_261_122 + number)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(kill, range(kills)))


def test_what_is_typed_survives_kill_9(tmp_path: Path) -> None:
    kill_often(tmp_path, kills=6)


@pytest.mark.long
def test_what_is_typed_survives_200_kills(tmp_path: Path) -> None:
    kill_often(tmp_path, kills=200)
