"""The gradebook's data: scores of attempts, marks of students, and statistics of exercises.

All texts of students and files are plain text, never markup; the code that shows them escapes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from statistics import fmean

from gpututor.classroom.history import HistoryEntry
from gpututor.classroom.pseudonyms import Pseudonyms
from gpututor.classroom.rules import Rules
from gpututor.classroom.submissions import Class, Student, Submission
from gpututor.classroom.tables import number
from gpututor.grading.journal import GradingKey
from gpututor.grading.report import Outcome, Report, Status


class MarkStatus(StrEnum):
    """State of a mark."""

    FINAL = "final"
    OPEN = "open"
    """The instructor has to look at it, or it has to be graded again. Without attempts: files may be missing."""
    REFUSED = "refused"
    """Not gradable: the instructor decides."""
    NOT_GRADED = "not graded"
    """Not in the journal yet."""
    NOT_HANDED_IN = "not handed in"
    """A mark of 0."""

    @property
    def is_mark(self) -> bool:
        """True if the points may be entered as a mark."""
        return self in (MarkStatus.FINAL, MarkStatus.NOT_HANDED_IN)

    @property
    def word(self) -> str:
        """Text in place of a missing mark; empty for a mark."""
        return {MarkStatus.OPEN: "open", MarkStatus.REFUSED: "rejected", MarkStatus.NOT_GRADED: "waiting"}.get(self, "")

    @property
    def phrase(self) -> str:
        """The status in words for people; values are for files."""
        words = {MarkStatus.REFUSED: "rejected", MarkStatus.NOT_HANDED_IN: "not submitted"}
        return words.get(self, self.value)


@dataclass(frozen=True)
class CheckMark:
    """A check of an attempt, over all scenarios."""

    check: str
    sentence: str
    status: Status
    """Worst status of its scenarios, by `WORST_FIRST`."""
    points: float
    """`of` if it passed in every scenario, else 0."""
    of: float
    """Points by the rules; 0 for the grader's own checks."""
    is_extra: bool = False
    """True if its points are added to those of the exercise."""
    is_hidden: bool = False


@dataclass(frozen=True)
class Lateness:
    """Lateness of an attempt, and its penalty."""

    periods: int = 0
    """Started days or hours, as the rules count them; 0 within the grace period."""
    per_cent: float = 0.0
    too_late: bool = False
    """True if it is worth nothing by the rules."""
    words: str = ""
    """A sentence; empty if in time."""
    slip_days: int = 0
    """Number of slip days that moved its due date: only as many as it needed."""


@dataclass(frozen=True)
class ScoredAttempt:
    """A submission and its score."""

    submission: Submission
    status: MarkStatus
    """Never `NOT_HANDED_IN`."""
    outcome: Outcome | None
    """`rejected` for a rejected file; None before it is graded."""
    report: Report | None
    key: GradingKey | None
    checks: tuple[CheckMark, ...]
    earned: float
    """Points of the checks, before the late penalty."""
    points: float
    """Points after the late penalty, rounded by the rules. Provisional unless it is a mark."""
    most: float
    """Upper bound of `points`; equal to `points` for a mark."""
    lateness: Lateness
    reason: str
    """Reason for a missing mark or a penalty; else empty. It may name hidden checks: for the instructor only."""

    @property
    def deduction(self) -> float:
        """Points of the late penalty."""
        return max(self.earned - self.points, 0.0) if self.lateness.periods or self.lateness.too_late else 0.0


