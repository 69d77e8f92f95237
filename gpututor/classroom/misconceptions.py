"""Statistics by misconception: students' failures compared with the wrong solutions of the exercise.

Wrong solutions are graded like submissions of the class: their reports are in its journal, with the same keys. So each
is graded once for a state of the exercise, of gpututor and of PyTorch.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.model import Gradebook
from gpututor.classroom.jobs import Options
from gpututor.classroom.regrade import report_before
from gpututor.classroom.submissions import Submission
from gpututor.course.model import Course, Exercise
from gpututor.errors import CourseError
from gpututor.files import ordinary, write_atomically
from gpututor.grading.report import Report, Verdict

MOST_ALIKE = 3
"""Most wrong solutions that a failure may resemble. With more, the failure does not show which misconception it is."""
_NUMBER = re.compile(r"-?\d[\d.,]*(e[+-]?\d+)?")


@dataclass(frozen=True)
class WrongSolution:
    """A wrong solution of an exercise, which represents a misconception."""

    submission: Submission
    """Text of the file, as a submission of no student."""
    sentence: str
    """The author's sentence on the mistake: the second line of the file."""


@dataclass(frozen=True)
class Misconception:
    """Students whose counted attempts fail in the same way as wrong solutions."""

    exercise: str
    wrong: tuple[WrongSolution, ...]
    """Several if their reports are the same; empty if the failures resemble none."""
    students: tuple[str, ...]

    @property
    def words(self) -> str:
        """`Times the launch. (wrong/launch_only.py)`."""
        both = (f"{solution.sentence} ({solution.submission.source})".strip() for solution in self.wrong)
        return " or ".join(both) or "failed in another way"


def wrong_solutions(gradebook: Gradebook, course: Course, folder: ClassFolder) -> list[WrongSolution]:
    """Return the wrong solutions of all exercises with failures, and store their texts in the class's folder.

    Raises `CourseError` for an unreadable file, and `OSError` if the folder cannot be written to.
    """
    failed = {exercise for exercise, _, _ in _failures(gradebook)}
    exercises = [exercise for exercise in course.exercises if exercise.key in failed]
    return [wrong for exercise in exercises for wrong in _stored(exercise, folder)]


def misconceptions(
    gradebook: Gradebook, wrong: Sequence[WrongSolution], options: Options, folder: ClassFolder
) -> list[Misconception]:
    """Match failures with wrong solutions: by exercise, most frequent first, unmatched failures last."""
    graded: dict[str, list[tuple[WrongSolution, Report]]] = {}
    for solution in wrong:
        key = options.key_of(solution.submission)
        if key is not None and (report := report_before(folder, key)) is not None:
            graded.setdefault(key.exercise, []).append((solution, report))
    students: dict[tuple[str, tuple[WrongSolution, ...]], list[str]] = {}
    for exercise, student, report in _failures(gradebook):
        alike = similar(report, graded.get(exercise, ()))
        students.setdefault((exercise, alike), []).append(student)
    order = {summary.exercise: position for position, summary in enumerate(gradebook.exercises)}
    result = [Misconception(exercise, alike, tuple(ids)) for (exercise, alike), ids in students.items()]

    def place(misconception: Misconception) -> tuple[int, bool, int]:
        return order[misconception.exercise], not misconception.wrong, -len(misconception.students)

    return sorted(result, key=place)


def similar(report: Report, graded: Iterable[tuple[WrongSolution, Report]]) -> tuple[WrongSolution, ...]:
    """Return the wrong solutions that fail the same checks in the same scenarios.

    If any also have the same words, apart from numbers, only these count. A crash needs the same words, because
    different mistakes end in crashes.
    """
    failures = signature(report)
    alike = {solution: signature(other) for solution, other in graded}
    same_words = tuple(solution for solution, other in alike.items() if other == failures)
    if same_words or any(not verdict.of for verdict in _failed(report)):
        return same_words if len(same_words) <= MOST_ALIKE else ()
    same = tuple(solution for solution, other in alike.items() if set(other) == set(failures))
    return same if len(same) <= MOST_ALIKE else ()


def signature(report: Report) -> Mapping[tuple[str, str, str], str]:
    """Return scenario, check and status of each failed check, with the words of its result without numbers."""
    return {
        (verdict.scenario, verdict.check, verdict.status.value): _NUMBER.sub("#", verdict.got)
        for verdict in _failed(report)
    }


def _failed(report: Report) -> list[Verdict]:
    return [verdict for verdict in report.verdicts if verdict.status.is_failure]


def _failures(gradebook: Gradebook) -> Iterator[tuple[str, str, Report]]:
    """Yield exercise, student and report of each counted attempt with failed checks."""
    for marks in gradebook.students:
        for mark in marks.marks:
            report = mark.counted.report if mark.counted is not None else None
            if report is not None and report.outcome.is_of_the_submission and _failed(report):
                yield mark.exercise, marks.student.id, report


def _stored(exercise: Exercise, folder: ClassFolder) -> Iterator[WrongSolution]:
    for path in exercise.wrong_solutions:
        try:
            with open(path, "rb", opener=ordinary) as stream:
                text = exercise.filled(stream.read().decode("utf-8-sig"))
        except (OSError, ValueError) as error:
            raise CourseError(f"{path}: cannot be read ({error})", "Restore the file, then try again.") from error
        digest = hashlib.sha256(text.encode()).hexdigest()
        stored = folder.submission(digest)
        if not stored.exists():
            write_atomically(stored, text.encode())
        second = (text.splitlines()[1:2] or [""])[0]
        sentence = second.removeprefix("#").strip() if second.startswith("#") else ""
        yield WrongSolution(Submission("", exercise.key, f"wrong/{path.name}", digest), sentence)
