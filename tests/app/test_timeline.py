"""The device screen: opening it, its summary of a call, and the way from there to a line."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from textual.pilot import Pilot

from gpututor.app.screens.trace import TABS, DeviceScreen, make_tab
from gpututor.app.trace_view.chart import Chart
from gpututor.app.trace_view.timeline_tab import Timeline
from gpututor.grading.events import GradeRequest
from gpututor.grading.recording import write_recording
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from tests.support.apps import AppEnv, main_screen, run_checks, until, until_shown
from tests.support.parameters import mostly_long
from tests.support.recorded_runs import open_device, run_and_open
from tests.support.recordings import make_recording, small_trace
from tests.support.screens import TRIED_SIZES, assert_golden, screen_lines, screen_text

GPU = "cuda:0"


def chart(screen: DeviceScreen) -> Chart:
    return screen.query_one(Chart)


def one_line(pilot: Pilot[None]) -> str:
    """Return the screen's text without line breaks."""
    return " ".join(screen_text(pilot.app).split())


# Opening


async def test_one_key_opens_the_timeline_also_from_the_editor(pilot: Pilot[None]) -> None:
    await run_checks(pilot)
    await until_shown(pilot, "d shows the timeline")
    await open_device(pilot)
    text = screen_text(pilot.app)
    for words in ("host", "default stream", "stream 1", "to the device", "to the host", "ranges"):
        assert f" {words} " in text
    assert "Attempt 1 · cuda:0, virtual T4 · with number=1 · 930 µs modelled" in text
    await pilot.press("escape")
    assert main_screen(pilot).is_current
    await pilot.press("f4")
    await until(pilot, lambda: main_screen(pilot).panes.editor.has_focus, "for the editor")
    await open_device(pilot, "f10")
    await pilot.press("f10")
    assert main_screen(pilot).is_current


async def test_a_paint_before_the_chart_knows_its_new_size_is_no_error(pilot: Pilot[None]) -> None:
    await run_checks(pilot)
    await until_shown(pilot, "d shows the timeline")
    await open_device(pilot)
    drawing = chart(cast(DeviceScreen, pilot.app.screen))
    drawing.window = drawing.window.resized(drawing.columns + 60)  # as it was before the terminal shrank
    drawing.redraw()
    assert [drawing.render_line(row).cell_length for row in range(drawing.size.height)] == [
        drawing.size.width
    ] * drawing.size.height


async def test_the_timeline_advises_before_the_first_run_and_later_leads_to_lines(pilot: Pilot[None]) -> None:
    await open_device(pilot)
    assert "Nothing has been run yet." in screen_text(pilot.app)
    await pilot.press("tab", "3", "n", "enter", "s", "c", "r")
    await until(pilot, lambda: main_screen(pilot).is_current, "for the run")
    await until_shown(pilot, "d shows the timeline")
    main = main_screen(pilot)
    await run_checks(pilot)
    main.panes.editor.load_text("# new\n# lines\n" + main.exercise.starter)
    await open_device(pilot)
    assert "▸ 2      raise NotImplementedError" in screen_text(pilot.app)
    await pilot.press("enter")
    await until(pilot, lambda: main.panes.editor.has_focus, "for the editor")
    assert main.panes.editor.cursor_location[0] == 3


async def test_during_the_first_run_it_says_that_one_is_under_way(env: AppEnv) -> None:
    env.client.holds = True
    async with env.start() as pilot:
        await pilot.press("r")
        await until(pilot, lambda: main_screen(pilot).running, "for the run")
        await open_device(pilot)
        assert "A run is under way." in screen_text(pilot.app)
        assert "Nothing has been run yet" not in screen_text(pilot.app)
        assert "run the checks" not in screen_text(pilot.app)
        await pilot.press("question_mark")
        await until_shown(pilot, "Time runs to the right.")
        await pilot.press("G")
        await until_shown(pilot, "Save a picture of the screen")
        assert "run the checks" not in screen_text(pilot.app)
        await pilot.press("escape", "escape")
        env.client.holds = False
        env.client.released.set()
        await until(pilot, lambda: not main_screen(pilot).running, "for the verdicts")
        await open_device(pilot)
        assert "A run is under way." not in screen_text(pilot.app)


