"""The editor: a text area with Python's colours, indentation and comments."""

from __future__ import annotations

import asyncio
import re
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import TextArea

from gpututor.app.messages import EditorLeft, TabsReplaced
from gpututor.app.widgets.editor import indentation
from gpututor.app.widgets.editor.brackets import PARTNERS
from gpututor.app.widgets.editor.completion_list import CompletionList
from gpututor.app.widgets.editor.finding import Match
from gpututor.app.widgets.editor.whole_lines import LinesArea


class Editor(LinesArea):
    """Edits one text. Knows nothing of files."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("shift+tab", "dedent", "Dedent", show=False),
        Binding("ctrl+underscore,f11", "toggle_comment", "Comment", show=False),
        Binding("home", "smart_home", "Line start", show=False),
        Binding("ctrl+home", "text_start", "Text start", show=False),
        Binding("ctrl+end", "text_end", "Text end", show=False),
        Binding("ctrl+shift+home", "text_start(True)", "Select to text start", show=False),
        Binding("ctrl+shift+end", "text_end(True)", "Select to text end", show=False),
        Binding("alt+up", "move_lines(-1)", "Lines up", show=False),
        Binding("alt+down", "move_lines(1)", "Lines down", show=False),
        Binding("alt+shift+down,shift+alt+down", "duplicate_lines", "Duplicate", show=False),
        # Most terminals send for Alt+f and Alt+b what Textual takes for ctrl+right and ctrl+left; some name these keys.
        Binding("alt+f,alt+right", "cursor_word_right", "Word right", show=False),
        Binding("alt+b", "cursor_word_left", "Word left", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.completions = CompletionList()
        """What can stand at the cursor; whoever shows it puts it on the screen."""

    def show(self, text: str) -> None:
        """Put another text in, with the cursor at the start and nothing to undo."""
        self._marked_line = None
        self.show_costs({})
        self.load_text(text)
        self.move_cursor((0, 0))

    def replace_all(self, text: str) -> None:
        """Put a newer version of the same text in; the cursor stays where it was and the change can be undone."""
        row, column = self.cursor_location
        self.replace(text, (0, 0), self.document.end)
        row = min(row, self.document.line_count - 1)
        self.move_cursor((row, min(column, len(self.document[row]))))
        self._show_line_start()

    def go_to_line(self, line: int, *, marked: bool) -> None:
        """Put the cursor on a line, counted from 1, and mark it as the one that a check pointed at."""
        row = max(0, min(line, self.document.line_count) - 1)
        indent = len(self.document[row]) - len(self.document[row].lstrip())
        self._marked_line = row if marked else None
        self.move_cursor((row, indent))
        # `center=True` would centre sideways too, and hide how the lines begin.
        # Forced: an editor that is only being shown does not know yet that it can scroll sideways.
        self.scroll_to(x=0, y=max(0, row - self.size.height // 2), animate=False, force=True)
        self.redraw()

    def scroll_to_cursor(self) -> None:
        """Scroll to where the cursor is, with more above it than below: the head of the function is there.

        What an editor that was not displayed scrolled to means nothing.
        """
        row, room = self.cursor_location[0], self.scrollable_content_region.height
        y = 0 if row < room - 2 else row - 2 * room // 3
        self.scroll_to(x=0, y=y, animate=False, force=True, immediate=True)
        self.scroll_cursor_visible()  # sideways, too

    def show_match(self, match: Match) -> None:
        """Put the cursor on what was found, with all of it in sight."""
        start, end = match
        self.move_cursor(end)
        self.move_cursor(start)

    def replace_match(self, match: Match, text: str) -> None:
        """Put a text in place of what was found: one step to undo, with the cursor behind it."""
        self.history.checkpoint()
        self.replace(text, *match, maintain_selection_offset=False)
        self.history.checkpoint()

    async def _on_key(self, event: events.Key) -> None:
        if self.completions.is_open and self._complete(event.key):
            event.stop()
            event.prevent_default()
            return
        await self._edit_by(event)

    def _complete(self, key: str) -> bool:
        """Answer a key of the open list; False for the keys that mean what they always do."""
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
        found = _WORD_END.search(self.document[row][:column])
        return found[0] if found else ""

    def _follow_word(self) -> None:
        if self.completions.is_open:
            word = self.word_before_cursor
            row, column = self.cursor_location
            self.completions.follow(word, (row, column - len(word)))

    async def _edit_by(self, event: events.Key) -> None:
        match event.key:
            case "enter" if not self.read_only:
                event.stop()
                event.prevent_default()
                self._open_line()
            case "tab" if self.selection.start[0] != self.selection.end[0]:
                event.stop()
                event.prevent_default()
                self._change_lines(indentation.indented)
            case "colon" if self.selection.is_empty and not self.read_only:
                event.stop()
                event.prevent_default()
                self._insert_colon()
            case _ if event.character in PARTNERS and self.selection.is_empty and not self.read_only:
                event.stop()
                event.prevent_default()
                self._insert_closing(event.character)
            case key if key.startswith("alt+"):
                await self._act_on(event)  # the letter that terminals send with it is no text
            case "escape":
                # The screen's business: it stops a run or leaves the editor.
                return
            case _:
                await super()._on_key(event)
                await self._act_on(event)

    async def _act_on(self, event: events.Key) -> None:
        """Do what a bound key does here and now.

        Textual would look its binding up only when the event has gone up through all the message queues to the app:
        letters that came behind it in the same moment would be inserted before it acts.
        """
        action = _ACTIONS.get(event.key)
        if action is not None:
            event.stop()
            event.prevent_default()
            await self.run_action(action)

    async def caught_up(self) -> None:
        """Wait until all the keys that were sent here so far have acted. Not to be called by the editor itself."""
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
        indent = indentation.after_line(before, self.document.lines[:row])
        if not (self.selection.is_empty and PARTNERS.get(after[:1]) == before[-1:]):
            self._insert("\n" + indent)
            return
        # Between two brackets: the closing one gets a line of its own.
        self._insert(f"\n{indent}\n{indentation.indent_of(before)}")
        self.move_cursor((row + 1, len(indent)))

    def _insert_closing(self, bracket: str) -> None:
        row, column = self.cursor_location
        line = self.document[row]
        if line.strip():
            self._insert(bracket)
            return
        closed = indentation.closing_dedented(self.document.lines[:row], line[:column], bracket)
        self.replace(closed, (row, 0), (row, column), maintain_selection_offset=False)

    def _insert_colon(self) -> None:
        row, column = self.cursor_location
        line = self.document[row]
        if line[column:].strip():
            self._insert(":")
            return
        above = [self.document[earlier] for earlier in range(row)]
        ended = indentation.clause_dedented(above, line[:column] + ":")
        if ended == line[:column] + ":":
            self._insert(":")
        else:
            self.replace(ended, (row, 0), (row, column), maintain_selection_offset=False)

    async def _on_paste(self, event: events.Paste) -> None:
        text = indentation.without_leading_tabs(event.text)
        if text == event.text or self.read_only:
            return  # Textual inserts it
        event.stop()
        event.prevent_default()
        await super()._on_paste(events.Paste(text))
        self.post_message(TabsReplaced())

    async def action_paste(self) -> None:  # type: ignore[override]  # Textual awaits what an action returns
        await self.on_event(events.Paste(self.app.clipboard))

    def action_delete_left(self) -> None:
        row, column = self.cursor_location
        before = self.document[row][:column]
        target = indentation.column_before(before)
        if self.read_only or not self.selection.is_empty or column - target < 2:
            super().action_delete_left()
            return
        self.replace("", (row, target), (row, column), maintain_selection_offset=False)

    def action_text_start(self, select: bool = False) -> None:
        self.move_cursor((0, 0), select=select)

    def action_text_end(self, select: bool = False) -> None:
        self.move_cursor(self.document.end, select=select)

    def action_smart_home(self) -> None:
        self.move_cursor(self.get_cursor_line_start_location(smart_home=True))
        self._show_line_start()

    def _show_line_start(self) -> None:
        """Scroll back sideways where the cursor stays in sight: a line without its start cannot be read."""
        row, column = self.cursor_location
        width = self.scrollable_content_region.width - self.gutter_width
        # The text area keeps two columns free behind the cursor.
        if self._cells(self.document[row][:column]) + 3 <= width or column <= len(
            indentation.indent_of(self.document[row])
        ):
            # Only after the refresh is the cursor where it belongs, and the text area has scrolled to it.
            self.call_after_refresh(self.scroll_to, x=0, animate=False)

    def on_text_area_changed(self) -> None:
        if self._marked_line is not None:
            self._marked_line = None
            self.redraw()
        self.look_at_brackets()

    def on_text_area_selection_changed(self) -> None:
        self.look_at_brackets()
        if self.scroll_offset.x and self.selection.is_empty:
            self._show_line_start()
        self._follow_word()

    def on_blur(self) -> None:
        self.completions.close()
        self.post_message(EditorLeft())


_WORD_END = re.compile(r"(?<!\w)(?!\d)\w+$")
"""A name at the end of a line."""
_ACTIONS = {binding.key: binding.action for binding in Binding.make_bindings([*TextArea.BINDINGS, *Editor.BINDINGS])}
"""What each bound key does in the editor; its own bindings come last and win. Keys with priority never get here."""
