"""Opening, saving and sharing the learner's file: other editors, git or a sync may change it at any moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from gpututor.app.main.host import Host
from gpututor.app.open_file import Conflict, Gone, OpenFile, Reloaded
from gpututor.errors import TutorError, WorkspaceError
from gpututor.files import back_up_text

Then = Callable[[], object]
"""A command that waits for an answer."""

CHECK_EVERY_S = 0.1
"""Seconds between checks of the file: changes by other programs are seen within 200 ms."""
SAVE_AFTER_S = 0.5
"""Seconds without a key before the file is written."""
SAVE_AT_LATEST_S = 0.8
"""Seconds from the first edit until the file is written while keys come: a letter is on disk within a second."""
ASK_AFTER_S = 1.0
"""Seconds without a key before a question appears by itself: the next letter would answer it."""
CHECKS_BEFORE_REPORT = 2
"""Number of failed checks before a report: other editors take a file away for a moment when they save."""
CONFLICT = "The file changed on disk and in the editor"
CONFLICT_TEXT = (
    "Another program changed it while you had edits here. The version that you do not keep goes to .backups.\n\n"
    "Press Esc to decide later; until then nothing is saved."
)
DRAFT = "Unsaved text from last time"
DRAFT_TEXT = (
    "It could not be written to the file. The version that you do not keep goes to .backups.\n\n"
    "Press Esc to decide later: the file stays as it is, and this text is offered again with the exercise."
)


class FileController:
    """Keeps the editor and the file of the open exercise the same."""

    def __init__(self, host: Host, clock: Callable[[], float] = time.monotonic) -> None:
        self._host = host
        self._clock = clock
        self._file: OpenFile | None = None
        self._first_edit_at: float | None = None
        self._last_edit_at = 0.0
        self._unwritable: str | None = None
        """A text that could not be written, which was reported to the learner."""
        self._reported = ""
        """Title of the last dialog about the file, which is not shown twice in a row."""
        self._asking = False
        self._waiting: tuple[Then, ...] = ()
        """Commands to run after the answer, in the order in which they were given."""
        self._put_off: str | None = None
        """The file's text in a conflict that the learner postponed."""
        self._undecided: tuple[str, TutorError] | None = None
        """The file's text, and the error when the learner chose between it and a draft.

        Until a choice succeeds, the draft is not saved over the file's text.
        """
        self._failed_checks = 0
        """Number of checks in a row that did not find the file, or could not read it."""
        self._is_gone = False
        self._is_unreadable = False
        """True if the file could not be opened: there is nothing to edit."""

    @property
    def is_open(self) -> bool:
        return self._file is not None

    @property
    def is_asking(self) -> bool:
        """True while a question about the file is open."""
        return self._asking

    @property
    def is_saved(self) -> bool:
        return self._file is not None and not self._file.edited(self._host.editor_text)

    @property
    def state(self) -> str:
        if self._is_gone:
            return "file removed"
        if self._file is None:
            return "no file"
        if self.is_saved:
            return "saved" if self._failed_checks < CHECKS_BEFORE_REPORT else "file cannot be read"
        is_known = self._reported or self._put_off is not None
        return f"not saved: {self._host.key_now('run_checks')} shows why" if is_known else "not saved yet"

    # Opening

    def load(self) -> bool:
        """Open the exercise's file, and offer a draft from last time; return False, with a dialog, on failure."""
        self._put_off = self._undecided = None
        self._failed_checks, self._is_gone = 0, False
        self._is_unreadable = not self._read()
        if not self._is_unreadable:
            self._offer_draft()
        self._host.file_loaded()
        return not self._is_unreadable

    def _read(self) -> bool:
        self.leave()
        try:
            file = OpenFile(self._host.learner.workspace, self._host.exercise)
            self._host.panes.editor.show(file.read())
        except (TutorError, OSError) as error:
            self._host.panes.editor.show("")
            self._host.panes.editor.read_only = True
            self._host.show_error(error)
            return False
        file.loaded(self._host.editor_text)
        self._file = file
        self._first_edit_at = self._unwritable = None
        self._reported = ""
        self._host.panes.editor.read_only = False
        self._host.panes.editor.border_title = f"Code  {file.path.name}"
        return True

    def _offer_draft(self) -> bool:
        """Show a draft that an earlier app left, and ask about it; return False if there is none."""
        assert self._file is not None
        draft, text = self._file.take_abandoned_draft(), self._host.editor_text
        if draft is None:
            return False
        self._host.panes.editor.replace_all(draft)
        self._ask_about(text, is_draft=True)
        return True

    def leave(self) -> None:
        if self._file is not None:
            self._file.draft.release()
        self._file = None

    def reread(self) -> None:
        """Show the file as it is on disk now; undo brings the text before it back."""
        if self._file is None:
            self.load()
            return
        try:
            text = self._file.read()
        except (TutorError, OSError) as error:
            self._host.show_error(error)
            return
        self._take(text, others=False)

    def take_back(self, text: str) -> None:
        """Put an older text of the learner's into the file; undo brings the newer one back."""
        self._host.panes.editor.replace_all(text)
        self.save()
        self._host.file_loaded()

    # Saving

    def text_changed(self) -> None:
        """Note an edit, which is saved when the keys rest."""
        if self._file is None or not self._file.edited(self._host.editor_text):
            self._first_edit_at = None
        else:
            self._last_edit_at = self._clock()
            if self._first_edit_at is None:
                self._first_edit_at = self._last_edit_at
                self._host.status.show_message("")
        self._host.show_file_state()

    def save(self) -> bool:
        """Write the edits; return False if they are not on disk, for which a question or a dialog gives the reason."""
        if self._undecided is not None and not self.is_saved:
            if self._first_edit_at is not None:
                self._first_edit_at = None
                self._save_draft()
            return False
        if self._asking or self._file is None or self._host.editor_text == self._unwritable:
            return False
        if self.is_saved:
            # A removed file is written again after an edit or by a command, not when the editor loses the focus.
            return True
        try:
            return self._write_edits()
        except (TutorError, OSError) as error:
            self._cannot_save(error)
            return False

    def _write_edits(self) -> bool:
        """Write the edits; return False, and leave the file alone, if another program changed it. May raise."""
        assert self._file is not None
        edited = self._file.edited(self._host.editor_text)
        saved = self._file.save(self._host.editor_text)
        self._first_edit_at = None
        if saved and edited:
            self._reported = ""
        elif not saved:
            self._file.draft.save(self._host.editor_text)
        self._host.show_file_state()
        if saved and self._is_gone:
            self._recovered()
        return saved

    def _cannot_save(self, error: TutorError | OSError) -> None:
        """Save the text as a draft, and report the error once. The next edit or command tries again."""
        self._unwritable = self._host.editor_text
        self._first_edit_at = None
        self._save_draft()
        self._report(error)
        self._host.show_file_state()

    def _save_draft(self) -> bool:
        """Save the text as a draft; return False if that fails, which is then reported as unsaved."""
        try:
            if self._file is not None:
                self._file.draft.save(self._host.editor_text)
        except OSError:
            return False
        return True

    def rescue(self) -> None:
        """Save the text, in the file or as a draft, without any question."""
        if self._asking or self._undecided is not None:
            self._save_draft()
        elif self._file is not None and self._file.edited(self._host.editor_text):
            self._file.rescue(self._host.editor_text)

    def back_up(self) -> Path:
        assert self._file is not None
        return back_up_text(self._host.editor_text, self._file.path.name, self._host.learner.workspace.backups)

    def save_or_ask(self, then: Then | None = None, *, leaving: bool = False) -> bool:
        """Save before a command that needs the file; return False if the learner has to answer a question first.

        `then` is called after an answer that allows it. `leaving`: the learner may also continue without saving. The
        text is then a draft, and no file is open.
        """
        if self._waits_for_answer(then):
            return False
        if self._file is None:
            return self.load() and not self._waits_for_answer(then)
        self._unwritable = self._put_off = None
        self._reported = ""
        try:
            self._load_changes()
            if self._undecided is not None and not self._asking and not self.is_saved:
                theirs, error = self._undecided
                if leaving:
                    raise error
                self._ask_about(theirs, is_draft=True)
            return not self._waits_for_answer(then) and self._write_edits()
        except (TutorError, OSError) as error:
            if leaving and then is not None and self._save_draft():
                self._ask_to_leave(file_error(error), then)
            else:
                self._cannot_save(error)
            return False

    def _waits_for_answer(self, then: Then | None) -> bool:
        if self._asking and then is not None and then not in self._waiting:
            self._waiting += (then,)
        return self._asking

    def _ask_to_leave(self, error: TutorError, then: Then) -> None:
        self._asking, self._waiting = True, (then, *self._waiting)
        from gpututor.app.screens.base import Answer, QuestionDialog

        question = QuestionDialog(
            error.title,
            f"{error.advice}\n\nYour text is stored as a draft, and is offered when you open this exercise again.",
            (Answer("leave", "l", "Leave anyway"), Answer("stay", "s", "Stay here")),
        )
        self._host.push(question, lambda answer: self._end_leaving(answer == "leave"))

    def _end_leaving(self, leaves: bool) -> None:
        self._asking = False
        if leaves:
            self.leave()
            self._run_waiting()
        else:
            self._waiting = ()
            self._host.status.show_message("")

    def _run_waiting(self) -> None:
        """Run the waiting commands until one asks a question, which the rest waits for, or opens another screen."""
        waiting, self._waiting = self._waiting, ()
        while waiting and not self._asking and self._host.is_active:
            waiting[0]()
            waiting = waiting[1:]
        if self._asking:
            self._waiting += waiting

    # Changes by others

    def check_disk(self) -> None:
        """Look for changes in the file, and save edits after a pause."""
        if self._asking or not self._host.is_current:
            return
        if self._file is None:
            self._try_to_open()
            return
        try:
            self._load_changes(unasked=True)
        except (TutorError, OSError) as error:
            self._failed_checks += 1
            if self._failed_checks >= CHECKS_BEFORE_REPORT:
                self._report(error)
        if self._asking or self._first_edit_at is None:
            return
        now = self._clock()
        if now - self._last_edit_at >= SAVE_AFTER_S or now - self._first_edit_at >= SAVE_AT_LATEST_S:
            self.save()

    def _load_changes(self, *, unasked: bool = False) -> None:
        """Load changes by other programs, or ask about a conflict. May raise.

        `unasked`: no command of the learner caused this, so no question appears while the learner types.
        """
        assert self._file is not None
        change = self._file.detect_change(self._host.editor_text)
        if isinstance(change, Gone):
            self._failed_checks += 1
            if self._failed_checks >= CHECKS_BEFORE_REPORT and not self._is_gone:
                self._is_gone = True
                self._host.status.show_message("Another program removed your file. A run writes it again.")
                self._host.show_file_state()
            return
        if self._failed_checks:
            self._recovered()
        match change:
            case Reloaded(text):
                self._take(text)
                self._host.status.show_message("Reloaded: another program changed the file.")
            case Conflict(theirs) if theirs != self._put_off:
                if unasked and self._clock() - self._last_edit_at < ASK_AFTER_S:
                    self._host.status.show_message("File changed on disk. Stop typing to choose a version.")
                    return
                self._host.status.show_message("")
                self._ask_about(theirs)
            case _:
                return

    def _try_to_open(self) -> None:
        """Open a file that could not be opened before, if it can be read now."""
        if not self._is_unreadable:
            return
        try:
            OpenFile(self._host.learner.workspace, self._host.exercise).read()
        except (TutorError, OSError):
            return  # still unreadable: the dialog about it was shown when the file was opened
        if self.load():
            self._host.status.show_message("The file can be read again.")
            self._host.show_file_state()

    def _recovered(self) -> None:
        if self._is_gone or self._reported:
            self._host.status.show_message("The file is back.")
        self._failed_checks, self._is_gone, self._reported = 0, False, ""
        self._unwritable = None
        if not self.is_saved and self._first_edit_at is None:
            self._first_edit_at = self._last_edit_at = self._clock()
        self._host.show_file_state()

    def _take(self, text: str, *, others: bool = True) -> None:
        """Show a newer text of the same file; undo brings the older one back. `others`: another program wrote it."""
        assert self._file is not None
        self._host.panes.editor.replace_all(text)
        self._file.loaded(self._host.editor_text)
        self._first_edit_at = None
        self._host.show_file_state()
        self._host.file_loaded(again=others)

    def _report(self, error: TutorError | OSError) -> None:
        """Report a problem of the file in a dialog, once while the learner continues to type."""
        error = file_error(error)
        if error.title != self._reported:
            self._reported = error.title
            self._host.show_error(error)

    # Conflicts

    def _ask_about(self, theirs: str, *, is_draft: bool = False) -> None:
        self._asking = True
        self._save_draft()
        from gpututor.app.screens.base import Answer, QuestionDialog

        question = QuestionDialog(
            DRAFT if is_draft else CONFLICT,
            DRAFT_TEXT if is_draft else CONFLICT_TEXT,
            (
                Answer("mine", "m", "Write it to the file" if is_draft else "Keep mine"),
                Answer("theirs", "f", "Keep the file's" if is_draft else "Take the file's"),
                Answer("diff", "d", "See a diff"),
            ),
            escape="later",
        )
        self._host.push(question, lambda answer: self._end_conflict(answer or "later", theirs, is_draft))

    def _end_conflict(self, answer: str, theirs: str, is_draft: bool) -> None:
        assert self._file is not None
        if answer == "diff":
            from gpututor.app.screens.diff import DiffDialog

            legend = ("only in your editor", "only in the file")
            diff = DiffDialog("Your editor and the file", self._host.editor_text, theirs, legend)
            self._host.push(diff, lambda _: self._ask_about(theirs, is_draft=is_draft))
            return
        self._asking = False
        if answer == "later" and is_draft:
            self._undecided, self._waiting = None, ()
            self._file.draft.release()  # it stays on disk
            self._take(theirs, others=False)
            self._host.status.show_message("Opening this exercise again offers the unsaved text.")
            return
        if answer == "later":
            self._put_off, self._waiting = theirs, ()
            key = self._host.key_now("run_checks")
            self._host.status.show_message(f"Changed on disk too: {key} asks again.")
            self._host.show_file_state()
            return
        try:
            if answer == "mine":
                backup = self._file.keep_mine(self._host.editor_text)
                self._first_edit_at = None
            else:
                text, backup = self._file.take_theirs(self._host.editor_text)
                self._take(text)
        except (TutorError, OSError) as error:
            self._put_off, self._waiting = theirs, ()  # a command asks again: not at once, over this dialog
            self._host.status.show_message("")
            if is_draft:
                self._undecided = theirs, file_error(error)
            self._host.show_error(error)
            self._host.show_file_state()
            return
        self._undecided = None
        self._host.status.show_message("" if backup is None else f"Backup: .backups/{backup.name}")
        self._host.show_file_state()
        if not (is_draft and self._offer_draft()):
            self._run_waiting()


def file_error(error: TutorError | OSError) -> TutorError:
    if isinstance(error, TutorError):
        return error
    return WorkspaceError(f"The file cannot be used: {error}", "Check its folder, then try again.")
