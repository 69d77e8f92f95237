"""The gradebook's data: what each attempt is worth, which one counts, and what a student and an exercise come to.

All texts of students and files are plain text, never markup; who shows them escapes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gpututor.classroom.rules import Rules
from gpututor.classroom.submissions import Class, Student, Submission
from gpututor.grading.journal import GradingKey
from gpututor.grading.report import Outcome, Report, Status


class MarkStatus(StrEnum):
    """Whether there is a mark, and why not."""

    FINAL = "final"
    OPEN = "open"
    """It was graded, and a person has to look, or it has to be graded once more, before there is a mark."""
    REFUSED = "refused"
    """The file could not be graded at all: the instructor decides."""
    NOT_GRADED = "not graded"
    """The journal has no report on it yet."""
    NOT_HANDED_IN = "not handed in"
    """A mark of nothing."""

    @property
    def is_mark(self) -> bool:
        """Whether the points may be entered as a mark."""
        return self in (MarkStatus.FINAL, MarkStatus.NOT_HANDED_IN)

    @property
    def word(self) -> str:
        """What stands in the place of a mark, where there is none; empty otherwise."""
        return _WORDS.get(self, "")


_WORDS = {MarkStatus.OPEN: "open", MarkStatus.REFUSED: "refused", MarkStatus.NOT_GRADED: "waiting"}


@dataclass(frozen=True)
class CheckMark:
    """One check of one attempt, over all scenarios."""

    check: str
    """Its name."""
    sentence: str
    """What must be true."""
    status: Status
    """The worst of its scenarios: failed, too slow, needs review, inconclusive, not run, held back, passed."""
    points: float
    """`of` when it passed in every scenario, else nothing."""
    of: float
    """What it is worth by the rules; nothing for the grader's own checks."""
    is_extra: bool = False
    """Whether its points come on top of what the exercise is worth."""
    is_hidden: bool = False
    """Whether students must not learn anything of it."""


@dataclass(frozen=True)
class Lateness:
    """How late an attempt was, and what that costs."""

    late_s: float = 0.0
    """Seconds after the date that holds for this student; 0 where it was in time, or where no time is known."""
    periods: int = 0
    """Started days or hours, as the rules count them; 0 where it was in time or within the grace."""
    per_cent: float = 0.0
    """What is taken off."""
    too_late: bool = False
    """It was refused by the rules, and is worth nothing."""
    words: str = ""
    """A sentence; empty where it was in time."""


@dataclass(frozen=True)
class Attempt:
    """One file that was handed in, and what it is worth."""

    handed_in: Submission
    standing: MarkStatus
    """Never `NOT_HANDED_IN`."""
    outcome: Outcome | None
    """`rejected` for a refused file; None for one that is not graded yet."""
    report: Report | None
    key: GradingKey | None
    """Under which the report stands in the journal."""
    checks: tuple[CheckMark, ...]
    """In the order of the report."""
    earned: float
    """Points of the checks, before lateness."""
    points: float
    """After lateness, rounded as the rules say. So far, where it is no mark."""
    most: float
    """What it can still become, after lateness: `points` where it is a mark."""
    lateness: Lateness
    reason: str
    """Why it is no mark, or what was taken off; empty where there is nothing to say. It is for the instructor: it may
    name hidden checks."""

    @property
    def deduction(self) -> float:
        """What lateness cost, in points."""
        return max(self.earned - self.points, 0.0) if self.lateness.periods or self.lateness.too_late else 0.0


@dataclass(frozen=True)
class Mark:
    """One student at one exercise."""

    student: str
    """A `Student.id`."""
    exercise: str
    """Its key."""
    standing: MarkStatus
    points: float
    """A mark where `standing.is_mark`; what is sure or known so far otherwise, never to be entered anywhere."""
    of: float
    """What the exercise is worth; extra points come on top."""
    attempts: tuple[Attempt, ...] = ()
    """In the order of time."""
    counted: Attempt | None = None
    """The attempt that counts; of a mark that is open, the one that a person has to look at. None without any."""
    reason: str = ""
    """What there is to say, a sentence or a few; empty for a plain mark. It is for the instructor, as above."""
    is_dropped: bool = False
    """Whether it is left out of the student's total."""
    knows_of: bool = True
    """False where it is not known yet what the exercise is worth: `of` is nothing then."""
    misplaced: str = ""
    """Where nothing was handed in, and files of no exercise were: which, `kim/homework.py belongs to no exercise`."""

    @property
    def known_of(self) -> float | None:
        return self.of if self.knows_of else None

    @property
    def mark(self) -> float | None:
        """The points as a mark; None where there is none yet."""
        return self.points if self.standing.is_mark else None

    @property
    def outcome(self) -> Outcome | None:
        return self.counted.outcome if self.counted is not None else None

    @property
    def share(self) -> float:
        """Points of what the exercise is worth: 1 is all of it, more with extra points."""
        return self.points / self.of if self.of else 0.0


