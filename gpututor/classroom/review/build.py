"""The review: submissions that the instructor should look at, and why."""

from __future__ import annotations

import hashlib
import re
import shlex
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.marking import NOT_YET, timings_of
from gpututor.classroom.gradebook.model import AttemptTiming, Gradebook, GradebookWarning, ScoredAttempt
from gpututor.classroom.jobs import Options
from gpututor.classroom.review.similarity import (
    Cluster,
    ComparedText,
    SimilarPair,
    similar,
    texts_of,
)
from gpututor.classroom.rules import course_of
from gpututor.classroom.submissions import Submission
from gpututor.course.model import Exercise
from gpututor.errors import CourseError
from gpututor.grading.report import Outcome, Report, Status, Verdict
from gpututor.grading.report_text import LEAST_TIME, count
from gpututor.paths import builtin_course

SHARE = 0.7
"""Default share of the shorter text's fingerprints, or words, that two alike texts have in common."""
FEWEST_TIMES = 10
"""Least number of different texts that passed, for a comparison of times."""
FAR = 4.0
"""Least speedup over the class's median for a text to be unusual."""
FEW = 0.05
"""Largest share of unusually fast texts; if more are that fast, it is an ordinary solution."""
_FASTER = re.compile(rf"\bwas faster than\b|{re.escape(LEAST_TIME)}")
"""The report's words about a time that the device cannot reach."""
_CODE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_MOST_WORDS = 4
"""Words in common that an item names."""


class ReviewReason(StrEnum):
    """Reason for an item, in the order of the list."""

    NEEDS_REVIEW = "needs review"
    SPEED = "unusual speed"
    INCONCLUSIVE = "inconclusive"
    INTERNAL_ERROR = "internal error"
    IDENTICAL = "identical"
    ALIKE = "alike"
    REFUSED = "refused"
    NO_EXERCISE = "no exercise"
    UNMATCHED = "unmatched"

    @property
    def heading(self) -> str:
        return _HEADINGS[self]


_HEADINGS = {
    ReviewReason.NEEDS_REVIEW: "For a person to review",
    ReviewReason.SPEED: "Faster than expected",
    ReviewReason.INCONCLUSIVE: "Inconclusive",
    ReviewReason.INTERNAL_ERROR: "Not graded, through no fault of the students",
    ReviewReason.IDENTICAL: "The same text from several people",
    ReviewReason.ALIKE: "Texts that are alike",
    ReviewReason.REFUSED: "Rejected files",
    ReviewReason.NO_EXERCISE: "Files of no exercise, from students who lack an exercise",
    ReviewReason.UNMATCHED: "Files without a student or an exercise",
}


@dataclass(frozen=True)
class Item:
    """A matter for the instructor to look at."""

    kind: ReviewReason
    exercise: str
    """The exercise's key; empty if unknown."""
    label: str
    """`5.3`; empty if the course is missing, or the exercise is unknown."""
    files: tuple[Submission, ...]
    """Submissions in the order of students and attempts; none for an unmatched file."""
    source: str
    why: str
    command: str
    """Command for a closer look; empty if there is none."""
    by: tuple[str, ...] = ()
    """Ids of the students of an unmatched file."""

    @property
    def students(self) -> tuple[str, ...]:
        """Sorted ids."""
        return tuple(sorted({*self.by, *(submission.student for submission in self.files)}))


@dataclass(frozen=True)
class Compared:
    """Statistics of the comparison of texts for one exercise."""

    exercise: str
    label: str
    texts: int
    compared: int
    """Number of texts with enough fingerprints of their own."""
    compared_words: int
    """Number of texts with enough words of their own."""
    fingerprints: int
    """Number of different fingerprints in the compared texts, without those of the template and common ones."""
    common: int
    """Number of common fingerprints, which many students have."""
    solutions: int
    """Number of students whose text is exactly the course's solution."""
    pairs: tuple[SimilarPair, ...]
    """Texts that are alike, the most similar first."""


@dataclass(frozen=True)
class Review:
    """The review of a class."""

    items: tuple[Item, ...]
    """Items sorted by kind, then in the order of the course, then by student."""
    share: float
    compared: tuple[Compared, ...]
    notices: tuple[GradebookWarning, ...]
    names: Mapping[str, str]
    """`Student.called` by id, if it is not the id."""

    @property
    def pairs(self) -> list[tuple[Compared, SimilarPair]]:
        """Pairs of all exercises, the most similar first."""
        pairs = [(compared, pair) for compared in self.compared for pair in compared.pairs]
        return sorted(pairs, key=lambda both: -both[1].share)

    def called(self, student: str) -> str:
        """Return a student's `Student.called`."""
        return self.names.get(student, student)


