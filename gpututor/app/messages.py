"""What happened, in the past tense. Workers and widgets post these; the main screen's handlers own all state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from gpututor.app.commands import Pane
from gpututor.errors import TutorError
from gpututor.grading.report import Report, Verdict

if TYPE_CHECKING:
    from gpututor.grading.inventory import Inventory


@dataclass
class ExerciseChosen(Message):
    """The learner picked an exercise in the list."""

    key: str


@dataclass
class LessonChosen(Message):
    """The learner picked a lesson in the list."""

    slug: str


@dataclass
class PaneChosen(Message):
    """The learner clicked a tab."""

    pane: Pane


@dataclass
class CommandChosen(Message):
    """The learner clicked a command in the footer."""

    id: str


@dataclass
class LineChosen(Message):
    """The learner wants to see a line of the file, from 1."""

    line: int


@dataclass
class CheckOpened(Message):
    """The learner opened a check's details, or closed them."""


@dataclass
class LinkFollowed(Message):
    """The learner opened a link in a text."""

    target: str


@dataclass
class EditorLeft(Message):
    """The editor lost the focus."""


@dataclass
class TabsReplaced(Message):
    """A text with tabs at the start of its lines was pasted into the editor, which put spaces there."""


@dataclass
class ScenarioStarted(Message):
    """A run has begun in one scenario."""

    run: int
    scenario: str
    device: str


@dataclass
class PairTimed(Message):
    """One more pair of calls was timed on a real device; the first message comes before any."""

    run: int
    pairs: int
    most_pairs: int


@dataclass
class CheckAnswered(Message):
    """One check has said its verdict."""

    run: int
    verdict: Verdict


@dataclass
class SubmissionGraded(Message):
    """A run came to its end."""

    run: int
    report: Report


@dataclass
class RunCancelled(Message):
    """A run was stopped. Nothing is recorded."""

    run: int


@dataclass
class RunBroke(Message):
    """The grader itself broke."""

    run: int
    error: TutorError


@dataclass
class DevicesFound(Message):
    """It is known which devices this machine has."""

    inventory: Inventory
