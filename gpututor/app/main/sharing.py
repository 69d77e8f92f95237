"""The part of the main screen that knows that others may change the learner's file: another editor, git, a sync."""

from __future__ import annotations

from collections.abc import Callable

from textual import events, on

from gpututor.app.desk import Conflict, Desk, Gone, Kept, Reloaded
from gpututor.app.main.saving import SAVE_AFTER_S, SAVE_AT_LATEST_S, DeskScreen, in_words
from gpututor.errors import TutorError

Then = Callable[[], object]
"""The command that had to wait for an answer."""

CONFLICT = "The file changed on disk and in the editor"
CONFLICT_TEXT = (
    "Another program changed it while you had edits here. Whichever you do not take is kept in .backups.\n\n"
    "Esc leaves it for later; until then nothing is saved."
)
DRAFT = "There is text here that was not saved last time"
DRAFT_TEXT = (
    "It could not be written into the file, and was kept apart. Whichever you do not take is kept in .backups.\n\n"
    "Esc takes what the file holds."
)
ASK_AFTER_S = 1.0
"""How long the keys must rest before a question comes that nobody asked for: the next letter would answer it."""
LOOKS_BEFORE_TELLING = 2
"""Other editors take a file away for a moment when they save: only what stays wrong is told."""


class SharingScreen(DeskScreen):
    """A desk whose file is not its own."""

    _asking = False
    """Whether a question about the file is open."""
    _waiting: tuple[Then, ...] = ()
    """What goes on after the answer, in the order in which it was asked for."""
    _put_off: str | None = None
    """A file's text in a conflict that the learner did not want to decide yet."""
    _undecided: tuple[str, TutorError] | None = None
    """The file's text and why the answer about a draft was of no effect: nothing is saved over it until one is."""
    _looks_in_vain = 0
    """How often in a row the file was not there, or could not be read."""
    _is_gone = False
    _is_unreadable = False
    """Whether the file could not be opened, so that there is nothing to edit."""

    # Looking

    def tick(self) -> None:
        """Look at the file, and save edits that have rested."""
        if self._asking or not self.is_current:
            return
        if self._desk is None:
            self._try_to_open()
            return
        try:
            self._look(unasked=True)
        except (TutorError, OSError) as error:
            self._looks_in_vain += 1
            if self._looks_in_vain >= LOOKS_BEFORE_TELLING:
                self.tell_of_file(error)
        if self._asking or self._first_edit_at is None:
            return
        now = self._clock()
        if now - self._last_edit_at >= SAVE_AFTER_S or now - self._first_edit_at >= SAVE_AT_LATEST_S:
            self.save()

    @on(events.ScreenResume)
    def _look_at_once(self) -> None:
        self.tick()

    def _look(self, *, unasked: bool = False) -> None:
        """Take what others did to the file, or ask. Raises `WorkspaceError` or `OSError` for what cannot be read.

        `unasked`: no command of the learner's waits for it, and who is typing is not asked under the fingers.
        """
        assert self._desk is not None
        change = self._desk.look(self.editor_text)
        if isinstance(change, Kept):
            self.status.show_news(f"Another program wrote the file as it was saved. Kept: .backups/{change.path.name}")
            return
        if isinstance(change, Gone):
            self._looks_in_vain += 1
            if self._looks_in_vain >= LOOKS_BEFORE_TELLING and not self._is_gone:
                self._is_gone = True
                self.status.show_news("Another program removed your file. ^s writes it anew.")
                self.show_standing()
            return
        if self._looks_in_vain:
            self._is_well_again()
        match change:
            case Reloaded(text):
                self._take(text)
                self.status.show_news("Reloaded: another program changed the file.")
            case Conflict(theirs) if theirs != self._put_off:
                if unasked and self._clock() - self._last_edit_at < ASK_AFTER_S:
                    self.status.show_news("It changed on disk too: you are asked when your keys rest.")
                    return
                self.status.show_news("")
                self._ask_about(theirs)
            case _:
                return

    def _try_to_open(self) -> None:
        """See whether a file that could not be opened was mended."""
        if not self._is_unreadable:
            return
        try:
            Desk(self.learner.workspace, self.exercise).read()
        except (TutorError, OSError):
            return
        if self.load_file():
            self.status.show_news("The file can be read again.")
            self.show_standing()

    def _is_well_again(self) -> None:
        if self._is_gone or self._told:
            self.status.show_news("The file is there again.")
        self._looks_in_vain, self._is_gone, self._told = 0, False, ""
        self._unwritable = None
        if not self.is_saved and self._first_edit_at is None:
            self._first_edit_at = self._last_edit_at = self._clock()
        self.show_standing()

    def _take(self, text: str) -> None:
        """Show a newer text of the same file; undo brings the older one back."""
        assert self._desk is not None
        self.panes.editor.replace_all(text)
        self._desk.loaded(self.editor_text)
        self._first_edit_at = None
        self.show_standing()

    @property
    def file_words(self) -> str:
        """How the file stands, in a few words."""
        if self._is_gone:
            return "file removed"
        if self._desk is None:
            return "no file"
        if self.is_saved:
            return "saved" if self._looks_in_vain < LOOKS_BEFORE_TELLING else "file cannot be read"
        return "not saved: ^s tells why" if self._told or self._put_off is not None else "not saved yet"

    # Opening and leaving

    def load_file(self) -> bool:
        """As before; a draft that is left from last time is shown, and asked about."""
        self._put_off = self._undecided = None
        self._looks_in_vain, self._is_gone = 0, False
        self._is_unreadable = not super().load_file()
        if self._is_unreadable:
            return False
        self._offer_draft()
        return True

    def _offer_draft(self) -> bool:
        """Show what an app that ended could not save, and ask about it; False where nothing is left."""
        assert self._desk is not None
        draft, text = self._desk.draft(), self.editor_text
        if draft is None:
            return False
        self.panes.editor.replace_all(draft)
        self._ask_about(text, is_draft=True)
        return True

    def save(self) -> bool:
        if self._undecided is None or self.is_saved:
            return not self._asking and super().save()
        if self._first_edit_at is not None:
            self._first_edit_at = None
            self.keep_draft()
        return False

    def rescue(self) -> None:
        if self._asking or self._undecided is not None:
            self.keep_draft()
        else:
            super().rescue()

    def write_edits(self) -> bool:
        saved = super().write_edits()
        if saved and self._is_gone:
            self._is_well_again()
        return saved

    def save_or_ask(self, then: Then | None = None, *, leaving: bool = False) -> bool:
        """Save before something that needs the file: False when the learner has to answer first.

        After an answer that settles it `then` is called. `leaving`: the learner may also go on without saving, as the
        text is kept as a draft; the desk is empty then.
        """
        if self._waits_for_answer(then):
            return False
        if self._desk is None:
            return self.load_file() and not self._waits_for_answer(then)
        self._unwritable = self._put_off = None
        self._told = ""
        try:
            self._look()
            if self._undecided is not None and not self._asking and not self.is_saved:
                theirs, error = self._undecided
                if leaving:
                    raise error
                self._ask_about(theirs, is_draft=True)
            return not self._waits_for_answer(then) and self.write_edits()
        except (TutorError, OSError) as error:
            if leaving and then is not None and self.keep_draft():
                self._ask_to_leave(in_words(error), then)
            else:
                self.cannot_save(error)
            return False

    def _waits_for_answer(self, then: Then | None) -> bool:
        if self._asking and then is not None and then not in self._waiting:
            self._waiting += (then,)
        return self._asking

    def _ask_to_leave(self, error: TutorError, then: Then) -> None:
        self._asking, self._waiting = True, (then, *self._waiting)
        from gpututor.app.screens.dialogs import Answer, QuestionDialog

        question = QuestionDialog(
            error.title,
            f"{error.advice}\n\nYour text is kept apart, and is offered when you open this exercise again.",
            (Answer("leave", "l", "Leave it so"), Answer("stay", "s", "Stay here")),
        )
        self.app.push_screen(question, lambda answer: self._end_leaving(answer == "leave"))

    def _end_leaving(self, leaves: bool) -> None:
        self._asking = False
        if leaves:
            self.leave_desk()
            self._do_what_waited()
        else:
            self._waiting = ()

    def _do_what_waited(self) -> None:
        """Go on, until a command asks something: what comes behind waits for that answer, or is not for this screen."""
        waiting, self._waiting = self._waiting, ()
        while waiting and not self._asking and self.is_active:
            waiting[0]()
            waiting = waiting[1:]
        if self._asking:
            self._waiting += waiting

    # Conflicts

    def _ask_about(self, theirs: str, *, is_draft: bool = False) -> None:
        self._asking = True
        self.keep_draft()
        from gpututor.app.screens.dialogs import Answer, QuestionDialog

        question = QuestionDialog(
            DRAFT if is_draft else CONFLICT,
            DRAFT_TEXT if is_draft else CONFLICT_TEXT,
            (
                Answer("mine", "m", "Take this text" if is_draft else "Keep mine"),
                Answer("theirs", "f", "Take the file's"),
                Answer("diff", "d", "See a diff"),
            ),
            escape="theirs" if is_draft else "later",
        )
        self.app.push_screen(question, lambda answer: self._end_conflict(answer or "later", theirs, is_draft))

    def _end_conflict(self, answer: str, theirs: str, is_draft: bool) -> None:
        assert self._desk is not None
        if answer == "diff":
            from gpututor.app.screens.diff import DiffDialog

            legend = ("only in your editor", "only in the file")
            diff = DiffDialog("Your editor and the file", self.editor_text, theirs, legend)
            self.app.push_screen(diff, lambda _: self._ask_about(theirs, is_draft=is_draft))
            return
        self._asking = False
        if answer == "later":
            self._put_off, self._waiting = theirs, ()
            self.status.show_news("Not saved: it changed on disk too. ^s asks again.")
            self.show_standing()
            return
        try:
            if answer == "mine":
                kept = self._desk.keep_mine(self.editor_text)
                self._first_edit_at = None
            else:
                text, kept = self._desk.take_theirs(self.editor_text)
                self._take(text)
        except (TutorError, OSError) as error:
            self._put_off, self._waiting = theirs, ()  # asked again by a command: not at once, over what is told here
            if is_draft:
                self._undecided = theirs, in_words(error)
            self.show_error(error)
            self.show_standing()
            return
        self._undecided = None
        self.status.show_news("" if kept is None else f"Kept: .backups/{kept.name}")
        self.show_standing()
        if not (is_draft and self._offer_draft()):
            self._do_what_waited()
