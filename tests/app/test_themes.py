"""Themes, contrast and NO_COLOR."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.color import Color as RichColor
from rich.color import ColorType
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.geometry import Region, Size
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.theme import BUILTIN_THEMES

from gpututor.app.commands import Pane
from gpututor.app.themes import CONTRAST, OWN, TERMINAL, WITHOUT_COLORS, offered, readable, without_colors
from gpututor.course.loader import load_course
from gpututor.course.workspace import make_workspace
from gpututor.settings import THEMES
from tests.support.app_in_terminal import start
from tests.support.apps import AppEnv, main_screen, run_checks, settle, until, until_shown, write
from tests.support.parameters import mostly_long
from tests.support.screens import TRIED_SIZES, assert_golden
from tests.support.scripted_client import failure, report, verdict
from tests.support.tiny_course import write_course

STEPS: dict[str, tuple[str, ...]] = {
    "course": ("1", "j"),
    "lesson": ("2",),
    "task": (),
    "code": ("4",),
    "results": ("4", "ctrl+s"),
    "hints": ("h",),
    "help": ("f1",),
    "question": ("x",),
    "solution": ("s", "y"),
    "settings": ("comma", "j"),
    "devices": ("D", "j"),
    "models": ("D", "2"),
    "progress": ("w",),
    "palette": ("ctrl+p",),
    "search": ("slash", "t", "w"),
    "attempts": ("a",),
    "device": ("d",),
}
OFFERED = [theme.name for theme in offered(BUILTIN_THEMES)]
LEAST = {**dict.fromkeys(OFFERED, 4.5), CONTRAST.name: 7.0}
"""Least contrast by theme: AA and AAA of WCAG 2 for text of usual size."""


async def looks(pilot: Pilot[None]) -> AsyncIterator[str]:
    """Open each screen in turn, and yield its name while the app shows it."""
    for name, keys in STEPS.items():
        for key in keys:
            await pilot.press(key)
            await settle(pilot)
        yield name
        while pilot.app.screen is not main_screen(pilot):
            await pilot.press("escape")
            await pilot.pause()
        main_screen(pilot).show_pane(Pane.TASK)
        await settle(pilot)


def segments(app: App[Any]) -> Iterator[Segment]:
    """Yield the segments on the screen; only those of a dialog if there is one, as the rest is dimmed on purpose."""
    region = Region(0, 0, *app.size)
    if isinstance(app.screen, ModalScreen):
        region = app.screen.query(".dialog, CommandList").first().region
    strips = app.screen._compositor.render_strips(Size(*app.size))
    for strip in strips[region.y : region.bottom]:
        yield from strip.crop(region.x, region.right)


def is_text(segment: Segment) -> bool:
    """Return True if it holds more than blanks, lines, bars, and the dots of a grid."""
    return any(
        not character.isspace() and character != "·" and not 0x2500 <= ord(character) <= 0x259F
        for character in segment.text
    )


def contrast(segment: Segment) -> float:
    """Return WCAG's contrast ratio of text and background."""
    style = segment.style
    assert style is not None
    colors = [style.color, style.bgcolor]
    if style.reverse:
        colors.reverse()
    lighter, darker = sorted((luminance(color.get_truecolor()) for color in colors if color), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(color: tuple[int, int, int]) -> float:
    linear = [c / 255 / 12.92 if c / 255 <= 0.03928 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in color]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def judge_all(env: AppEnv) -> None:
    """Make the judge return every kind of verdict in a single report."""
    env.client.judge = lambda request: report(
        request,
        verdict("loads", measured="0.50 × the baseline's time"),
        failure(),
        *(verdict(status.value, status) for status in list(type(failure().status))[2:]),
        output="hello\n",
    )


@pytest.mark.long
@pytest.mark.parametrize("theme", mostly_long([name for name in OFFERED if name != TERMINAL.name], ["day"]))
async def test_text_can_be_read(env: AppEnv, theme: str) -> None:
    write(f'theme = "{theme}"\n')
    judge_all(env)
    pale: set[tuple[str, float, str, str]] = set()
    async with env.start((140, 40)) as pilot:
        async for name in looks(pilot):
            texts = [each for each in segments(pilot.app) if is_text(each)]
            assert texts, name
            pale |= {(name, round(contrast(each), 2), each.text, str(each.style)) for each in texts}
    assert {each for each in pale if each[1] < LEAST[theme]} == set()


@pytest.mark.parametrize("theme", OFFERED[len(OWN) :])
def test_the_colors_of_themes_of_others_can_be_read(theme: str) -> None:
    """Words and marks on each background, the selection too. The test above measures what the screens draw."""
    made = readable(next(each for each in offered(BUILTIN_THEMES) if each.name == theme))
    colors = {**made.to_color_system().generate(), **made.variables}
    texts = ["foreground", "foreground-muted", "text-muted", "success", "warning", "error", "primary"]
    texts += [f"text-{name}" for name in ("accent", "success", "warning", "error", "primary")]
    pale = {
        (text, ground, round(contrast_of(colors[text], colors[ground]), 2))
        for text in texts
        for ground in ("background", "surface", "panel", "primary-muted")
        if contrast_of(colors[text], colors[ground]) < LEAST[theme]
    }
    assert pale == set()


def contrast_of(text: str, ground: str) -> float:
    style = Style(color=Color.parse(text).rich_color, bgcolor=Color.parse(ground).rich_color)
    return contrast(Segment("x", style))


@pytest.mark.long
async def test_the_terminals_theme_uses_its_sixteen_colors_only(env: AppEnv) -> None:
    """Selected text is reversed: red or the terminal's text color on blue is unreadable in some terminals."""
    write(f'theme = "{TERMINAL.name}"\n')
    judge_all(env)
    reversed_on = set()
    async with env.start((140, 40)) as pilot:
        async for name in looks(pilot):
            for each in segments(pilot.app):
                if each.style is not None and each.text.strip():
                    assert each.style.reverse or each.style.bgcolor in (None, RichColor.default()), (name, each.text)
                    reversed_on |= {name} if each.style.reverse else set()
            foreign = {
                (name, str(color), each.text)
                for each in segments(pilot.app)
                if each.style is not None
                for color in (each.style.color if each.text.strip() else None, each.style.bgcolor)
                if color is not None and color.type not in (ColorType.DEFAULT, ColorType.STANDARD)
            }
            assert foreign == set()
    assert reversed_on > {"course", "results", "settings", "palette", "search", "attempts"}


@pytest.mark.long
@pytest.mark.parametrize("theme", mostly_long([theme.name for theme in OWN], ["night"]))
async def test_without_colors_there_are_none(env: AppEnv, theme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    write(f'theme = "{theme}"\n')
    judge_all(env)
    async with env.start((100, 30)) as pilot:
        async for name in looks(pilot):
            for each in segments(pilot.app):
                assert each.style is None or each.style.color is each.style.bgcolor is None, (name, each.text)


async def test_without_colors_the_chosen_theme_is_kept(env: AppEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    write(f'theme = "{TERMINAL.name}"\n')
    async with env.start() as pilot:
        assert pilot.app.current_theme is WITHOUT_COLORS
        assert main_screen(pilot).learner.settings.now.theme == pilot.app.theme == TERMINAL.name


def test_the_settings_name_the_apps_own_themes() -> None:
    assert tuple(theme.name for theme in OWN) == THEMES


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
"""Screens in an order of use, and the keys that lead to each from the previous screen."""
EVENING = (
    *("f2", "j", "f3", "f4", "f5", "f12", "f1", "escape", "f3", "h", "s", "escape", "x", "escape", "/", *"twice"),
    *("escape", ",", "escape", "D", "escape", "w", "escape", "a", "escape", "d", "escape", ";", "escape", "ctrl+p"),
)
_GRAPHICS = re.compile(r"\x1b\[([\d;:]*)m")


@pytest.mark.parametrize("size", TRIED_SIZES, ids=str)
async def test_without_colors_every_screen_has_the_same_text(
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


def colors_in(graphics: str) -> list[str]:
    """Return the numbers of a terminal sequence that set a color, a gray or the terminal's default color."""
    numbers = graphics.replace(":", ";").split(";")
    return [number for number in numbers if number and (30 <= int(number) <= 49 or 90 <= int(number) <= 107)]


@pytest.mark.long
def test_without_colors_no_color_goes_to_the_terminal(tmp_path: Path) -> None:
    course = write_course(tmp_path / "course", exercises=2, lessons=2)
    workspace, _ = make_workspace(tmp_path / "workspace", load_course(course))
    with start(course, workspace.folder, {"GPUTUTOR_HOME": str(tmp_path / "home"), "NO_COLOR": "1"}) as terminal:
        for key in EVENING:
            terminal.press(key)
            terminal.rest(0.1)
        sequences = set(_GRAPHICS.findall(terminal.output.decode(errors="replace")))
    assert len(sequences) > 3, "nothing was drawn"
    assert {sequence for sequence in sequences if colors_in(sequence)} == set()


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
"""Keys, and the text under the cursor after them."""


@pytest.mark.parametrize("what", mostly_long(CHOSEN, list(CHOSEN)[::3]))
async def test_without_colors_what_is_chosen_is_reversed(
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


@pytest.mark.parametrize(("key", "shown"), [("x", "No, keep it"), ("ctrl+p", "Type a name")])
async def test_without_colors_what_is_below_a_dialog_is_dim(
    env: AppEnv, monkeypatch: pytest.MonkeyPatch, key: str, shown: str
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with env.start() as pilot:
        await pilot.press(key)
        await until_shown(pilot, shown)
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
    assert plain(Style.parse(style) + Style(meta={"tab": 3})).meta == {"tab": 3}, "places to click stay"


def plain(style: Style) -> Style:
    made = without_colors.apply([Segment("x", style)], Color(0, 0, 0))[0].style
    assert made is not None
    return made
