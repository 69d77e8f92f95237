"""Costs of lines at the editor's edge."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from gpututor.app.editor.editor import Editor
from gpututor.app.editor.line_costs import LineCosts, cost_in_words, map_line, short_forms
from gpututor.grading.recording import LineCost
from gpututor.grading.report import Status
from tests.support.apps import AppEnv, edit, main_screen, run_checks, settle, until, until_shown
from tests.support.recorded_runs import run
from tests.support.screens import TRIED_SIZES, assert_golden, screen_lines, screen_text
from tests.support.scripted_client import ScriptedClient, report, verdict

MS = 1_000_000
MIB = 1 << 20


def cost(line: int, **what: object) -> LineCost:
    nothing = dict.fromkeys(
        ("kernels", "kernel_ns", "copies", "copy_ns", "copied_bytes", "waits", "wait_ns", "allocated_bytes"), 0
    )
    return LineCost(line, **{**nothing, **what})  # type: ignore[arg-type]


COPY = cost(2, copies=3, copy_ns=1_200_000, copied_bytes=12 * MIB, waits=1, wait_ns=800_000)
KERNELS = cost(4, kernels=4, kernel_ns=300_000, allocated_bytes=4 * MIB)
HAZARD = cost(5, kernels=1, kernel_ns=2 * MS, hazards=("x is read before its copy has ended",))

TEXT = (
    "import torch\n"
    "x = torch.ones(3).to(device)\n"
    "\n"
    "y = x * 2\n"
    "z = " + "y + " * 30 + "y\n"
    "print(z)\n"
)  # fmt: skip


def test_words_and_short_forms_name_the_costs() -> None:
    assert cost_in_words(COPY, "modelled") == ("Line 2: 3 copies (12.0 MiB, 1.20 ms), 1 wait (800 µs); modelled.")
    assert cost_in_words(KERNELS, calls=3).startswith("Line 4, all 3 calls: 4 kernels")
    assert cost_in_words(KERNELS, calls=2).startswith("Line 4, both calls: 4 kernels")
    assert cost_in_words(KERNELS, stale=True) == ("Line 4 as run: 4 kernels (300 µs), 4.00 MiB allocated.")
    assert cost_in_words(HAZARD).endswith("1 kernel (2.00 ms). ! x is read before its copy has ended.")
    assert short_forms(COPY, stale=False) == ("⇄ 3  ‖ 1  12.0 MiB  1.20 ms", "⇄ 3  ‖ 1  1.20 ms", "⇄3 ‖1", "⇄3")
    assert short_forms(KERNELS, stale=True)[0] == "~ 4.00 MiB   300 µs"
    assert short_forms(HAZARD, stale=False)[-1] == "!▸1"
    assert short_forms(KERNELS, stale=False)[-1] == "▸4"
    assert short_forms(cost(1, waits=8, wait_ns=5, kernels=1, kernel_ns=2), stale=False)[-1] == "‖8"
    assert short_forms(cost(1, kernels=12_345, kernel_ns=5), stale=True)[-1] == "~▸12k"
    assert short_forms(cost(1, allocated_bytes=MIB), stale=False) == ("1.00 MiB",)


@given(
    st.builds(cost, st.just(1), *[], **dict.fromkeys(("kernels", "copies", "waits", "copy_ns"), st.integers(0, 10**12)))
)
def test_every_cost_has_a_form_that_is_short_and_none_is_empty(of: LineCost) -> None:
    forms = short_forms(of, stale=True)
    assert forms
    assert len(forms[-1]) <= 8
    assert [len(form) for form in forms] == sorted((len(form) for form in forms), reverse=True)


LINES = ["a", "b", "c", "d", "b"]
EVERY = {row: cost(row) for row in range(1, 6)}


@pytest.mark.parametrize(
    ("edited", "wanted"),
    [
        (LINES, {0: 1, 1: 2, 2: 3, 3: 4, 4: 5}),
        (["", *LINES], {1: 1, 2: 2, 3: 3, 4: 4, 5: 5}),
        (["a", "b", "cc", "d", "b"], {0: 1, 1: 2, 3: 4, 4: 5}),
        (["a", "d", "b"], {0: 1, 1: 4, 2: 5}),
        (["    a", "b", "c", "d", "b"], {0: 1, 1: 2, 2: 3, 3: 4, 4: 5}),
        (["a", "x", "b", "c", "y", "d", "b"], {0: 1, 2: 2, 3: 3, 5: 4, 6: 5}),
        ([], {}),
    ],
)
def test_costs_stay_with_their_lines(edited: list[str], wanted: dict[int, int]) -> None:
    costs = LineCosts(EVERY, LINES)
    assert {row: line_cost.line for row, line_cost in costs.by_row(edited).items()} == wanted
    assert costs.stale(edited) == (edited != LINES)
    assert {row: line_cost.line for row, line_cost in costs.by_row(LINES).items()} == {row: row + 1 for row in range(5)}


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8))
def test_costs_map_to_equal_lines_and_never_two_to_one_line(old: list[str], new: list[str]) -> None:
    costs = LineCosts({line: cost(line) for line in range(1, len(old) + 1)}, old)
    for row, line_cost in costs.by_row(new).items():
        assert new[row] == old[line_cost.line - 1]


async def with_costs(pilot: Pilot[None], times: str = "modelled") -> Editor:
    editor = await edit(pilot, TEXT)
    editor.show_costs({each.line: each for each in (COPY, KERNELS, HAZARD)}, times)
    await until(pilot, lambda: main_screen(pilot).files.is_saved, "for the text to be saved")
    return editor


@pytest.mark.parametrize("size", TRIED_SIZES, ids=str)
async def test_costs_stand_at_the_edge(pilot: Pilot[None]) -> None:
    editor = await with_costs(pilot)
    await pilot.press("down")
    await until_shown(pilot, "Line 2: 3 copies (12.0 MiB, 1.20 ms), 1 wait")
    await assert_golden(pilot, "costs")
    editor.move_cursor((4, 0))
    await until_shown(pilot, "Line 5: 1 kernel (2.00 ms); modelled.")
    await pilot.press("down")
    await until(pilot, lambda: "Line 5" not in screen_text(pilot.app), "for the words to go")
    await pilot.press("up")
    await until_shown(pilot, "Line 5: 1 kernel (2.00 ms); modelled.")
    await pilot.press("f3")
    await until(pilot, lambda: "Line 5" not in screen_text(pilot.app), "for the words to go with the code")


async def test_costs_move_with_edits_cover_no_line_and_can_be_hidden(pilot: Pilot[None]) -> None:
    editor = await with_costs(pilot)
    await pilot.press("enter")
    await until(pilot, lambda: any("y = x * 2" in each and "~ 4.00 MiB" in each for each in screen_lines(pilot.app)))
    editor.move_cursor((4, 0))
    await until_shown(pilot, "Line 4 as run: 4 kernels (300 µs), 4.00 MiB allocated; modelled.")
    await pilot.press("end", "x")
    await until(pilot, lambda: not any("y = x * 2x" in each and "MiB" in each for each in screen_lines(pilot.app)))
    await pilot.press("ctrl+z", "ctrl+z")
    await until(pilot, lambda: "~" not in screen_text(pilot.app), "for the costs as they were")
    long = "z = " + "y + " * 30
    row = next(row for row, line in enumerate(screen_lines(pilot.app)) if "z = y" in line)
    assert screen_lines(pilot.app)[row].endswith("› ! ▸1")
    editor.move_cursor((4, 10))
    await until(pilot, lambda: screen_lines(pilot.app)[row].endswith("›"), "for the whole line")
    assert long[:70] in screen_lines(pilot.app)[row]
    await pilot.press("shift+f8")
    await until_shown(pilot, "Costs of lines are hidden.")
    assert "MiB" not in screen_text(pilot.app)
    await pilot.press("escape", "c", "4")
    await until(pilot, lambda: "12.0 MiB" in screen_text(pilot.app), "for the costs")
    editor.show_costs({})
    await pilot.press("escape", "c")
    await until_shown(pilot, "No costs yet: a run records what each line does.")


@pytest.mark.parametrize("width", [80, 56, 48, 40])
async def test_a_cost_has_a_figure_and_leaves_enough_of_the_code(env: AppEnv, width: int) -> None:
    async with env.start((width, 20)) as pilot:
        editor = await with_costs(pilot)
        long = cost(5, copies=3, copy_ns=10, copied_bytes=4, waits=8, wait_ns=100)
        editor.show_costs({5: long}, "modelled")
        note = "⇄3 ‖8" if width >= 50 else "‖8"

        def row() -> str:
            return next(line for line in screen_lines(pilot.app) if "z = y" in line)

        await until(pilot, lambda: row().endswith(f"› {note}"), "for the cost")
        assert width == 40 or "y + " * 8 in row()


@pytest.mark.parametrize("size", [(80, 24), (140, 40)], ids=str)
async def test_costs_never_cover_a_line_that_is_whole(pilot: Pilot[None]) -> None:
    full = "x = " + "y" * 70
    editor = await edit(pilot, f"{full}\n\n" + "\n" * 40)
    editor.show_costs({1: cost(1, copies=3, copy_ns=10, copied_bytes=4, waits=8, wait_ns=100)}, "modelled")
    for place in ((1, 0), (0, len(full))):
        editor.move_cursor(place)
        await settle(pilot)
        await until_shown(pilot, full)
        assert editor.scroll_offset.x == 0


async def test_a_file_that_did_not_run_explains_missing_costs_and_traces(env: AppEnv) -> None:
    env.client = ScriptedClient(lambda request: report(request, fault))
    env.client.records = False
    fault = verdict("loads", Status.FAILED, got="SyntaxError: 'return' outside function", line=3)
    async with env.start() as pilot:
        on = main_screen(pilot).panes.editor.costs_on
        await run_checks(pilot)
        await pilot.press("c")
        await until_shown(pilot, "No costs: the last run's file could not be run.")
        assert main_screen(pilot).panes.editor.costs_on is on
        await pilot.press("d")
        await until_shown(pilot, "Attempt 1 did nothing on a device: its file could not be run.")
        await until_shown(pilot, "'return' outside function")


async def test_without_color_old_costs_are_marked(env: AppEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with env.start() as pilot:
        await with_costs(pilot)
        await pilot.press("x")
        await until_shown(pilot, "~ ⇄ 3 ‖ 1 12.0 MiB 1.20 ms")


async def test_costs_of_a_run_stay_with_its_exercise_after_a_restart(timed: AppEnv) -> None:
    async with timed.start((140, 40)) as pilot:
        editor = main_screen(pilot).panes.editor
        assert not editor.has_costs
        await run(pilot, timed)
        await until(pilot, lambda: editor.has_costs, "for the costs")
        await pilot.press("e")
        editor.move_cursor((5, 0))
        await until_shown(pilot, "Line 6, both calls: 4 kernels (1.59 ms), 128 MiB allocated; modelled.")
        row = next(line for line in screen_text(pilot.app).splitlines() if "print(x.sum().item())" in line)
        assert "‖ 4" in row
        await pilot.press("escape", "n")
        await until(pilot, lambda: not editor.has_costs, "for none")
        await pilot.press("p")
        await until(pilot, lambda: editor.has_costs, "for those of before")
    async with timed.start() as pilot:
        editor = main_screen(pilot).panes.editor
        await until(pilot, lambda: editor.has_costs, "for the costs after a restart")


TEXTS = st.lists(st.sampled_from(["a", "b", "  a", "", "x = 1"]), max_size=12).map("\n".join)


@pytest.mark.parametrize(
    ("now", "line", "expected"),
    [
        ("a\nb\nc", 2, (2, True)),
        ("new\na\nb\nc", 2, (3, True)),
        ("a\nchanged\nc", 2, (2, False)),
        ("new\na\nchanged\nc", 2, (3, False)),
        ("a\nc", 2, (2, False)),
        ("c", 2, (1, False)),
        ("", 3, (1, False)),
        ("a\r\n  b\r\nc", 2, (2, True)),
    ],
)
def test_a_line_is_found_by_its_text_or_by_its_neighbors(now: str, line: int, expected: tuple[int, bool]) -> None:
    assert map_line("a\nb\nc", now, line) == expected


@given(TEXTS, TEXTS, st.integers(1, 14))
def test_a_mapped_line_exists_in_the_newer_text_and_stays_if_unchanged(then: str, now: str, line: int) -> None:
    old, new = then.split("\n"), now.split("\n")
    mapped, is_there = map_line(then, now, line)
    assert 1 <= mapped <= len(new)
    if is_there:
        assert new[mapped - 1].strip() == old[line - 1].strip()