async def test_traces_for_a_timeline_that_was_never_mounted_do_no_harm(pilot: Pilot[None]) -> None:
    await run_checks(pilot)
    await open_device(pilot)
    view = cast(DeviceScreen, pilot.app.screen).view
    assert view is not None
    assert view.loaded is not None
    left_at_once = Timeline()
    left_at_once.show(view)
    assert left_at_once.chart.display


@pytest.mark.long
async def test_a_trace_that_is_not_there_any_more_is_told(env: AppEnv) -> None:
    async with env.start() as pilot:
        await run_checks(pilot)
        screen = main_screen(pilot)
        for file in screen.attempts.recordings.folder.rglob("*.trace"):
            file.unlink()
    async with env.start() as pilot:
        await open_device(pilot)
        assert "The trace of with number=1 is no longer on this disk." in screen_text(pilot.app)


@pytest.mark.long
@pytest.mark.parametrize("seed", mostly_long(range(12), range(3)))
async def test_a_damaged_trace_is_told_or_drawn_and_breaks_nothing(env: AppEnv, seed: int) -> None:
    chance = random.Random(seed)
    async with env.start() as pilot:
        await run_checks(pilot)
        folder = main_screen(pilot).attempts.recordings.folder
    for file in folder.rglob("*.trace"):
        damaged = bytearray(file.read_bytes())
        for _ in range(1 + seed):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        file.write_bytes(damaged[: chance.choice([len(damaged), chance.randrange(len(damaged))])])
    async with env.start() as pilot:
        screen = await open_device(pilot)
        await pilot.press("n", "right", "up", "plus", "z", "G", "down", "0", "space", "2", "right", "5", "down", "1")
        assert screen.is_current


# Moving along the timeline


async def test_the_cursor_goes_from_event_to_event_and_to_launches(pilot: Pilot[None]) -> None:
    screen = await run_and_open(pilot)
    assert chart(screen).lane.name == "stream 1", "it begins at the hazard"
    await pilot.press("up")
    assert chart(screen).lane.name == "default stream"
    await pilot.press("g")
    text = one_line(pilot)
    assert "aten::mul on the default stream of cuda:0 1 of 4 in this row" in text
    assert "360.0 to 410.0 µs: 50.0 µs (modelled), 5.4 % of the whole." in text
    assert "8.00 MiB in and out (168 GB/s), 1.00 MFLOP (20.0 GFLOP/s), float32." in text
    assert "Launched at 357 µs, waited 3.00 µs." in text
    await pilot.press("right", "l", "left")
    assert "2 of 4 in this row" in one_line(pilot)
    await pilot.press("G", "right")
    assert "This is the last event in this row." in one_line(pilot)
    await pilot.press("g", "h")
    assert "This is the first event in this row." in one_line(pilot)
    await pilot.press("down")
    await pilot.press("up", "g", "space")
    assert chart(screen).lane.name == "host"
    assert "Launch of aten::mul" in one_line(pilot)
    await pilot.press("space")
    assert "1 of 4 in this row" in one_line(pilot)


@pytest.mark.long
async def test_zooming_and_panning_never_lose_the_cursor(pilot: Pilot[None]) -> None:
    screen = await run_and_open(pilot)
    whole = chart(screen).window
    await pilot.press("up", "g", "plus", "plus")
    closer = chart(screen).window
    assert closer.span * 4 == pytest.approx(whole.span, rel=0.01)
    assert len(screen_text(pilot.app).split("mul")) > 2, "with room, names stand on the bars"
    await pilot.press("right_square_bracket")
    assert chart(screen).window.begin > closer.begin
    await pilot.press("left_square_bracket", "minus", "z")
    assert chart(screen).window.span == 150_000, "an event takes a third"
    await pilot.press("0")
    assert chart(screen).window == whole
    await pilot.press("down")
    await pilot.press("up", "g", "z")
    for key in ("right", "right", "right", "left", "down", "G", "up", "n", "N", "plus", "n", "minus", "right"):
        await pilot.press(key)
        timeline = chart(screen)
        start, end = timeline.lane.start[timeline.number], timeline.lane.end[timeline.number]
        assert start < timeline.window.end, key
        assert end >= timeline.window.begin, key


