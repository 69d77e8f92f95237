"""What happened, in the past tense. Workers and widgets post these; the main screen's handlers own all state.

Nobody compares or prints them: they go without the functions for it, each of which is compiled before the first text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from gpututor.app.commands import Pane
from gpututor.errors import TutorError
from gpututor.grading.events import GradingEvent

if TYPE_CHECKING:
    from gpututor.grading.recording import Recording
    from gpututor.hardware.inventory import Inventory
    from gpututor.progress.recordings import StoredAttempt


@dataclass(eq=False, repr=False)
class ExerciseChosen(Message):
    """The learner picked an exercise."""

    key: str
    with_lesson: bool = False
    """Whether another lesson than that of the open exercise is to be read first."""


@dataclass(eq=False, repr=False)
class LessonChosen(Message):
    """The learner picked a lesson in the list."""

    slug: str


@dataclass(eq=False, repr=False)
class RowChosen(Message):
    """The learner pressed the letter of a row of the course list."""

    index: int


@dataclass(eq=False, repr=False)
class PaneChosen(Message):
    """The learner pressed the letter of a pane."""

    pane: Pane


@dataclass(eq=False, repr=False)
class LineChosen(Message):
    """The learner wants to see a line of the file, from 1."""

    line: int
    of: str | None = None
    """The text that it is a line of, and that was edited since; None: the file as it is."""


@dataclass(eq=False, repr=False)
class LinkFollowed(Message):
    """The learner opened a link in a text."""

    target: str


@dataclass(eq=False, repr=False)
class EditorLeft(Message):
    """The editor lost the focus."""


@dataclass(eq=False, repr=False)
class TabsReplaced(Message):
    """A text with tabs at the start of its lines was pasted into the editor, which put spaces there."""


@dataclass(eq=False, repr=False)
class NamesFound(Message):
    """It is known which names can stand at the cursor; none where that could not be found out."""

    question: int
    names: tuple[str, ...]


@dataclass(eq=False, repr=False)
class SearchChanged(Message):
    """The learner looks for something else."""


@dataclass(eq=False, repr=False)
class MatchWanted(Message):
    """The learner wants to go to the next match, or with -1 to the one before."""

    by: int


@dataclass(eq=False, repr=False)
class ReplaceWanted(Message):
    """The learner wants the current match replaced, or all of them."""

    all: bool


@dataclass(eq=False, repr=False)
class GradingProgressed(Message):
    """Something happened in a run."""

    run: int
    event: GradingEvent | TutorError
    """The error is the grader's own, and ends the run."""


@dataclass(eq=False, repr=False)
class DevicesFound(Message):
    """It is known which devices this machine has."""

    inventory: Inventory


@dataclass(eq=False, repr=False)
class OwnEditorEnded(Message):
    """The learner's own editor, opened beside the app, has ended, or has handed the file to a window."""

    program: str
    fault: TutorError | None


@dataclass(eq=False, repr=False)
class SettingsChanged(Message):
    """The learner chose something else, here or in the settings' file."""


@dataclass(eq=False, repr=False)
class AttemptStored(Message):
    """A graded attempt is in the progress file, and its recording, if there is one, in its folder."""

    run: int
    exercise: str
    """The exercise's key."""
    stored: StoredAttempt


@dataclass(eq=False, repr=False)
class AttemptNotStored(Message):
    """A graded attempt is not in the progress file yet."""

    error: TutorError
    """`NotYetStored` while it is in the spool."""


@dataclass(eq=False, repr=False)
class EventLost(Message):
    """A progress event, such as an opened hint, could not be saved."""

    error: TutorError


@dataclass(eq=False, repr=False)
class CostsRead(Message):
    """It is known what the lines of an attempt cost."""

    exercise: str
    """The exercise's key."""
    source: str
    """The text that was graded."""
    recording: Recording


@dataclass(eq=False, repr=False)
class FileExported(Message):
    """A trace or a picture of the screen was written, or could not be."""

    path: Path | None
    error: TutorError | None
    tell: Callable[[str], object]
    """Shows where it is to who asked for it."""
