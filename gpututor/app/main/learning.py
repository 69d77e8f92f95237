"""The part of the main screen that helps a learner who is stuck: hints, the solution, a new start."""

from __future__ import annotations

from functools import partial

from textual import events, on

from gpututor.app.commands import FOOTERS, Pane
from gpututor.app.grader import Client
from gpututor.app.main.saving import Learner
from gpututor.app.main.showing import ShowScreen
from gpututor.app.messages import CheckOpened, CommandChosen, ExerciseChosen
from gpututor.app.standing import State
from gpututor.app.widgets.verdict_row import VerdictRow
from gpututor.app.words import sentence
from gpututor.course.exercise import Exercise
from gpututor.errors import CourseError, TutorError, UsageError
from gpututor.progress.notes import Kind, Note


class LearnScreen(ShowScreen):
    """A desk with help at hand."""

    _all_hints_used = False
    """Whether the hints that are shown are all there are."""

    def __init__(self, learner: Learner, exercise: Exercise, client: Client) -> None:
        super().__init__(learner, exercise, client)
        self._hints_opened: dict[str, int] = {}
        """How many hints of each exercise were opened in this session: they may not be noted yet."""

    @on(events.DescendantFocus)
    @on(CheckOpened)
    def _tell_keys_anew(self) -> None:
        # Not `show_keys` itself: Textual would call this layer's, and not that of the layers above.
        self.show_keys()

    @on(events.ScreenSuspend)
    def _hide_keys(self) -> None:
        """A dialog names its own keys, and these do nothing while it is open."""
        self.key_line.visible = False

    @on(events.ScreenResume)
    def _show_keys_again(self) -> None:
        self.key_line.visible = True

    def show_keys(self) -> None:
        """Name the commands that can do something now."""
        pane = self.panes.current
        commands = tuple(id for id in ("cancel", *FOOTERS[pane]) if self._is_of_use(id))
        self.key_line.show(commands, in_editor=pane is Pane.CODE)

    def _is_of_use(self, command: str) -> bool:
        match command:
            case "cancel":
                return self.running
            case "run_checks":
                return not self.running
            case "go_to_failure":
                failure = self.panes.results.first_failure
                return failure is not None and failure.verdict.line is not None
            case "open_check":
                row = self.focused
                return isinstance(row, VerdictRow) and row.verdict.status.is_finding and not row.is_open
            case "history":
                return self.panes.has_class("ran")
            case "next_exercise":
                return self.learner.course.after(self.exercise) is not None
            case "hint":
                return self.panes.current is not Pane.HINTS or not self._all_hints_used
            case _:
                return True

    def action_hint(self) -> None:
        """Show the hints that were used; once more, and the next one."""
        used, hints = self._hints_used, self.exercise.hints
        if used < len(hints) and (used == 0 or self.panes.current is Pane.HINTS):
            used += 1
            self._hints_opened[self.exercise.key] = used
            self.note(Note(Kind.HINTS, self.exercise.key, used))
        self.show_pane(Pane.HINTS)
        if used > 1:
            newest = hints[min(used, len(hints)) - 1]
            before = self.panes.reader.text.partition(newest)[0]
            self.panes.reader.go_to_line(before.count("\n"), marked=False)

    def hints_text(self) -> str:
        hints = self.exercise.hints
        self._all_hints_used = self._hints_used >= len(hints)
        used = min(self._hints_used, len(hints))
        rest = "*These are all the hints.*" if used == len(hints) else "*`h` (or `F7`) shows the next one.*"
        shown = "\n\n".join(hints[:used])
        return f"# Hints: {used} of {len(hints)}\n\n{shown}\n\n{rest}\n"

    @property
    def _hints_used(self) -> int:
        noted = self.from_progress(partial(self.learner.progress.hints_used, self.exercise.key), 0)
        return max(noted, self._hints_opened.get(self.exercise.key, 0))

    def action_solution(self) -> None:
        try:
            self.learner.course.check_has_checks()
        except UsageError as error:
            self.show_error(error)
            return
        rows = (row for lesson in self.lessons for row in lesson.exercises)
        if any(row.key == self.exercise.key and row.state is State.PASSED for row in rows):
            self._show_solution()
            return
        from gpututor.app.screens.dialogs import Answer, QuestionDialog

        question = QuestionDialog(
            "See the solution before you have passed?",
            "You can still run your own afterwards. Hints may help first: h shows them one by one.",
            (Answer("yes", "y", "Yes, show it"), Answer("no", "n", "Not yet")),
        )
        self.app.push_screen(
            question, lambda answer: self._show_solution(before_a_pass=True) if answer == "yes" else None
        )

    def _show_solution(self, *, before_a_pass: bool = False) -> None:
        try:
            solution = self.exercise.solution
        except CourseError as error:
            self.show_error(error)
            return
        if before_a_pass:
            self.note(Note(Kind.SOLUTION_OPENED, self.exercise.key))
        from gpututor.app.screens.diff import DiffDialog

        legend = ("only in your file", "only in the solution")
        self.app.push_screen(DiffDialog("Your file and the solution", self.editor_text, solution, legend))

    def lesson_finished(self, slug: str) -> None:
        # Whoever is typing, or reads another exercise meanwhile, finds it in the results.
        if self.panes.current is Pane.RESULTS and self._submitted_for.key == self.exercise.key:
            self.call_after_refresh(self._celebrate, slug)

    def _celebrate(self, slug: str) -> None:
        from gpututor.app.screens.finished import Finished, FinishedScreen, what_follows

        course, lessons = self.learner.course, self.lessons
        key = what_follows(lessons, self.exercise.key)
        following = next((exercise for exercise in course.exercises if exercise.key == key), None)
        about = ""
        if following is not None:
            lesson = course.lesson_of(following)
            about = f"Lesson {lesson.number}, {sentence(lesson.title)} {lesson.summary}"
        finished = Finished(
            next(lesson for lesson in lessons if lesson.slug == slug),
            self._to_remember(slug),
            f"{following.label} {following.title}" if following else "",
            about,
            () if following else lessons,
        )

        def go_on(answer: str | None) -> None:
            if answer == "next" and following is not None:
                self.post_message(ExerciseChosen(following.key, with_lesson=True))
            elif answer == "progress":
                self.post_message(CommandChosen("progress"))

        self.app.push_screen(FinishedScreen(finished), go_on)

    def _to_remember(self, slug: str) -> str:
        from gpututor.app.teaching import to_remember

        lesson = next(lesson for lesson in self.learner.course.lessons if lesson.slug == slug)
        try:
            return to_remember(lesson.text)
        except CourseError:
            return ""

    def action_reset(self) -> None:
        if self._desk is not None and not self.save_or_ask(self.action_reset):
            return
        from gpututor.app.screens.dialogs import Answer, QuestionDialog

        question = QuestionDialog(
            f"Start {self.exercise.label} {self.exercise.title} again?",
            "Your file is put back to the starter. What you have now is kept in .backups in your folder.",
            (Answer("yes", "y", "Yes, reset"), Answer("no", "n", "No, keep it")),
        )
        self.app.push_screen(question, lambda answer: self.reset_exercise() if answer == "yes" else None)

    def reset_exercise(self) -> None:
        """Put the file back to the starter and say where the old one is. What failed before counts no more."""
        try:
            kept = self.learner.workspace.reset(self.exercise)
        except (TutorError, OSError) as error:
            self.show_error(error)
            return
        self.note(Note(Kind.BEGUN_AGAIN, self.exercise.key))
        self.reread_file()
        self.show_standing()
        self.status.show_news(f"Reset. Kept: .backups/{kept.name}")