async def test_hazards_and_waits_are_visited_in_turn_and_told_in_words(pilot: Pilot[None], env: AppEnv) -> None:
    screen = await run_and_open(pilot)
    text = one_line(pilot)
    file = env.file().name
    assert f"! {file}:2 reads what aten::mul at {file}:2 writes on another stream, and nothing says which" in text
    assert "Let the later stream wait: `stream.wait_stream(other)`" in text
    assert "!" in next(line for line in screen_lines(pilot.app) if line.startswith("▸ stream 1")), "on the bar too"
    await pilot.press("N")
    assert "The host waits for a copy to the host" in one_line(pilot)
    await pilot.press("N")
    assert "There is no hazard or wait before this." in one_line(pilot)
    await pilot.press("n", "n")
    assert "The host waits in torch.cuda.synchronize" in one_line(pilot)
    assert chart(screen).lane.name == "host"
    await pilot.press("n", "n")
    assert "There is no hazard or wait after this." in one_line(pilot)


@pytest.mark.long
async def test_a_click_chooses_too(pilot: Pilot[None]) -> None:
    screen = await run_and_open(pilot)
    lines = screen_lines(pilot.app)
    row = next(number for number, line in enumerate(lines) if line.startswith("  default stream"))
    await pilot.click(offset=(lines[row].index("█"), row))
    assert "1 of 4 in this row" in one_line(pilot)
    await pilot.click(offset=(lines[0].index("3 Times"), 0))
    assert screen.tabs.number == 2


@pytest.mark.long
async def test_the_call_with_most_work_is_shown_first(env: AppEnv) -> None:
    env.client.traces = lambda request: [small_trace(file=request.file_name, factor=factor) for factor in (1, 3, 2)]
    async with env.start() as pilot:
        screen = await run_and_open(pilot)
        assert "call 2 of 3, with number=2 · 2.79 ms modelled" in one_line(pilot)
        await pilot.press("c")
        await until_shown(pilot, "call 3 of 3, with number=3 · 1.86 ms modelled")
        await pilot.press("c")
        await until_shown(pilot, "call 1 of 3, with number=1 · 930 µs modelled")
        await until(pilot, lambda: chart(screen).window.most == 930_000, "for its timeline")
        await pilot.press("C", "C")
        await until_shown(pilot, "call 2 of 3")


def in_two_scenarios(folder: Path, request: GradeRequest) -> None:
    first = make_recording(folder, small_trace(file=request.file_name), file=request.file_name)
    slow = make_recording(
        folder / "other", small_trace(file=request.file_name, factor=5), scenario="two GPUs", device="cuda:0, Tesla T4"
    )
    (folder / "other" / "run1_1.trace").rename(folder / "run2_1.trace")
    run = replace(slow.runs[0], calls=(replace(slow.runs[0].calls[0], trace="run2_1.trace"),))
    write_recording(replace(first, runs=(*first.runs, run)), folder)


async def test_scenarios_are_told_apart_and_so_are_measured_and_modelled_times(env: AppEnv) -> None:
    env.client.record = in_two_scenarios  # type: ignore[method-assign]
    async with env.start() as pilot:
        await run_and_open(pilot)
        text = one_line(pilot)
        assert "Attempt 1 · two GPUs: cuda:0, Tesla T4 · with number=1 · 4.65 ms measured" in text
        assert "(measured)" in text
        await pilot.press("s")
        await until_shown(pilot, "Attempt 1 · one GPU: cuda:0, virtual T4 · with number=1 · 930 µs modelled")
        await until_shown(pilot, "(modelled)")
        assert "measured" not in screen_text(pilot.app)


async def test_ranks_of_one_call_stand_below_each_other(env: AppEnv) -> None:
    def record(folder: Path, request: GradeRequest) -> None:
        traces = [small_trace(file=request.file_name, hazard=False) for _ in range(2)]
        made = make_recording(folder, *traces, file=request.file_name)
        calls = tuple(replace(call, words=f"call 1 of 1, rank {rank}") for rank, call in enumerate(made.runs[0].calls))
        write_recording(replace(made, runs=(replace(made.runs[0], calls=calls),)), folder)

    env.client.record = record  # type: ignore[method-assign]
    async with env.start((140, 40)) as pilot:
        await run_and_open(pilot)
        text = screen_text(pilot.app)
        assert "call 1 of 1, 2 processes" in text
        for lane in ("rank 0 host", "rank 0 stream 1", "rank 1 host", "rank 1 to device"):
            assert f" {lane} " in text


