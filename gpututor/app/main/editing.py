"""The part of the main screen that helps with editing: find and replace, completion, what lines cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events, on

from gpututor.app.commands import Pane
from gpututor.app.main.outside import OutsideScreen
from gpututor.app.messages import MatchWanted, NamesFound, ReplaceWanted, SearchChanged
from gpututor.errors import TutorError

if TYPE_CHECKING:
    from gpututor.app.completion.completer import Completer
    from gpututor.app.widgets.editor.find_bar import FindBar
    from gpututor.app.widgets.editor.finding import Match


class EditScreen(OutsideScreen):
    """A desk with help for who edits."""

    _bar: FindBar | None = None
    _completer: Completer | None = None
    _matches: tuple[Match, ...] = ()
    _current: int | None = None
    _searched = ""
    """The text that the matches are places of: another program may write a newer one at any moment."""
    _search_from = (0, 0)
    """Where the search begins while the needle is being typed."""
    _question = 0
    """The number of the newest question for names."""
    _after_dot = False
    """Whether that question is for attributes."""
    _told_at_cursor = ""

    @property
    def completer(self) -> Completer:
        """Made with its first use."""
        from gpututor.app.completion.completer import Completer

        if self._completer is None:
            self._completer = Completer(self.post_message)
        return self._completer

    def on_unmount(self) -> None:
        if self._completer is not None:
            self._completer.close()

    def close_help(self) -> bool:
        """Close the list of names or the find bar; False when neither was open."""
        completions = self.panes.editor.completions
        if completions.is_open:
            completions.close()
            return True
        if self._bar is None or not self._bar.is_open:
            return False
        self._bar.close()
        editor = self.panes.editor
        if self._current is not None and self._searched == self.editor_text:
            editor.move_cursor(self._matches[self._current][0])
        self._matches, self._current = (), None
        editor.show_matches((), None)
        editor.focus()
        return True

    @property
    def find_keys(self) -> tuple[tuple[str, str], ...]:
        """What the keys do while they go to the find bar; empty when they do not."""
        return self._bar.keys if self._bar is not None and self._bar.has_focus_within else ()

    def reread_file(self) -> None:
        """Show the file as it is on disk now; undo brings the text before it back."""
        if self._desk is None:
            self.load_file()
            return
        try:
            text = self._desk.read()
        except (TutorError, OSError) as error:
            self.show_error(error)
            return
        self._take(text)

    # Find and replace

    async def action_find(self) -> None:
        """Open the find bar with what is selected, or what was looked for last."""
        from gpututor.app.widgets.editor.find_bar import FindBar

        editor = self.panes.editor
        editor.completions.close()
        if self._bar is None:
            self._bar = FindBar()
            await self.query_one("#work").mount(self._bar, after=editor)
        if self.panes.current is Pane.CODE:
            # At once: letters that come right behind are the needle, not code.
            self._open_bar()
        else:
            self.show_pane(Pane.CODE)
            # Behind what gives the code the focus.
            self.panes.call_after_refresh(self.app.call_later, self._open_bar)

    def _open_bar(self) -> None:
        assert self._bar is not None
        editor = self.panes.editor
        selected = editor.selected_text
        self._search_from = min(editor.selection)
        self._bar.open(selected if "\n" not in selected else "")
        self._search()

    @on(SearchChanged)
    def _search(self) -> None:
        """Find all matches, and go to the first one from where the search began."""
        if self._look_again():
            at = next((index for index, match in enumerate(self._matches) if match[0] >= self._search_from), 0)
            self._go_to(at if self._matches else None)

    def _look_again(self) -> bool:
        """Find all matches in the text as it is now; False, and said, when that cannot be searched for."""
        from gpututor.app.widgets.editor.finding import BadPattern, find_all

        assert self._bar is not None
        self._current, self._searched = None, self.editor_text
        try:
            self._matches = tuple(find_all(self._bar.needle, self._searched))
        except BadPattern as error:
            self._matches = ()
            self._bar.show_count("not valid", nothing=True)
            self.status.show_news(str(error))
            self.panes.editor.show_matches((), None)
            return False
        self.status.show_news("")
        self._show_matches()
        return True

    def _show_matches(self) -> None:
        assert self._bar is not None
        current = None if self._current is None else self._matches[self._current]
        self.panes.editor.show_matches(self._matches, current)
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
            self.panes.editor.show_match(self._matches[index])

    @on(MatchWanted)
    def _go_on(self, message: MatchWanted) -> None:
        self._search_what_changed()
        if not self._matches:
            return
        here = self.panes.editor.cursor_location
        last = len(self._matches) - 1
        if self._current is not None:
            wanted = self._current + message.by
        elif message.by > 0:
            wanted = next((index for index, match in enumerate(self._matches) if match[0] >= here), last + 1)
        else:
            wanted = next((index for index in range(last, -1, -1) if self._matches[index][0] < here), -1)
        self._go_to(wanted % (last + 1))
        self.status.show_news(
            "On from the top." if wanted > last else "On from the end." if wanted < 0 else "",
        )

    @on(ReplaceWanted)
    def _replace(self, message: ReplaceWanted) -> None:
        from gpututor.app.widgets.editor.finding import BadPattern, replaced, replacement

        assert self._bar is not None
        self._search_what_changed()
        editor = self.panes.editor
        if editor.read_only or not self._matches:
            return
        needle, by = self._bar.needle, self._bar.replacement
        try:
            if message.all:
                text, number = replaced(needle, self.editor_text, by)
                editor.replace_all(text)
                self._look_again()
                self._bar.show_count(f"{number} replaced", nothing=False)
                return
            if self._current is None:
                self._go_on(MatchWanted(1))
                return
            start, end = self._matches[self._current]
            new = replacement(needle, self.editor_text, (start, end), by)
        except BadPattern as error:
            self.status.show_news(str(error))
            return
        editor.replace_match((start, end), new)
        self._search_from = editor.cursor_location
        self._search()

    def on_text_area_changed(self) -> None:
        self._search_what_changed()

    def _search_what_changed(self) -> None:
        """While the bar is open, find the matches of a text that is not the one that was searched."""
        if self._bar is None or not self._bar.is_open or self._searched == self.editor_text:
            return
        if self.panes.editor.has_focus:
            self._look_again()  # the cursor stays where the learner types
        else:
            self._search()

    # Completion

    async def action_complete(self) -> None:
        """Show the names that can stand at the cursor: those of the file at once, jedi's when they come."""
        from gpututor.app.completion.completer import Question
        from gpututor.app.completion.names import file_names

        editor = self.panes.editor
        if not editor.has_focus or editor.read_only:
            return
        completions = editor.completions
        if not completions.is_attached:
            await self.mount(completions)
        row, column = editor.cursor_location
        word = editor.word_before_cursor
        start = column - len(word)
        names = file_names(editor.document.lines, row, column)
        self._after_dot = editor.document[row][:start].rstrip().endswith(".")
        waiting = self.completer.is_there
        if not completions.open(names, word, (row, start), editor.cursor_screen_offset, waiting=waiting):
            self.status.show_answer("Nothing here to complete.")
        self._question += 1
        # Asked for the place where the word begins: the answer serves whatever is typed then.
        self.completer.ask(Question(self._question, self.editor_text, row + 1, start))

    @on(NamesFound)
    def _offer(self, message: NamesFound) -> None:
        completions = self.panes.editor.completions
        if message.question != self._question or not completions.is_open:
            return
        # Jedi does not know what is half written: names of the file stay, but for attributes.
        others = () if self._after_dot and message.names else completions.names
        if not completions.offer([*dict.fromkeys((*message.names, *others))], waiting=False):
            self.status.show_answer("Nothing here to complete.")

    # Costs

    def action_costs(self) -> None:
        """Show what each line cost at the editor's edge, or show it no more."""
        from gpututor.app.widgets.editor.costs import LEGEND

        editor = self.panes.editor
        if not editor.has_costs and self.panes.results.report is not None:
            self.status.show_answer(self._why_no_costs)
            return
        editor.costs_on = not editor.costs_on
        if not editor.has_costs:
            self.status.show_answer(self._why_no_costs)
        else:
            self.status.show_news(f"In all calls: {LEGEND}" if editor.costs_on else "Costs of lines are hidden.")

    @property
    def _why_no_costs(self) -> str:
        report = self.panes.results.report
        if report is None:
            return "No costs yet: a run records what each line does."
        return "No costs: the last run's file could not be run." if report.loads_nowhere else "No costs were recorded."

    def on_text_area_selection_changed(self) -> None:
        self.tell_of_line()

    def tell_of_line(self) -> None:
        """Say what there is to know of where the cursor is, unless that was said last."""
        words = self.panes.editor.words_at_cursor()
        if words != self._told_at_cursor:
            self._told_at_cursor = words
            self.status.show_news(words)

    # Lines

    def action_lines_up(self) -> None:
        self.panes.editor.action_move_lines(-1)

    def action_lines_down(self) -> None:
        self.panes.editor.action_move_lines(1)

    def action_duplicate(self) -> None:
        self.panes.editor.action_duplicate_lines()

    @on(events.Resize)
    def _close_list(self) -> None:
        if self.panes.has_editor:
            self.panes.editor.completions.close()
