"""Nothing that others wrote steers the terminal or is taken as markup: names, prints, errors, files, titles."""

from __future__ import annotations

import re

from textual.geometry import Size
from textual.pilot import Pilot

from gpututor.grading.events import GradeRequest
from gpututor.grading.report import Report
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from tests.app.conftest import Desk, main_screen, until, until_shown
from tests.app.scripted import failure, report, verdict

NASTY = "\x1b]0;t\x07\x1b[31m[bold]b[/nothing] [@click=app.quit]\u202e\x9b2J\r"
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u202e]")


def assert_harmless(pilot: Pilot[None]) -> None:
    app = pilot.app
    for strip in app.screen._compositor.render_strips(Size(*app.size)):
        for segment in strip:
            assert not _STEERING.search(segment.text), segment


def judge(request: GradeRequest) -> Report:
    texts = dict.fromkeys(("expected", "got", "why", "advice"), NASTY)
    return report(request, failure(**texts), verdict(NASTY), output=NASTY * 3, traceback=NASTY, reason=NASTY)


def trace_of(request: GradeRequest) -> list[Trace]:
    trace = Trace(None)
    for begin in range(0, 5000, 1000):
        trace.add(
            Kind.KERNEL, NASTY, f"cuda:0{NASTY}", start=begin, end=begin + 500, launched=begin, file=NASTY, line=1
        )
        trace.add(Kind.HAZARD, NASTY, "cuda:0", start=begin, end=begin, partner=0, file=request.file_name, line=2)
        trace.add(Kind.ALLOCATE, NASTY, "cuda:0", start=begin, end=begin, size_bytes=9, allocated=9, file=NASTY, line=3)
    return [trace]


STEPS = (
    (("5",), "[@click=app.quit]"),
    (("a",), "attempt at"),
    (("escape", "d"), "Timeline"),
    (("2",), "peak"),
    (("3",), "spent on"),
    (("4",), "All calls of the run"),
    (("5",), "Enter line"),
    (("escape", "f3", "w"), "Worth repeating"),
)
"""Keys, and what is on the screen then."""


async def test_texts_of_a_run_are_harmless_everywhere(desk: Desk) -> None:
    desk.client.judge = judge
    desk.client.traces = trace_of
    async with desk.start((120, 40)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: main_screen(pilot)._last_view is not None, "for the recording")
        for keys, shown in STEPS:
            await pilot.press(*keys)
            await until_shown(pilot, shown)
            await pilot.pause()
            assert_harmless(pilot)


async def test_what_is_told_of_a_folder_is_harmless(desk: Desk) -> None:
    async with desk.start() as pilot:
        screen = main_screen(pilot)
        screen.status.show_news(NASTY)
        screen.status.show_standing(NASTY)
        screen.tabs.show(screen.panes.current, NASTY)
        await until_shown(pilot, "[@click=app.quit]")
        assert_harmless(pilot)


async def test_a_file_with_control_characters_is_harmless_in_the_editor(desk: Desk) -> None:
    desk.file().write_text(f"x = '{NASTY[:-1]}'\ny = 2\n")
    async with desk.start((140, 30)) as pilot:
        await pilot.press("e")
        await until_shown(pilot, "y = 2")
        assert_harmless(pilot)
