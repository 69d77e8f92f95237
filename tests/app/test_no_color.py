"""Without colours: the same text on every screen, and nothing but shades of grey on the terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpututor.course.catalogue import load_course
from gpututor.course.workspace import make_workspace
from tests.app.conftest import Desk, main_screen
from tests.app.in_terminal import start
from tests.app.screen import TRIED_SIZES, assert_golden
from tests.app.test_looks import settle
from tests.unit.course.tiny import write_course

WALK = {
    "task": (),
    "course": ("1",),
    "lesson": ("2",),
    "code": ("4",),
    "help": ("f3", "f1"),
    "reset": ("escape", "x"),
    "failure": ("escape", "4", "ctrl+s"),
    "failure_line": ("f12",),
}
"""Screens that one learner can see one after the other, and how each is reached from the one before."""
EVENING = (
    *("f2", "j", "f3", "f4", "f5", "f12", "f1", "escape", "f3", "h", "s", "escape", "x", "escape", "/", *"twice"),
    *("escape", ",", "escape", "D", "escape", "w", "escape", "a", "escape", "d", "escape", ";", "escape", "ctrl+p"),
)
_GRAPHICS = re.compile(r"\x1b\[([\d;:]*)m")


@pytest.mark.parametrize("size", TRIED_SIZES, ids=str)
async def test_without_colours_every_screen_has_the_same_text(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with desk.start(size) as pilot:
        assert pilot.app.no_color
        for name, keys in WALK.items():
            for key in keys:
                await pilot.press(key)
                await settle(pilot)
            await assert_golden(pilot, name)
        assert main_screen(pilot).is_active


def hues(graphics: str) -> list[str]:
    """What of the numbers of a terminal sequence asks for a colour other than black, white and grey."""
    numbers, found = graphics.replace(":", ";").split(";"), []
    while numbers:
        number = int(numbers.pop(0) or 0)
        if number in (38, 48) and numbers[:1] == ["2"]:
            red_green_blue, numbers = numbers[1:4], numbers[4:]
            found += [";".join(red_green_blue)] if len(set(red_green_blue)) > 1 else []
        elif number in (38, 48) or 30 <= number <= 37 or 40 <= number <= 47 or 90 <= number <= 107:
            found.append(graphics)
            break
    return found


def test_without_colours_no_colour_goes_to_the_terminal(tmp_path: Path) -> None:
    course = write_course(tmp_path / "course", exercises=2, lessons=2)
    workspace, _ = make_workspace(tmp_path / "workspace", load_course(course))
    with start(course, workspace.folder, {"GPUTUTOR_HOME": str(tmp_path / "home"), "NO_COLOR": "1"}) as terminal:
        for key in EVENING:
            terminal.press(key)
            terminal.rest(0.1)
        sequences = set(_GRAPHICS.findall(terminal.output.decode(errors="replace")))
    assert len(sequences) > 10, "nothing was drawn"
    assert {sequence: hues(sequence) for sequence in sequences if hues(sequence)} == {}


def test_colours_are_told_from_greys() -> None:
    assert hues("1;38;2;9;9;9;48;2;0;0;0") == hues("0") == hues("") == hues("7;4") == []
    assert hues("38;2;9;8;9") == ["9;8;9"]
    assert hues("31") == ["31"]
    assert hues("48;5;12") == ["48;5;12"]
