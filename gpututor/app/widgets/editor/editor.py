"""The editor: a text area with Python's colours, indentation and comments."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import TextArea

from gpututor.app.messages import EditorLeft, TabsReplaced
from gpututor.app.widgets.editor import indentation
from gpututor.app.widgets.editor.colours import KINDS, Span, python_spans


class Editor(TextArea):
    """Edits one text. Knows nothing of files."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("shift+tab", "dedent", "Dedent", show=False),
        Binding("ctrl+underscore,f11", "toggle_comment", "Comment", show=False),
        Binding("home", "smart_home", "Line start", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {*(f"code--{kind}" for kind in KINDS), "code--marked"}

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(
            id=id, soft_wrap=False, tab_behavior="indent", show_line_numbers=True, max_checkpoints=200, compact=True
        )
        self._colours_on = False
        self._coloured_text = ""
        self._spans: list[tuple[Span, ...]] = []
        self._marked_line: int | None = None

    def show(self, text: str) -> None:
        """Put another text in, with the cursor at the start and nothing to undo."""
        self._marked_line = None
        self.load_text(text)
        self.move_cursor((0, 0))

    def replace_all(self, text: str) -> None:
        """Put a newer version of the same text in; the cursor stays where it was and the change can be undone."""
        row, column = self.cursor_location
        self.replace(text, (0, 0), self.document.end)
        row = min(row, self.document.line_count - 1)
        self.move_cursor((row, min(column, len(self.document[row]))))
        self._show_line_start()

    def turn_colours_on(self) -> None:
        """Colours cost an import, so they come after the first paint."""
        self._colours_on = True
        self.refresh()

    def go_to_line(self, line: int, *, marked: bool) -> None:
        """Put the cursor on a line, counted from 1, and mark it as the one that a check pointed at."""
        row = max(0, min(line, self.document.line_count) - 1)
        indent = len(self.document[row]) - len(self.document[row].lstrip())
        self._marked_line = row if marked else None
        self.move_cursor((row, indent))
        # `center=True` would centre sideways too, and hide how the lines begin.
        self.scroll_to(x=0, y=max(0, row - self.size.height // 2), animate=False)
        self.refresh()

    def get_line(self, line_index: int) -> Text:
        line = super().get_line(line_index)
        if self._colours_on:
            for start, end, kind in self._line_spans(line_index):
                line.stylize(self.get_component_rich_style(f"code--{kind}", partial=True), start, end)
        if line_index == self._marked_line:
            line.stylize(self.get_component_rich_style("code--marked", partial=True))
        return line

    def _line_spans(self, line_index: int) -> tuple[Span, ...]:
        # `lines` is a list that edits change in place; joining 200 lines costs 5 µs and tells whether anything changed.
        lines = self.document.lines
        text = "\n".join(lines)
        if text != self._coloured_text or not self._spans:
            self._coloured_text = text
            self._spans = python_spans(lines)
        return self._spans[line_index] if line_index < len(self._spans) else ()

    async def _on_key(self, event: events.Key) -> None:
        match event.key:
            case "enter" if not self.read_only:
                event.stop()
                event.prevent_default()
                row, column = self.selection.start if self.selection.start < self.selection.end else self.selection.end
                self._insert("\n" + indentation.after_line(self.document[row][:column]))
            case "tab" if self.selection.start[0] != self.selection.end[0]:
                event.stop()
                event.prevent_default()
                self._change_lines(indentation.indented)
            case "colon" if self.selection.is_empty and not self.read_only:
                event.stop()
                event.prevent_default()
                self._insert_colon()
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

    def action_dedent(self) -> None:
        self._change_lines(indentation.dedented)

    def action_toggle_comment(self) -> None:
        self._change_lines(indentation.comment_toggled)

    def action_smart_home(self) -> None:
        self.move_cursor(self.get_cursor_line_start_location(smart_home=True))
        self._show_line_start()

    def _show_line_start(self) -> None:
        """Scroll back sideways where the cursor stays in sight: a line without its start cannot be read."""
        row, column = self.cursor_location
        width = self.scrollable_content_region.width - self.gutter_width
        if column < width or column <= len(indentation.indent_of(self.document[row])):
            # Only after the refresh is the cursor where it belongs, and the text area has scrolled to it.
            self.call_after_refresh(self.scroll_to, x=0, animate=False)

    def _change_lines(self, change: indentation.Change) -> None:
        """Rewrite the selected lines, keeping the selection on the same characters."""
        selection = self.selection
        first, last = sorted((selection.start[0], selection.end[0]))
        if last > first and max(selection.start, selection.end)[1] == 0:
            last -= 1
        before = [self.document[row] for row in range(first, last + 1)]
        after = change(before)
        if after == before:
            return
        self.replace("\n".join(after), (first, 0), (last, len(before[-1])))

        def moved(location: tuple[int, int]) -> tuple[int, int]:
            row, column = location
            if not first <= row <= last:
                return location
            grown = len(after[row - first]) - len(before[row - first])
            return row, max(0, min(column + grown, len(after[row - first])))

        self.selection = type(selection)(moved(selection.start), moved(selection.end))

    def on_text_area_changed(self) -> None:
        if self._marked_line is not None:
            self._marked_line = None
            self.refresh()

    def on_blur(self) -> None:
        self.post_message(EditorLeft())


_ACTIONS = {binding.key: binding.action for binding in Binding.make_bindings([*TextArea.BINDINGS, *Editor.BINDINGS])}
"""What each bound key does in the editor; its own bindings come last and win. Keys with priority never get here."""
