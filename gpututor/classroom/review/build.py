"""The review: submissions that a person should look at, and why."""

from __future__ import annotations

import hashlib
import re
import shlex
import statistics
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from pathlib import Path

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.marking import NOT_YET, timings_of
from gpututor.classroom.gradebook.model import Attempt, Gradebook, GradebookWarning, Timing
from gpututor.classroom.jobs import Options
from gpututor.classroom.review.similarity import (
    COMMON_PEOPLE,
    COMMON_SHARE,
    FEWEST,
    Cluster,
    Text,
    similar,
    template_of,
    texts_of,
)
from gpututor.classroom.rules import course_of
from gpututor.classroom.submissions import Submission
from gpututor.course.model import Exercise
from gpututor.errors import CourseError
from gpututor.files import ordinary
from gpututor.grading.report import Outcome, Report, Status, Verdict
from gpututor.grading.report_text import LEAST_TIME, count
from gpututor.paths import builtin_course
from gpututor.text import escape_control_chars

SHARE = 0.7
"""Texts are alike from this share of the shorter one's fingerprints on, unless another one is asked for."""


class Kind(StrEnum):
    """Why something is on the list. In the order in which the list is told."""

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
    Kind.NEEDS_REVIEW: "For a person to look at",
    Kind.SPEED: "Faster than expected",
    Kind.INCONCLUSIVE: "Inconclusive",
    Kind.INTERNAL_ERROR: "Not graded, through no fault of the students",
    Kind.IDENTICAL: "The same text from several people",
    Kind.ALIKE: "Texts that are alike",
    Kind.REFUSED: "Refused files",
    Kind.NO_EXERCISE: "Handed in something that is no exercise's, and nothing for some exercise",
    Kind.UNMATCHED: "Files that belong to nobody, or to no exercise",
}


@dataclass(frozen=True)
class Item:
    """One thing that a person should look at."""

    kind: Kind
    exercise: str
    """Its key; empty where none is known."""
    label: str
    """`5.3`; empty where the course is not there, or no exercise is known."""
    files: tuple[Submission, ...]
    """Those that it is about, in the order of students and attempts; none for a file that belongs to nobody."""
    source: str
    """Where the first of them was found."""
    why: str
    """A sentence or a few."""
    command: str
    """What to type to look closer; empty where nothing is to be done."""
    by: tuple[str, ...] = ()
    """The ids of those who handed it in, where it is for no exercise."""

    @property
    def students(self) -> tuple[str, ...]:
        """The ids, in their order."""
        return tuple(sorted({*self.by, *(one.student for one in self.files)}))


@dataclass(frozen=True)
class Compared:
    """How the texts of one exercise were compared."""

    exercise: str
    label: str
    texts: int
    """Different texts that were handed in."""
    compared: int
    """Of these, with enough of their own to be compared; the others have less than that beside what is template."""
    fingerprints: int
    """Different ones, in all compared texts, without what is template and without what many have in common."""
    common: int
    """Different ones that were left out because many have them in common."""
    solutions: int
    """People whose text is the course's solution, to the letter."""


@dataclass(frozen=True)
class Review:
    """All of it."""

    items: tuple[Item, ...]
    """By kind, then in the order of the course, then by student."""
    share: float
    """From which share of fingerprints on texts are said to be alike."""
    compared: tuple[Compared, ...]
    """In the order of the course."""
    notices: tuple[GradebookWarning, ...]
    names: Mapping[str, str]
    """What students are called beside their ids, by these, where that says more: see `Student.called`."""

    def called(self, student: str) -> str:
        """The id, and the name where that says more."""
        return self.names.get(student, student)


