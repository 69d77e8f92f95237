"""Help with editing: find and replace, completion, costs of lines."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content

from gpututor.app.commands import Pane
from gpututor.app.course_index import NAME
from gpututor.app.main.host import Host
from gpututor.app.main.panes import READING
from gpututor.errors import TutorError

if TYPE_CHECKING:
    from gpututor.app.editor.completion import Completer
    from gpututor.app.editor.editor import Editor
    from gpututor.app.editor.find import FindBar, Match
    from gpututor.app.screens.help import TextScreen


class EditorController:
    """Finds, replaces and completes in the editor, and shows the costs of its lines."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._bar: FindBar | None = None
        self._completer: Completer | None = None
        self._matches: tuple[Match, ...] = ()
        self._current: int | None = None
        self._searched = ""
        """Text in which the matches are; another program may write a newer text at any moment."""
        self._search_from = (0, 0)
        """Start of the search while the needle is being typed."""
        self._question = 0
        self._after_dot = False
        """True if that question is for attributes."""
        self._described = ""
        self._boxes: dict[int, TextScreen] = {}
        """Box of documentation that waits for the answer to the question of that number."""

    @property
    def _editor(self) -> Editor:
        return self._host.panes.editor

    def close(self) -> None:
        if self._completer is not None:
            self._completer.close()

    def close_help(self) -> bool:
        """Close the completion list or the find bar; return False if neither was open."""
        editor = self._editor
        if editor.completions.is_open:
            editor.completions.close()
            return True
        if self._bar is None or not self._bar.is_open:
            return False
        self._bar.close()
        if self._current is not None and self._searched == self._host.editor_text:
            editor.move_cursor(self._matches[self._current][0])
        self._matches, self._current = (), None
        editor.show_matches((), None)
        editor.focus()
        return True

    def leave_mode(self) -> bool:
        """Go back to Vim's NORMAL mode; return False if the editor is in it, or has no modes."""
        editor = self._editor
        return editor.has_focus and editor.vim is not None and editor.vim.escape()

    @property
    def find_keys(self) -> tuple[tuple[str, str], ...]:
        """Keys of the find bar, with what they do, while it has the focus."""
        return self._bar.keys if self._bar is not None and self._bar.has_focus_within else ()

    # Find and replace

    async def find(self) -> None:
        """Open the find bar with the selected text or the last needle."""
        self._editor.completions.close()
        await self._mount_bar()
        if self._host.panes.current is Pane.CODE:
            # Without a wait: letters typed right after the key belong to the needle, not to the code.
            self._open_bar()
        else:
            self._host.show_pane(Pane.CODE)
            # After the messages that move the focus to the code.
            self._host.panes.call_after_refresh(self._host.panes.app.call_later, self._open_bar)

    async def _mount_bar(self) -> FindBar:
        from gpututor.app.editor.find import FindBar

        if self._bar is None:
            self._bar = FindBar(self._search, self.next_match, self._replace)
            await self._host.panes.query_one("#work").mount(self._bar, after=self._editor)
        return self._bar

    def _open_bar(self) -> None:
        assert self._bar is not None
        selected = self._editor.selected_text
        self._search_from = min(self._editor.selection)
        self._bar.open(selected if "\n" not in selected else "")
        self._search()

    def _search(self) -> None:
        """Find all matches, and go to the first match after the place where the search began."""
        if self._find_all():
            at = next((index for index, match in enumerate(self._matches) if match[0] >= self._search_from), 0)
            self._go_to(at if self._matches else None)

    def _find_all(self) -> bool:
        """Find all matches in the text as it is now; report a needle that is not valid, and return False."""
        from gpututor.app.editor.find import BadPattern, find_all

        assert self._bar is not None
        self._current, self._searched = None, self._host.editor_text
        try:
            self._matches = tuple(find_all(self._bar.needle, self._searched))
        except BadPattern as error:
            self._matches = ()
            self._bar.show_count("not valid", nothing=True)
            self._host.status.show_message(str(error))
            self._editor.show_matches((), None)
            return False
        self._host.status.show_message("")
        self._show_matches()
        return True

    def _show_matches(self) -> None:
        assert self._bar is not None
        current = None if self._current is None else self._matches[self._current]
        self._editor.show_matches(self._matches, current)
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
            self._editor.show_match(self._matches[index])

    def next_match(self, by: int) -> None:
        """Go to the next match (1) or the match before (-1)."""
        self.text_changed()
        if not self._matches:
            return
        cursor = self._editor.cursor_location
        last = len(self._matches) - 1
        if self._current is not None:
            wanted = self._current + by
        elif by > 0:
            wanted = next((index for index, match in enumerate(self._matches) if match[0] >= cursor), last + 1)
        else:
            wanted = next((index for index in range(last, -1, -1) if self._matches[index][0] < cursor), -1)
        self._go_to(wanted % (last + 1))
        self._host.status.show_message(
            "Continued from the top." if wanted > last else "Continued from the end." if wanted < 0 else ""
        )

    async def find_again(self, by: int, word: str) -> None:
        """Go to the next (1) or previous (-1) match of a word, else of the last needle, with the find bar closed."""
        if word:
            (await self._mount_bar()).take_word(word)
        if self._bar is None or not self._bar.needle.text:
            self._host.status.show_reply("Nothing to find yet: press / and type a text.")
        elif self._find_all() and self._matches:
            starts, cursor = [match[0] for match in self._matches], self._editor.cursor_location
            after = [start for start in starts if start > cursor] or starts
            before = [start for start in starts if start < cursor] or starts
            self._editor.move_cursor(after[0] if by > 0 else before[-1])
        if self._bar is None or not self._bar.is_open:
            self._matches = ()
            self._editor.show_matches((), None)

    def _replace(self, all: bool) -> None:
        from gpututor.app.editor.find import BadPattern, replace_all, replacement

        assert self._bar is not None
        self.text_changed()
        editor = self._editor
        if editor.read_only or not self._matches:
            return
        needle, by = self._bar.needle, self._bar.replacement
        try:
            if all:
                text, number = replace_all(needle, self._host.editor_text, by)
                editor.replace_all(text)
                self._find_all()
                self._bar.show_count(f"{number} replaced", nothing=False)
                return
            if self._current is None:
                self.next_match(1)
                return
            match = self._matches[self._current]
            new = replacement(needle, self._host.editor_text, match, by)
        except BadPattern as error:
            self._host.status.show_message(str(error))
            return
        editor.replace_match(match, new)
        self._search_from = editor.cursor_location
        self._search()

    def text_changed(self) -> None:
        """Find the matches of a new text, while the bar is open."""
        if self._bar is None or not self._bar.is_open or self._searched == self._host.editor_text:
            return
        if self._editor.has_focus:
            self._find_all()  # the cursor stays where the learner types
        else:
            self._search()

    # Undo

    def undo(self) -> None:
        """Undo the last change, where the learner sees it."""
        self._host.show_pane(Pane.CODE)
        self._editor.action_undo()

    def redo(self) -> None:
        """Redo the change that was undone last."""
        self._host.show_pane(Pane.CODE)
        self._editor.action_redo()

    # Completion

    async def complete(self) -> None:
        """Show the names that fit at the cursor: those of the file at once, jedi's when they come."""
        from gpututor.app.editor.completion import Question, file_names, is_empty_place

        editor = self._editor
        if not editor.has_focus or editor.read_only:
            return
        row, column = editor.cursor_location
        if is_empty_place(editor.document[row][:column]):
            editor.completions.close()
            self._host.status.show_reply("Type a letter or a dot first. Then complete the name.")
            return
        if not editor.completions.is_attached:
            await self._host.panes.screen.mount(editor.completions)
        word = editor.word_before_cursor
        start = column - len(word)
        names = file_names(editor.document.lines, row, column)
        self._after_dot = editor.document[row][:start].rstrip().endswith(".")
        waiting = self._child.waiting
        if not editor.completions.open(names, word, (row, start), editor.cursor_screen_offset, waiting=waiting):
            self._host.status.show_reply("Nothing here to complete.")
        self._question += 1
        # The question is about the start of the word, so the answer stays valid while the word is typed.
        self._child.ask(Question(self._question, self._host.editor_text, row + 1, start))

    @property
    def _child(self) -> Completer:
        """The child process that reads the file and the installed packages, started with the first question."""
        from gpututor.app.editor.completion import Completer

        if self._completer is None:
            self._completer = Completer(partial(self._host.call_later, self.take_answer))
        return self._completer

    def take_answer(self, question: int, answer: tuple[str, ...]) -> None:
        """Show the answer of the child process, unless it came too late."""
        from gpututor.app.screens.help import documentation_content

        if question in self._boxes:
            self._boxes.pop(question).show(partial(documentation_content, answer))
        else:
            self.add_completions(question, answer)

    def add_completions(self, question: int, names: tuple[str, ...]) -> None:
        """Add the names that answer a question to the list."""
        completions = self._editor.completions
        if question != self._question or not completions.is_open:
            return
        # Jedi misses names in half-written code: keep the file's own names, unless the question is about attributes.
        others = () if self._after_dot and names else completions.names
        if not completions.offer([*dict.fromkeys((*names, *others))]):
            self._host.status.show_reply("Nothing here to complete.")

    # Documentation

    def show_documentation(self) -> None:
        """Show the documentation of the name at the cursor, or of the call around it, if the code is in sight.

        In a text, a name that is chosen as a link comes first.
        """
        panes = self._host.panes
        if panes.current in READING and panes.reader.chosen_target.startswith(NAME):
            self.show_documentation_of(panes.reader.chosen_target.removeprefix(NAME))
            return
        if panes.current is not Pane.CODE and not panes.are_side_by_side:
            key = self._host.letter_of("show_code")
            if panes.current in READING:
                self._host.status.show_reply(f"To explain a name: → chooses a linked one, {key} shows your code.")
            else:
                self._host.status.show_reply(f"{key} shows your code: this explains the name at its cursor.")
            return
        row, column = self._editor.cursor_location
        name = self._editor.name_at_cursor
        self._look_up(name or "Documentation", self._host.editor_text, row + 1, column)

    def show_documentation_of(self, name: str) -> None:
        """Show the documentation of a name with its module, such as `torch.cuda.synchronize`."""
        text = f"import {name.partition('.')[0]}\n{name}"
        self._look_up(name, text, 2, len(name))

    def _look_up(self, title: str, text: str, line: int, column: int) -> None:
        """Open a box at once; the child process fills it when it has the answer."""
        from gpututor.app.editor.completion import Question
        from gpututor.app.screens.help import TextScreen

        self._editor.completions.close()
        self._question += 1
        box = TextScreen(title, lambda _: Content("Looking it up …"), is_small=True)
        self._boxes = {self._question: box}
        self._host.push(box)
        if self._child.is_available:
            self._child.ask(Question(self._question, text, line, column, "documentation"))
        else:
            self._host.call_later(self.take_answer, self._question, ())

    # Size

    def close_completions(self) -> None:
        """Close the completion list, because the screen has another size."""
        if self._host.panes.has_editor:
            self._editor.completions.close()

    # Costs

    def switch_costs(self) -> None:
        """Show the cost of each line at the editor's edge, or hide it, and save that as a setting."""
        self._switch_costs()
        try:
            self._host.learner.settings.choose("costs", self._editor.costs_on)
        except TutorError as error:
            self._host.show_error(error)

    def _switch_costs(self) -> None:
        from gpututor.app.editor.line_costs import LEGEND

        editor, report = self._editor, self._host.panes.results.report
        if editor.has_costs or report is None:
            editor.costs_on = not editor.costs_on
        if editor.has_costs:
            self._host.status.show_message(
                f"In all calls: {LEGEND}" if editor.costs_on else "Costs of lines are hidden."
            )
        elif report is None:
            self._host.status.show_reply("No costs yet: a run records what each line does.")
        elif report.loads_nowhere:
            self._host.status.show_reply("No costs: the last run's file could not be run.")
        else:
            self._host.status.show_reply("No costs were recorded.")

    def describe_line(self) -> None:
        """Describe the cursor's line in the status bar, unless that was done last."""
        words = self._editor.words_at_cursor()
        if words != self._described:
            self._described = words
            self._host.status.show_message(words)

    def forget_line(self) -> None:
        """Take the description of a line out of the status bar."""
        if self._described and self._host.status.message == self._described:
            self._host.status.show_message("")
        self._described = ""

    def go_to_line(self, line: int, of: str | None = None, error: str = "") -> None:
        """Show a line of the file, or of an earlier text of it, in the code pane, and its `error` below."""
        news = ""
        if of is not None:
            from gpututor.app.editor.line_costs import map_line

            chosen = line
            line, is_there = map_line(of, self._host.editor_text, line)
            news = "" if is_there else f"Line {chosen} of that run has changed or is gone. It was here."
        self._host.show_pane(Pane.CODE)
        # Only a displayed editor knows its size, and so how far to scroll.
        self._host.call_after_refresh(self._mark_line, line, news, error)

    def _mark_line(self, line: int, news: str, error: str) -> None:
        """Go to a line; `news` says why it is not the chosen line."""
        self._editor.go_to_line(line, marked=not news)
        self.describe_line()  # the cursor may have been there before
        if news or error:
            self._described = self._editor.words_at_cursor()  # else it would replace the news
            self._host.status.show_message(news or error)
