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
from gpututor.grading.report import Report, Verdict

if TYPE_CHECKING:
    from gpututor.app.text_index import TextIndex
    from gpututor.app.widgets.device.view import RunView
    from gpututor.app.widgets.verdict_row import VerdictRow
    from gpututor.grading.inventory import Inventory
    from gpututor.grading.recording import Recording


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
class ListNarrowed(Message):
    """The course list shows other exercises, or its line of words got or lost the keys."""


@dataclass(eq=False, repr=False)
class RowChosen(Message):
    """The learner pressed the letter of a row of the course list."""

    index: int


@dataclass(eq=False, repr=False)
class CheckChosen(Message):
    """The learner pressed the letter of a check."""

    row: VerdictRow


@dataclass(eq=False, repr=False)
class TextsIndexed(Message):
    """All texts of the course are read and can be searched."""

    index: TextIndex


@dataclass(eq=False, repr=False)
class PaneChosen(Message):
    """The learner clicked a tab."""

    pane: Pane


@dataclass(eq=False, repr=False)
class CommandChosen(Message):
    """The learner clicked a command in the footer."""

    id: str


@dataclass(eq=False, repr=False)
class LineChosen(Message):
    """The learner wants to see a line of the file, from 1."""

    line: int
    of: str | None = None
    """The text that it is a line of, and that was edited since; None: the file as it is."""


@dataclass(eq=False, repr=False)
class CheckOpened(Message):
    """The learner opened a check's details, or closed them."""


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
class SearchClosed(Message):
    """The learner is done with searching."""


@dataclass(eq=False, repr=False)
class ScenarioStarted(Message):
    """A run has begun in one scenario."""

    run: int
    scenario: str
    device: str
    number: int = 1
    """Of the scenarios, from 1."""
    of: int = 1


@dataclass(eq=False, repr=False)
class CallBegan(Message):
    """The learner's function is being called: call `number` of so many on this machine."""

    run: int
    number: int
    of: int


@dataclass(eq=False, repr=False)
class DeviceWaitedFor(Message):
    """Another grading is on the real device; this one goes on after it."""

    run: int
    device: str


@dataclass(eq=False, repr=False)
class PairTimed(Message):
    """One more pair of calls was timed on a real device; the first message comes before any."""

    run: int
    pairs: int
    most_pairs: int


@dataclass(eq=False, repr=False)
class CheckAnswered(Message):
    """One check has said its verdict."""

    run: int
    verdict: Verdict


@dataclass(eq=False, repr=False)
class SubmissionGraded(Message):
    """A run came to its end."""

    run: int
    report: Report


@dataclass(eq=False, repr=False)
class RunCancelled(Message):
    """A run was stopped. Nothing is recorded."""

    run: int


@dataclass(eq=False, repr=False)
class RunBroke(Message):
    """The grader itself broke."""

    run: int
    error: TutorError


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
class AttemptKept(Message):
    """A graded attempt is in the progress file; its recording, if there is one, has its folder."""

    run: int
    report: Report
    id: int
    """The attempt's, for `ProgressStore.attempt` and `Recordings.path`."""

    @property
    def exercise(self) -> str:
        """The exercise's key."""
        return self.report.exercise


@dataclass(eq=False, repr=False)
class AttemptLost(Message):
    """A graded attempt could not be kept."""

    run: int
    report: Report
    error: TutorError


@dataclass(eq=False, repr=False)
class NoteLost(Message):
    """Something of the learner's way, such as a hint that was opened, could not be noted."""

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


@dataclass(eq=False, repr=False)
class RecordingLoaded(Message):
    """What the devices did in an attempt has been read."""

    exercise: str
    """The exercise's key."""
    attempt: int
    """The attempt's id."""
    view: RunView