_CODE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Likeness:
    """Looks for texts of one exercise that are alike."""

    folder: ClassFolder
    exercise: str
    """Its key."""
    label: str
    about: Exercise | None
    """None where the course is not there: then nothing is known of what everybody was given."""

    def compared(self, files: Sequence[Submission], share: float) -> tuple[list[Item], Compared]:
        """`files`: all that was handed in. Returns what was found, and how it was looked for."""
        texts = texts_of(one for one in files if one.sha256 and not one.refusal)
        given = list(_given(self.about)) if self.about is not None else []
        found = similar(texts, self._read, template_of(given), share)
        items = [self._identical(text) for text in found.identical]
        items += [self._shared_by_many(crowd) for crowd in found.crowds]
        items += [self._alike(cluster) for cluster in found.clusters]
        how = Compared(
            exercise=self.exercise,
            label=self.label,
            texts=found.texts,
            compared=found.compared,
            fingerprints=found.fingerprints,
            common=found.common,
            solutions=self._solutions(texts),
        )
        return items, how

    def _identical(self, text: Text) -> Item:
        people = len(text.parties)
        why = (
            f"{people} people handed in the same text, to the letter. They may have worked together, or have a source."
        )
        return self._item(Kind.IDENTICAL, text.files, why, f"less {self._path(text)}")

    def _alike(self, cluster: Cluster) -> Item:
        each = "" if len(cluster.texts) == 2 else "; each is like one of the others, not always like all"
        why = (
            f"{count(len(cluster.texts), 'text')} have {_much(cluster)} of their fingerprints in common, beside what "
            f"everybody was given{each}. The solution may suggest itself, or they may have worked together."
        )
        return self._of_cluster(cluster, why)

    def _shared_by_many(self, crowd: Cluster) -> Item:
        why = (
            f"{count(len(crowd.texts), 'text')} of {crowd.people} people have {_much(crowd)} of their fingerprints in "
            "common with the same one of them, beside what everybody was given. So many share it that the solution may "
            "suggest itself, or they may have one source."
        )
        return self._of_cluster(crowd, why)

    def _of_cluster(self, cluster: Cluster, why: str) -> Item:
        files = tuple(sorted((one for text in cluster.texts for one in text.files), key=_who))
        one, other = cluster.nearest
        return self._item(Kind.ALIKE, files, why, f"diff -u {self._path(one)} {self._path(other)} | less")

    def _item(self, kind: Kind, files: tuple[Submission, ...], why: str, command: str) -> Item:
        return Item(kind, self.exercise, self.label, files, files[0].source, why, command)

    def _path(self, text: Text) -> str:
        return shlex.quote(str(self.folder.submission(text.sha256)))

    def _read(self, sha256: str) -> str | None:
        try:
            with open(self.folder.submission(sha256), "rb", opener=ordinary) as stream:
                return stream.read().decode(errors="replace")
        except OSError:
            return None

    def _solutions(self, texts: Sequence[Text]) -> int:
        """How many people handed in the course's solution."""
        try:
            solution = self.about.solution if self.about is not None else ""
        except CourseError:
            return 0
        digest = hashlib.sha256(solution.encode()).hexdigest()
        return sum(len(text.parties) for text in texts if text.sha256 == digest)


def _much(cluster: Cluster) -> str:
    least, greatest = f"{cluster.least:.0%}", f"{cluster.greatest:.0%}"
    return least if least == greatest else f"{least} to {greatest}"


def _who(one: Submission) -> tuple[str, int]:
    return one.student, one.attempt


def _given(exercise: Exercise) -> Iterator[str]:
    """What is nobody's own: the starter, code that students are shown, the solutions, and mistakes that many make."""
    names = ["starter.py", "solution.py", "task.md", "hints.md", "../lesson.md"]
    names += [f"{path.parent.name}/{path.name}" for path in (*exercise.right_solutions, *exercise.wrong_solutions)]
    for name in names:
        try:
            text = exercise.file(name)
        except CourseError:
            continue
        if name.endswith(".md"):
            yield from _CODE.findall(text)
        else:
            yield text


FEWEST_TIMES = 10
"""Among fewer different texts that passed, none is told from the others."""
FAR = 4.0
"""So many times as fast as the middle one of the class."""
FEW = 0.05
"""Where more than this share of the class is so fast, it is how some solve the exercise."""

_FASTER = re.compile(rf"\bwas faster than\b|{re.escape(LEAST_TIME)}")


def is_about_speed(words: str) -> bool:
    """Whether what the report tells is that something was faster than the device can be."""
    return _FASTER.search(words) is not None


def far_faster(attempts: Sequence[Attempt]) -> dict[Attempt, str]:
    """Those that are far faster than the others at one exercise, each with a sentence."""
    by_check: dict[tuple[str, str, bool], dict[str, Timing]] = defaultdict(dict)
    for attempt in attempts:
        if attempt.report is not None:
            for timing in _passed(attempt.report):
                place = (timing.check, timing.scenario, timing.is_measured)
                by_check[place].setdefault(attempt.handed_in.sha256, timing)
    found: dict[str, str] = {}
    for timings in by_check.values():
        if len(timings) < FEWEST_TIMES:
            continue
        middle = statistics.median(timing.ratio for timing in timings.values())
        fast = {digest: timing for digest, timing in timings.items() if timing.ratio * FAR < middle}
        if len(fast) <= max(1.0, FEW * len(timings)):
            for digest, timing in fast.items():
                found.setdefault(digest, _speed_words(timing, middle, len(timings)))
    return {attempt: found[attempt.handed_in.sha256] for attempt in attempts if attempt.handed_in.sha256 in found}


