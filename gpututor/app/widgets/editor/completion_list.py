"""The small list of names that can stand at the cursor. The editor keeps the focus and hands it the keys."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.geometry import Offset
from textual.widget import Widget

from gpututor.app.themes import CHOSEN
from gpututor.plain_text import visible

MOST_ROWS = 8
MOST_CELLS = 40
_FRAME = 2
"""Cells that the frame takes, in both directions."""

Location = tuple[int, int]


class CompletionList(Widget, can_focus=False):
    """Names that begin with what was typed, one of them chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.display = False
        self._names: tuple[str, ...] = ()
        self._kept: list[str] = []
        self._chosen = 0
        self._first = 0
        """The first name in sight."""
        self._start: Location = (0, 0)
        """Where in the text the name begins."""
        self._word = ""
        self._waiting = False
        self._cursor = Offset()
        self.is_open = False

    @property
    def chosen(self) -> str | None:
        return self._kept[self._chosen] if self._kept else None

    @property
    def names(self) -> tuple[str, ...]:
        """All names that were offered."""
        return self._names

    @property
    def shown(self) -> list[str]:
        """The names that fit what was typed."""
        return list(self._kept)

    def open(self, names: Sequence[str], word: str, start: Location, cursor: Offset, *, waiting: bool) -> bool:
        """Show names for the word that begins at `start`; `cursor` is where it ends on the screen.

        `waiting`: better names may come. False when there is nothing to show.
        """
        self._start, self._word, self._cursor = start, word, cursor - (cell_len(word), 0)
        self.is_open = True
        return self.offer(names, waiting=waiting)

    def offer(self, names: Sequence[str], *, waiting: bool) -> bool:
        """Show other names for the same word; the chosen one stays chosen. False when there is nothing to show."""
        chosen = self.chosen if self._chosen else None
        self._names, self._waiting = tuple(names), waiting
        self._keep(chosen)
        return self.is_open

    def follow(self, word: str, start: Location) -> None:
        """The word at the cursor is now this one: show what still fits, or nothing if it is another word."""
        if not self.is_open or (word, start) == (self._word, self._start):
            return
        if start != self._start or not word:
            self.close()
            return
        self._word = word
        self._keep(None)

    def move(self, by: int) -> None:
        """Choose another name; from the last one on to the first, and back."""
        if self._kept:
            last = len(self._kept) - 1
            wanted = self._chosen + by
            self._choose(min(max(wanted, 0), last) if abs(by) > 1 else wanted % (last + 1))

    def close(self) -> None:
        self.is_open = False
        self.display = False
        self._names, self._kept = (), []

    def _keep(self, chosen: str | None) -> None:
        word = self._word
        capitals = word != word.lower()
        fitting = [name for name in self._names if (name if capitals else name.lower()).startswith(word)]
        self._kept = [name for name in fitting if name != word] if len(fitting) > 1 else fitting
        if self._kept == [word]:
            self._kept = []
        if not self._kept and not self._waiting:
            self.close()
            return
        self._choose(self._kept.index(chosen) if chosen in self._kept else 0)
        self._place()

    def _choose(self, index: int) -> None:
        self._chosen = index
        self._first = min(max(self._first, index - self._rows + 1), index)
        if self._kept:
            self.border_subtitle = f"{index + 1} of {len(self._kept)}" if len(self._kept) > self._rows else ""
        self.refresh()

    @property
    def _rows(self) -> int:
        return max(1, min(MOST_ROWS, len(self._kept), self._room - _FRAME))

    @property
    def _room(self) -> int:
        """Rows of the screen below the cursor or above it, where there are more."""
        height = self.screen.size.height if self.is_attached else MOST_ROWS + _FRAME
        return max(height - self._cursor.y - 1, self._cursor.y)

    def _place(self) -> None:
        """Below the word; above it where there is no room; never over the screen's edge."""
        if not self.is_attached:
            return
        width, height = self.screen.size
        longest = max((cell_len(visible(name)) for name in self._kept), default=len(WAITING))
        cells = min(max(longest, 14), MOST_CELLS, width - _FRAME - 2) + _FRAME + 2
        rows = self._rows + _FRAME
        below = self._cursor.y + 1
        y = below if below + rows <= height else self._cursor.y - rows
        if y < 0:
            y = max(0, height - rows)
        x = max(0, min(self._cursor.x - 2, width - cells))
        self.styles.width, self.styles.height = cells, rows
        self.absolute_offset = Offset(x, y)
        self.display = True
        self.refresh(layout=True)

    def render(self) -> Content:
        room = self.size.width
        if not self._kept:
            return Content.assemble((f" {WAITING} ", "$foreground-muted"))
        rows: list[Content] = []
        for index in range(self._first, min(self._first + self._rows, len(self._kept))):
            name = Content(visible(self._kept[index])).truncate(room - 2, ellipsis=True)
            typed = min(len(self._word), len(name))
            row = Content.assemble(" ", name.stylize("bold", 0, typed), " " * (room - 1 - name.cell_length))
            if index == self._chosen:
                row = row.stylize(CHOSEN)
            rows.append(row)
        return Content("\n").join(rows)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        event.stop()
        event.prevent_default()
        index = self._first + event.get_content_offset_capture(self).y
        if 0 <= index < len(self._kept):
            self._choose(index)


WAITING = "looking …"
