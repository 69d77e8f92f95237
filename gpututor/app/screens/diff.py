"""Comparison of two texts, line by line, with keys that go from change to change."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from gpututor.app.commands import foot, screen_bindings
from gpututor.app.screens.base import BaseModal
from gpututor.app.widgets.base import PlainText
from gpututor.app.widgets.folding import LEAST_WIDTH, fold
from gpututor.grading.report_text import count
from gpututor.text import escape_control_chars

_COLORS = {"-": "$text-error", "+": "$text-success", " ": ""}
_GUTTER = 3


@dataclass(frozen=True)
class DiffLine:
    """A line of either text."""

    sign: str
    """`-` if only the first text has it, `+` if only the second has it, a blank if both do."""
    text: str
    change: int
    """The number of the change that starts with this line, from 1; 0 if none does."""


def diff_lines(before: str, after: str) -> tuple[DiffLine, ...]:
    """Compare two whole files; within a change, removed lines come before added lines."""
    old, new = before.splitlines(), after.splitlines()
    lines: list[DiffLine] = []
    change = 0
    for tag, old_from, old_to, new_from, new_to in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if tag == "equal":
            lines += [DiffLine(" ", line, 0) for line in old[old_from:old_to]]
            continue
        change += 1
        changed = [("-", line) for line in old[old_from:old_to]] + [("+", line) for line in new[new_from:new_to]]
        lines += [DiffLine(sign, line, 0 if number else change) for number, (sign, line) in enumerate(changed)]
    return tuple(lines)


class DiffView(Static):
    """The lines of a comparison; long lines are wrapped between words, with a mark."""

    def __init__(self, lines: tuple[DiffLine, ...] = ()) -> None:
        super().__init__("", markup=False)
        self.current = 0
        """The marked change; 0 for none."""
        self.rows: dict[int, int] = {}
        """The first row of each change in the view."""
        self._lines = lines
        self._drawn = (0, 0)

    @property
    def changes(self) -> int:
        return sum(line.change > 0 for line in self._lines)

    def show(self, lines: tuple[DiffLine, ...]) -> None:
        """Show another comparison; without lines, nothing."""
        self._lines = lines
        self.current, self.rows, self._drawn = 0, {}, (0, 0)
        self.update("")
        self.draw()

    def on_resize(self, event: events.Resize) -> None:
        self.draw()

    def draw(self) -> None:
        """Wrap the lines to the current width."""
        width = self.size.width
        if not self._lines or (width, self.current) == self._drawn or width < _GUTTER + LEAST_WIDTH:
            return
        self._drawn = (width, self.current)
        parts: list[Content | str | tuple[str, str]] = []
        row = 0
        for line in self._lines:
            if line.change:
                self.rows[line.change] = row
            arrow = "▸" if line.change and line.change == self.current else " "
            for ahead, part in fold(escape_control_chars(line.text.expandtabs(4)), width - _GUTTER):
                text = f"{' ' if ahead else arrow}{line.sign} {ahead}{part.rstrip()}\n"
                parts.append((text, _COLORS[line.sign]) if _COLORS[line.sign] else text)
                row += 1
        self.update(Content.assemble(*parts) if self.changes else "Both are the same.")


class DiffDialog(BaseModal[None]):
    """Two texts line by line: `-` marks lines of the first alone, `+` lines of the second alone."""

    BINDINGS = screen_bindings("diff")

    def __init__(self, title: str, before: str, after: str, legend: tuple[str, str]) -> None:
        super().__init__()
        self._title = title
        self._legend = legend
        self._view = DiffView(diff_lines(before, after))
        self._foot = PlainText("", classes="foot")
        self._scroll = VerticalScroll(id="diff")

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -tall -code"):
            yield PlainText(self._title, classes="title")
            minus, plus = self._legend
            legend = Content.assemble((f"- {minus}", "$text-error"), "    ", (f"+ {plus}", "$text-success"))
            yield Static(legend, classes="legend")
            with self._scroll:
                yield self._view
            yield self._foot

    def on_mount(self) -> None:
        self._scroll.focus()
        self._show_foot()
        # The rows depend on the width.
        self.call_after_refresh(self.action_walk, 1)

    def action_walk(self, by: int) -> None:
        """Go to the next or previous change."""
        view = self._view
        if not view.changes:
            return
        view.current = max(1, min(view.current + by, view.changes))
        view.draw()
        row = view.rows.get(view.current, 0)
        top = max(0, row - self._scroll.size.height // 3)
        self.call_after_refresh(self._scroll.scroll_to, y=top, animate=False)
        self._show_foot()

    def _show_foot(self) -> None:
        view = self._view
        if view.changes > 1:
            self._foot.update(f"Change {max(view.current, 1)} of {view.changes}   {foot('diff')}")
        else:
            changes = f"{count(view.changes, 'change')}   " if view.changes else ""
            self._foot.update(changes + foot("diff", "next", "before"))

    def action_scroll(self, where: str) -> None:
        getattr(self._scroll, f"scroll_{where}")(animate=False)
