"""Help with editing: find and replace, completion, costs of lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from textual.widget import AwaitMount, Widget

from gpututor.app.commands import Pane
from gpututor.app.main.host import Host
from gpututor.app.messages import LineChosen, MatchWanted, NamesFound, ReplaceWanted
from gpututor.errors import TutorError

if TYPE_CHECKING:
    from gpututor.app.editor.completion import Completer
    from gpututor.app.editor.find import FindBar, Match


class EditorHost(Host, Protocol):
    """A screen with an editor."""

    def mount(self, *widgets: Widget) -> AwaitMount: ...


class EditorController:
    """Finds, replaces and completes in the editor, and names the costs of its lines."""

    def __init__(self, host: EditorHost) -> None:
        self._host = host
        self._bar: FindBar | None = None
        self._completer: Completer | None = None
        self._matches: tuple[Match, ...] = ()
        self._current: int | None = None
        self._searched = ""
        """The text of the matches: another program may write a newer one at any moment."""
        self._search_from = (0, 0)
        """Start of the search while the needle is being typed."""
        self._question = 0
        """The number of the newest question for names."""
        self._after_dot = False
        """True if that question is for attributes."""
        self._told_at_cursor = ""

    @property
    def completer(self) -> Completer:
        """Completes names in a process of its own; made with its first use."""
        from gpututor.app.editor.completion import Completer

        if self._completer is None:
            self._completer = Completer(self._host.post_message)
        return self._completer

    def close(self) -> None:
        """End the process that completes."""
        if self._completer is not None:
            self._completer.close()

    def close_help(self) -> bool:
        """Close the list of names or the find bar; return False when neither was open."""
        completions = self._host.panes.editor.completions
        if completions.is_open:
            completions.close()
            return True
        if self._bar is None or not self._bar.is_open:
            return False
        self._bar.close()
        editor = self._host.panes.editor
        if self._current is not None and self._searched == self._host.editor_text:
            editor.move_cursor(self._matches[self._current][0])
        self._matches, self._current = (), None
        editor.show_matches((), None)
        editor.focus()
        return True

    @property
    def find_keys(self) -> tuple[tuple[str, str], ...]:
        """Keys of the find bar while it has them, with what they do; empty else."""
        return self._bar.keys if self._bar is not None and self._bar.has_focus_within else ()

    # Find and replace

    async def find(self) -> None:
        """Open the find bar with what is selected, or what was looked for last."""
        from gpututor.app.editor.find import FindBar

        editor = self._host.panes.editor
        editor.completions.close()
        if self._bar is None:
            self._bar = FindBar()
            await self._host.panes.query_one("#work").mount(self._bar, after=editor)
        if self._host.panes.current is Pane.CODE:
            # At once: letters that come right behind are the needle, not code.
            self._open_bar()
        else:
            self._host.show_pane(Pane.CODE)
            # Behind what gives the code the focus.
            self._host.panes.call_after_refresh(self._host.panes.app.call_later, self._open_bar)

    def _open_bar(self) -> None:
        assert self._bar is not None
        editor = self._host.panes.editor
        selected = editor.selected_text
        self._search_from = min(editor.selection)
        self._bar.open(selected if "\n" not in selected else "")
        self.search()

    def search(self) -> None:
        """Find all matches, and go to the first one from where the search began."""
        if self._look_again():
            at = next((index for index, match in enumerate(self._matches) if match[0] >= self._search_from), 0)
            self._go_to(at if self._matches else None)

    def _look_again(self) -> bool:
        """Find all matches in the text as it is now; False, and said, when that cannot be searched for."""
        from gpututor.app.editor.find import BadPattern, find_all

        assert self._bar is not None
        self._current, self._searched = None, self._host.editor_text
        try:
            self._matches = tuple(find_all(self._bar.needle, self._searched))
        except BadPattern as error:
            self._matches = ()
            self._bar.show_count("not valid", nothing=True)
            self._host.status.show_news(str(error))
            self._host.panes.editor.show_matches((), None)
            return False
        self._host.status.show_news("")
        self._show_matches()
        return True

    def _show_matches(self) -> None:
        assert self._bar is not None
        current = None if self._current is None else self._matches[self._current]
        self._host.panes.editor.show_matches(self._matches, current)
        number = len(self._matches)
        if self._current is not None:
            self._bar.show_count(f"{self._current + 1} of {number}", nothing=False)
        elif number:
            self._bar.show_count(f"{number} found", nothing=False)
        else:
            self._bar.show_count("none" if self._bar.needle.text else "", nothing=bool(self._bar.needle.text))

    def _go_to(self, index: int | None) -> None:
        self._current = index
        self._show_matches()
        if index is not None:
            self._host.panes.editor.show_match(self._matches[index])

    def go_on(self, message: MatchWanted) -> None:
        """Go to the next match, or to the one before."""
        self.search_what_changed()
        if not self._matches:
            return
        here = self._host.panes.editor.cursor_location
        last = len(self._matches) - 1
        if self._current is not None:
            wanted = self._current + message.by
        elif message.by > 0:
            wanted = next((index for index, match in enumerate(self._matches) if match[0] >= here), last + 1)
        else:
            wanted = next((index for index in range(last, -1, -1) if self._matches[index][0] < here), -1)
        self._go_to(wanted % (last + 1))
        self._host.status.show_news(
            "On from the top." if wanted > last else "On from the end." if wanted < 0 else "",
        )

    def replace(self, message: ReplaceWanted) -> None:
        """Replace the current match, or all."""
        from gpututor.app.editor.find import BadPattern, replaced, replacement

        assert self._bar is not None
        self.search_what_changed()
        editor = self._host.panes.editor
        if editor.read_only or not self._matches:
            return
        needle, by = self._bar.needle, self._bar.replacement
        try:
            if message.all:
                text, number = replaced(needle, self._host.editor_text, by)
                editor.replace_all(text)
                self._look_again()
                self._bar.show_count(f"{number} replaced", nothing=False)
                return
            if self._current is None:
                self.go_on(MatchWanted(1))
                return
            start, end = self._matches[self._current]
            new = replacement(needle, self._host.editor_text, (start, end), by)
        except BadPattern as error:
            self._host.status.show_news(str(error))
            return
        editor.replace_match((start, end), new)
        self._search_from = editor.cursor_location
        self.search()

    def search_what_changed(self) -> None:
        """While the bar is open, find the matches of a text that was not searched yet."""
        if self._bar is None or not self._bar.is_open or self._searched == self._host.editor_text:
            return
        if self._host.panes.editor.has_focus:
            self._look_again()  # the cursor stays where the learner types
        else:
            self.search()

    # Completion

    async def complete(self) -> None:
        """Show the names that can stand at the cursor: those of the file at once, jedi's when they come."""
        from gpututor.app.editor.completion import Question, file_names

        editor = self._host.panes.editor
        if not editor.has_focus or editor.read_only:
            return
        completions = editor.completions
        if not completions.is_attached:
            await self._host.mount(completions)
        row, column = editor.cursor_location
        word = editor.word_before_cursor
        start = column - len(word)
        names = file_names(editor.document.lines, row, column)
        self._after_dot = editor.document[row][:start].rstrip().endswith(".")
        waiting = self.completer.is_there
        if not completions.open(names, word, (row, start), editor.cursor_screen_offset, waiting=waiting):
            self._host.status.show_answer("Nothing here to complete.")
        self._question += 1
        # Asked for the place where the word begins: the answer serves whatever is typed then.
        self.completer.ask(Question(self._question, self._host.editor_text, row + 1, start))

    def offer(self, message: NamesFound) -> None:
        """Add the names that have come to the list."""
        completions = self._host.panes.editor.completions
        if message.question != self._question or not completions.is_open:
            return
        # Jedi does not know what is half written: names of the file stay, but for attributes.
        others = () if self._after_dot and message.names else completions.names
        if not completions.offer([*dict.fromkeys((*message.names, *others))], waiting=False):
            self._host.status.show_answer("Nothing here to complete.")

    # Costs

    def switch_costs(self) -> None:
        """Show the cost of each line at the editor's edge, or hide it, from now on."""
        self._switch_costs()
        try:
            self._host.learner.settings.choose("costs", self._host.panes.editor.costs_on)
        except TutorError as error:
            self._host.show_error(error)

    def _switch_costs(self) -> None:
        from gpututor.app.editor.line_costs import LEGEND

        editor = self._host.panes.editor
        if not editor.has_costs and self._host.panes.results.report is not None:
            self._host.status.show_answer(self._why_no_costs)
            return
        editor.costs_on = not editor.costs_on
        if not editor.has_costs:
            self._host.status.show_answer(self._why_no_costs)
        else:
            self._host.status.show_news(f"In all calls: {LEGEND}" if editor.costs_on else "Costs of lines are hidden.")

    @property
    def _why_no_costs(self) -> str:
        report = self._host.panes.results.report
        if report is None:
            return "No costs yet: a run records what each line does."
        return "No costs: the last run's file could not be run." if report.loads_nowhere else "No costs were recorded."

    def tell_of_line(self) -> None:
        """Say what is known of the cursor's line, unless that was said last."""
        words = self._host.panes.editor.words_at_cursor()
        if words != self._told_at_cursor:
            self._told_at_cursor = words
            self._host.status.show_news(words)

    # Lines

    def go_to_line(self, message: LineChosen) -> None:
        """Show a line of the file, or of an earlier text of it, in the code pane."""
        line, is_there = message.line, True
        if message.of is not None:
            from gpututor.app.editor.line_costs import map_line

            line, is_there = map_line(message.of, self._host.editor_text, line)
        self._host.show_pane(Pane.CODE)
        gone = "" if is_there else f"Line {message.line} of that run was changed or removed since. It stood here."
        # Only a displayed editor knows its size, and so how far to scroll.
        self._host.call_after_refresh(self._mark_line, line, gone)

    def _mark_line(self, line: int, gone: str) -> None:
        """Go to a line; `gone`: why it is not the line that was chosen."""
        self._host.panes.editor.go_to_line(line, marked=not gone)
        self.tell_of_line()  # the cursor may have been there before
        if gone:
            self._told_at_cursor = self._host.panes.editor.words_at_cursor()  # which would replace these
            self._host.status.show_news(gone)

    def move_lines_up(self) -> None:
        self._host.panes.editor.action_move_lines(-1)

    def move_lines_down(self) -> None:
        self._host.panes.editor.action_move_lines(1)

    def close_list(self) -> None:
        """Close the list of names: the screen has another size."""
        if self._host.panes.has_editor:
            self._host.panes.editor.completions.close()
