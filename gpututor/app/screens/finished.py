"""A lesson is finished, or the whole course: what it was about, and what comes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Markdown

from gpututor.app.screens.once import OnceModal
from gpututor.app.standing import LessonRow, State
from gpututor.app.widgets.plain import PlainText
from gpututor.app.words import sentence
from gpututor.grading.words import count


@dataclass(frozen=True)
class Finished:
    """What there is to say."""

    lesson: LessonRow
    remember: str
    """Markdown; the lesson's own summing up."""
    following: str
    """The exercise that comes next, `2.1 Born on the device`; empty at the end of the course."""
    following_about: str
    """The lesson that it belongs to, and what that is about."""
    course: tuple[LessonRow, ...] = ()
    """All lessons, where all of them are finished now."""


class FinishedScreen(OnceModal[str]):
    """Dismissed with `next`, `progress`, or an empty text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,space", "leave('')", show=False),
        Binding("n,f9", "next", show=False),
        Binding("w,shift+f7,f19", "leave('progress')", show=False),
        Binding("j", "scroll(1)", show=False),
        Binding("k", "scroll(-1)", show=False),
    ]

    def __init__(self, finished: Finished) -> None:
        super().__init__()
        self._finished = finished

    def compose(self) -> ComposeResult:
        finished = self._finished
        lesson = finished.lesson
        with Vertical(classes="dialog -finished"):
            yield PlainText(f"✓ Lesson {lesson.number} is finished: {sentence(lesson.title)}", classes="title")
            with VerticalScroll(id="remember"):
                if finished.remember:
                    yield PlainText("Remember", classes="lead")
                    yield Markdown(finished.remember, open_links=False)
                else:
                    yield PlainText(lesson.summary)
            yield PlainText(_effort(lesson), classes="effort")
            yield PlainText(self._next_words(), classes="next")
            yield PlainText(self._keys(), classes="foot")

    def on_mount(self) -> None:
        self.query_one("#remember").focus()

    def _next_words(self) -> str:
        finished = self._finished
        if finished.course:
            exercises = sum(len(lesson.exercises) for lesson in finished.course)
            whole = f"You have passed every exercise of the course: all {exercises}, in {len(finished.course)} lessons."
            return f"{whole}\nThe page of progress names what is worth repeating."
        return f"Next: {sentence(finished.following)}\n{finished.following_about}"

    def _keys(self) -> str:
        if self._finished.course:
            return "w shows what is worth repeating   Esc stays here"
        return f"n opens {self._finished.following.partition(' ')[0]}   w your progress   Esc stays here"

    def action_next(self) -> None:
        if not self._finished.course:
            self.dismiss("next")

    def action_leave(self, answer: str) -> None:
        self.dismiss(answer)

    def action_scroll(self, by: int) -> None:
        self.query_one("#remember").scroll_relative(y=by, animate=False)


def _effort(lesson: LessonRow) -> str:
    attempts = sum(row.attempts for row in lesson.exercises)
    hints = sum(row.hints_used for row in lesson.exercises)
    minutes = sum(row.minutes for row in lesson.exercises)
    parts = [count(len(lesson.exercises), "exercise"), count(attempts, "attempt")]
    parts += [count(hints, "hint")] if hints else []
    return f"{', '.join(parts)}; {minutes} minutes were planned."


def what_follows(lessons: tuple[LessonRow, ...], key: str) -> str:
    """The key of the exercise to do after `key`: the next one that is not passed, else the first such; empty: none."""
    rows = [row for lesson in lessons for row in lesson.exercises]
    here = next((place for place, row in enumerate(rows) if row.key == key), -1)
    return next((row.key for row in (*rows[here + 1 :], *rows[: here + 1]) if row.state is not State.PASSED), "")