@dataclass(frozen=True)
class TextComparison:
    """Comparison of the texts for one exercise."""

    folder: ClassFolder
    exercise: str
    label: str
    definition: Exercise | None
    """None if the course is missing: then there is no template."""
    words_shown: Callable[[Sequence[str]], tuple[str, ...]] = tuple
    """Function that leaves out words that must not be shown, such as names."""

    def compare(self, files: Sequence[Submission], share: float) -> tuple[list[Item], Compared]:
        """Compare all submissions for the exercise."""
        texts = texts_of(file for file in files if file.sha256 and not file.refusal)
        given = list(_given(self.definition)) if self.definition is not None else []
        result = similar(texts, self.folder.read_submission, given, share)
        items = [self._identical(pair) for pair in result.pairs if pair.is_identical]
        items += [self._shared_by_many(crowd) for crowd in result.crowds]
        items += [self._alike(cluster) for cluster in result.clusters]
        counts = (result.texts, result.compared, result.compared_words, result.fingerprints, result.common)
        pairs = (replace(pair, shared_words=self.words_shown(pair.shared_words)) for pair in result.pairs)
        compared = Compared(self.exercise, self.label, *counts, self._solutions(texts), tuple(pairs))
        return sorted(items, key=lambda item: item.students), compared

    def _identical(self, pair: SimilarPair) -> Item:
        text = pair.texts[0]
        why = f"{len(text.parties)} people submitted exactly the same text."
        if pair.code is not None or pair.shared_words:
            why += f" They may have worked together, or used the same source.{self._in_common(pair.shared_words)}"
        else:
            why += " It may be a coincidence: it has little code of its own, and no names or comments."
        return self._item(ReviewReason.IDENTICAL, text.files, why, f"less {self._path(text)}")

    def _alike(self, cluster: Cluster) -> Item:
        caution = "" if len(cluster.texts) == 2 else " Each text is similar to another one, but not always to all."
        evidence = " and ".join({"code": "code", "words": "names and comments"}[by] for by in cluster.by)
        why = (
            f"{count(len(cluster.texts), 'text')} have {_range(cluster)} of their {evidence} in common, apart from the "
            f"course's own.{caution} The solution may be obvious, or they may have worked together."
            f"{self._in_common(cluster.shared_words)}"
        )
        return self._of_cluster(cluster, why)

    def _shared_by_many(self, crowd: Cluster) -> Item:
        why = (
            f"{count(len(crowd.texts), 'text')} of {crowd.people} people share {_range(crowd)} of their fingerprints "
            "with one of these texts, apart from the code of the course. With so many people, the solution may be "
            "obvious, or there may be a common source."
        )
        return self._of_cluster(crowd, why)

    def _of_cluster(self, cluster: Cluster, why: str) -> Item:
        files = [file for text in cluster.texts for file in text.files]
        files.sort(key=lambda file: (file.student, file.attempt))
        text, other = cluster.nearest
        return self._item(
            ReviewReason.ALIKE, tuple(files), why, f"diff -u {self._path(text)} {self._path(other)} | less"
        )

    def _item(self, kind: ReviewReason, files: tuple[Submission, ...], why: str, command: str) -> Item:
        return Item(kind, self.exercise, self.label, files, files[0].source, why, command)

    def _in_common(self, words: Sequence[str]) -> str:
        shown = self.words_shown(words)
        some = ", ".join(f"`{word}`" for word in shown[:_MOST_WORDS])
        return f" Own words in common: {some}{', …' if len(shown) > _MOST_WORDS else '.'}" if shown else ""

    def _path(self, text: ComparedText) -> str:
        return shlex.quote(str(self.folder.submission(text.sha256)))

    def _solutions(self, texts: Sequence[ComparedText]) -> int:
        try:
            solution = self.definition.solution if self.definition is not None else ""
        except CourseError:
            return 0  # only a statistic
        digest = hashlib.sha256(solution.encode()).hexdigest()
        return sum(len(text.parties) for text in texts if text.sha256 == digest)


def _range(cluster: Cluster) -> str:
    least, greatest = f"{cluster.least:.0%}", f"{cluster.greatest:.0%}"
    return least if least == greatest else f"{least} to {greatest}"


