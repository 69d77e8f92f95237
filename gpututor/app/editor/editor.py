"""The editor: a text area with Python's colors, indentation, comments and edits of whole lines."""

from __future__ import annotations

import asyncio
import re
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import TextArea
from textual.widgets.text_area import Selection

from gpututor.app.editor import python_text
from gpututor.app.editor.completion import CompletionList
from gpututor.app.editor.find import Match
from gpututor.app.editor.python_text import PARTNERS
from gpututor.app.editor.rendering import CodeArea
from gpututor.app.editor.vim import Mode, Vim
from gpututor.app.messages import EditorLeft, EditorReplied, FindRequested, ModeChanged


class Editor(CodeArea):
    """Editor of one text, without knowledge of files."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("shift+tab", "dedent", "Dedent", show=False),
        Binding("home", "smart_home", "Line start", show=False),
        Binding("ctrl+home", "text_start", "Text start", show=False),
        Binding("ctrl+end", "text_end", "Text end", show=False),
        Binding("ctrl+shift+home", "text_start(True)", "Select to text start", show=False),
        Binding("ctrl+shift+end", "text_end(True)", "Select to text end", show=False),
        # In most terminals Textual reads Alt+f and Alt+b as ctrl+right and ctrl+left; these are for the others.
        Binding("alt+f,alt+right", "cursor_word_right", "Word right", show=False),
        Binding("alt+b", "cursor_word_left", "Word left", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.completions = CompletionList()
        """Completions at the cursor; the main screen mounts the list."""
        self.vim: Vim | None = None
        """None without Vim's keys."""
        self._brought_to: tuple[int, int] | None = None
        """The place where `bring_to` put the cursor."""

    def use_vim(self, on: bool) -> None:
        """Turn Vim's keys on or off."""
        changed = lambda: self.post_message(ModeChanged())  # noqa: E731
        find = lambda by, word: self.post_message(FindRequested(by, word))  # noqa: E731
        reply = lambda sentence: self.post_message(EditorReplied(sentence))  # noqa: E731
        self.vim = Vim(self, changed, find, reply) if on else None
        self.post_message(ModeChanged())

    @property
    def mode(self) -> str:
        """Name of the Vim mode; empty without Vim's keys."""
        return self.vim.mode if self.vim is not None else ""

    @property
    def shown_mode(self) -> str:
        """The Vim mode, or what was typed after `:`; empty without Vim's keys."""
        return self.vim.command_line or self.vim.mode if self.vim is not None else ""

    def check_consume_key(self, key: str, character: str | None = None) -> bool:
        takes_text = self.vim is None or self.vim.mode is Mode.INSERT
        return takes_text and super().check_consume_key(key, character)

    def show(self, text: str) -> None:
        """Show another text, with the cursor at the start and nothing to undo."""
        self._marked_line = None
        self.show_costs({})
        self.load_text(text)
        self.move_cursor((0, 0))
        if self.vim is not None:
            self.vim.reset()

    def replace_all(self, text: str) -> None:
        """Show a newer version of the same text; the cursor stays, and the change can be undone."""
        row, column = self.cursor_location
        self.replace(text, (0, 0), self.document.end)
        row = min(row, self.document.line_count - 1)
        self.move_cursor((row, min(column, len(self.document[row]))))
        self._show_line_start()

    def go_to_line(self, line: int, *, marked: bool) -> None:
        """Put the cursor on a line, counted from 1. `marked`: a check points at it."""
        row = max(0, min(line, self.document.line_count) - 1)
        indent = len(self.document[row]) - len(self.document[row].lstrip())
        self._marked_line = row if marked else None
        self.move_cursor((row, indent))
        self._center(row)
        self.redraw()

    def _center(self, row: int, *, tries: int = 3) -> None:
        """Scroll a row to the middle, once the editor is displayed and has its size."""
        if not self.size and tries:
            self.call_after_refresh(self._center, row, tries=tries - 1)
            return
        # `center=True` would center sideways too, and hide the start of the lines.
        # Forced: an editor that was just displayed may not know that it can scroll sideways.
        self.scroll_to(x=0, y=max(0, self.y_of(row) - self.size.height // 2), animate=False, force=True)

    def bring_to(self, place: tuple[int, int]) -> None:
        """Put the cursor at a row and a column; it stays in sight when the editor gets another size."""
        self.move_cursor(place)
        self._brought_to = place
        self._scroll_to_cursor()

    def on_resize(self) -> None:
        if self._brought_to == self.cursor_location:
            self.call_after_refresh(self._scroll_to_cursor)

    def _scroll_to_cursor(self) -> None:
        """Scroll to the cursor, with the head of its function if both fit."""
        room = self.scrollable_content_region.height
        lines = self.document.lines[: self.cursor_location[0] + 1]
        head = max(
            (at for at, line in enumerate(lines) if line.startswith(("def ", "async def ", "class "))), default=0
        )
        cursor, top = self.y_of(len(lines) - 1), self.y_of(head)
        y = 0 if cursor < room - 2 else top if cursor - top < room - 3 else cursor - 2 * room // 3
        self.scroll_to(x=0, y=y, animate=False, force=True, immediate=True)
        self.scroll_cursor_visible()  # sideways, too

    def show_match(self, match: Match) -> None:
        """Put the cursor on a match, with all of it in sight."""
        start, end = match
        self.move_cursor(end)
        self.move_cursor(start)

    def replace_match(self, match: Match, text: str) -> None:
        """Replace a match, in one step for undo, and put the cursor after it."""
        self.history.checkpoint()
        self.replace(text, *match, maintain_selection_offset=False)
        self.history.checkpoint()

    async def on_key(self, event: events.Key) -> None:
        is_done = self.completions.is_open and self._complete(event.key)
        if not is_done and self.vim is not None and not self.read_only:
            is_done = self.vim.handle(event.key, event.character)
            if event.key == "escape":  # leave it to the screen: the text area would move the focus
                event.prevent_default()
                if not is_done:
                    return
        if is_done or await self._edit_by(event):
            # Textual inserts text afterwards, unless this prevents it.
            event.stop()
            event.prevent_default()

    def _complete(self, key: str) -> bool:
        """Handle a key of the open completion list; return False for other keys."""
        match key:
            case "up" | "down" | "pageup" | "pagedown":
                self.completions.move({"up": -1, "down": 1, "pageup": -6, "pagedown": 6}[key])
            case "enter" | "tab":
                name = self.completions.chosen
                self.completions.close()
                if name is None:
                    return key == "tab"
                row, column = self.cursor_location
                start = column - len(self.word_before_cursor)
                self.replace(name, (row, start), (row, column), maintain_selection_offset=False)
            case _:
                return False
        return True

    @property
    def word_before_cursor(self) -> str:
        """The part of a name that ends at the cursor."""
        row, column = self.cursor_location
        match = _WORD_END.search(self.document[row][:column])
        return match[0] if match else ""

    @property
    def name_at_cursor(self) -> str:
        """The name at the cursor with what is before its dot, such as `torch.zeros`; empty if there is none."""
        row, column = self.cursor_location
        for match in _DOTTED.finditer(self.document[row]):
            if match.start() <= column <= match.end():
                rest = match[0][column - match.start() :].partition(".")[0]
                return match[0][: column - match.start()] + rest
        return ""

    async def _edit_by(self, event: events.Key) -> bool:
        """Handle a key; return False for keys of the text area and the screen."""
        match event.key:
            case "enter" if not self.read_only:
                self._open_line()
            case "tab" if self.selection.start[0] != self.selection.end[0]:
                self._change_lines(python_text.indented)
            case "colon" if self.selection.is_empty and not self.read_only:
                self._insert_colon()
            case _ if event.character in PARTNERS and self.selection.is_empty and not self.read_only:
                self._insert_closing(event.character)
            case "escape":
                return False  # the screen stops a run, or leaves the editor
            case key if key in EDITOR_KEYS and (key.startswith("alt+") or not event.is_printable):
                # Run it now. Textual looks up bindings only after the event has reached the app. Letters typed right
                # after the key would be inserted before that.
                await self.run_action(EDITOR_KEYS[key].action)
            case _:
                return False
        return True

    async def caught_up(self) -> None:
        """Wait until all keys sent to the editor so far are handled. The editor itself must not call this."""
        done = asyncio.Event()
        if self.call_later(done.set):
            await done.wait()

    def _insert(self, text: str) -> None:
        start, end = sorted((self.selection.start, self.selection.end))
        self.replace(text, start, end, maintain_selection_offset=False)
        self.scroll_cursor_visible()

    def _open_line(self) -> None:
        row, column = min(self.selection)
        before, after = self.document[row][:column], self.document[row][column:]
        indent = python_text.after_line(before, self.document.lines[:row])
        if not (self.selection.is_empty and PARTNERS.get(after[:1]) == before[-1:]):
            self._insert("\n" + indent)
            return
        # Between two brackets: the closing one gets a line of its own.
        self._insert(f"\n{indent}\n{python_text.indent_of(before)}")
        self.move_cursor((row + 1, len(indent)))

    def _insert_closing(self, bracket: str) -> None:
        row, column = self.cursor_location
        line = self.document[row]
        closed = python_text.closing_dedented(self.document.lines[:row], line[:column], bracket)
        self._end_line(bracket, closed, alone=not line.strip())

    def _insert_colon(self) -> None:
        row, column = self.cursor_location
        line = self.document[row]
        ended = python_text.clause_dedented(self.document.lines[:row], line[:column] + ":")
        self._end_line(":", ended, alone=not line[column:].strip())

    def _end_line(self, letter: str, ended: str, *, alone: bool) -> None:
        """Insert a letter; if it ends its line `alone`, replace all before the cursor by `ended`."""
        row, column = self.cursor_location
        if not alone or ended == self.document[row][:column] + letter:
            self._insert(letter)
        else:
            self.replace(ended, (row, 0), (row, column), maintain_selection_offset=False)

    def on_paste(self, event: events.Paste) -> None:
        event.stop()  # the app would give the clipboard's text back to the editor
        text = python_text.without_leading_tabs(event.text)
        if text != event.text and not self.read_only:
            event.text = text  # Textual inserts it later
            self.post_message(EditorReplied("Each tab at the start of a line became four spaces."))

    def action_copy(self) -> None:
        if self.selection.is_empty:
            self.post_message(EditorReplied("Nothing is selected. Alt+a selects all, Shift+arrows a part."))
        else:
            super().action_copy()

    async def action_paste(self) -> None:  # type: ignore[override]  # Textual awaits what an action returns
        await self.on_event(events.Paste(self.app.clipboard))

    def action_delete_left(self) -> None:
        row, column = self.cursor_location
        before = self.document[row][:column]
        target = python_text.column_before(before)
        if self.read_only or not self.selection.is_empty or column - target < 2:
            super().action_delete_left()
            return
        self.replace("", (row, target), (row, column), maintain_selection_offset=False)

    # Edits of whole lines, which keep the selection on the same characters

    def action_move_lines_up(self) -> None:
        self._move_lines(-1)

    def action_move_lines_down(self) -> None:
        self._move_lines(1)

    def _move_lines(self, by: int) -> None:
        first, last = self._selected_rows()
        first, last = min(first, first + by), max(last, last + by)
        if self.read_only or first < 0 or last >= self.document.line_count:
            return
        lines = self.document.lines[first : last + 1]
        self._put_lines(first, last, [*lines[1:], lines[0]] if by < 0 else [lines[-1], *lines[:-1]], by)

    def action_duplicate_lines(self) -> None:
        if not self.read_only:
            first, last = self._selected_rows()
            lines = self.document.lines[first : last + 1]
            self._put_lines(first, last, [*lines, *lines], len(lines))

    def _put_lines(self, first: int, last: int, lines: list[str], down: int) -> None:
        """Replace rows, and move the selection down."""
        (top, top_column), (end, end_column) = self.selection
        self.replace("\n".join(lines), (first, 0), (last, len(self.document[last])))
        self.selection = Selection((top + down, top_column), (end + down, end_column))

    def action_dedent(self) -> None:
        self._change_lines(python_text.dedented)

    def action_toggle_comment(self) -> None:
        self._change_lines(python_text.comment_toggled)

    def _change_lines(self, change: python_text.Change) -> None:
        """Rewrite the selected lines, or the cursor's."""
        selection = self.selection
        first, last = self._selected_rows()
        before = list(self.document.lines[first : last + 1])
        after = change(before)
        if after == before or self.read_only:
            return
        self.replace("\n".join(after), (first, 0), (last, len(self.document[last])))

        def moved(location: tuple[int, int]) -> tuple[int, int]:
            row, column = location
            if not first <= row <= last:
                return location
            grown = len(after[row - first]) - len(before[row - first])
            return row, max(0, min(column + grown, len(after[row - first])))

        self.selection = Selection(moved(selection.start), moved(selection.end))

    def _selected_rows(self) -> tuple[int, int]:
        """Return the first and the last row of the selection, without a row at whose start it ends."""
        (first, _), (last, column) = sorted(self.selection)
        return first, last - 1 if last > first and column == 0 else last

    def action_text_start(self, select: bool = False) -> None:
        self.move_cursor((0, 0), select=select)

    def action_text_end(self, select: bool = False) -> None:
        self.move_cursor(self.document.end, select=select)

    def action_smart_home(self) -> None:
        row, column = self.cursor_location
        target = self.get_cursor_line_start_location(smart_home=True)
        indent = len(python_text.indent_of(self.document[row]))
        if target == (row, 0) and (column == 0 or column > indent):
            target = (row, indent)  # Textual forgets the indent of a line that wraps
        self.move_cursor(target)
        self._show_line_start()

    def _show_line_start(self) -> None:
        """Scroll back to the start of the line if the cursor stays in sight: code is hard to read without it."""
        row, column = self.cursor_location
        width = self.scrollable_content_region.width - self.gutter_width
        # The text area keeps two columns free after the cursor.
        line = self.document[row]
        if self._cells(line[:column]) + 3 <= width or column <= len(python_text.indent_of(line)):
            # Only after the refresh has the text area scrolled to the cursor.
            self.call_after_refresh(self.scroll_to, x=0, animate=False)

    def on_text_area_changed(self) -> None:
        if self._marked_line is not None:
            self._marked_line = None
            self.redraw()
        self.mark_brackets()

    def on_text_area_selection_changed(self) -> None:
        self.mark_brackets()
        if self.scroll_offset.x and self.selection.is_empty:
            self._show_line_start()
        if self.completions.is_open:
            word = self.word_before_cursor
            row, column = self.cursor_location
            self.completions.follow(word, (row, column - len(word)))

    def on_blur(self) -> None:
        self.completions.close()
        self.post_message(EditorLeft())


_WORD_END = re.compile(r"(?<!\w)(?!\d)\w+$")
_DOTTED = re.compile(r"(?<!\w)(?!\d)\w+(?:\.\w+)*")
EDITOR_KEYS = {binding.key: binding for binding in Binding.make_bindings([*TextArea.BINDINGS, *Editor.BINDINGS])}
"""Binding of each key; the editor's own bindings come last and win. Keys with priority never get here."""
