"""What keeps each step of the event loop short: nothing is styled, painted or collected more than is needed."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from textual._compositor import Compositor
from textual.geometry import Region
from textual.pilot import Pilot
from textual.widgets.markdown import MarkdownBlock

from gpututor.app import runtime
from gpututor.app.runtime import LONG_QUIET_S, QUIET_S, GcScheduler
from tests.support.apps import AppEnv, main_screen, until
from tests.support.screens import screen_text


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """The generations that were looked at; Python looks at none by itself."""
    looked_at: list[int] = []

    def note(phase: str, about: dict[str, int]) -> None:
        if phase == "start":
            looked_at.append(about["generation"])

    threshold = gc.get_threshold()
    gc.callbacks.append(note)
    yield looked_at
    gc.callbacks.remove(note)
    gc.unfreeze()
    gc.set_threshold(*threshold)


def test_a_full_collection_waits_for_a_long_pause(collections: list[int]) -> None:
    now = 0.0
    collector = GcScheduler(lambda: now)
    collector.look()
    assert collections == []  # before the start everything is new
    collector.start()
    gc.set_threshold(0)
    collector.input_came()
    waste = [[] for _ in range(5000)]  # type: ignore[var-annotated]
    collector.look()
    assert collections == []  # a key came
    now += QUIET_S
    collector.look()
    collector.look()
    assert collections == [1]
    now += LONG_QUIET_S
    collector.look()
    collector.look()
    assert collections == [1, 2]
    assert waste


def test_no_change_of_the_focus_restyles_what_is_inside_a_pane() -> None:
    names = [*runtime.FIRST, *runtime.LATER]
    assert not [name for name in names if ":focus-within" in runtime.path_of(name).read_text("utf-8")]


async def test_the_frame_says_where_the_keys_go(env: AppEnv) -> None:
    async with env.start((140, 40)) as pilot:
        panes = main_screen(pilot).panes
        await pilot.press("l")
        await until(pilot, lambda: panes.course.has_class("-focused"), "for the list")
        await pilot.press("5")
        await until(pilot, lambda: panes.results.has_class("-focused"), "for the results")
        assert not panes.course.has_class("-focused")
        assert panes.results.styles.border_top != panes.course.styles.border_top


async def test_changes_in_one_step_are_painted_once_in_the_next_step(
    pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    await pilot.pause()
    painted: list[str] = []
    render = Compositor.render_update

    def counted(self: Compositor, *arguments: object, **named: object) -> object:
        painted.append(screen_text(pilot.app))
        return render(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Compositor, "render_update", counted)
    screen = main_screen(pilot)
    for word in ("one", "two", "three"):
        screen.status.show_news(word)
        screen._refresh_layout()
    assert not painted
    await until(pilot, lambda: bool(painted), "for a paint")
    assert "three" in painted[0]


async def test_what_changes_between_the_layout_and_the_paint_is_painted(
    pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    await pilot.pause()
    painted: list[list[Region]] = []
    render = Compositor.render_update

    def noted(self: Compositor, *arguments: object, **named: object) -> object:
        painted.append(list(self._dirty_regions))
        return render(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Compositor, "render_update", noted)
    screen = main_screen(pilot)
    screen._compositor_refresh()
    screen.status.show_news("late")
    screen._dirty_widgets.add(screen.status)  # as the screen does when it hears of it
    await until(pilot, lambda: bool(painted), "for a paint")
    assert screen.status.region in painted[0]


@pytest.mark.long
async def test_words_of_a_text_share_the_styles_of_the_text(env: AppEnv) -> None:
    task = env.course.exercises[0].folder / "task.md"
    task.write_text("# Task\n\nUse `torch` **now**, and *only* it.\n\n- one `item`\n", encoding="utf-8")
    async with env.start() as pilot:
        reader = main_screen(pilot).panes.reader
        blocks = list(reader.query(MarkdownBlock))
        assert len(blocks) >= 4
        assert not any(block._component_styles for block in blocks)
        paragraph = next(block for block in blocks if "torch" in block._content.plain)
        assert paragraph._get_style(".code_inline").foreground != paragraph._get_style(".em").foreground
        assert paragraph._get_style(".strong").bold
        assert paragraph._get_style(".em").italic
