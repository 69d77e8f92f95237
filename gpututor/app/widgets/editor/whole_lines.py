"""What the editor does to whole lines: move, duplicate, indent, dedent, comment out."""

from __future__ import annotations

from textual.widgets.text_area import Selection

from gpututor.app.widgets.editor import indentation
from gpututor.app.widgets.editor.drawing import CodeArea


class LinesArea(CodeArea):
    """Edits whole lines, keeping the selection on the same characters."""

    def action_move_lines(self, by: int) -> None:
        """Move the selected lines, or the cursor's, up (-1) or down (1)."""
        first, last = self._selected_rows()
        other = first - 1 if by < 0 else last + 1
        if self.read_only or not 0 <= other < self.document.line_count:
            return
        selection = self.selection
        lines = [self.document[row] for row in range(min(first, other), max(last, other) + 1)]
        lines = [*lines[1:], lines[0]] if by < 0 else [lines[-1], *lines[:-1]]
        self._put_lines(min(first, other), max(last, other), lines)
        (top, top_column), (end, end_column) = selection
        self.selection = Selection((top + by, top_column), (end + by, end_column))

    def action_duplicate_lines(self) -> None:
        """Put the selected lines, or the cursor's, a second time below."""
        if self.read_only:
            return
        first, last = self._selected_rows()
        selection = self.selection
        lines = [self.document[row] for row in range(first, last + 1)]
        self._put_lines(first, last, lines * 2)
        (top, top_column), (end, end_column) = selection
        self.selection = Selection((top + len(lines), top_column), (end + len(lines), end_column))

    def _selected_rows(self) -> tuple[int, int]:
        """The first and the last row of the selection; one that it only ends at the start of does not count."""
        first, last = min(self.selection)[0], max(self.selection)[0]
        return first, last - 1 if last > first and max(self.selection)[1] == 0 else last

    def _put_lines(self, first: int, last: int, lines: list[str]) -> None:
        self.replace("\n".join(lines), (first, 0), (last, len(self.document[last])))

    def action_dedent(self) -> None:
        self._change_lines(indentation.dedented)

    def action_toggle_comment(self) -> None:
        self._change_lines(indentation.comment_toggled)

    def _change_lines(self, change: indentation.Change) -> None:
        """Rewrite the selected lines, keeping the selection on the same characters."""
        selection = self.selection
        first, last = self._selected_rows()
        before = [self.document[row] for row in range(first, last + 1)]
        after = change(before)
        if after == before or self.read_only:
            return
        self._put_lines(first, last, after)

        def moved(location: tuple[int, int]) -> tuple[int, int]:
            row, column = location
            if not first <= row <= last:
                return location
            grown = len(after[row - first]) - len(before[row - first])
            return row, max(0, min(column + grown, len(after[row - first])))

        self.selection = Selection(moved(selection.start), moved(selection.end))
