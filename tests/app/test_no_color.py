"""Without colours: the same text on every screen, in the terminal's own two, with what is chosen reversed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.geometry import Size

from gpututor.app.themes import WithoutColours
from gpututor.course.loader import load_course
from gpututor.course.workspace import make_workspace
from tests.support.app_in_terminal import start
from tests.support.apps import AppEnv, main_screen, run_checks, settle, until, until_shown
from tests.support.screens import TRIED_SIZES, assert_golden
from tests.support.tiny_course import write_course

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
    env: AppEnv, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with env.start(size) as pilot:
        assert pilot.app.no_color
        for name, keys in WALK.items():
            for key in keys:
                await pilot.press(key)
                await settle(pilot)
            await assert_golden(pilot, name)
        assert main_screen(pilot).is_active


def colours_in(graphics: str) -> list[str]:
    """What of the numbers of a terminal sequence asks for a colour: also a grey, and the terminal's own."""
    numbers = graphics.replace(":", ";").split(";")
    return [number for number in numbers if number and (30 <= int(number) <= 49 or 90 <= int(number) <= 107)]


@pytest.mark.long
def test_without_colours_no_colour_goes_to_the_terminal(tmp_path: Path) -> None:
    course = write_course(tmp_path / "course", exercises=2, lessons=2)
    workspace, _ = make_workspace(tmp_path / "workspace", load_course(course))
    with start(course, workspace.folder, {"GPUTUTOR_HOME": str(tmp_path / "home"), "NO_COLOR": "1"}) as terminal:
        for key in EVENING:
            terminal.press(key)
            terminal.rest(0.1)
        sequences = set(_GRAPHICS.findall(terminal.output.decode(errors="replace")))
    assert len(sequences) > 3, "nothing was drawn"
    assert {sequence for sequence in sequences if colours_in(sequence)} == set()


def test_colours_are_told_from_attributes() -> None:
    assert colours_in("0") == colours_in("") == colours_in("1;2;3;4;7") == []
    for graphics in ("38;2;9;9;9", "48;5;12", "31", "1;39", "49", "97", "38:2:1:2:3"):
        assert colours_in(graphics), graphics


CHOSEN = {
    "the tab": ("1", "1 Course"),
    "the row of the list": ("1", "Twice 1"),
    "the check": ("5", "The check called placement holds"),
    "the answer": ("x", "No, keep it"),
    "the setting": ("comma", "Theme"),
    "the device": ("D", "auto"),
    "the lesson": ("w", "1 Small things"),
    "what was found": ("slash", *"twice", "Twice"),
    "the command": ("ctrl+p", "Course"),
    "the attempt": ("a", "2 Jan"),
    "the tab of the device": ("d", "1 Timeline"),
    "the letter": ("semicolon", "a"),
}
"""Keys, and the text that they put the cursor on."""


@pytest.mark.parametrize("what", CHOSEN)
async def test_without_colours_what_is_chosen_is_reversed(
    env: AppEnv, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    *keys, text = CHOSEN[what]
    async with env.start() as pilot:
        await run_checks(pilot)
        for key in keys:
            await pilot.press(key)
            await settle(pilot)
        await until(pilot, lambda: text in reversed_text(pilot.app), f"for {text} to be reversed")


def reversed_text(app: App[Any]) -> str:
    strips = app.screen._compositor.render_strips(Size(*app.size))
    return "\n".join(
        "".join(each.text if each.style is not None and each.style.reverse else "\x00" for each in strip)
        for strip in strips
    )


async def test_without_colours_what_is_below_a_dialog_is_dim(env: AppEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with env.start() as pilot:
        await pilot.press("x")
        await until_shown(pilot, "No, keep it")
        top = pilot.app.screen._compositor.render_strips(Size(*pilot.app.size))[0]
        assert all(each.style is not None and each.style.dim and not each.style.reverse for each in top)


@pytest.mark.parametrize(
    ("style", "wanted"),
    [
        ("#ffffff on #000000", "not dim not reverse"),
        ("#949494 on #000000", "dim not reverse"),
        ("#000000 on #ffffff", "not dim reverse"),
        ("#949494 on #ffffff", "not dim reverse"),
        ("#ffffff on #000000 reverse", "not dim reverse"),
        ("#000000 on #ffffff reverse", "not dim not reverse"),
        ("bold reverse", "bold not dim reverse"),
        ("underline", "not dim not reverse underline"),
        ("dim", "dim not reverse"),
        ("default on default", "not dim not reverse"),
    ],
)
def test_light_becomes_reversed_or_dim(style: str, wanted: str) -> None:
    once = plain(Style.parse(style))
    assert once == Style.parse(wanted)
    assert plain(once) == once, "a screen below a letter is drawn twice"


def plain(style: Style) -> Style:
    made = WithoutColours().apply([Segment("x", style)], Color(0, 0, 0))[0].style
    assert made is not None
    return made


def test_places_to_click_stay_without_colours() -> None:
    assert plain(Style.parse("red") + Style(meta={"tab": 3})).meta == {"tab": 3}
