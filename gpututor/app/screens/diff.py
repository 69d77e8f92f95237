"""A comparison of two texts, line by line, in which the changes can be walked."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len, chop_cells
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from gpututor.app.commands import foot, screen_bindings
from gpututor.app.screens.base import BaseModal
from gpututor.app.widgets.base import PlainText
from gpututor.grading.report_text import count
from gpututor.text import escape_control_chars

CONTINUED = "↪ "
"""Before what is left of a line that is longer than the screen is wide."""
_COLOURS = {"-": "$text-error", "+": "$text-success", " ": ""}
_GUTTER = 3
_LEAST_ROOM = 6
_BREAKS = (
    re.compile(r"(?<=\S)\s+(?=\S)"),
    re.compile(r"(?<=[\[({,])(?=\S)"),
    re.compile(r"(?=\.[^\W\d])"),
)
"""Where a long line may be broken, the best first: between words, behind a bracket or comma, before an attribute."""


@dataclass(frozen=True)
class DiffLine:
    """One line of either text."""

    sign: str
    """`-`: only the first text has it; `+`: only the second; a blank: both."""
    text: str
    change: int
    """The number of the change that begins with it, from 1; 0 where none does."""


def diff_lines(before: str, after: str) -> tuple[DiffLine, ...]:
    """A comparison of two whole files: within a change, the lines that go before those that come."""
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
    """Draws the lines; one that is too long goes on in the next row, behind a mark, broken between words."""

    def __init__(self, lines: tuple[DiffLine, ...]) -> None:
        super().__init__("", markup=False)
        self._lines = lines
        self.changes = sum(line.change > 0 for line in lines)
        self.current = 0
        """The change that is marked; 0: none."""
        self.rows: dict[int, int] = {}
        """Where each change begins, in rows of the view."""
        self._drawn = (0, 0)

    def show(self, lines: tuple[DiffLine, ...]) -> None:
        """Show another comparison; without lines, nothing."""
        self._lines = lines
        self.changes = sum(line.change > 0 for line in lines)
        self.current, self.rows, self._drawn = 0, {}, (0, 0)
        if lines:
            self.draw()
        else:
            self.update("")

    def on_resize(self, event: events.Resize) -> None:
        if self._lines:
            self.draw()

    def draw(self) -> None:
        """Lay the lines out in the present width."""
        width = self.size.width
        if (width, self.current) == self._drawn or width < _GUTTER + _LEAST_ROOM:
            return
        self._drawn = (width, self.current)
        parts: list[Content | str | tuple[str, str]] = []
        row = 0
        for line in self._lines:
            if line.change:
                self.rows[line.change] = row
            arrow = "▸" if line.change and line.change == self.current else " "
            for number, piece in enumerate(pieces(escape_control_chars(line.text.expandtabs(4)), width - _GUTTER)):
                text = f"{arrow if number == 0 else ' '}{line.sign} {piece}\n"
                parts.append((text, _COLOURS[line.sign]) if _COLOURS[line.sign] else text)
                row += 1
        self.update(Content.assemble(*parts) if self.changes else "Both are the same.")


def pieces(text: str, room: int) -> list[str]:
    """The text in pieces of at most `room` cells, broken between words; all but the first have its indent and a mark.

    `room` is at least `_LEAST_ROOM`.
    """
    if cell_len(text) <= room:
        return [text]
    indent = min(len(text) - len(text.lstrip(" ")), max(0, room // 2 - len(CONTINUED)))
    ahead = " " * indent + CONTINUED
    pieces: list[str] = []
    at = 0
    while at < len(text):
        piece = _first_words(text[at : at + 2 * room], room - len(ahead) * bool(pieces))
        pieces.append((ahead if pieces else "") + piece.rstrip())
        at += len(piece)
    return pieces


def _first_words(text: str, room: int) -> str:
    """As much of the text as fits, with the blanks behind it; broken in its second half where that can be."""
    if cell_len(text) <= room:
        return text
    most = len(chop_cells(text, room)[0])
    for least in (most // 2, 0):
        for break_ in _BREAKS:
            found = [match for match in break_.finditer(text) if least < match.start() <= most]
            if found:
                return text[: found[-1].end()]
    return text[:most]


class DiffDialog(BaseModal[None]):
    """Two texts line by line: what only the first has is marked -, what only the second has +."""

    BINDINGS: ClassVar[list[BindingType]] = screen_bindings("diff")

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
        # The rows are known once the width is.
        self.call_after_refresh(self.action_walk, 1)

    def action_walk(self, by: int) -> None:
        """Go to the next change, or the one before."""
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
        scroll = self._scroll
        match where:
            case "down":
                scroll.scroll_down(animate=False)
            case "up":
                scroll.scroll_up(animate=False)
            case "home":
                scroll.scroll_home(animate=False)
            case _:
                scroll.scroll_end(animate=False)

    def action_close(self) -> None:
        self.dismiss(None)
