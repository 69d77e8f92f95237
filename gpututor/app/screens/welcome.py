"""Screens before the first exercise and after the last one of a lesson."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Markdown, Static

from gpututor.app.commands import bar, foot, screen_bindings
from gpututor.app.screens.base import BaseModal, BaseScreen
from gpututor.app.widgets.base import PlainText
from gpututor.app.wording import sentence, short_path
from gpututor.grading.report_text import count
from gpututor.progress.overview import LessonRow, State


class WelcomeScreen(BaseScreen[None]):
    """The first screen: what gpututor is. The app has the actions of its keys."""

    BINDINGS = screen_bindings("welcome")

    def __init__(self, folder: Path, lessons: int, exercises: int, first: str) -> None:
        super().__init__()
        self._folder = folder
        self._extent = f"{count(lessons, 'lesson')}, {count(exercises, 'exercise')}"
        self._first = first

    def compose(self) -> ComposeResult:
        with Vertical(classes="welcome"):
            yield PlainText("gpututor", classes="title")
            yield PlainText("Learn to make PyTorch code fast on a GPU, by doing it.", classes="lead")
            yield Static(_steps(), classes="steps")
            yield PlainText(
                "No GPU is needed: without one, a virtual GPU computes real values on your CPU and models what a GPU "
                "would have done.",
                classes="text",
            )
            yield PlainText(f"{self._extent}. The first is {sentence(self._first)}")
            yield PlainText(f"Your files will be in {short_path(self._folder)}", classes="text", id="folder")
            yield Static(_keys(), classes="foot")


def _steps() -> Content:
    steps = (
        ("Read", "a task: one page, one thing to do."),
        ("Write", "a few lines in your own file."),
        ("Run", "the checks: they say what is wrong, where, and why."),
    )
    return Content("\n").join(
        Content.assemble((f"{number}", "$text-muted"), (f"  {verb:<7}", "bold $text-accent"), words)
        for number, (verb, words) in enumerate(steps, 1)
    )


def _keys() -> Content:
    hints = (Content.assemble((hint.key, "bold $text-accent"), f" {hint.title}") for hint in bar("welcome"))
    return Content("     ").join(hints)


@dataclass(frozen=True)
class Finished:
    """A finished lesson, and the exercise after it."""

    lesson: LessonRow
    remember: str
    """The lesson's own summary, in Markdown."""
    following: str
    """The next exercise, `2.1 Born on the device`; empty at the end of the course."""
    following_about: str
    """The lesson of the next exercise, and its subject."""
    course: tuple[LessonRow, ...] = ()
    """All lessons if all of them are finished; else empty."""


class FinishedScreen(BaseModal[str]):
    """Dismissed with `next`, `progress`, or an empty text."""

    BINDINGS = screen_bindings("finished")

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
        for text in self.query("#remember"):  # None while the app is leaving: Textual mounts nothing then.
            text.focus()

    def _next_words(self) -> str:
        finished = self._finished
        if finished.course:
            exercises = sum(len(lesson.exercises) for lesson in finished.course)
            whole = f"You have passed every exercise of the course: all {exercises}, in {len(finished.course)} lessons."
            return f"{whole}\nThe progress screen lists the exercises that are worth repeating."
        return f"Next: {sentence(finished.following)}\n{finished.following_about}"

    def _keys(self) -> str:
        if self._finished.course:
            return foot("finished", "next").replace("your progress", "shows what is worth repeating")
        following = self._finished.following.partition(" ")[0]
        return foot("finished").replace("opens", f"opens {following}", 1)

    def action_next(self) -> None:
        if not self._finished.course:
            self.dismiss("next")

    def action_leave(self, answer: str) -> None:
        self.dismiss(answer)

    def action_scroll(self, by: int) -> None:
        self.query_one("#remember").scroll_relative(y=by, animate=False)

    def action_page(self) -> None:
        self.query_one("#remember").scroll_page_down(animate=False)


def _effort(lesson: LessonRow) -> str:
    attempts = sum(row.attempts for row in lesson.exercises)
    hints = sum(row.hints_used for row in lesson.exercises)
    minutes = sum(row.minutes for row in lesson.exercises)
    parts = [count(len(lesson.exercises), "exercise"), count(attempts, "attempt")]
    parts += [count(hints, "hint")] if hints else []
    return f"{', '.join(parts)}; {minutes} minutes were planned."


def what_follows(lessons: tuple[LessonRow, ...], key: str) -> str:
    """Return the key of the next exercise after `key` that is not passed, from the start again; empty if none is."""
    rows = [row for lesson in lessons for row in lesson.exercises]
    here = next((place for place, row in enumerate(rows) if row.key == key), -1)
    return next((row.key for row in (*rows[here + 1 :], *rows[: here + 1]) if row.state is not State.PASSED), "")
