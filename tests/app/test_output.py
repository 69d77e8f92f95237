"""Output of runs: floods, control characters and markup."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from gpututor.app.main.screen import MainScreen
from gpututor.app.widgets.results import MOST_ROWS
from gpututor.course.loader import load_course
from gpututor.errors import GradingError
from gpututor.grading.events import GradeRequest
from gpututor.grading.report import Report
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from tests.support.apps import AppEnv, main_screen, until, until_shown, write
from tests.support.parameters import mostly_long
from tests.support.recorded_runs import SOURCE, Timed, open_device, run, run_and_open
from tests.support.recordings import long_trace, make_recording
from tests.support.screens import assert_harmless, screen_text
from tests.support.scripted_client import ScriptedClient, failure, report, verdict

NASTY = "\x1b]0;t\x07\x1b[31m[bold]b[/nothing] [@click=app.quit]\u202e\x9b2J\r"


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
        trace.add(Kind.RANGE, NASTY, "cpu", launched=begin, start=begin, end=begin + 900, file=NASTY, line=3)
    return [trace]


STEPS = (
    (("5",), "[@click=app.quit]"),
    (("a",), "attempt at"),
    (("escape", "d"), "Timeline"),
    (("up", "up"), "[@click=app.quit]"),
    (("2",), "peak"),
    (("3",), "device's time went"),
    (("4",), "costs most"),
    (("5",), "Enter line"),
    (("escape", "f3", "w"), "Worth repeating"),
)
"""Keys, and a text on the screen after them."""


async def test_texts_of_a_run_are_harmless_everywhere(env: AppEnv) -> None:
    env.client.judge = judge
    env.client.traces = trace_of
    async with env.start((120, 40)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: main_screen(pilot).attempts._last_view is not None, "for the recording")
        assert screen_text(pilot.app).count("[bold]b[/nothing] [@click=app.quit]") >= 7, "as it is, and not as markup"
        for keys, shown in STEPS:
            await pilot.press(*keys)
            await until_shown(pilot, shown)
            await pilot.pause()
            assert_harmless(pilot)


async def test_what_is_told_of_a_folder_is_harmless(pilot: Pilot[None], screen: MainScreen) -> None:
    screen.status.show_message(NASTY)
    screen.status.show_file_state(NASTY)
    screen.tabs.show(0, NASTY)
    await until_shown(pilot, "[@click=app.quit]")
    assert_harmless(pilot)


MARKUP = "[red]x[/] [/] [b {$a} \\\\["
"""A valid title of a course, which as markup would be another text or an error."""


@pytest.fixture
def marked(env: AppEnv) -> AppEnv:
    """Return an app whose course has hostile titles, summaries and texts."""
    for lesson in env.course.lessons:
        exercises = [exercise.folder / "exercise.toml" for exercise in lesson.exercises]
        for file in (lesson.folder / "lesson.toml", *exercises):
            lines = file.read_text().splitlines()
            lines[:2] = [f"title = '{MARKUP}'", f"summary = '{MARKUP} in short'"]
            file.write_text("\n".join(lines) + "\n")
        (lesson.folder / "lesson.md").write_text(TEXT)
        for exercise in lesson.exercises:
            (exercise.folder / "task.md").write_text(TEXT)
            (exercise.folder / "hints.md").write_text(
                f"## {NASTY[:-1]}\n\n{TEXT}\n\n## Then\n\nText.\n\n## Last\n\nText.\n"
            )
    return AppEnv(env.folder, load_course(env.course.folder), Timed())


TEXT = f"# {NASTY[:-1]}\n\n`{NASTY[:-1]}`\n\n```python\n{NASTY[:-1]}\n```\n\n[{NASTY[:-1]}](https://example.org)\n"
TITLED = {
    "the list": ("f2",),
    "the tabs": ("f3",),
    "the progress": ("f3", "w"),
    "what is worth repeating": ("escape", "w", "2"),
    "the palette": ("escape", "ctrl+p", "x"),
    "a search": ("escape", "slash", "x"),
    "the attempts": ("escape", "a"),
    "the device": ("escape", "d"),
    "a comparison": ("escape", "V"),
    "a question": ("escape", "f3", "x"),
}
"""Keys that lead from each place with titles to the next."""


@pytest.mark.long
@pytest.mark.parametrize("size", mostly_long([(80, 24), (180, 45)], [(80, 24)]), ids=str)
async def test_titles_are_shown_as_they_are_written(marked: AppEnv, size: tuple[int, int]) -> None:
    missing = []
    async with marked.start(size) as pilot:
        for source in (SOURCE, f"{SOURCE}#"):
            await run(pilot, marked, source)
        for place, keys in TITLED.items():
            await pilot.press(*keys)
            await until(pilot, lambda: len(pilot.app.screen_stack) < 3, "for the screen")
            try:
                await until(pilot, lambda: MARKUP[:12] in screen_text(pilot.app))
            except AssertionError:
                missing.append((place, screen_text(pilot.app)))
            assert_harmless(pilot)
    assert missing == []


async def test_texts_of_the_course_are_harmless(marked: AppEnv) -> None:
    async with marked.start((100, 30)) as pilot:
        for key in ("f3", "ctrl+l", "h"):
            await pilot.press(key)
            await until_shown(pilot, "[@click=app.quit]")
            await pilot.pause()
            assert_harmless(pilot)


@pytest.mark.long
@pytest.mark.parametrize("words", ["[red]x[/]", "[/]", "\\[", "[@click=app.quit]"])
async def test_words_that_are_typed_are_shown_as_they_are(env: AppEnv, words: str) -> None:
    async with env.start((140, 40)) as pilot:
        await pilot.press("f2", "slash", *words)
        await until(pilot, lambda: f"“{words}”, 0 of 4" in screen_text(pilot.app), "for the title")
        await until(pilot, lambda: f"Nothing matches “{words}”" in screen_text(pilot.app), "for the list")
        await pilot.press("escape", "f3", "slash", *words)
        await until(pilot, lambda: f"nothing has “{words}”" in screen_text(pilot.app), "for the search")
        await pilot.press("escape", "e", "ctrl+f", *words)
        await until(pilot, lambda: f"Find     {words}" in screen_text(pilot.app), "for the line to find")


async def test_settings_files_and_errors_are_shown_as_they_are(env: AppEnv) -> None:
    write(f"theme = '{MARKUP}'\neditor = '{MARKUP}'\n'[/]' = 1\n")
    env.file().write_text(f"x = '{NASTY[:-1]}'\ny = 2\n")
    env.client.breaks = GradingError(MARKUP, NASTY)
    async with env.start((140, 40)) as pilot:
        await pilot.press("comma")
        await until_shown(pilot, MARKUP)
        await until(pilot, lambda: screen_text(pilot.app).count("[/]") > 2, "for what is wrong in the file")
        assert_harmless(pilot)
        await pilot.press("escape", "e")
        await until_shown(pilot, "y = 2")
        assert_harmless(pilot)
        await pilot.press("f5")
        await until_shown(pilot, MARKUP)
        await until_shown(pilot, "[@click=app.quit]")
        assert_harmless(pilot)


async def test_a_welcome_shows_the_course_as_it_is(marked: AppEnv) -> None:
    marked.folder /= "[/] [red]x[/]"
    marked.folder.mkdir(parents=True)
    async with marked.start((100, 30), first=True) as pilot:
        await until_shown(pilot, MARKUP)
        await until_shown(pilot, "[/] [red]x")


MANY = 2000


def flood(request: GradeRequest) -> Report:
    verdicts = [verdict(f"number {number}") for number in range(MANY)]
    return report(request, *verdicts, output="".join(f"line {number}\n" for number in range(10_000)))


class LongRun(ScriptedClient):
    """A client that records a call of 20,000 events."""

    def record(self, folder: Path, request: GradeRequest) -> None:
        make_recording(folder, long_trace(file=request.file_name), file=request.file_name)


def widgets(pilot: Pilot[None]) -> int:
    return len(pilot.app.screen.query("*"))


@pytest.mark.long
async def test_floods_of_verdicts_and_lines_need_a_bounded_number_of_widgets(env: AppEnv) -> None:
    env.client = ScriptedClient(flood)
    async with env.start((100, 30)) as pilot:
        screen = main_screen(pilot)
        before = widgets(pilot)
        await pilot.press("e", "m", "ctrl+s", "f4", "i", "n", "e")
        await until(pilot, lambda: not screen.running, "for the end")
        await until(pilot, lambda: screen.editor_text.startswith("mine"), "for what was typed meanwhile")
        assert len(screen.panes.results.rows) == MOST_ROWS
        assert widgets(pilot) - before < 6 * MOST_ROWS
        await pilot.press("f6", "G")
        await until_shown(pilot, "9,800 more lines")
        assert f"{MANY - MOST_ROWS:,} more checks: v shows all" in str(
            screen.panes.results.body.query(".reason").last().render()
        )
        await pilot.press("g", "j", "j")
        await until_shown(pilot, "✓ passed    The check called number 2 holds")
        await pilot.press("v", "G")
        await until_shown(pilot, "line 9999")
        await pilot.press("escape", "n")
        await until(pilot, lambda: widgets(pilot) < before + 60, "for the rows to go")


@pytest.mark.long
async def test_a_timeline_of_twenty_thousand_events_is_walked_zoomed_and_left(env: AppEnv) -> None:
    env.client = LongRun()
    async with env.start((140, 40)) as pilot:
        await run_and_open(pilot)
        before = widgets(pilot)
        assert before < 100
        seen = set()
        for key in ("right", *"++", "right", "down", "right", *"n-", "up", "0", "end", "left", *"2345"):
            await pilot.press(key)
            await pilot.pause()
            seen.add(screen_text(pilot.app))
        assert len(seen) > 8
        await pilot.press("1", "escape")
        await until(pilot, lambda: main_screen(pilot).is_active, "for the main screen")
        await open_device(pilot)
        assert widgets(pilot) <= before + 10
