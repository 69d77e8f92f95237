"""The panes side by side, or one at a time: the pane in front, and the focus."""

from __future__ import annotations

import asyncio
import contextlib
from functools import cached_property
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widget import Widget

from gpututor.app.commands import Pane
from gpututor.app.widgets.base import PlainText, restyle
from gpututor.app.widgets.course_list import CoursePane
from gpututor.app.widgets.reader import Reader
from gpututor.app.widgets.results import Results

if TYPE_CHECKING:
    from gpututor.app.editor.editor import Editor

FOCUS_WITHIN_S = 0.5
_LAYOUTS = ((170, "-wide"), (128, "-medium"), (100, "-stacked"))
"""Least width of each layout; wider layouts show more panes. See `styles/panes.tcss`."""
_LEAST_STACKED = 20
"""Rows of a screen with panes above each other."""
READING = (Pane.LESSON, Pane.TASK, Pane.HINTS)
"""Panes that share the reader."""


def layout_classes(width: int, height: int, *, zoomed: bool = False) -> dict[str, bool]:
    """Return all classes of the screen for the layout of its panes, with True for those that apply."""
    layout = next((name for least, name in _LAYOUTS if width >= least), "-narrow")
    if zoomed or (layout == "-stacked" and height < _LEAST_STACKED):
        layout = "-narrow"
    classes = {name: name == layout for name in ("-narrow", *(name for _, name in _LAYOUTS))}
    return {**classes, "-framed": layout != "-narrow"}


class Panes(Horizontal):
    """Holds the four panes. The style sheet decides by the screen's layout which of them are seen."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, classes="at-task")
        self.course = CoursePane(id="course")
        self.reader = Reader(id="reader")
        self.results = Results(id="results")
        self._editor_place = PlainText("", id="editor-place")
        """Empty placeholder until the editor is mounted, so that the results do not move."""
        self.current = Pane.TASK
        self.reading = Pane.TASK
        """The pane whose text the reader shows."""
        self._paints_all = False
        self._focused = asyncio.Event()
        """Set once the pane that was shown last has the focus."""

    def compose(self) -> ComposeResult:
        self.results.border_title = "Results"
        self._editor_place.border_title = "Code"
        yield self.course
        yield self.reader
        with Vertical(id="work"):
            yield self._editor_place
            yield self.results

    def on_mount(self) -> None:
        self.screen.screen_layout_refresh_signal.subscribe(self, self._paint_all)

    def _paint_all(self, _: Screen[object]) -> None:
        """Paint the screen after the layout of a change of panes.

        If a region was asked for before the layout, Textual takes the new regions for painted.
        """
        if self._paints_all:
            self._paints_all = False
            self.screen.refresh()

    def update_node_styles(self, animate: bool = True) -> None:
        work = self.results.parent
        inside = work.children if isinstance(work, Widget) else ()
        # The pane in front changes nothing inside the panes.
        restyle(self, (self, *self.children, *inside), animate=animate)

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _frame_focused_pane(self) -> None:
        # Not by `:focus-within`: Textual restyles all that is inside for it, at each change of the focus.
        for pane in (self.course, self.results):
            pane.set_class(pane.has_focus_within, "-focused")

    @cached_property
    def editor(self) -> Editor:
        """The editor, imported with its first use: 15 ms that the first paint does not have."""
        from gpututor.app.editor.editor import Editor

        editor = Editor(id="editor")
        editor.border_title = "Code"
        return editor

    @property
    def has_editor(self) -> bool:
        return "editor" in self.__dict__

    async def add_editor(self) -> None:
        """Put the editor in its place. A text area costs 40 ms, so this comes after the first paint."""
        if not self.editor.is_attached:
            with self.app.batch_update():
                await self.query_one("#work").mount(self.editor, before=self.results)
                await self._editor_place.remove()

    def show(self, pane: Pane, *, focus: bool = True) -> None:
        self.current = pane
        classes = {f"at-{other}": other is pane for other in Pane}
        if pane is Pane.COURSE or pane in READING:
            classes["left-course"] = pane is Pane.COURSE
        if pane in (Pane.TASK, Pane.HINTS, Pane.RESULTS):
            classes["below-results"] = pane is Pane.RESULTS
        self.update_classes(classes)
        self._paints_all = self.has_editor  # not twice at the start
        if focus:
            focused = self.screen.focused
            if focused is not None and self.pane_of(focused) is not pane:
                # At once: letters that come before the refresh are commands already, not text. And a pane that is
                # hidden while it has the focus would give it to its neighbor, such as the editor.
                self.screen.set_focus(None)
            self._focused.clear()
            # Only after the refresh is a pane displayed that was hidden, and a hidden one cannot have the focus.
            self.call_after_refresh(self._focus_current)

    @property
    def is_focus_moving(self) -> bool:
        """True until the pane that was shown last has the focus."""
        return not self._focused.is_set()

    def run_begins(self) -> None:
        """Give the results their place, and bring them in sight below the code."""
        self.add_class("ran")
        if self.current is Pane.CODE:
            self.add_class("below-results")

    @property
    def results_were_last(self) -> bool:
        """True if the results were shown after the task."""
        return self.has_class("below-results")

    @property
    def are_side_by_side(self) -> bool:
        """True if the results are seen next to the code."""
        return self.screen.has_class("-framed")

    async def focus_settled(self) -> None:
        """Wait, for a limited time, until the pane that was shown has the focus: it gets the keys that follow."""
        with contextlib.suppress(TimeoutError):  # after that, keys go to whatever has the focus
            async with asyncio.timeout(FOCUS_WITHIN_S):
                await self._focused.wait()

    def read(self, pane: Pane, text: str, place: str) -> None:
        """Show the text of a pane in the reader, which remembers its scroll position by the name `place`."""
        self.reading = pane
        self.reader.border_title = pane.heading
        self.reader.show(text, place)

    def next_of(self, by: int) -> Pane:
        """Return the pane `by` steps along the tabs, without the hints, and without the code, where Tab is text."""
        order = [pane for pane in Pane if pane not in (Pane.HINTS, Pane.CODE)]
        position = order.index(self.current) if self.current in order else order.index(Pane.TASK)
        return order[(position + by) % len(order)]

    def pane_of(self, widget: Widget) -> Pane | None:
        if self.course in widget.ancestors_with_self:
            return Pane.COURSE
        if self.results in widget.ancestors_with_self:
            return Pane.RESULTS
        if self.editor in widget.ancestors_with_self or self.results.parent in widget.ancestors:
            return Pane.CODE  # also the find bar below it
        return self.reading if self.reader in widget.ancestors_with_self else None

    def _focus_current(self) -> None:
        match self.current:
            case Pane.COURSE:
                if not self.course.is_typing:
                    self.course.list.focus()
            case Pane.CODE:
                if self.editor.is_attached:
                    self.screen.set_focus(self.editor)  # now: `focus` would wait for keys that are queued already
            case Pane.RESULTS:
                self.results.take_focus()
            case _:
                self.reader.focus()
        self._focused.set()
