"""Messages that widgets and threads post to a screen.

No code compares or prints them: without `eq` and `repr`, less has to be compiled before the first paint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.message import Message
from textual.screen import Screen

from gpututor.errors import TutorError

if TYPE_CHECKING:
    from gpututor.grading.events import GradingEvent


@dataclass(eq=False, repr=False)
class ExerciseChosen(Message):
    """The learner picked an exercise."""

    key: str
    with_lesson: bool = False
    """True to show the lesson first, if it is not the lesson of the open exercise."""


@dataclass(eq=False, repr=False)
class LessonChosen(Message):
    """The learner picked a lesson in the list."""

    slug: str


@dataclass(eq=False, repr=False)
class LineChosen(Message):
    """The learner wants to see a line of the file, from 1."""

    line: int
    of: str | None = None
    """Text that the line belongs to, which may have been edited since; None for the file as it is."""
    error: str = ""
    """The error that stopped a run at this line."""


@dataclass(eq=False, repr=False)
class LinkFollowed(Message):
    """The learner opened a link in a text."""

    target: str


class EditorLeft(Message):
    """The editor lost the focus."""


@dataclass(eq=False, repr=False)
class EditorReplied(Message):
    """The editor has a sentence for the status bar."""

    sentence: str


@dataclass(eq=False, repr=False)
class GradingProgressed(Message):
    """An event of a run."""

    run: int
    event: GradingEvent | TutorError
    """An error of the grader itself ends the run."""


class ReadyForKeys(Message):
    """Keys that were held can be handled: the start is over, or the last key's effect is on the screen."""


@dataclass(eq=False, repr=False)
class KeyPassed(Message):
    """Follows a key that was passed to a widget: when this reaches the app, the key has had its effect."""

    screen: Screen[Any] | None
    """The screen on top when the key came."""


class SettingsChanged(Message):
    """A setting changed, in the app or in the settings' file."""


class ModeChanged(Message):
    """The editor has another Vim mode."""


@dataclass(eq=False, repr=False)
class FindRequested(Message):
    """A Vim key asks for a text to find (0), or for the next (1) or previous (-1) match."""

    by: int
    word: str
    """The word to find; empty for the last text."""