def _given(exercise: Exercise) -> Iterator[str]:
    """Yield code that students did not write: starter, shown code, solutions, and common mistakes."""
    names = ["starter.py", "solution.py", "task.md", "hints.md", "../lesson.md"]
    names += [f"{path.parent.name}/{path.name}" for path in (*exercise.right_solutions, *exercise.wrong_solutions)]
    for name in names:
        try:
            text = exercise.file(name)
        except CourseError:
            continue  # a course for students has no solutions; `gpututor verify` reports missing files
        if name.endswith(".md"):
            yield from _CODE.findall(text)
        else:
            yield text


def far_faster(attempts: Sequence[ScoredAttempt]) -> dict[ScoredAttempt, str]:
    """Return the attempts at an exercise that are far faster than the others, each with a sentence."""
    by_check: dict[tuple[str, str, bool], dict[str, AttemptTiming]] = defaultdict(dict)
    for attempt in attempts:
        if attempt.report is not None:
            for timing in timings_of("", attempt.report):
                if timing.status is Status.PASSED:
                    place = (timing.check, timing.scenario, timing.is_measured)
                    by_check[place].setdefault(attempt.submission.sha256, timing)
    sentences: dict[str, str] = {}
    for timings in by_check.values():
        if len(timings) < FEWEST_TIMES:
            continue
        median = statistics.median(timing.ratio for timing in timings.values())
        fast = {digest: timing for digest, timing in timings.items() if timing.ratio * FAR < median}
        if len(fast) <= max(1.0, FEW * len(timings)):
            for digest, timing in fast.items():
                sentences.setdefault(digest, _speed_words(timing, median, len(timings)))
    return {
        attempt: sentences[attempt.submission.sha256] for attempt in attempts if attempt.submission.sha256 in sentences
    }


def _speed_words(timing: AttemptTiming, median: float, texts: int) -> str:
    times = f"{median / timing.ratio:.0f} times as fast as" if timing.ratio else "far faster than"
    return (
        f"{timing.check} ({timing.scenario}): {timing.words}. That is {times} the class's median "
        f"({median:.2g} × the baseline's time, {texts} texts that passed). It may be a very good idea, or skipped "
        "work."
    )


def review_of(folder: ClassFolder, gradebook: Gradebook, share: float = SHARE) -> Review:
    """Review all attempts. `share`: see `SHARE`. Raises `UsageError` if no class was graded."""
    reviewer = _Reviewer(folder, gradebook, Options.read(folder))
    items: list[Item] = []
    compared: list[Compared] = []
    notices = list(gradebook.notices)
    waiting = 0
    course = course_of(gradebook.class_)
    exercises = {exercise.key: exercise for exercise in course.exercises} if course is not None else {}
    for place, summary in enumerate(gradebook.exercises):
        attempts = [attempt for student in gradebook.students for attempt in student.marks[place].attempts]
        attempts.sort(key=lambda attempt: (attempt.submission.student, attempt.submission.attempt))
        waiting += sum(_is_waiting(attempt) for attempt in attempts)
        decided = {student.student.id for student in gradebook.students if student.marks[place].by_hand is not None}
        items += [
            item
            for item in reviewer.attempts(summary.label, attempts)
            if item.kind is ReviewReason.SPEED or decided.isdisjoint(item.students)
        ]
        definition = exercises.get(summary.exercise)
        comparison = TextComparison(folder, summary.exercise, summary.label, definition, gradebook.words_shown)
        alike, counts = comparison.compare([attempt.submission for attempt in attempts], share)
        items += alike
        compared.append(counts)
    items += reviewer.unmatched()
    items.sort(key=lambda item: list(ReviewReason).index(item.kind))  # stable: in the order of the course
    if waiting:
        title = f"{count(waiting, 'file is', 'files are')} not graded yet."
        notices.append(GradebookWarning(title, "Review the class again after that."))
    names = {student.id: student.called for student in gradebook.class_.students if student.called != student.id}
    return Review(tuple(items), share, tuple(compared), tuple(notices), names)


