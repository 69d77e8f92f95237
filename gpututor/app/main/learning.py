"""Help for learners who are stuck: hints, the solution, a new start; what was learned, and what to repeat."""

from __future__ import annotations

from functools import partial

from gpututor.app.commands import Pane
from gpututor.app.main.attempts import AttemptController
from gpututor.app.main.files import FileController
from gpututor.app.main.host import Host
from gpututor.app.messages import ExerciseChosen, LessonChosen
from gpututor.app.wording import sentence
from gpututor.errors import CourseError, TutorError, UsageError
from gpututor.progress.attempt_writer import EventKind, ProgressEvent
from gpututor.progress.overview import State, state_of


class LearningController:
    """Opens hints and solutions, begins exercises again, and shows progress."""

    def __init__(self, host: Host, files: FileController, attempts: AttemptController) -> None:
        self._host, self._files, self._attempts = host, files, attempts
        self.all_hints_used = False
        """True if the hints that are shown are all there are."""
        self._hints_opened: dict[str, int] = {}
        """Number of open hints of each exercise in this session, which the database may not have yet."""

    def show_hints(self) -> None:
        """Show the open hints, and open none."""
        self._host.show_pane(Pane.HINTS)

    def open_hint(self) -> None:
        """Show the open hints. If they are shown already, or none is open, open the next one."""
        exercise, panes = self._host.exercise, self._host.panes
        used, hints = self._hints_used, exercise.hints
        if used < len(hints) and (used == 0 or panes.current is Pane.HINTS):
            used += 1
            self._hints_opened[exercise.key] = used
            self._attempts.record(ProgressEvent(EventKind.HINTS, exercise.key, used))
        self.show_hints()
        if used > 1:
            newest = hints[min(used, len(hints)) - 1]
            panes.reader.go_to_line(panes.reader.text.partition(newest)[0].count("\n"), marked=False)

    def hints_text(self) -> str:
        hints = self._host.exercise.hints
        used = min(self._hints_used, len(hints))
        self.all_hints_used = used == len(hints)
        keys = f"`{self._host.letter_of('open_hint')}` (or `{self._host.key_of('open_hint')}`)"
        following = "next" if used else "first"
        rest = "*These are all the hints.*" if self.all_hints_used else f"*{keys} shows the {following} one.*"
        return "\n\n".join((f"# Hints: {used} of {len(hints)}", *hints[:used], f"{rest}\n"))

    @property
    def _hints_used(self) -> int:
        key = self._host.exercise.key
        stored = self._attempts.from_progress(partial(self._host.learner.progress.hints_used, key), 0)
        return max(stored, self._hints_opened.get(key, 0))

    def show_solution(self) -> None:
        """Compare the file with the solution; before a pass, ask first."""
        try:
            self._host.learner.course.check_has_checks()
        except UsageError as error:
            self._host.show_error(error)
            return
        if state_of(self._host.exercise.key, self._attempts.lessons) is State.PASSED:
            self._show_diff()
            return
        from gpututor.app.screens.base import Answer, QuestionDialog

        question = QuestionDialog(
            "See the solution before you have passed?",
            "You can still run your own code later. Hints may help first:"
            f" {self._host.letter_of('open_hint')} shows them one by one.",
            (Answer("yes", "y", "Yes, show it"), Answer("no", "n", "Not yet")),
        )
        self._host.push(question, lambda answer: self._show_diff(before_a_pass=True) if answer == "yes" else None)

    def _show_diff(self, *, before_a_pass: bool = False) -> None:
        try:
            solution = self._host.exercise.solution
        except CourseError as error:
            self._host.show_error(error)
            return
        if before_a_pass:
            self._attempts.record(ProgressEvent(EventKind.SOLUTION_OPENED, self._host.exercise.key))
        from gpututor.app.screens.diff import DiffDialog

        legend = ("only in your file", "only in the solution")
        self._host.push(DiffDialog("Your file and the solution", self._host.editor_text, solution, legend))

    def celebrate(self, slug: str) -> None:
        from gpututor.app.screens.welcome import Finished, FinishedScreen, what_follows

        course, lessons = self._host.learner.course, self._attempts.lessons
        key = what_follows(lessons, self._host.exercise.key)
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

        def continue_with(answer: str | None) -> None:
            if answer == "next" and following is not None:
                self._host.post_message(ExerciseChosen(following.key, with_lesson=True))
            elif answer == "progress":
                self._host.call_later(self.show_progress)

        self._host.push(FinishedScreen(finished), continue_with)

    def _to_remember(self, slug: str) -> str:
        from gpututor.progress.review import to_remember

        lesson = next(lesson for lesson in self._host.learner.course.lessons if lesson.slug == slug)
        try:
            return to_remember(lesson.text)
        except CourseError:
            return ""  # opening the lesson reports the error

    def reset(self) -> None:
        """Ask, then put the file back to the starter."""
        if self._files.is_open and not self._files.save_or_ask(self.reset):
            return
        from gpututor.app.screens.base import Answer, QuestionDialog

        key = self._host.letter_of("show_history")
        advice = f" To get back a version that you ran: {key}, then b." if self._attempts.latest() is not None else ""
        question = QuestionDialog(
            f"Start {self._host.exercise.label} {self._host.exercise.title} again?",
            f"Your file becomes the starter again. Your text is saved in .backups in your folder.{advice}",
            (Answer("yes", "y", "Yes, reset"), Answer("no", "n", "No, keep it")),
        )
        self._host.push(question, lambda answer: self._reset() if answer == "yes" else None)

    def _reset(self) -> None:
        """Put the file back to the starter; earlier failures stop counting."""
        try:
            backup = self._host.learner.workspace.reset(self._host.exercise)
        except (TutorError, OSError) as error:
            self._host.show_error(error)
            return
        self._attempts.record(ProgressEvent(EventKind.BEGUN_AGAIN, self._host.exercise.key))
        self._files.reread()
        self._host.show_file_state()
        self._host.status.show_message(f"Reset. Backup: .backups/{backup.name}")

    # Progress

    def show_progress(self) -> None:
        from gpututor.app.screens.progress import Choice, ProgressScreen

        def continue_with(choice: Choice | None) -> None:
            match choice:
                case Choice("lesson", slug):
                    self._host.post_message(LessonChosen(slug))
                case Choice("exercise", key):
                    self._host.post_message(ExerciseChosen(key))
                case Choice("again", key):
                    self._host.call_later(self.begin_again, key)

        learner = self._host.learner
        streak = learner.settings.now.streak
        self._host.push(ProgressScreen(learner.course, learner.progress, streak=streak), continue_with)

    def begin_again(self, key: str) -> None:
        """Open an exercise, and ask whether to put its file back to the starter."""
        leaves = self._files.is_open and key != self._host.exercise.key
        # First settle questions about the open file: the reset must not happen to that file.
        if leaves and not self._files.save_or_ask(partial(self.begin_again, key), leaving=True):
            return
        self._host.post_message(ExerciseChosen(key))
        self._host.call_later(self.reset)