@pytest.mark.long
async def test_more_lanes_than_fit_are_counted_and_come_into_sight(env: AppEnv) -> None:
    def many(request: GradeRequest) -> list[Trace]:
        trace = small_trace(file=request.file_name, hazard=False)
        for stream in range(2, 20):
            trace.add(Kind.KERNEL, "aten::add", GPU, stream=stream, launched=5, start=10, end=20_000)
        return [trace]

    env.client.traces = many
    async with env.start() as pilot:
        await run_and_open(pilot)
        assert "more rows" in screen_text(pilot.app)
        assert " stream 19 " not in screen_text(pilot.app)
        await pilot.press(*["down"] * 25)
        text = screen_text(pilot.app)
        assert "▸ to the host" in text
        assert " stream 19 " in text


@pytest.mark.long
async def test_times_that_nobody_knows_are_told_and_nothing_is_drawn_at_0(env: AppEnv) -> None:
    def untimed(_: GradeRequest) -> list[Trace]:
        trace = Trace()
        for _number in range(3):
            trace.add(Kind.KERNEL, "aten::mm", GPU)
        return [trace]

    env.client.traces = untimed
    async with env.start() as pilot:
        screen = await run_and_open(pilot)
        assert "3 kernels and copies have no known times, so they are not drawn." in one_line(pilot)
        assert not chart(screen).display
        await pilot.press("n", "plus", "0", "right", "down", "g", "z", "enter", "space", "c")
        assert screen.is_current


async def test_calls_without_work_or_lines_say_so(env: AppEnv) -> None:

    async with env.start() as pilot:
        env.client.traces = lambda request: [Trace()]
        await run_and_open(pilot)
        assert "No work ran on a device in this call" in one_line(pilot)
        await pilot.press("escape")
        env.client.traces = lambda request: [small_trace(file="given.py")]
        screen = await run_and_open(pilot)
        assert "Caused by given.py:2, which is not your file." in screen_text(pilot.app)
        await pilot.press("enter")
        await until_shown(pilot, "No line of your file caused this.")
        assert screen.is_current


# Tabs, sizes


async def test_every_tab_is_a_digit_away_and_gets_the_keys(pilot: Pilot[None]) -> None:
    screen = await run_and_open(pilot)
    for number in range(1, len(TABS) + 1):
        await pilot.press(str(number))
        tab = screen.tabs.tab
        assert tab is not None
        assert type(tab) is type(make_tab(number - 1))
        assert screen.tabs.number == number - 1
        await until(pilot, lambda tab=tab: tab.has_focus_within or tab.has_focus, "for the focus")  # type: ignore[misc]
        assert [each.display for each in screen.tabs.made.values()].count(True) == 1
    await pilot.press("tab")
    assert screen.tabs.number == 0
    await pilot.press("shift+tab")
    assert screen.tabs.number == len(TABS) - 1


@pytest.mark.parametrize("size", TRIED_SIZES)
async def test_the_timeline_looks_as_it_should(pilot: Pilot[None]) -> None:
    await run_and_open(pilot)
    await assert_golden(pilot, "timeline")


async def test_the_timeline_without_colors(env: AppEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with env.start() as pilot:
        await run_and_open(pilot)
        await assert_golden(pilot, "timeline_no_color")


async def test_the_timeline_zoomed_in(env: AppEnv) -> None:
    async with env.start((100, 30)) as pilot:
        await run_and_open(pilot)
        await pilot.press("up", "g", "plus", "plus")
        await assert_golden(pilot, "timeline_zoomed")


@pytest.mark.parametrize("size", mostly_long([(40, 10), (60, 15), (200, 60)], [(40, 10)]))
async def test_odd_sizes_are_drawn_too(pilot: Pilot[None]) -> None:
    screen = await run_and_open(pilot)
    await pilot.press("right", "down", "plus", "n")
    await until_shown(pilot, f"▸ {chart(screen).lane.name}")


async def test_the_help_says_how_to_read_the_tab_and_its_keys(env: AppEnv) -> None:
    async with env.start((100, 40)) as pilot:
        screen = await run_and_open(pilot)
        await pilot.press("question_mark")
        await until_shown(pilot, "Time runs to the right.")
        await until_shown(pilot, "Go from a launch to its work, or back.")
        await pilot.press("escape", "2", "f1")
        await until_shown(pilot, "The memory that tensors hold on a device")
        await pilot.press("escape")
        assert screen.is_current
