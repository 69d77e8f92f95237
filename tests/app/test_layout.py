"""The layout of the panes: which are in sight, zoom, and space for code."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot
from textual.widget import Widget

from gpututor.app.commands import Pane
from gpututor.app.main.panes import layout_classes
from gpututor.app.main.screen import MainScreen
from gpututor.course.loader import load_course
from gpututor.paths import builtin_course
from tests.support.apps import AppEnv, edit, main_screen, run_checks, settle, until, until_shown
from tests.support.parameters import mostly_long
from tests.support.screens import screen_lines, screen_text


def seen(screen: MainScreen) -> set[str | None]:
    panes = screen.panes
    every: tuple[Widget, ...] = (panes.course, panes.reader, panes.editor, panes.results)
    return {pane.id for pane in every if pane.is_on_screen and pane.region.area}


async def test_more_panes_are_in_sight_on_wider_screens(pilot: Pilot[None], screen: MainScreen) -> None:
    assert seen(screen) == {"reader"}
    await pilot.press("z")
    await until_shown(pilot, "shows one pane at a time already")
    sizes = {(100, 30): {"reader", "editor"}, (140, 40): {"reader", "editor", "results"}}
    for size, panes in sizes.items():
        await pilot.resize_terminal(*size)
        await until(pilot, lambda panes=panes: seen(screen) == panes, f"for the panes at {size}")  # type: ignore[misc]
    await pilot.press("1")
    await until(pilot, lambda: seen(screen) == {"course", "editor", "results"}, "for the list in the text's place")
    await pilot.press("3")
    await pilot.resize_terminal(180, 45)
    await until(pilot, lambda: len(seen(screen)) == 4, "for three columns")


@pytest.mark.parametrize("size", mostly_long([(100, 30), (128, 30), (170, 45)], [(100, 30)]), ids=str)
async def test_every_line_of_every_starter_is_whole_in_the_code(pilot: Pilot[None]) -> None:
    editor = await edit(pilot)
    for exercise in load_course(builtin_course()).exercises:
        editor.show(exercise.starter)
        await pilot.pause()
        for row, line in enumerate(exercise.starter.splitlines()):
            drawn = editor.render_line(row - editor.scroll_offset.y).text
            assert drawn.rstrip().endswith(line), f"{exercise.key}, line {row + 1}: {drawn}"


@pytest.mark.parametrize("size", [(100, 30), (128, 30), (140, 40), (170, 45)], ids=str)
async def test_the_width_of_a_pane_does_not_depend_on_the_focus(pilot: Pilot[None], screen: MainScreen) -> None:
    widths: dict[str | None, set[int]] = {}
    await run_checks(pilot)
    for pane in (Pane.TASK, Pane.CODE, Pane.RESULTS, Pane.HINTS, Pane.CODE):
        screen.show_pane(pane)
        await settle(pilot)
        for widget in (screen.panes.reader, screen.panes.editor, screen.panes.results):
            if widget.id in seen(screen):
                widths.setdefault(widget.id, set()).add(widget.region.width)
    assert [len(each) for each in widths.values()] == [1, 1, 1], widths


@pytest.mark.parametrize("size", [(168, 45), (220, 45)], ids=str)
async def test_a_task_shows_code_whole_beside_the_editor(env: AppEnv, size: tuple[int, int]) -> None:
    line = "def " + "x" * 70
    (env.course.exercises[0].folder / "task.md").write_text(f"# Twice 1\n\nWrite:\n\n    {line}\n")
    env.course = load_course(env.course.folder)
    async with env.start(size) as pilot:
        await until_shown(pilot, "Write:")
        await until(pilot, lambda: line in screen_text(pilot.app), "for the line")
        assert main_screen(pilot).panes.editor.region.width >= 84


@pytest.mark.parametrize(
    "size",
    mostly_long(
        [(columns, 40) for columns in (128, 140, 141, 150, 168, 169, 170, 184, 220, 300)], [(141, 40), (169, 40)]
    ),
    ids=str,
)
async def test_no_pane_is_wider_than_the_terminal(
    pilot: Pilot[None], screen: MainScreen, size: tuple[int, int]
) -> None:
    await run_checks(pilot)
    for pane in (Pane.TASK, Pane.CODE, Pane.RESULTS, Pane.LESSON, Pane.COURSE):
        screen.show_pane(pane)
        await settle(pilot)
        for widget in (screen.panes.reader, screen.panes.editor, screen.panes.results, screen.panes.course):
            if widget.id in seen(screen):
                assert widget.region.right <= size[0], (pane, widget)


@pytest.mark.parametrize("size", [(100, 30)], ids=str)
async def test_the_code_keeps_ten_rows_above_another_pane(pilot: Pilot[None], screen: MainScreen) -> None:
    for pane in (Pane.TASK, Pane.HINTS, Pane.CODE):
        screen.show_pane(pane)
        await settle(pilot)
        assert screen.panes.editor.size.height >= 10, pane
    await run_checks(pilot)
    screen.show_pane(Pane.RESULTS)
    await settle(pilot)
    assert screen.panes.editor.size.height >= 10
    assert screen.panes.results.size.height > screen.panes.editor.size.height


@pytest.mark.parametrize("size", [(100, 30)], ids=str)
async def test_below_the_code_is_what_was_read_last(pilot: Pilot[None], screen: MainScreen) -> None:
    assert seen(screen) == {"editor", "reader"}
    await pilot.press("r")
    await until_shown(pilot, "a result on cpu")
    assert seen(screen) == {"editor", "results"}
    await pilot.press("e")
    await settle(pilot)
    assert seen(screen) == {"editor", "results"}
    await pilot.press("ctrl+t", "e")
    await settle(pilot)
    assert seen(screen) == {"editor", "reader"}
    await run_checks(pilot)
    assert seen(screen) == {"editor", "results"}
    await pilot.press("escape", "1")
    await settle(pilot)
    assert seen(screen) == {"course"}


@pytest.mark.parametrize("size", [(140, 40), (100, 30)], ids=str)
async def test_a_run_from_the_editor_leaves_the_focus_there(pilot: Pilot[None], screen: MainScreen) -> None:
    await pilot.press("e", "ctrl+s")
    await until_shown(pilot, "a result on cpu")
    assert screen.is_in_editor
    await until_shown(pilot, "F10 shows the timeline")
    text = screen.editor_text
    await pilot.press("x")
    await until(pilot, lambda: screen.editor_text == f"x{text}", "for a letter: in the editor it is no command")
    await pilot.press("escape")
    await settle(pilot)
    assert screen.panes.results.has_focus_within
    assert seen(screen) >= {"editor", "results"}
    await pilot.press("escape")
    await settle(pilot)
    assert screen.panes.reader.has_focus


@pytest.mark.parametrize("size", [(140, 40), (100, 30)], ids=str)
async def test_z_zooms_the_pane_in_front_and_back(pilot: Pilot[None], screen: MainScreen) -> None:
    before = seen(screen)
    await pilot.press("z")
    await until(pilot, lambda: seen(screen) == {"reader"}, "for the task alone")
    assert screen.panes.reader.size.width > 90
    assert screen.panes.reader.has_focus
    await pilot.press("4")
    await until(pilot, lambda: seen(screen) == {"editor"}, "for the code alone")
    text = screen.editor_text
    await pilot.press("z")
    await until(pilot, lambda: screen.editor_text == f"z{text}", "for a letter: in the editor it is no command")
    assert "Alt+z All panes" in screen_lines(pilot.app)[-1]
    await pilot.resize_terminal(150, 45)
    await settle(pilot)
    assert seen(screen) == {"editor"}
    await pilot.resize_terminal(80, 24)
    await until(pilot, lambda: "All panes" not in screen_text(pilot.app), "for the keys of a narrow screen")
    await pilot.resize_terminal(150, 45)
    await until(pilot, lambda: "All panes" in screen_text(pilot.app), "for the keys of a wide screen")
    for key in ("alt+z", "ctrl+backslash", "ctrl+backslash"):
        await pilot.press(key)
    await until(pilot, lambda: len(seen(screen)) == 3, "for all panes")
    assert len(before) >= 2
    assert screen.panes.editor.has_focus


def test_panes_are_not_stacked_on_a_flat_screen() -> None:
    assert layout_classes(100, 20)["-stacked"]
    assert layout_classes(100, 19)["-narrow"]


async def test_a_run_that_starts_by_itself_shows_its_results_below_the_code(env: AppEnv) -> None:
    async with env.start((100, 30)) as pilot:
        screen = main_screen(pilot)
        await edit(pilot)
        screen.runs.run_checks(quietly=True)
        await until_shown(pilot, "a result on cpu")
        assert screen.panes.current is Pane.CODE
        assert "Task" in screen_text(pilot.app)


@pytest.mark.parametrize("size", [(100, 30), (140, 40), (180, 45)], ids=str)
@pytest.mark.parametrize("ran", [False, True], ids=["new", "ran"])
async def test_no_pane_moves_after_the_first_paint(
    env: AppEnv, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], ran: bool
) -> None:
    if ran:
        async with env.start() as pilot:
            await run_checks(pilot)
    places: list[dict[str | None, object]] = []
    come = MainScreen._after_first_paint

    def regions(screen: MainScreen) -> dict[str | None, object]:
        panes = screen.query("#reader, #results, #editor, #editor-place, #course")
        return {(pane.id or "").removesuffix("-place"): pane.region for pane in panes}

    async def note(screen: MainScreen) -> None:
        places.append(regions(screen))
        await come(screen)

    monkeypatch.setattr(MainScreen, "_after_first_paint", note)
    async with env.start(size) as pilot:
        await settle(pilot)
        assert places == [regions(main_screen(pilot))]
        assert {"editor", "results", "reader"} <= places[0].keys()


@pytest.mark.parametrize("size", [(80, 24), (140, 40)], ids=str)
async def test_tab_goes_through_the_panes_and_changes_no_file(pilot: Pilot[None], screen: MainScreen) -> None:
    text, visited = screen.editor_text, set()
    for key in (*["tab"] * 5, *["shift+tab"] * 5):
        await pilot.press(key)
        await settle(pilot)
        visited.add(screen.panes.current)
    assert visited == {Pane.COURSE, Pane.LESSON, Pane.TASK, Pane.RESULTS}
    assert screen.editor_text == text
