"""The learner's progress: lessons passed, common mistakes, best times, and exercises to repeat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from gpututor.app.commands import foot, screen_bindings
from gpututor.app.runtime import in_thread
from gpututor.app.screens.base import BaseModal, TabbedPages
from gpututor.course.model import Course
from gpututor.errors import TutorError
from gpututor.grading.report_text import count
from gpututor.progress.overview import LessonRow, State, lesson_rows
from gpututor.progress.review import Practice, RecurringFailure, Repeat, general_rule, lesson_about
from gpututor.text import escape_control_chars, truncate

if TYPE_CHECKING:
    from gpututor.progress.store import ProgressStore

MOST_MISTAKES = 5
_TITLE_WIDTH, _WIDTHS = 32, (7, 9, 6, 6, 8)
"""Widths of the table of lessons; with a scroll bar it fits a dialog on 80 columns."""
_GONE = "no longer in the course"


@dataclass(frozen=True)
class ProgressOverview:
    """The contents of the screen."""

    lessons: tuple[LessonRow, ...]
    mistakes: tuple[tuple[RecurringFailure, str], ...]
    """Mistakes with the slug of the lesson that teaches the subject; empty if no lesson does."""
    best_times: dict[str, str]
    repeats: tuple[Repeat, ...]
    practice: Practice


@dataclass(frozen=True)
class Choice:
    """The lesson or exercise that the learner chose."""

    kind: str
    """`exercise`, `lesson`, or `again`: the exercise, from its starter."""
    name: str
    """The exercise's key, or the lesson's slug."""


class ProgressScreen(BaseModal[Choice]):
    """Dismissed with the learner's choice, or None."""

    BINDINGS = screen_bindings("progress")

    def __init__(self, course: Course, progress: ProgressStore, *, streak: bool) -> None:
        super().__init__()
        self._course = course
        self._progress = progress
        self._has_streak = streak
        self._overview = OptionList(Option("… Counting", disabled=True), id="overview", markup=False, compact=True)
        self._repeats = OptionList(id="repeats", markup=False, compact=True)
        pages = {"Overview": self._overview, "Worth repeating": self._repeats}
        self.pages = TabbedPages("Progress", pages, foot("progress"))

    def compose(self) -> ComposeResult:
        yield self.pages

    def on_mount(self) -> None:
        self.pages.show(1)
        # Reading every report takes 50 µs each; some learners have thousands.
        in_thread(self._count)

    def _count(self) -> None:
        try:
            # The rows need the width of the list, which has one after the first refresh.
            self.call_after_refresh(self._show, progress_overview(self._course, self._progress))
        except TutorError as error:
            row = Option(escape_control_chars(f"! {error.title}"), disabled=True)
            self.call_later(self._overview.set_options, [row])

    def _show(self, overview: ProgressOverview) -> None:
        self._overview.set_options(self._progress_rows(overview))
        self._repeats.set_options(self._repeat_rows(overview))
        for options in (self._overview, self._repeats):
            options.action_first()
            # The cursor cannot be on the headings above, which should be visible.
            self.call_after_refresh(options.scroll_home, animate=False)

    def _progress_rows(self, overview: ProgressOverview) -> Iterator[Option]:
        passed = sum(lesson.passed for lesson in overview.lessons)
        total = sum(len(lesson.exercises) for lesson in overview.lessons)
        rows = [row for lesson in overview.lessons for row in lesson.exercises]
        left = sum(row.minutes for row in rows if row.state is not State.PASSED)
        yield _heading(f"{passed} of {count(total, 'exercise')} passed; about {_time(left)} left")
        yield _heading(self._practice_line(overview.practice))
        yield _heading("")
        room = self._overview.size.width - 3 - sum(_WIDTHS)  # without the padding and the scrollbar
        title_width = max(12, min(_TITLE_WIDTH, room))
        yield _heading(_lesson_line(title_width, "Lesson", "passed", "started", "tries", "hints", "spent"))
        for lesson in overview.lessons:
            states = [row.state for row in lesson.exercises]
            yield Option(
                _lesson_line(
                    title_width,
                    f"{lesson.number:>2} {lesson.title}",
                    f"{'✓ ' if lesson.finished else ''}{lesson.passed}/{len(lesson.exercises)}",
                    str(states.count(State.STARTED)),
                    str(sum(row.attempts for row in lesson.exercises)),
                    str(sum(row.hints_used for row in lesson.exercises)),
                    _time(round(sum(overview.practice.seconds.get(row.key, 0) for row in lesson.exercises) / 60)),
                ),
                id=f"lesson {lesson.slug}",
            )
        yield from self._mistake_rows(overview)
        yield from self._time_rows(overview)

    def _practice_line(self, practice: Practice) -> str:
        parts = [f"{_time(round(sum(practice.seconds.values()) / 60))} spent", count(len(practice.days), "day")]
        if self._has_streak:
            parts.append(f"{count(practice.streak(date.today()), 'day')} in a row")
        return f"{', '.join(parts)}; {practice.first_tries} passed on the first try"

    def _mistake_rows(self, overview: ProgressOverview) -> Iterator[Option]:
        if not overview.mistakes:
            return
        yield _heading("")
        yield _heading("Checks that failed most often, and what to read")
        titles = {lesson.slug: f"{lesson.number} {lesson.title}" for lesson in overview.lessons}
        for mistake, slug in overview.mistakes:
            words = f"{mistake.times:>4} ×  {general_rule(mistake)}"
            if slug:
                words += f"\n{'':<8}▸ {titles.get(slug, _GONE)}"
            yield Option(escape_control_chars(words), id=f"lesson {slug} {mistake.check}", disabled=not slug)

    def _time_rows(self, overview: ProgressOverview) -> Iterator[Option]:
        times = overview.best_times
        exercises = [exercise for exercise in self._course.exercises if exercise.key in times]
        if not exercises:
            return
        yield _heading("")
        yield _heading("Your best times")
        for exercise in sorted(exercises, key=lambda exercise: (exercise.lesson_number, exercise.number)):
            words = f"     {exercise.label} {exercise.title}\n{'':<8}{times[exercise.key]}"
            yield Option(escape_control_chars(words), id=f"time {exercise.key}")

    def _repeat_rows(self, overview: ProgressOverview) -> Iterator[Option]:
        if not overview.repeats:
            some = any(lesson.passed for lesson in overview.lessons)
            yield _heading(
                "○ Nothing: you passed these with few tries and without help."
                if some
                else "○ Nothing yet: pass some exercises."
            )
            return
        yield _heading("x starts the exercise over; your file is saved in .backups.")
        yield _heading("")
        exercises = {exercise.key: exercise for exercise in self._course.exercises}
        for repeat in overview.repeats:
            exercise = exercises.get(repeat.exercise)
            if exercise is not None:
                spent = round(overview.practice.seconds.get(exercise.key, 0) / 60)
                about = (*repeat.reasons, f"{_time(spent)} spent") if spent else repeat.reasons
                words = f"{exercise.label:>5} {exercise.title}\n{'':<6}{', '.join(about)}"
                yield Option(escape_control_chars(words), id=f"exercise {exercise.key}")

    def action_page(self, number: int) -> None:
        self.pages.show(number)

    def action_turn(self, by: int) -> None:
        self.pages.turn(by)

    @on(OptionList.OptionSelected)
    def _open(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        kind, name, *_ = (event.option.id or "").split(" ")
        self.dismiss(Choice("lesson" if kind == "lesson" else "exercise", name))

    def action_again(self) -> None:
        """Start the exercise with the cursor on the second page from its starter."""
        option = self._repeats.highlighted_option
        if self.pages.number == 2 and option is not None and option.id is not None:
            self.dismiss(Choice("again", option.id.partition(" ")[2]))

    @property
    def _shown(self) -> OptionList:
        return self._overview if self.pages.number == 1 else self._repeats

    def action_step(self, by: int) -> None:
        (self._shown.action_cursor_down if by > 0 else self._shown.action_cursor_up)()

    def action_end(self, which: str) -> None:
        if which == "last":
            self._shown.action_last()
        else:
            self._shown.action_first()
            self._shown.scroll_home(animate=False)


def progress_overview(course: Course, store: ProgressStore) -> ProgressOverview:
    """Collect the contents of the screen. Raises `ProgressError`."""
    from gpututor.progress import review

    attempts, progress = store.attempt_summaries(), store.summary()
    keys = [exercise.key for exercise in course.exercises]
    known = [attempt for attempt in attempts if attempt.exercise in set(keys)]
    repeats = review.to_repeat(known, progress, store.solutions_opened(), store.begun_again(), keys)
    names = review.check_names(course)
    mistakes = tuple((mistake, lesson_about(mistake, names)) for mistake in review.mistakes(known)[:MOST_MISTAKES])
    return ProgressOverview(
        lesson_rows(course, progress), mistakes, review.best_times(known), repeats, review.practice(known)
    )


def _heading(text: str) -> Option:
    return Option(Content(text), disabled=True)


def _lesson_line(title_width: int, title: str, *numbers: str) -> str:
    return f"{truncate(title, title_width):<{title_width}}" + "".join(
        f"{number:>{width}}" for number, width in zip(numbers, _WIDTHS, strict=True)
    )


def _time(minutes: int) -> str:
    """`45 min`, `2 h 05`"""
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02}"
