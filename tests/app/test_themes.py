"""Colours: text can be read in each theme, the terminal's own sixteen are kept to, and NO_COLOR has none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from rich.color import Color, ColorType
from rich.segment import Segment
from textual.app import App
from textual.geometry import Region, Size
from textual.pilot import Pilot
from textual.screen import ModalScreen

from gpututor.app.commands import Pane
from gpututor.app.themes import CONTRAST, DAY, NIGHT, OWN, TERMINAL, WITHOUT_COLOURS
from gpututor.settings import THEMES
from tests.support.apps import AppEnv, main_screen, until, write
from tests.support.parameters import mostly_long
from tests.support.screens import screen_text
from tests.support.scripted_client import failure, report, verdict

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
LEAST = {NIGHT.name: 4.5, DAY.name: 4.5, CONTRAST.name: 7.0}
"""What WCAG 2 calls AA and AAA for text of usual size."""


async def settle(pilot: Pilot[None]) -> None:
    before = ""
    await until(pilot, lambda: not main_screen(pilot).running, "for the verdicts")
    while before != (now := screen_text(pilot.app)):
        before = now
        await pilot.pause()
        await pilot.pause()


async def looks(pilot: Pilot[None]) -> AsyncIterator[str]:
    """One screen after the other: its name, while it is shown."""
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
    """What is on the screen; under a dialog only the dialog, for the rest is dimmed on purpose."""
    region = Region(0, 0, *app.size)
    if isinstance(app.screen, ModalScreen):
        region = app.screen.query(".dialog, CommandList").first().region
    strips = app.screen._compositor.render_strips(Size(*app.size))
    for strip in strips[region.y : region.bottom]:
        yield from strip.crop(region.x, region.right)


def is_text(segment: Segment) -> bool:
    """Whether it holds more than blanks, lines, bars, and the dots of a grid."""
    return any(not one.isspace() and one != "·" and not 0x2500 <= ord(one) <= 0x259F for one in segment.text)


def contrast(segment: Segment) -> float:
    """WCAG's ratio of the luminances of text and background."""
    style = segment.style
    assert style is not None
    colours = [style.color, style.bgcolor]
    if style.reverse:
        colours.reverse()
    lighter, darker = sorted((luminance(colour.get_truecolor()) for colour in colours if colour), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: tuple[int, int, int]) -> float:
    linear = [c / 255 / 12.92 if c / 255 <= 0.03928 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def judge_all(env: AppEnv) -> None:
    """Every kind of verdict on one screen."""
    env.client.judge = lambda request: report(
        request,
        verdict("loads", measured="0.50 × the baseline's time"),
        failure(),
        *(verdict(status.value, status) for status in list(type(failure().status))[2:]),
        output="hello\n",
    )


@pytest.mark.long
@pytest.mark.parametrize("theme", mostly_long(LEAST, ["day"]))
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


@pytest.mark.long
async def test_the_terminals_theme_uses_its_sixteen_colours_only(env: AppEnv) -> None:
    write(f'theme = "{TERMINAL.name}"\n')
    judge_all(env)
    async with env.start((140, 40)) as pilot:
        async for name in looks(pilot):
            found = {
                (name, str(colour), each.text)
                for each in segments(pilot.app)
                if each.style is not None
                for colour in (each.style.color if each.text.strip() else None, each.style.bgcolor)
                if colour is not None and colour.type not in (ColorType.DEFAULT, ColorType.STANDARD)
            }
            assert found == set()


@pytest.mark.long
@pytest.mark.parametrize("theme", mostly_long([theme.name for theme in OWN], ["night"]))
async def test_without_colours_there_are_none(env: AppEnv, theme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    write(f'theme = "{theme}"\n')
    judge_all(env)
    async with env.start((100, 30)) as pilot:
        async for name in looks(pilot):
            for each in segments(pilot.app):
                assert each.style is None or each.style.color is each.style.bgcolor is None, (name, each.text)


async def test_without_colours_the_chosen_theme_is_kept(env: AppEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    write(f'theme = "{TERMINAL.name}"\n')
    async with env.start() as pilot:
        assert pilot.app.current_theme is WITHOUT_COLOURS
        assert main_screen(pilot).learner.settings.now.theme == pilot.app.theme == TERMINAL.name


def test_the_settings_name_the_apps_own_themes() -> None:
    assert tuple(theme.name for theme in OWN) == THEMES


async def test_without_motion_nothing_slides_and_no_cursor_blinks(env: AppEnv) -> None:
    write('motion = "none"\n')
    async with env.start() as pilot:
        assert pilot.app.animation_level == "none"
        assert main_screen(pilot).panes.editor.cursor_blink is False


@pytest.mark.long
async def test_in_the_terminals_theme_nothing_stands_on_a_colour(env: AppEnv) -> None:
    """Red on blue, or the terminal's own text colour on blue, cannot be read everywhere: what is chosen is reversed."""
    write(f'theme = "{TERMINAL.name}"\n')
    judge_all(env)
    reversed_on = set()
    async with env.start((140, 40)) as pilot:
        async for name in looks(pilot):
            for each in segments(pilot.app):
                if each.style is None or not each.text.strip():
                    continue
                assert each.style.reverse or each.style.bgcolor in (None, Color.default()), (name, each.text)
                reversed_on |= {name} if each.style.reverse else set()
    assert reversed_on > {"course", "results", "settings", "palette", "search", "attempts"}
