"""What a new learner sees first."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from gpututor.app.screens.stepped import SteppedScreen
from gpututor.app.widgets.plain import PlainText
from gpututor.app.words import sentence, short_path
from gpututor.grading.words import count


class WelcomeScreen(SteppedScreen[None]):
    """Says what this is; the app does what the keys ask for."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "app.begin", show=False),
        Binding("q,escape", "app.quit", show=False),
    ]

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
    """What one does in an exercise."""
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
    return Content.assemble(("Enter", "bold $text-accent"), " begins     ", ("q", "bold $text-accent"), " leaves")
