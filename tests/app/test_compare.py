"""Two attempts side by side."""

from __future__ import annotations

import pytest
from textual.binding import Binding
from textual.pilot import Pilot

from gpututor.app.commands import BY_ID
from gpututor.app.screens.compare import CompareScreen
from gpututor.app.screens.history import HistoryScreen
from gpututor.app.screens.trace import DeviceScreen
from gpututor.app.trace_view.chart import Chart
from gpututor.app.trace_view.comparison import TimelinesPage
from gpututor.errors import ProgressError
from gpututor.trace.columns import Trace
from tests.support.apps import AppEnv, main_screen, run_checks, until, until_on, until_shown
from tests.support.parameters import mostly_long
from tests.support.recorded_runs import SOURCE, run, see
from tests.support.screens import TRIED_SIZES, assert_golden, screen_lines, screen_text
from tests.support.tiny_course import RIGHT, WRONG

SLOWER = SOURCE
FASTER = SOURCE.replace("    for step in range(3):\n", "    for step in range(1):\n")


async def compare(pilot: Pilot[None], key: str = "V") -> CompareScreen:
    """Compare the newest attempt with another, and wait until the screen has read both."""
    await pilot.press(key)
    screen = await until_on(pilot, CompareScreen)
    await until(pilot, lambda: screen.pair is not None, "for the traces")
    await pilot.pause()
    return screen


async def two_attempts(pilot: Pilot[None], env: AppEnv) -> None:
    await run(pilot, env, SLOWER)
    await run(pilot, env, FASTER)


@pytest.mark.parametrize("size", TRIED_SIZES, ids=str)
@pytest.mark.parametrize("page", ["figures", "lines", "timelines"])
async def test_the_comparison_looks_as_agreed(timed: AppEnv, pilot: Pilot[None], page: str) -> None:
    await two_attempts(pilot, timed)
    screen = await compare(pilot)
    await pilot.press(str(["figures", "lines", "timelines"].index(page) + 1))
    await until(pilot, lambda: len(screen.query("#figures-page, PairLinesPage, TimelinesPage")) > 0, "for the page")
    await assert_golden(pilot, f"compare_{page}")


async def test_it_is_compared_with_the_best_then_others_then_the_baseline(timed: AppEnv) -> None:
    async with timed.start((140, 40)) as pilot:
        await run(pilot, timed, FASTER)
        await run(pilot, timed, SLOWER)
        await run(pilot, timed, SLOWER + "\n")
        screen = await compare(pilot)
        assert screen.others is not None
        assert [other.words for other in screen.others] == [
            "best, attempt 1",
            "the previous one, attempt 2",
            "baseline.py, which the checks compare with",
        ]
        await pilot.press("a", "a")
        await until_shown(pilot, "Attempt 3 compared with baseline.py")
        await pilot.press("2")
        await until_shown(pilot, "The lines of baseline.py are the author's")


async def test_lines_are_paired_by_their_text_and_lead_to_the_editor(timed: AppEnv, pilot: Pilot[None]) -> None:
    await two_attempts(pilot, timed)
    screen = await compare(pilot)
    assert screen.pair is not None
    assert screen.pair.same_inputs
    await pilot.press("c")
    await until_shown(pilot, "call 2 of 2, with number=2")
    assert "Their inputs differ" not in screen_text(pilot.app)
    await pilot.press("c", "2")
    await until_shown(pilot, "Both have this line: in attempt 2, 794 µs less, 2 kernels fewer.")
    await pilot.press("enter")
    await until(pilot, lambda: main_screen(pilot).is_current, "for the main screen")
    await until(pilot, lambda: main_screen(pilot).panes.editor.cursor_location[0] == 5, "for the line")
    await pilot.press("escape")
    device = await see(pilot, "memory")
    await compare(pilot, "V")
    await pilot.press("escape")
    await until(pilot, lambda: pilot.app.screen is device, "for the device screen")
    assert isinstance(device, DeviceScreen)
    assert device.tabs.number == 1


async def test_both_timelines_are_on_one_scale_and_move_together(timed: AppEnv) -> None:
    async with timed.start((100, 30)) as pilot:
        await two_attempts(pilot, timed)
        screen = await compare(pilot)
        await pilot.press("3")
        await until(pilot, lambda: len(screen.query(TimelinesPage)) == 1, "for the page")
        upper, lower = screen.query(Chart)
        await until(pilot, lambda: upper.has_focus, "for the focus")

        def spans() -> list[tuple[int, int]]:
            return [(chart.window.begin - chart.window.least, chart.window.span) for chart in (upper, lower)]

        assert spans()[0] == spans()[1]
        whole = spans()[0][1]
        await pilot.press("plus", "right")
        await until(pilot, lambda: spans()[0][1] < whole, "for the zoom")
        await until(pilot, lambda: spans()[0] == spans()[1], "for the other one")
        await pilot.press("o", "0")
        await until(pilot, lambda: spans()[0] == spans()[1] and spans()[0][1] == whole, "for the whole")
        assert lower.has_focus


async def test_with_nothing_to_compare_it_says_what_to_do(pilot: Pilot[None], env: AppEnv) -> None:
    await pilot.press("V")
    await until_shown(pilot, "No attempt to compare yet: r runs the checks.")
    await pilot.press("3")
    await until(pilot, lambda: "No attempt yet that" not in screen_text(pilot.app), "for the answer to go")
    env.client.records = False
    await run_checks(pilot)
    await pilot.press("V")
    await until_shown(pilot, "No attempt has a trace yet")
    await pilot.press("d")
    await until_shown(pilot, "Attempt 1 has no trace")
    await pilot.press("escape")
    await until(pilot, lambda: main_screen(pilot).is_current, "for the main screen")
    await until(pilot, lambda: "No attempt has a trace" not in screen_text(pilot.app), "for the answer to go")
    assert "Failed" in screen_lines(pilot.app)[-2], "the news are there again"
    env.client.records = True
    await run(pilot, env)
    await pilot.press("V")
    await until_shown(pilot, "There is nothing to compare with yet")
    await pilot.press("escape")
    await until(pilot, lambda: main_screen(pilot).is_current, "for the main screen")


