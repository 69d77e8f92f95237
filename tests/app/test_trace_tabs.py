"""The tabs next to the timeline: memory, times, lines, hazards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from gpututor.app.commands import Pane
from gpututor.app.trace_view.comparison import baselines_of, line_pairs, pair_of, why_not
from gpututor.app.trace_view.lines_tab import LinesTab
from gpututor.app.trace_view.memory_tab import MemoryTab
from gpututor.app.trace_view.model import LoadedCall, OtherRun, ProcessFigures, RunView, first_view
from gpututor.app.trace_view.times_tab import TimeBar, all_bars, limit_of, nanoseconds, times_lines
from gpututor.checks.model import Spread, Timing
from gpututor.checks.speed import describe_limit
from gpututor.grading.recording import CallRecording, LineCost, Recording, RunRecording
from gpututor.grading.report import Status
from gpututor.trace.arrays import TraceArrays
from gpututor.trace.memory import memory_curves
from tests.support.apps import AppEnv, main_screen, until, until_shown
from tests.support.parameters import mostly_long
from tests.support.recorded_runs import TABS, run, see
from tests.support.recordings import long_trace, make_recording, small_trace
from tests.support.screens import TRIED_SIZES, assert_golden, screen_text
from tests.support.scripted_client import verdict
from tests.support.tiny_course import RIGHT
from tests.support.traces import MIB, MS, Memory


def view_with(figures: ProcessFigures) -> RunView:
    """Return the view of a call with these figures."""
    call = CallRecording("", "", 1000, 0, 0, None, 3, 0)
    recording = Recording((RunRecording("one GPU", "cuda:0", "modelled", (call,), (), ()),))
    loaded = LoadedCall((), ())
    vars(loaded)["figures"] = (figures,)
    return RunView(recording, 0, 0, 1, "1.1", "a.py", None, loaded)


def test_the_call_that_stopped_is_shown_before_longer_ones() -> None:
    long = CallRecording("call 1 of 2", "a.trace", 9000, 0, 0, None, 90, 0)
    stopped = CallRecording("call 2 of 2, which stopped with an error", "b.trace", 10, 0, 0, None, 3, 0, stopped=True)
    recording = Recording((RunRecording("one GPU", "cuda:0", "modelled", (long, stopped), (), ()),))
    view = first_view(recording, attempt=1, title="1.1", file_name="a.py", source=None)
    assert view is not None
    assert view.case.words == stopped.words


@pytest.mark.parametrize("size", TRIED_SIZES, ids=str)
@pytest.mark.parametrize("tab", TABS[1:])
async def test_the_tab_looks_as_agreed(timed: AppEnv, pilot: Pilot[None], tab: str) -> None:
    await run(pilot, timed)
    await see(pilot, tab)
    await assert_golden(pilot, f"seen_{tab}")


@pytest.mark.parametrize("tab", TABS[1:])
async def test_without_colors_it_says_the_same(timed: AppEnv, tab: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with timed.start((80, 24)) as pilot:
        await run(pilot, timed)
        await see(pilot, tab)
        assert pilot.app.no_color
        await assert_golden(pilot, f"seen_{tab}")


@pytest.mark.parametrize("size", mostly_long([(40, 10), (60, 15), (200, 60)], [(40, 10)]), ids=str)
async def test_no_size_breaks_a_tab(timed: AppEnv, pilot: Pilot[None]) -> None:
    await run(pilot, timed)
    screen = await see(pilot, "memory")
    for key in ("left", "3", "4", "o", "5", "2", "c", "s", "1"):
        await pilot.press(key)
        await pilot.pause()
    assert pilot.app.screen is screen


async def test_memory_is_read_by_the_keys_for_each_call(timed: AppEnv, pilot: Pilot[None]) -> None:
    await run(pilot, timed)
    await see(pilot, "memory")
    assert "At 1.53 ms, the peak: 120 MiB, line 6 allocated 64.0 MiB" in screen_text(pilot.app)
    assert "✗ Out of memory at line 6: 256 MiB asked for" in screen_text(pilot.app)
    await pilot.press("g")
    await until_shown(pilot, "At 0 ns: 16.0 MiB, before anything was allocated")
    await pilot.press("]")
    await until_shown(pilot, "At 0 ns: 24.0 MiB, line 4 allocated 8.00 MiB")
    await pilot.press("G")
    await until_shown(pilot, "line 6 freed 32.0 MiB")
    assert "from before the call" in screen_text(pilot.app)
    await pilot.press("p")
    await until_shown(pilot, ", the peak: 120 MiB")
    assert "not from 0" not in screen_text(pilot.app)
    await pilot.press("c")
    await until_shown(pilot, "call 2 of 2")
    await until(pilot, lambda: "peak 40.0 MiB" in screen_text(pilot.app), "for the other call")
    assert "not from 0" not in screen_text(pilot.app), "24 of 40 MiB stay"
    await pilot.press(str(TABS.index("hazards") + 1))
    await until_shown(pilot, "✓ No hazards")
    await until_shown(pilot, "✓ Every allocation succeeded.")


async def test_lines_are_ordered_by_cost_or_as_in_the_file_and_clicked(timed: AppEnv, pilot: Pilot[None]) -> None:
    await run(pilot, timed)
    screen = await see(pilot, "lines")
    tab = screen.tabs.tab
    assert isinstance(tab, LinesTab)

    def shown() -> list[int]:
        return [int(option.id or 0) for option in tab.list.options]

    assert shown() == [6, 4, 7]
    assert tab.list.highlighted == 0
    await pilot.press("o")
    assert shown() == list(range(1, 10))
    assert shown()[tab.list.highlighted or 0] == 6, "the cursor stays on its line"
    await until_shown(pilot, "Line 6, both calls: 4 kernels")
    await until_shown(pilot, "both calls, as in the file")
    await pilot.press("escape")
    main = main_screen(pilot)
    await until(pilot, lambda: main.is_current, "for the main screen")
    await pilot.press("e")
    main.panes.editor.move_cursor((5, 0))
    await until_shown(pilot, "Line 6, both calls: 4 kernels")
    await pilot.press("f6")
    screen = await see(pilot, "lines")
    await pilot.click(screen.query_one("LinesTab OptionList", OptionList), offset=(4, 1))
    await until(pilot, lambda: main.panes.editor.cursor_location[0] == 3, "for the line")


@pytest.mark.parametrize(("tab", "keys", "row"), [("memory", [], 5), ("lines", ["j"], 3), ("hazards", [], 6)])
async def test_enter_in_a_tab_goes_to_the_line(
    timed: AppEnv, pilot: Pilot[None], tab: str, keys: list[str], row: int
) -> None:
    await run(pilot, timed)
    await see(pilot, tab)
    await pilot.press(*keys, "enter")
    screen = main_screen(pilot)
    await until(pilot, lambda: screen.panes.current is Pane.CODE, "for the editor")
    await until(pilot, lambda: screen.panes.editor.cursor_location[0] == row, "for the line")


async def test_advice_names_costs_and_promises_no_savings(env: AppEnv) -> None:
    env.client.traces = lambda request: [long_trace(1_000, waits=20, file=request.file_name)]
    async with env.start() as pilot:
        await run(pilot, env)
        await see(pilot, "hazards")
        await until_shown(pilot, "As it is, this costs about")
        assert "Saves" not in screen_text(pilot.app)


async def test_times_are_compared_with_baseline_best_and_previous(timed: AppEnv) -> None:
    async with timed.start((100, 30)) as pilot:
        await run(pilot, timed, RIGHT)
        await run(pilot, timed, SOURCE_OF_THREE)
        await see(pilot, "times")
        text = screen_text(pilot.app)
        for words in (
            "this attempt (2)",
            "baseline.py",
            "best, the previous one, attempt 1",
            "allowed",
            "the floor",
            "modelled",
        ):
            assert words in text, words
        assert "computing" in text


SOURCE_OF_THREE = "def twice(number):\n    for step in range(3):\n        pass\n    return 2 * number\n"


def test_a_curve_that_hardly_moves_is_drawn_from_above_zero() -> None:
    memory = Memory(before=1000 * MIB)
    row = memory.take(10, 3, 8 * MIB)
    memory.free(500, 8 * MIB, row)
    memory.take(900, 4, 4 * MIB)
    figures = ProcessFigures("", memory_curves(TraceArrays(memory.trace)), (), (), (), True)
    tab = MemoryTab()
    assert "Reading" in str(tab.render())
    tab.show(view_with(figures))
    lines = str(tab.render()).splitlines()
    axis = next(number for number, line in enumerate(lines) if "≈" in line)
    assert "998 MiB" in lines[axis]
    assert any("not from 0" in line for line in lines)
    assert " " not in lines[axis - 1].partition("┤")[2].rstrip(), "what stays is seen too"


async def test_the_chosen_line_is_visible_from_its_start(timed: AppEnv) -> None:
    lines = (f"    for i in range({number}):\n        x = work({number})  # {'long ' * 20}\n" for number in range(12))
    async with timed.start() as pilot:
        await run(pilot, timed, f"def twice(number):\n{''.join(lines)}    return 2 * number\n")
        await see(pilot, "lines")
        await pilot.press("enter")
        editor = main_screen(pilot).panes.editor
        await until(pilot, lambda: editor.cursor_location == (5, 4) and editor.size.height > 0, "for the line")
        await until_shown(pilot, "6     for i in range(2):")
        assert editor.scroll_offset.x == 0


def view_of(folder: Path, *, factor: float = 1.0, device: str = "cuda:0, virtual T4", attempt: int = 2) -> RunView:
    trace, baseline = small_trace(factor=factor), small_trace(factor=4)
    recording = make_recording(folder / str(factor), trace, baseline=baseline, device=device)
    view = first_view(recording, attempt=attempt, title="1.1 Twice", file_name="twice.py", source="a = 1\n")
    assert view is not None
    return view


def roles(view: RunView) -> dict[str, TimeBar]:
    return {bar.words: bar for bar in all_bars(view)[0].bars}


@pytest.mark.parametrize(("at_most", "limit"), [(1.25, 1.25), (0.1, 0.1), (1.0, 1.0), (1 / 3, 1 / 3)])
def test_the_limit_is_read_from_the_checks_own_sentence(at_most: float, limit: float) -> None:
    assert limit_of(describe_limit(at_most)) == pytest.approx(limit, rel=0.01)
    assert limit_of(describe_limit(at_most, "the script that you began with")) == pytest.approx(limit, rel=0.01)
    assert limit_of("The values agree with the CPU's") is None


def test_times_of_equal_kinds_stand_on_one_scale_with_limit_and_floor(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    elapsed, baseline = view.run.elapsed_ns, sum(call.elapsed_ns for call in view.run.baselines[0].calls)
    view = replace(view, verdicts=(replace(verdict("speed"), sentence=describe_limit(0.5)),))
    bars = roles(view)
    assert bars["this attempt (2)"].time_ns == elapsed
    assert bars["this attempt (2)"].note == "0.25 × baseline.py"
    assert bars["baseline.py"].time_ns == baseline == 4 * elapsed
    assert bars["allowed"].time_ns == baseline // 2
    assert bars["the floor"].time_ns == view.run.floor_ns
    view, other = view_of(tmp_path), view_of(tmp_path, factor=2)
    (call,) = other.recording.runs[0].calls
    moved = replace(other.recording, runs=(replace(other.run, calls=(replace(call, words="with number=9"),)),))
    view = replace(
        view, others=(OtherRun("best", "1", other), OtherRun("before", "2", replace(other, recording=moved)))
    )
    bars = roles(view)
    assert bars["best"].note == "0.50 × baseline.py"
    assert bars["before"].note == "0.50 × baseline.py, with other inputs"
    view, real = view_of(tmp_path), view_of(tmp_path, factor=3, device="cuda:0, NVIDIA H200")
    view = replace(view, others=(OtherRun("best", "1", real),))
    assert "best" not in roles(view)
    assert all_bars(real)[0].heading == "The call, measured"
    assert all_bars(view)[0].heading == "The call, modelled"
    timing = Timing(
        Status.PASSED, "", 0.81, 0.79, 0.84, Spread(2e-3, 1.9e-3, 2.2e-3), Spread(2.5e-3, 2.5e-3, 2.5e-3), 12, 10
    )
    view = view_of(tmp_path, device="cuda:0, NVIDIA H200")
    speed = replace(verdict("speed"), sentence=describe_limit(1.25), measured=timing.figures)
    measured = all_bars(replace(view, verdicts=(speed,)))[1]
    mine, theirs, allowed = measured.bars
    assert "12 pairs, measured" in measured.heading
    assert (mine.time_ns, mine.low_ns, mine.high_ns) == (2 * MS, 1.9 * MS, 2.2 * MS)
    assert (theirs.time_ns, theirs.high_ns) == (2.5 * MS, 0)
    assert allowed.time_ns == 1.25 * 2.5 * MS


def test_the_first_case_is_that_of_the_first_failed_check(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    (call,) = view.run.calls
    words = ("call 1 of 3, with number=9", "call 2 of 3, with number=4", "call 3 of 3")
    run = replace(view.run, calls=tuple(replace(call, words=each) for each in words))
    view = replace(view, recording=replace(view.recording, runs=(run,)))
    got = "3 (call 2 of 3, with number=4)"
    passed, failed = (
        verdict("value", status, scenario=run.scenario, got=got) for status in (Status.PASSED, Status.FAILED)
    )
    assert replace(view, verdicts=(passed,)).at_failure().case_number == view.case_number
    assert replace(view, verdicts=(passed, failed)).at_failure().case.words == words[1]


def test_runs_without_times_or_device_work_have_no_bars(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    runs = (replace(view.run, times=""),)
    assert all_bars(replace(view, recording=replace(view.recording, runs=runs))) == ()
    calls = tuple(replace(view.run.calls[0], words=f"call {number} of 2", elapsed_ns=0) for number in (1, 2))
    runs = (replace(view.run, calls=calls),)
    view = replace(view, recording=replace(view.recording, runs=runs))
    assert all_bars(view) == ()
    shown = "\n".join(line.plain for line in times_lines(view, 80))
    assert "No device did anything in this call" in shown
    assert "█" not in shown


@pytest.mark.parametrize(("words", "value"), [("1.25 ms", 1_250_000), ("1,234 s", 1_234 * 10**9), ("512 ns", 512)])
def test_times_are_read_back(words: str, value: int) -> None:
    assert nanoseconds(words) == value


def cost(line: int, kernel_ns: int = 0, *, kernels: int = 1, copies: int = 0, waits: int = 0) -> LineCost:
    return LineCost(line, kernels, kernel_ns, copies, 0, 0, waits, 0, 0)


def test_lines_are_paired_by_their_text_wherever_they_stand() -> None:
    left = ["x = 1", "for a in b:", "    y = work(a)", "z = 2"]
    right = ["# a comment", "x = 1", "y = work(a)", "q = 3"]
    pairs = line_pairs(left, [cost(3, 500, kernels=1), cost(4, 10)], right, [cost(3, 900, kernels=4), cost(4, 20)])
    assert [(pair.text, pair.left_line, pair.right_line, pair.change_ns) for pair in pairs] == [
        ("y = work(a)", 3, 3, -400),
        ("q = 3", None, 4, -20),
        ("z = 2", 4, None, 10),
    ]
    assert pairs[0].words == "3 kernels fewer"
    (pair,) = line_pairs(["x.item()"], [cost(1, 0, kernels=0, waits=3, copies=1)], [], [])
    assert pair.words == "1 copy more, 3 waits more"


def test_the_other_one_is_the_same_case_of_the_same_scenario(tmp_path: Path) -> None:
    left = view_of(tmp_path)
    (baseline,) = baselines_of(left)
    pair = pair_of(left, baseline)
    assert pair is not None
    assert pair.right.case.calls[0].elapsed_ns == left.run.baselines[0].calls[0].elapsed_ns
    assert pair.same_inputs
    moved = replace(left.recording, runs=(replace(left.run, scenario="two GPUs"),))
    elsewhere = replace(baseline, view=replace(left, recording=moved))
    assert pair_of(left, elsewhere) is None
    words = why_not(left, elsewhere, another=True)
    assert f"did not run in “{left.run.scenario}”" in words
    assert "Run the checks again" in words