@dataclass(frozen=True)
class Mark:
    """A student's result in an exercise."""

    student: str
    exercise: str
    status: MarkStatus
    points: float
    """A mark if `status.is_mark`; otherwise provisional, never to be entered anywhere."""
    known_of: float | None
    """Points of the exercise, without extra points; None if unknown."""
    attempts: tuple[ScoredAttempt, ...] = ()
    """Attempts in the order of time."""
    counted: ScoredAttempt | None = None
    """The attempt that counts, or that the instructor has to look at first. None without attempts."""
    reason: str = ""
    """Explanation; empty for a plain mark. It may name hidden checks: for the instructor only."""
    is_dropped: bool = False
    misplaced: str = ""
    """The student's files of no exercise, if there are no attempts: `kim/homework.py belongs to no exercise`."""
    by_hand: HistoryEntry | None = None
    """The instructor's mark by hand, which `points` are; None for a computed mark."""
    computed: Mark | None = None
    """The computed mark that a mark by hand replaces."""

    @property
    def of(self) -> float:
        return self.known_of or 0.0

    @property
    def mark(self) -> float | None:
        """The points; None if they are provisional."""
        return self.points if self.status.is_mark else None

    @property
    def outcome(self) -> Outcome | None:
        return self.counted.outcome if self.counted is not None else None

    @property
    def shown_word(self) -> str:
        """The mark as a number, or why there is none."""
        return number(self.points) if self.status is MarkStatus.FINAL else self.status.phrase

    @property
    def computed_word(self) -> str:
        """The computed mark that a mark by hand replaces, or why there is none; empty for a computed mark."""
        return self.computed.shown_word if self.computed is not None else ""

    @property
    def by_hand_words(self) -> str:
        """`3 instead of 2, by ada on 2026-03-01: reason`; empty for a computed mark."""
        if self.by_hand is None:
            return ""
        entry = self.by_hand
        return f"{number(entry.points)} instead of {self.computed_word}, by {entry.by} on {entry.day}: {entry.why}"

    @property
    def share(self) -> float:
        """Points divided by `of`; more than 1 with extra points."""
        return self.points / self.of if self.of else 0.0


@dataclass(frozen=True)
class StudentMarks:
    """A student's row: a mark for each exercise of the gradebook, in its order, and their total."""

    student: Student
    marks: tuple[Mark, ...]
    points: float
    """Total of points times weight on the rules' scale, rounded. Provisional unless it is final."""
    known_of: float | None
    """Largest total without extra points. None if the points of an exercise that counts are unknown."""
    open: int
    """Number of exercises without a mark, or with unknown points that a scale needs."""
    section: str = ""
    """The section in the instructor's roster; empty if unknown."""
    slip_days: int = 0
    """Number of slip days spent."""

    @property
    def of(self) -> float:
        return self.known_of or 0.0

    @property
    def final(self) -> bool:
        """True if the total may be entered anywhere."""
        return self.open == 0

    def mark_of(self, exercise: str) -> Mark:
        return next(mark for mark in self.marks if mark.exercise == exercise)


@dataclass(frozen=True)
class CheckCount:
    """Results of one check in the attempts that count."""

    check: str
    sentence: str
    of: float
    is_extra: bool
    is_hidden: bool
    passed: int
    failed: int
    """Failed and too slow."""
    open: int
    """Inconclusive or in need of review."""
    not_run: int
    held_back: int
    """Passed with wrong values."""

    @property
    def judged(self) -> int:
        return self.passed + self.failed


@dataclass(frozen=True)
class AttemptTiming:
    """A time of an attempt that counts, compared with the baseline's."""

    student: str
    check: str
    scenario: str
    ratio: float
    """Submission's time divided by the baseline's: smaller is faster."""
    status: Status
    is_measured: bool
    """True on a real device; False for a time that the virtual GPU modelled."""
    words: str
    device: str = ""
    """The scenario's device: `cuda:0, virtual T4`; empty if unknown."""


BINS = 10
"""Number of equal parts of a distribution."""


