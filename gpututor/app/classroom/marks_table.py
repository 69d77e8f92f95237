"""The table of a class: a row for each student, a column for each exercise; only visible cells are drawn."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from gpututor.app.classroom.class_table import TO_LOOK_AT, Cell, ClassRow, ClassTable, Shown, points_of
from gpututor.app.commands import screen_bindings

_TOTAL, _NARROW, _WIDE = 12, 11, 21
"""Widths of a total, of a cell without points, and of a cell with points."""


class MarksTable(ScrollView, can_focus=True):
    """Marks with a cursor on one cell; the names and the totals always stay in sight."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"class-marks--{name}" for name in ("cursor", "row", "passed", "failed", "open", "muted")
    }
    BINDINGS = screen_bindings("marks")

    class Moved(Message):
        """The cursor is on another cell, or another table is shown."""

    class Chosen(Message):
        """The instructor opened the cell with the cursor."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.head = MarksHeader(self)
        self._table: ClassTable | None = None
        self._shown = Shown((), (), None)
        self._row = self._column = 0
        """Position of the cursor in the filtered table."""
        self._first = 0
        """Position of the first visible column."""

    def show(self, table: ClassTable, shown: Shown) -> None:
        """Show a table; the cursor stays on its student and its exercise if they are still there."""
        was = self.at
        self._table, self._shown = table, shown
        ids = [table.rows[row].marks.student.id for row in shown.rows]
        keys = [table.gradebook.exercises[column].exercise for column in shown.columns]
        self._row = ids.index(was[0]) if was and was[0] in ids else min(self._row, max(0, len(ids) - 1))
        self._column = keys.index(was[1]) if was and was[1] in keys else min(self._column, max(0, len(keys) - 1))
        self.virtual_size = Size(0, len(shown.rows))
        self._follow()

    @property
    def row(self) -> ClassRow | None:
        """The row with the cursor; None without rows."""
        if self._table is None or not self._shown.rows:
            return None
        return self._table.rows[self._shown.rows[self._row]]

    @property
    def cell(self) -> Cell | None:
        """The cell with the cursor; None without cells."""
        return self.row.cells[self._shown.columns[self._column]] if self.row and self._shown.columns else None

    @property
    def at(self) -> tuple[str, str] | None:
        """The student and the exercise of the cell with the cursor."""
        return (self.cell.mark.student, self.cell.mark.exercise) if self.cell else None

    def go_to(self, student: str) -> None:
        """Put the cursor on a student's row if it is shown."""
        if self._table is not None:
            ids = (self._table.rows[row].marks.student.id for row in self._shown.rows)
            self._go(next((place for place, id_ in enumerate(ids) if id_ == student), self._row), self._column)

    def step(self, by: int) -> Cell | None:
        """Go to the next or previous submission in the column; return None if there is none."""
        assert self._table is not None
        row = self._row + by
        while 0 <= row < len(self._shown.rows):
            place, column = self._shown.rows[row], self._shown.columns[self._column]
            if self._shown.has(place, column) and self._table.rows[place].cells[column].mark.attempts:
                self._go(row, self._column)
                return self.cell
            row += by
        return None

    def action_move(self, down: int, right: int) -> None:
        self._go(self._row + down, self._column + right)

    def action_page(self, by: int) -> None:
        self._go(self._row + by * max(1, self.size.height - 1), self._column)

    def action_end(self, row: int) -> None:
        self._go(row if row >= 0 else len(self._shown.rows) - 1, self._column)

    def action_choose(self) -> None:
        self.post_message(self.Chosen())

    def _go(self, row: int, column: int) -> None:
        self._row = max(0, min(row, len(self._shown.rows) - 1))
        self._column = max(0, min(column, len(self._shown.columns) - 1))
        self._follow()

    def _follow(self) -> None:
        """Scroll to the cell with the cursor."""
        fit = self._fitting
        self._first = max(min(self._first, self._column), self._column - fit + 1)
        self._first = max(0, min(self._first, len(self._shown.columns) - fit))
        top, height = self.scroll_offset.y, max(1, self.size.height)
        if not top <= self._row < top + height:
            self.scroll_to(y=self._row if self._row < top else self._row - height + 1, animate=False, immediate=True)
        self.refresh()
        self.head.refresh()
        self.post_message(self.Moved())

    def on_resize(self, event: events.Resize) -> None:
        self._follow()

    def on_click(self, event: events.Click) -> None:
        row, column = self.scroll_offset.y + event.y, (event.x - 2 - self._name_width - _TOTAL) // self._cell_width
        if row < len(self._shown.rows):
            was = self._row, self._column
            in_sight = 0 <= column < self._fitting
            self._go(row, self._first + column if in_sight else self._column)
            if in_sight and was == (self._row, self._column):
                self.action_choose()

    @property
    def _name_width(self) -> int:
        return 18 if self.screen.size.width < 100 else 30

    @property
    def _cells_width(self) -> int:
        return max(0, self.scrollable_content_region.width - 2 - self._name_width - _TOTAL)

    @property
    def _cell_width(self) -> int:
        """Width of a cell: with points if all exercises fit."""
        return _WIDE if len(self._shown.columns) * _WIDE <= self._cells_width else _NARROW

    @property
    def _fitting(self) -> int:
        return max(1, self._cells_width // self._cell_width)

    @property
    def _in_sight(self) -> tuple[int, ...]:
        return self._shown.columns[self._first : self._first + self._fitting]

    def head_line(self, base: Style) -> Strip:
        """Return the headings of the columns, with signs for columns out of sight."""
        style = base + self._style("muted")
        names = f"  {'student':<{self._name_width}}{'points':>{_TOTAL - 4}}{'':4}"
        before = "◂" if self._first else " "
        after = " ▸" if self._first + self._fitting < len(self._shown.columns) else ""
        columns = self._table.columns if self._table is not None else ()
        width = self._cell_width
        heads = "".join(set_cell_size(columns[column], width) for column in self._in_sight)
        line = f"{names[:-1]}{before}{heads}"
        left = self.scrollable_content_region.width - len(after)
        return Strip([Segment(set_cell_size(line, left) + after, style)])

    def render_line(self, y: int) -> Strip:
        place, width, base = self.scroll_offset.y + y, self.scrollable_content_region.width, self.rich_style
        if self._table is None or place >= len(self._shown.rows):
            return Strip.blank(width, base)
        at = self._shown.rows[place]
        row = self._table.rows[at]
        here = place == self._row
        if here:
            base += self._style("row")
        name = (
            row.name if cell_len(row.name) < self._name_width else f"{set_cell_size(row.name, self._name_width - 2)}…"
        )
        total = f"{row.total:>{_TOTAL - 4}}"
        segments = [
            Segment("▸ " if here else "  ", base),
            Segment(set_cell_size(name, self._name_width) + set_cell_size(total, _TOTAL), base),
        ]
        cursor = self._shown.columns[self._column] if here and self._shown.columns else -1
        for column in self._in_sight:
            segments += self._cell(row.cells[column], self._shown.has(at, column), column == cursor, base)
        return Strip(segments).adjust_cell_length(width, base)

    def _cell(self, cell: Cell, matches: bool, has_cursor: bool, base: Style) -> list[Segment]:
        text = f"{cell.text}{TO_LOOK_AT if cell.looks else ''}" if matches else "·"
        if matches and self._cell_width == _WIDE:
            text = f"{text:<11}{points_of(cell.mark)}"
        style = base + self._style(_color(cell) if matches else "muted")
        if has_cursor:
            style += Style(reverse=True) if self.app.no_color else self._style("cursor")
        shown = set_cell_size(text, min(cell_len(text), self._cell_width - 1))
        return [Segment(shown, style), Segment(" " * (self._cell_width - cell_len(shown)), base)]

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"class-marks--{name}", partial=True)


class MarksHeader(Widget, can_focus=False):
    """The line above the table."""

    def __init__(self, marks: MarksTable) -> None:
        super().__init__()
        self._marks = marks

    def render_line(self, y: int) -> Strip:
        return self._marks.head_line(self.rich_style) if self._marks.is_attached else Strip.blank(self.size.width)


def _color(cell: Cell) -> str:
    return {"✓": "passed", "✗": "failed", "○": "open", "!": "open"}.get(cell.text[0], "muted")