def _passed(report: Report) -> Iterator[Timing]:
    return (timing for timing in timings_of("", report) if timing.status is Status.PASSED)


def _speed_words(timing: Timing, middle: float, texts: int) -> str:
    times = f"{middle / timing.ratio:.0f} times as fast as" if timing.ratio else "far faster than"
    return (
        f"{timing.check} ({timing.scenario}): {timing.words}. That is {times} the middle one of the class "
        f"({middle:.2g} × the baseline's time, {texts} texts that passed). It may be a very good idea, or work that "
        "was not done."
    )


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

    def _grade_one(self, one: Submission, report: Report | None) -> str:
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


def _waiting(number: int) -> Iterator[GradebookWarning]:
    if number:
        yield GradebookWarning(
            f"{count(number, 'file is', 'files are')} not graded yet.", "Review the class again after that."
        )


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


_LEAST_WIDTH = 40


def lines_of(review: Review, width: int) -> Iterator[str]:
    """Everything, line by line: how much there is, each item, and how texts were compared."""
    width = max(width, _LEAST_WIDTH)
    if review.items:
        yield f"{count(len(review.items), 'thing')} for a person to look at; nothing here says that anybody did wrong."
    else:
        yield "There is nothing that a person has to look at."
    for kind, found in groupby(review.items, key=lambda item: item.kind):
        items = list(found)
        yield ""
        yield f"{kind.heading}: {len(items)}"
        for item in items:
            yield from _item(item, review, width)
    yield ""
    yield from _how(review, width)


def _item(item: Item, review: Review, width: int) -> Iterator[str]:
    place = " ".join(filter(None, (item.label, item.exercise)))
    if not item.files:
        who = ", ".join(map(review.called, item.students))
        yield _line(f"{who}  {item.source}" if who else item.source)
    elif len(item.files) == 1:
        one = item.files[0]
        yield _line(f"{review.called(one.student)}  {place}  {_attempt(one)}{one.source}")
    else:
        yield _line(place)
        names = ", ".join(
            f"{review.called(one.student)}{f' ({_attempt(one).strip()})' if one.attempt > 1 else ''}"
            for one in item.files
        )
        yield from _wrapped(names, width, 4)
    yield from _wrapped(item.why, width, 6)
    if item.command:
        yield f"      $ {_on_one_line(item.command)}"


def _attempt(one: Submission) -> str:
    return f"attempt {one.attempt}  " if one.attempt > 1 else ""


def _how(review: Review, width: int) -> Iterator[str]:
    """How texts were compared."""
    yield from _wrapped(
        f"Texts are alike from {review.share:.0%} of the shorter one's fingerprints in common on (--similar). What "
        "everybody was given, the course's solutions and wrong solutions, and what over "
        f"{COMMON_PEOPLE} people and over {COMMON_SHARE:.0%} of all have in common are left out. Texts with fewer than "
        f"{FEWEST} fingerprints then are not compared, and a student's attempts never with each other.",
        width,
        0,
    )
    rows = [_row(each) for each in review.compared if each.texts]
    if rows:
        head = ("Exercise", "Texts", "Compared", "Fingerprints", "Left out", "The course's solution")
        yield from _table([head, *rows])


def _row(each: Compared) -> tuple[str, ...]:
    name = _on_one_line(" ".join(filter(None, (each.label, each.exercise))))
    figures = (each.texts, each.compared, each.fingerprints, each.common, each.solutions)
    return (name, *map(str, figures))


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        figures = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        yield "  ".join([row[0].ljust(widths[0]), *figures])


def _line(text: str) -> str:
    return f"  {_on_one_line(text)}"


def _on_one_line(text: str) -> str:
    return escape_control_chars(text).replace("\n", "\\n").replace("\t", "\\t")


def _wrapped(text: str, width: int, indent: int) -> Iterator[str]:
    space = " " * indent
    yield from textwrap.wrap(_on_one_line(text), width - 1, initial_indent=space, subsequent_indent=space) or [space]