@dataclass(frozen=True)
class ExerciseSummary:
    """An exercise over all students."""

    exercise: str
    label: str
    """`5.3`; empty if the course is missing."""
    title: str
    known_of: float | None
    """Points without extra points; None if unknown."""
    extra: float
    weight: float
    due: datetime | None
    """Due date without extensions."""
    is_dropped: bool
    handed_in: int
    """Number of students with an attempt."""
    without_mark: int
    """Number of students whose mark is open, rejected or not graded yet."""
    outcomes: tuple[tuple[Outcome, int], ...]
    """Counts of the attempts that count, most frequent first."""
    distribution: tuple[int, ...]
    """Counts of final marks by their share of the points, in `BINS` parts."""
    mean_share: float | None
    """Mean of the same shares, 0 to 1; None without final marks."""
    median_share: float | None
    checks: tuple[CheckCount, ...]
    """Checks, most often failed first."""
    timings: tuple[AttemptTiming, ...]
    """Timings, fastest first."""

    @property
    def most(self) -> float | None:
        """Points with extra points; None if unknown."""
        return None if self.known_of is None else self.known_of + self.extra

    @property
    def numbered_title(self) -> str:
        """`5.3 Hidden syncs`."""
        return f"{self.label} {self.title}".strip()


@dataclass(frozen=True)
class GradebookWarning:
    """A problem for the instructor: a broken file of the journal, or a rule without effect."""

    title: str
    advice: str = ""


@dataclass(frozen=True)
class SectionSummary:
    """The totals of a section."""

    section: str
    students: int
    final: int
    """Number of students with a final total."""
    mean_share: float | None
    """Mean of the final totals, 0 to 1; None without any."""


@dataclass(frozen=True)
class Gradebook:
    """All marks of a class."""

    class_: Class
    rules: Rules
    exercises: tuple[ExerciseSummary, ...]
    """Exercises in the order of the course."""
    students: tuple[StudentMarks, ...]
    """Students in the order of their ids."""
    notices: tuple[GradebookWarning, ...]
    has_roster: bool = False
    """True if the students are those of the instructor's roster: then a missing file counts as 0 in means."""
    pseudonyms: Pseudonyms | None = None
    """The students' pseudonyms; None if the gradebook was not made from a folder."""
    has_names: bool = True
    """False if all names in it are replaced by pseudonyms."""
    class_ids: Mapping[str, str] = field(default_factory=dict)
    """Real ids of the class by other ids, which the history may have: those of the roster, and earlier ones."""

    @property
    def sections(self) -> tuple[SectionSummary, ...]:
        """The sections of the roster, in their order; empty without any."""
        summaries = []
        for section in sorted({marks.section for marks in self.students if marks.section}):
            of_it = [marks for marks in self.students if marks.section == section]
            shares = [min(marks.points / marks.of, 1.0) for marks in of_it if marks.final and marks.of]
            final = sum(marks.final for marks in of_it)
            summaries.append(SectionSummary(section, len(of_it), final, fmean(shares) if shares else None))
        return tuple(summaries)

    def without_names(self, text: str) -> str:
        """Return a text of a student, without names if the gradebook has none."""
        return text if self.has_names or self.pseudonyms is None else self.pseudonyms.text(text)

    def words_shown(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return words of students, without those in names if the gradebook has none."""
        if self.has_names or self.pseudonyms is None:
            return tuple(words)
        return self.pseudonyms.words_without_names(words)

    def report_shown(self, report: Report) -> Report:
        """Return a report, without names if the gradebook has none."""
        return report if self.has_names or self.pseudonyms is None else self.pseudonyms.report(report)

    def real_id(self, student: str) -> str:
        """Return a student's id in the files of the class, whose gradebook may have no names."""
        return student if self.has_names or self.pseudonyms is None else self.pseudonyms.id_of(student)

    def slip_days_of(self, marks: StudentMarks) -> tuple[int, int]:
        """Return the numbers of a student's slip days that are spent, and left."""
        return marks.slip_days, self.rules.slip_days - marks.slip_days

    def student(self, id: str) -> StudentMarks:
        return next(marks for marks in self.students if marks.student.id == id)

    @property
    def by_hand(self) -> tuple[tuple[StudentMarks, ExerciseSummary, Mark], ...]:
        """The marks by hand, in the order of students and exercises."""
        return tuple(
            (student, exercise, mark)
            for student in self.students
            for exercise, mark in zip(self.exercises, student.marks, strict=True)
            if mark.by_hand is not None
        )

    def exercise(self, key: str) -> ExerciseSummary:
        return next(exercise for exercise in self.exercises if exercise.exercise == key)