@dataclass(frozen=True)
class _Reviewer:
    folder: ClassFolder
    gradebook: Gradebook
    options: Options

    def attempts(self, label: str, attempts: Sequence[ScoredAttempt]) -> Iterator[Item]:
        """Yield the items from the reports on one exercise."""
        fast = far_faster(attempts)
        for attempt in attempts:
            report = attempt.report
            if attempt in fast:
                yield self._item(ReviewReason.SPEED, label, attempt, fast[attempt])
            if attempt.outcome is Outcome.REJECTED:
                why = attempt.submission.refusal or (report.reason if report is not None else "")
                yield self._item(ReviewReason.REFUSED, label, attempt, why or "It cannot be graded.")
            elif report is None and not _is_waiting(attempt):
                yield self._item(ReviewReason.INTERNAL_ERROR, label, attempt, attempt.reason)
            elif report is not None:
                for kind, why in _reasons(report):
                    yield self._item(kind, label, attempt, why)

    def unmatched(self) -> Iterator[Item]:
        lacking = {marks.student.id for marks in self.gradebook.students if any(mark.misplaced for mark in marks.marks)}
        for file in self.gradebook.class_.unmatched:
            is_misplaced = not file.exercise and not lacking.isdisjoint(file.students)
            kind = ReviewReason.NO_EXERCISE if is_misplaced else ReviewReason.UNMATCHED
            command = "" if file.exercise else self._grade_class()  # nothing to do if another file counts
            yield Item(kind, "", "", (), file.source, file.why, command, file.students)

    def _item(self, kind: ReviewReason, label: str, attempt: ScoredAttempt, why: str) -> Item:
        submission = attempt.submission
        command = self._grade_class() if submission.refusal else self._grade_submission(submission, attempt.report)
        return Item(kind, submission.exercise, label, (submission,), submission.source, why, command)

    def _grade_submission(self, submission: Submission, report: Report | None) -> str:
        """Return the command that grades a submission in the same way and shows the report."""
        if self.options.has_variants(submission.exercise):
            words = ["gpututor", "classroom", "regrade", str(self.folder.folder), submission.student]
            return shlex.join([*words, submission.exercise, "--attempt", str(submission.attempt)])
        path = str(self.folder.submission(submission.sha256))
        words = ["gpututor", "grade", submission.exercise, "--file", path]
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
        """Return the command that reads the class again after files were renamed or repaired."""
        source = self.gradebook.class_.source
        where = shlex.quote(source) if source else "FOLDER"
        return f"gpututor classroom grade {where} --out {shlex.quote(str(self.folder.folder))} --resume"


def _is_waiting(attempt: ScoredAttempt) -> bool:
    """Return True if no grading of the attempt was tried yet."""
    return attempt.report is None and attempt.outcome is None and attempt.reason.startswith(NOT_YET)


def _reasons(report: Report) -> Iterator[tuple[ReviewReason, str]]:
    """Yield why the instructor should look at a report, at most once for each kind."""
    if report.outcome in (Outcome.INTERNAL_ERROR, Outcome.NOT_GRADABLE_HERE):
        yield ReviewReason.INTERNAL_ERROR, report.reason or f"The grader said {report.outcome.value!r}."
    odd = [verdict for verdict in report.verdicts if verdict.status is Status.NEEDS_REVIEW]
    fast = [_words(verdict) for verdict in odd if _FASTER.search(verdict.got)]
    fast += [_sentence(suspicion) for suspicion in report.suspicions if _FASTER.search(suspicion)]
    if fast:
        yield ReviewReason.SPEED, " ".join([*fast, "This proves nothing: the figures may be wrong."])
    rest = [_sentence(suspicion) for suspicion in report.suspicions if not _FASTER.search(suspicion)]
    rest += [_words(verdict) for verdict in odd if not _FASTER.search(verdict.got)]
    if rest:
        yield ReviewReason.NEEDS_REVIEW, " ".join([*rest, "The reason is unknown: read the file before you decide."])
    elif report.outcome is Outcome.NEEDS_REVIEW and not fast:
        yield ReviewReason.NEEDS_REVIEW, report.reason or "The report does not say why."
    open_ = [_words(verdict) for verdict in report.verdicts if verdict.status is Status.INCONCLUSIVE]
    if open_:
        yield ReviewReason.INCONCLUSIVE, " ".join([*open_, "Grade it again on a quieter machine."])


def _words(verdict: Verdict) -> str:
    return _ended(f"{verdict.check} ({verdict.scenario}): {verdict.got or verdict.sentence}")


def _sentence(words: str) -> str:
    """Start with a capital letter, unless the first word is a name, and end with a full stop."""
    words = words.strip()
    first = words.partition(" ")[0]
    if first.isalpha() and first.islower():
        words = words[:1].upper() + words[1:]
    return _ended(words)


def _ended(words: str) -> str:
    return words if words.endswith((".", "!", "?")) else f"{words}."