async def test_an_unreadable_progress_file_is_not_taken_for_nothing_to_compare(
    timed: AppEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(key: str) -> None:
        raise ProgressError("The progress cannot be read.", "Check the disk.")

    async with timed.start() as pilot:
        await two_attempts(pilot, timed)
        monkeypatch.setattr(main_screen(pilot).learner.progress, "best", fail)
        await pilot.press("V")
        await until_shown(pilot, "The progress cannot be read.")
        assert "Check the disk." in screen_text(pilot.app)
        assert "nothing to compare" not in screen_text(pilot.app)


@pytest.mark.long
async def test_after_an_attempt_that_recorded_nothing_the_newest_recorded_one_is_compared(
    timed: AppEnv, pilot: Pilot[None]
) -> None:
    await two_attempts(pilot, timed)
    timed.client.records = False
    main_screen(pilot).panes.editor.load_text("def twice(:\n")
    await run_checks(pilot)
    screen = await compare(pilot)
    assert screen.left.attempt == 2
    await until_shown(pilot, "The newest attempt has no trace. This is attempt 2.")


@pytest.mark.long
async def test_where_the_devices_did_nothing_the_checks_that_differ_are_told(env: AppEnv) -> None:
    env.client.traces = lambda request: [Trace()]
    async with env.start() as pilot:
        await run(pilot, env, WRONG)
        await run(pilot, env, RIGHT)
        await compare(pilot)
        text = " ".join(screen_text(pilot.app).split())
        assert "Neither used a device in this call." in text
        assert "this call" not in text.split("Neither used a device in this call.")[1]
        for words in ("attempt 2 ✓ Passed: all 3 checks", "attempt 1 ✗ Failed: 1 of 3 checks passed, 1 not run"):
            assert words in text, words
        assert "✓ passed ✗ failed The check called placement holds (one GPU)" in text
        assert "✓ passed ○ not run The check called parity holds (one GPU)" in text
        assert "called loads" not in text
        await run_again_from_comparison(pilot, env)
        assert "Both have the same check results." in screen_text(pilot.app)


async def run_again_from_comparison(pilot: Pilot[None], env: AppEnv) -> None:
    """Run another text that passes, and compare it with the previous attempt."""
    await pilot.press("escape")
    await until(pilot, lambda: main_screen(pilot).is_current, "for the main screen")
    await run(pilot, env, "def twice(number):\n    return 2 * number  # again\n")
    await compare(pilot)


@pytest.mark.parametrize("size", mostly_long([(40, 10), (60, 20), (200, 60)], [(40, 10)]), ids=str)
async def test_no_size_breaks_the_comparison(timed: AppEnv, pilot: Pilot[None]) -> None:
    await two_attempts(pilot, timed)
    screen = await compare(pilot)
    for key in ("2", "j", "3", "o", "plus", "1", "c", "a", "A", "tab"):
        await pilot.press(key)
        await pilot.pause()
    assert pilot.app.screen is screen


@pytest.mark.long
async def test_each_page_says_how_it_is_read(timed: AppEnv) -> None:
    async with timed.start((100, 40)) as pilot:
        await two_attempts(pilot, timed)
        await compare(pilot)
        for number, words in enumerate(("Figures", "Lines of both", "Both timelines"), 1):
            await pilot.press(str(number), "question_mark")
            await until_shown(pilot, f"{words}: how to read it")
            await until_shown(pilot, "Compare with another attempt, or the baseline.")
            await pilot.press("escape")


async def test_an_attempt_of_the_history_is_compared_too(timed: AppEnv) -> None:
    async with timed.start((100, 30)) as pilot:
        await two_attempts(pilot, timed)
        await pilot.press("a")
        await until_shown(pilot, "V compare")
        await until(pilot, lambda: "2 " in screen_text(pilot.app), "for the attempts")
        await pilot.press("down")
        await pilot.pause()
        screen = await compare(pilot, "V")
        assert screen.left.attempt == 1
        await until_shown(pilot, "Attempt 1 compared with")


@pytest.mark.parametrize(
    ("command", "actions"),
    [
        ("compare", {"compare", "choose('compare')", "close"}),
        ("show_device", {"choose('device')", "close"}),
        ("show_history", {"close", "other(1)"}),
        ("export_trace", {"export"}),
    ],
)
def test_a_command_has_the_same_keys_on_every_screen_that_knows_it(command: str, actions: set[str]) -> None:
    keys = {*BY_ID[command].keys, *BY_ID[command].letters}
    for screen in (HistoryScreen, DeviceScreen, CompareScreen):
        bindings = [
            binding
            for kind in screen.__mro__
            for binding in vars(kind).get("BINDINGS", ())
            if isinstance(binding, Binding)
        ]
        bound = {key: binding.action for binding in bindings for key in binding.key.split(",")}
        assert {bound[key] for key in keys if key in bound} <= actions, (screen, "means another thing by it")
        others = {key for key, action in bound.items() if action in actions - {"close", "other(1)"}}
        assert not others or keys <= others, (screen, "has another key for it")