@dataclass(frozen=True)
class StudentMarks:
    """One student: a mark for each exercise of the gradebook, in its order, and their total."""

    student: Student
    marks: tuple[Mark, ...]
    points: float
    """The total of what counts: points times weight, on the rules' scale, rounded. So far, where it is not final."""
    of: float
    """What was to be had."""
    open: int
    """How many exercises have no mark yet."""
    knows_of: bool = True

    @property
    def known_of(self) -> float | None:
        """None where it is not known yet what one of the exercises that count is worth, and no scale says it."""
        return self.of if self.knows_of else None

    @property
    def final(self) -> bool:
        """Whether the total may be entered anywhere."""
        return self.open == 0

    def mark_of(self, exercise: str) -> Mark:
        return next(mark for mark in self.marks if mark.exercise == exercise)


@dataclass(frozen=True)
class CheckCount:
    """How one check went in the attempts that count."""

    check: str
    sentence: str
    of: float
    is_extra: bool
    is_hidden: bool
    passed: int
    failed: int
    """Too slow ones among them."""
    open: int
    """Inconclusive, or to be looked at."""
    not_run: int
    held_back: int
    """Passed with wrong values."""

    @property
    def judged(self) -> int:
        return self.passed + self.failed


@dataclass(frozen=True)
class Timing:
    """A time that was compared with a baseline's, of an attempt that counts."""

    student: str
    check: str
    scenario: str
    ratio: float
    """The submission's time over the baseline's: smaller is faster."""
    status: Status
    is_measured: bool
    """On a real device; otherwise modelled by the virtual GPU."""
    words: str
    """The figures as the report has them."""


BINS = 10
"""The distribution of an exercise has so many equal parts: 0 to 10 per cent of the points, …, 90 to 100."""


@dataclass(frozen=True)
class ExerciseSummary:
    """One exercise over all students."""

    exercise: str
    """Its key."""
    label: str
    """`5.3`; empty where the course is not there any more."""
    title: str
    of: float
    extra: float
    """How many points can come on top."""
    weight: float
    due: datetime | None
    """For those without an extension."""
    is_dropped: bool
    """Left out of every total."""
    handed_in: int
    """Students who handed something in."""
    without_mark: int
    """Students whose mark is open, refused or not graded yet."""
    outcomes: tuple[tuple[Outcome, int], ...]
    """Of the attempts that count, most frequent first."""
    distribution: tuple[int, ...]
    """How many marks of those who handed something in lie in each of the `BINS`; all of the points lie in the last."""
    mean_share: float | None
    """Of the same marks, 0 to 1; None where there are none."""
    median_share: float | None
    checks: tuple[CheckCount, ...]
    """Most often failed first."""
    timings: tuple[Timing, ...]
    """Fastest first."""
    knows_of: bool = True
    """False where it is not known yet what it is worth: `of` is nothing then."""

    @property
    def known_of(self) -> float | None:
        return self.of if self.knows_of else None

    @property
    def numbered_title(self) -> str:
        """`5.3 Hidden syncs`."""
        return f"{self.label} {self.title}".strip()


@dataclass(frozen=True)
class GradebookWarning:
    """Something that the instructor should know: a broken file of the journal, a rule that names nothing."""

    title: str
    advice: str = ""


@dataclass(frozen=True)
class Gradebook:
    """All of it."""

    class_: Class
    rules: Rules
    exercises: tuple[ExerciseSummary, ...]
    """In the order of the course."""
    students: tuple[StudentMarks, ...]
    """In the order of their ids."""
    notices: tuple[GradebookWarning, ...]

    def student(self, id: str) -> StudentMarks:
        """Raises `KeyError` where there is nobody of this id."""
        for one in self.students:
            if one.student.id == id:
                return one
        raise KeyError(id)

    def exercise(self, key: str) -> ExerciseSummary:
        """Raises `KeyError` where the gradebook does not have it."""
        for one in self.exercises:
            if one.exercise == key:
                return one
        raise KeyError(key)

    @property
    def most_failed(self) -> tuple[tuple[ExerciseSummary, CheckCount], ...]:
        """The checks of all exercises that failed at least once, most often first."""
        found = [(exercise, check) for exercise in self.exercises for check in exercise.checks if check.failed]
        return tuple(sorted(found, key=lambda pair: -pair[1].failed))
