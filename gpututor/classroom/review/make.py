"""Making the review list of a gradebook."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpututor.classroom.batch import Options
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.attempts import NOT_YET
from gpututor.classroom.gradebook.model import Attempt, Gradebook, Notice
from gpututor.classroom.handed_in import HandedIn
from gpututor.classroom.review.likeness import Likeness
from gpututor.classroom.review.model import SHARE, Compared, Item, Kind, Review
from gpututor.classroom.review.speeds import far_faster, is_about_speed
from gpututor.classroom.rules_file import course_of
from gpututor.grading.report import Outcome, Report, Status, Verdict
from gpututor.grading.words import count
from gpututor.paths import builtin_course


def review_of(folder: ClassFolder, gradebook: Gradebook, share: float = SHARE) -> Review:
    """What a person should look at, of all attempts at the exercises of the gradebook.

    `share`: from which share of the shorter one's fingerprints on two texts are said to be alike. Raises `UsageError`
    where no class was graded.
    """
    reviewer = _Reviewer(folder, gradebook, Options.read(folder))
    items: list[Item] = []
    compared: list[Compared] = []
    waiting = 0
    course = course_of(gradebook.class_)
    exercises = {exercise.key: exercise for exercise in course.exercises} if course is not None else {}
    for place, summary in enumerate(gradebook.exercises):
        attempts = [attempt for student in gradebook.students for attempt in student.marks[place].attempts]
        attempts.sort(key=lambda attempt: (attempt.handed_in.student, attempt.handed_in.attempt))
        waiting += sum(_is_waiting(attempt) for attempt in attempts)
        items += reviewer.about_gradings(summary.label, attempts)
        likeness = Likeness(folder, summary.exercise, summary.label, exercises.get(summary.exercise))
        found, how = likeness.compared([attempt.handed_in for attempt in attempts], share)
        items += found
        compared.append(how)
    items += reviewer.unmatched()
    order = {kind: position for position, kind in enumerate(Kind)}
    items.sort(key=lambda item: order[item.kind])  # within a kind they stay in the order of the course
    names = {student.id: student.called for student in gradebook.class_.students if student.called != student.id}
    return Review(tuple(items), share, tuple(compared), (*gradebook.notices, *_waiting(waiting)), names)


@dataclass(frozen=True)
class _Reviewer:
    folder: ClassFolder
    gradebook: Gradebook
    options: Options

    def about_gradings(self, label: str, attempts: Sequence[Attempt]) -> Iterator[Item]:
        """What stands in the reports on one exercise."""
        fast = far_faster(attempts)
        for attempt in attempts:
            one, report = attempt.handed_in, attempt.report
            if attempt in fast:
                yield self._item(Kind.SPEED, label, attempt, fast[attempt])
            if attempt.outcome is Outcome.REJECTED:
                why = one.refusal or (report.reason if report is not None else "")
                yield self._item(Kind.REFUSED, label, attempt, why or "It cannot be graded.")
            elif report is None and not _is_waiting(attempt):
                yield self._item(Kind.INTERNAL_ERROR, label, attempt, attempt.reason)
            elif report is not None:
                for kind, why in _told(report):
                    yield self._item(kind, label, attempt, why)

    def unmatched(self) -> Iterator[Item]:
        lacking = {marks.student.id for marks in self.gradebook.students if any(each.misplaced for each in marks.marks)}
        for each in self.gradebook.class_.unmatched:
            is_misplaced = not each.exercise and not lacking.isdisjoint(each.students)
            kind = Kind.NO_EXERCISE if is_misplaced else Kind.UNMATCHED
            command = "" if each.exercise else self._grade_class()  # another file counts there
            yield Item(kind, "", "", (), each.source, each.why, command, each.students)

    def _item(self, kind: Kind, label: str, attempt: Attempt, why: str) -> Item:
        one = attempt.handed_in
        command = self._grade_class() if one.refusal else self._grade_one(one, attempt.report)
        return Item(kind, one.exercise, label, (one,), one.source, why, command)

    def _grade_one(self, one: HandedIn, report: Report | None) -> str:
        """To grade it once more, as it was, and read all of the report."""
        words = ["gpututor", "grade", one.exercise, "--file", str(self.folder.submission(one.sha256))]
        if self.options.device != "auto":
            words += ["--device", self.options.device]
        if self.options.gpu:
            words += ["--gpu", self.options.gpu]
        if report is not None:
            words += ["--seed", str(report.environment.seed)]
        if Path(self.gradebook.class_.course) != builtin_course():
            words += ["--course", self.gradebook.class_.course]
        return shlex.join(words)

    def _grade_class(self) -> str:
        """To read once more what was handed in, when a file was renamed or mended there."""
        source = self.gradebook.class_.source
        where = shlex.quote(source) if source else "FOLDER"
        return f"gpututor classroom grade {where} --out {shlex.quote(str(self.folder.folder))} --resume"


def _is_waiting(attempt: Attempt) -> bool:
    """Whether nobody has tried to grade it yet."""
    return attempt.report is None and attempt.outcome is None and attempt.reason.startswith(NOT_YET)


def _waiting(number: int) -> Iterator[Notice]:
    if number:
        yield Notice(f"{count(number, 'file is', 'files are')} not graded yet.", "Review the class again after that.")


def _told(report: Report) -> Iterator[tuple[Kind, str]]:
    """What a report has for a person, at most one item of each kind."""
    if report.outcome in (Outcome.INTERNAL_ERROR, Outcome.NOT_GRADABLE_HERE):
        yield Kind.INTERNAL_ERROR, report.reason or f"The grader said {report.outcome.value!r}."
    odd = [verdict for verdict in report.verdicts if verdict.status is Status.NEEDS_REVIEW]
    fast = [_words(verdict) for verdict in odd if is_about_speed(verdict.got)]
    fast += [_sentence(each) for each in report.suspicions if is_about_speed(each)]
    if fast:
        yield Kind.SPEED, " ".join([*fast, "Nothing is held against it: the figures may be wrong."])
    rest = [_sentence(each) for each in report.suspicions if not is_about_speed(each)]
    rest += [_words(verdict) for verdict in odd if not is_about_speed(verdict.got)]
    if rest:
        yield Kind.NEEDS_REVIEW, " ".join([*rest, "It is not known why: read the file before you decide."])
    elif report.outcome is Outcome.NEEDS_REVIEW and not fast:
        yield Kind.NEEDS_REVIEW, report.reason or "The report does not say why."
    open_ = [_words(verdict) for verdict in report.verdicts if verdict.status is Status.INCONCLUSIVE]
    if open_:
        yield Kind.INCONCLUSIVE, " ".join([*open_, "On a quieter machine it may be told."])


def _words(verdict: Verdict) -> str:
    return _ended(f"{verdict.check} ({verdict.scenario}): {verdict.got or verdict.sentence}")


def _sentence(words: str) -> str:
    """With a capital letter, where that is no name, and a full stop."""
    words = words.strip()
    first = words.partition(" ")[0]
    if first.isalpha() and first.islower():
        words = words[:1].upper() + words[1:]
    return _ended(words)


def _ended(words: str) -> str:
    return words if words.endswith((".", "!", "?")) else f"{words}."
