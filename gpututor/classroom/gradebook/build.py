"""Making of the gradebook from the journal, the submissions and the rules."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.marking import (
    EXTENDED,
    NOT_YET,
    GradedAttempt,
    Score,
    attempt_of,
    mark_of,
    marked_by_hand,
    score_attempt,
    student_marks,
    summary,
)
from gpututor.classroom.gradebook.model import (
    ExerciseSummary,
    Gradebook,
    GradebookWarning,
    Mark,
    MarkStatus,
    StudentMarks,
)
from gpututor.classroom.gradebook.slip_days import spend_slip_days
from gpututor.classroom.history import HistoryEntry, marks_by_hand, read_history, with_class_ids
from gpututor.classroom.jobs import JobFailure, Options, class_secret, read_failures
from gpututor.classroom.pseudonyms import Pseudonyms
from gpututor.classroom.roster import Roster, enrol, former_ids, read_roster, refusal, with_extensions
from gpututor.classroom.rules import OWN, CheckDescriptions, Describe, Rules, course_of, points_of, read_rules
from gpututor.classroom.submissions import Class, Student, Submission
from gpututor.classroom.tables import number
from gpututor.classroom.toml_mistakes import mistakes_error
from gpututor.course.model import Course, Exercise
from gpututor.errors import GradingError, UsageError
from gpututor.grading.journal import GradingKey, read_entry
from gpututor.grading.report_text import count
from gpututor.toml_schema import Mistake, nearest

_MOST_NAMED = 10
_MAY_HAVE_FILES = "No files match this student. Those of a student who is not in the roster may be theirs."
_BROKEN = "Its file in the journal is broken: move it away, then grade again with --resume."


def make_gradebook(
    folder: ClassFolder,
    rules: Rules,
    course_folder: Path | None = None,
    roster: Path | None = None,
    *,
    with_names: bool = True,
    is_whole_course: bool = True,
) -> Gradebook:
    """Make the gradebook of a class.

    `course_folder`: a moved course. `roster`: a roster in place of the one in the folder. `with_names`: False for
    pseudonyms. `is_whole_course`: False if the rules may name checks of exercises that the course lacks. Raises
    `UsageError`, also for wrong rules or a wrong roster.
    """
    submitted = class_ = folder.read_class()
    people = read_roster(roster or folder.roster_file) if roster is not None or folder.roster_file.exists() else None
    enrolment = enrol(class_, rules, people) if people is not None else None
    if enrolment is not None:
        class_, rules = enrolment.class_, enrolment.rules
    rules = with_extensions(rules, class_.students)
    chosen, sections = (enrolment.pseudonyms, enrolment.sections) if enrolment is not None else ({}, None)
    in_roster = (Student(id, platform_id=other) for id, other in enrolment.roster_ids.items()) if enrolment else ()
    also_called = (*submitted.students, *in_roster)
    pseudonyms = Pseudonyms(lambda: class_secret(folder.salt_file), class_.students, chosen, also_called)
    class_ids = {**former_ids(class_.students), **(enrolment.class_ids if enrolment is not None else {})}
    by_hand = marks_by_hand(with_class_ids(read_history(folder), class_ids))
    others, refused = (enrolment.others, enrolment.refused) if enrolment is not None else ((), ())
    unsure = enrolment.without_files if enrolment is not None and others else ()
    if not with_names:
        class_, rules = pseudonyms.class_(class_), pseudonyms.rules(rules)
        by_hand = {(pseudonyms.of(id), key): pseudonyms.entry(entry) for (id, key), entry in by_hand.items()}
        others, unsure = (tuple(map(pseudonyms.of, ids)) for ids in (others, unsure))
        refused = tuple((pseudonyms.of(id), pseudonyms.of(other)) for id, other in refused)
        sections = {pseudonyms.of(id): words for id, words in sections.items()} if sections is not None else None
    if course_folder is not None:
        class_ = replace(class_, course=str(course_folder))
    course = course_of(class_)
    graded, notices = _graded(folder, submitted)  # keys of gradings follow from real ids
    files = zip(submitted.submissions, class_.submissions, strict=True)
    graded = {new: graded[old] for old, new in files if old in graded}
    if not with_names:
        graded = {file: _without_names(attempt, pseudonyms) for file, attempt in graded.items()}
    if people is not None:
        called = {student.id: student.called for student in class_.students}
        notices += _roster_warnings(people, others, unsure)
        notices += [GradebookWarning(*refusal(people.path, called[id], called[other])) for id, other in refused]
    exercises = {exercise.key: exercise for exercise in course.exercises} if course is not None else {}
    if course is None:
        advice = "The report shows keys in place of titles. Restore the course, or name it with --course."
        notices.append(GradebookWarning(f"The course in {class_.course} cannot be loaded.", advice))
    with CheckDescriptions() as descriptions:
        given = (class_, graded, rules, exercises, notices, descriptions.of, by_hand, sections, unsure)
        made = gradebook_of(*given, is_whole_course=is_whole_course)
    return replace(made, pseudonyms=pseudonyms, has_names=with_names, class_ids=class_ids)


def _without_names(attempt: GradedAttempt, pseudonyms: Pseudonyms) -> GradedAttempt:
    return replace(attempt, report=pseudonyms.report(attempt.report) if attempt.report is not None else None)


def gradebook_of(
    class_: Class,
    graded: Mapping[Submission, GradedAttempt],
    rules: Rules,
    exercises: Mapping[str, Exercise],
    notices: Sequence[GradebookWarning] = (),
    describe: Describe = lambda exercise: (),
    by_hand: Mapping[tuple[str, str], HistoryEntry] = MappingProxyType({}),
    sections: Mapping[str, str] | None = None,
    unsure: Collection[str] = (),
    *,
    is_whole_course: bool = True,
) -> Gradebook:
    """Make a gradebook.

    `exercises`: the course's known exercises, in its order. `describe` is called if the reports do not name
    an exercise's checks. `by_hand`: marks by student and exercise. `sections`: the roster's, by the students'
    ids; None without a roster. `unsure`: ids of students without files who may have those of an unknown student.
    `is_whole_course`: see `make_gradebook`.
    """
    checked = rules if is_whole_course else replace(rules, hidden=(), hidden_until_due=(), needs=())
    known = _known_checks(class_, graded, checked, exercises, describe)
    warnings = [*notices, *check_warnings(checked, known), *_student_warnings(rules, class_)]
    warnings += [*_time_warnings(rules, class_), *_undated_warnings(rules, class_)]
    by_exercise: dict[str, list[Submission]] = {}
    for submission in class_.submissions:
        by_exercise.setdefault(submission.exercise, []).append(submission)
    assigned = rules.assigned or tuple(by_exercise)
    students = sorted(class_.students, key=lambda student: student.id)
    misplaced = class_.of_no_exercise()
    keys = [key for key in exercises if key in assigned] + sorted(set(assigned) - set(exercises))
    scores: dict[str, Score] = {}
    files: dict[tuple[str, str], list[Submission]] = {}
    for key in keys:
        submissions = by_exercise.get(key, [])
        reports = [graded[submission].report for submission in submissions if submission in graded]
        authors_points = partial(_authors_points, exercises.get(key), describe)
        scores[key] = score_attempt(key, filter(None, reports), rules, authors_points)
        for submission in sorted(submissions, key=lambda submission: submission.attempt):
            files.setdefault((submission.student, key), []).append(submission)

    def computed(student: str, key: str, slip_days: int) -> Mark:
        of = scores[key]
        attempts = [
            attempt_of(submission, graded.get(submission, GradedAttempt()), of, rules, slip_days)
            for submission in files.get((student, key), ())
        ]
        mark = mark_of(student, attempts, of, rules, misplaced.get(student, ()))
        if student in unsure and key in by_exercise:
            return replace(mark, status=MarkStatus.OPEN, reason=_MAY_HAVE_FILES)
        return mark

    marks: dict[str, list[Mark]] = {}
    slip_days: dict[str, int] = {}
    for student in students:
        of_student, slip_days[student.id] = spend_slip_days(student.id, keys, rules, partial(computed, student.id))
        entries = ((mark, by_hand.get((student.id, mark.exercise))) for mark in of_student)
        marks[student.id] = [marked_by_hand(mark, entry) if entry is not None else mark for mark, entry in entries]
    summaries = []
    for at, key in enumerate(keys):
        exercise = exercises.get(key)
        label, title = (exercise.label, exercise.title) if exercise is not None else ("", key)
        of_exercise = [marks[student.id][at] for student in students]
        summaries.append(summary(label, title, of_exercise, scores[key], rules, counts_missing=sections is not None))
    everyone = tuple(
        student_marks(student, marks[student.id], rules, (sections or {}).get(student.id, ""), slip_days[student.id])
        for student in students
    )
    lost = _by_hand_warnings(by_hand.values(), marks, {summary.exercise: summary for summary in summaries})
    warnings = [*lost, *warnings, *_exercise_warnings(by_exercise, summaries, rules)]
    warnings += [*_extension_warnings(everyone), *_attempts_warnings(everyone, rules)]
    return Gradebook(class_, rules, tuple(summaries), everyone, tuple(warnings), has_roster=sections is not None)


def _authors_points(exercise: Exercise | None, describe: Describe) -> dict[str, float]:
    return points_of(describe(exercise)) if exercise is not None else {}


def _graded(folder: ClassFolder, class_: Class) -> tuple[dict[Submission, GradedAttempt], list[GradebookWarning]]:
    """Read the journal's report on each submission, and warn of broken files. Equal texts are read once."""
    options = Options.read(folder)
    by_key: dict[GradingKey, GradedAttempt] = {}
    graded: dict[Submission, GradedAttempt] = {}
    notices = []
    failures: dict[GradingKey, JobFailure] = {}
    try:
        failures = read_failures(folder)
    except UsageError as error:  # it only explains missing reports
        notices.append(GradebookWarning(error.title, error.advice))
    for submission in class_.submissions:
        key = options.key_of(submission)
        if key is None:
            continue
        if key not in by_key:
            problem = f"It could not be graded: {failures[key].why}" if key in failures else NOT_YET
            try:
                by_key[key] = GradedAttempt(key, read_entry(folder.journal, key), problem)
            except GradingError as error:
                notices.append(GradebookWarning(error.title, error.advice))
                by_key[key] = GradedAttempt(key, None, _BROKEN)
        graded[submission] = by_key[key]
    return graded, notices


def _known_checks(
    class_: Class,
    graded: Mapping[Submission, GradedAttempt],
    rules: Rules,
    exercises: Mapping[str, Exercise],
    describe: Describe,
) -> dict[str, frozenset[str]]:
    """Collect names of checks by exercise: those in reports, and those of exercises whose rules name others."""
    known: dict[str, set[str]] = {}
    for submission in class_.submissions:
        if submission in graded and (report := graded[submission].report) is not None:
            known.setdefault(submission.exercise, set()).update(verdict.check for verdict in report.verdicts)
    for_all = {*rules.hidden, *rules.hidden_until_due, *rules.needs}
    knows_all = for_all <= set(OWN).union(*known.values())
    for key in rules.exercises if knows_all else exercises:  # these may name checks of any exercise
        names = known.setdefault(key, set())
        names.update(OWN)
        own = rules.of(key)
        if key in exercises and not (knows_all and {*own.points, *own.extra, *own.hidden, *(own.needs or ())} <= names):
            names.update(check.name for check in describe(exercises[key]))
    return {key: frozenset(names) for key, names in known.items()}


def rules_of_course(path: Path, course: Course) -> tuple[Rules, list[GradebookWarning]]:
    """Read rules, and warn of checks that may be unknown. Raises `UsageError`, also for a check of no exercise."""
    rules = read_rules(path, [exercise.key for exercise in course.exercises], course.keys_by_label)
    if not list(check_warnings(rules, {key: frozenset(OWN) for key in rules.exercises})):
        return rules, []  # it names no checks that only the exercises know
    with CheckDescriptions() as described:
        known = {
            exercise.key: frozenset({*OWN, *(check.name for check in described.of(exercise))})
            for exercise in course.exercises
        }
    return rules, list(check_warnings(rules, known))


def check_warnings(rules: Rules, known: Mapping[str, frozenset[str]]) -> Iterator[GradebookWarning]:
    """Warn of rules for checks that may be unknown; raise `UsageError` for unknown ones. `known`: names by exercise."""
    named: list[tuple[str, str, frozenset[str]]] = []
    for exercise, own in rules.exercises.items():
        prefix, names = f"exercises.'{exercise}'", known.get(exercise, frozenset())
        named += [(f"{prefix}.points.{check}", check, names) for check in own.points]
        named += [(f"{prefix}.extra", check, names) for check in own.extra]
        named += [(f"{prefix}.needs", check, names) for check in own.needs or ()]
        named += [(f"{prefix}.hidden", check, names) for check in own.hidden]
    everywhere = frozenset[str]().union(*known.values())
    named += [("hidden", check, everywhere) for check in rules.hidden]
    named += [("needs", check, everywhere) for check in rules.needs]
    named += [("hidden_until_due", check, everywhere) for check in rules.hidden_until_due]
    mistakes = []
    for key, check, names in named:
        if check in names:
            continue
        if names <= set(OWN):
            advice = "No report names the checks of this exercise yet. The rule applies as soon as one does."
            yield GradebookWarning(f"{key}: the check {check!r} may not exist.", advice)
        else:
            what = f"{'' if key in ('hidden', 'hidden_until_due', 'needs') else 'the exercise has '}no check {check!r}"
            mistakes.append(Mistake(key, what, nearest(check, sorted(names))))
    if mistakes:
        raise mistakes_error(rules.path or Path("the rules"), rules.text, mistakes)


def _student_warnings(rules: Rules, class_: Class) -> Iterator[GradebookWarning]:
    ids = [student.id for student in class_.students]
    for position, extension in enumerate(rules.extensions):
        if extension.student not in ids:
            title = f"extension[{position}].student: the class has no student {extension.student!r}."
            yield GradebookWarning(title, nearest(extension.student, ids) if ids else "")


def _roster_warnings(roster: Roster, others: Sequence[str], unsure: Collection[str]) -> Iterator[GradebookWarning]:
    if others:
        names = ", ".join(others[:_MOST_NAMED]) + (" …" if len(others) > _MOST_NAMED else "")
        title = f"Not in {roster.path}: {count(len(others), 'student')} with files ({names})."
        advice = "They are in all reports. If an id differs in the roster, correct it there; otherwise add a row."
        if unsure:
            advice += f" Until then, marks of {count(len(unsure), 'student')} without files stay open."
        yield GradebookWarning(title, advice)
    if roster.ignored:
        title = f"{roster.path}: columns that are not used: {', '.join(map(repr, roster.ignored))}."
        yield GradebookWarning(title, "The columns are id, name, email, section, extension (in hours) and pseudonym.")


def _extension_warnings(students: Sequence[StudentMarks]) -> Iterator[GradebookWarning]:
    """Warn of files that only the platform calls late, if their students have extensions."""
    attempts = [attempt for marks in students for mark in marks.marks for attempt in mark.attempts]
    if sources := [attempt.submission.source for attempt in attempts if attempt.lateness.words == EXTENDED]:
        names = ", ".join(sources[:_MOST_NAMED]) + (" …" if len(sources) > _MOST_NAMED else "")
        title = f"Marked late by the platform, but with an extension, so nothing is taken off: {names}."
        advice = "The platform gives no times. Check them there; `gpututor classroom mark` sets a mark by hand."
        yield GradebookWarning(title, advice)


def _time_warnings(rules: Rules, class_: Class) -> Iterator[GradebookWarning]:
    """Warn of due dates without an effect: nothing gives the time of a file, or says that it is late."""
    files = class_.submissions
    if rules.zone is None or any(file.late for file in files):  # a platform that marks late files
        return
    if untimed := sum(not file.submitted_at for file in files):
        files_without = "no submission has a time: nothing"
        if untimed < len(files):
            files_without = f"{count(untimed, 'submission has', 'submissions have')} no time: none of them"
        advice = "A roster can give times: Moodle's grading worksheet, or a column `submitted`."
        yield GradebookWarning(f"There is a due date, but {files_without} counts as late.", advice)


def _undated_warnings(rules: Rules, class_: Class) -> Iterator[GradebookWarning]:
    """Warn of hours of an extension without a due date, unless the platform marks late files."""
    if any(file.late for file in class_.submissions):
        return
    keys = {file.exercise for file in class_.submissions}
    names = [
        extension.student
        for extension in rules.extensions
        if extension.hours
        and all(rules.due_for(key, extension.student) is None for key in {extension.exercise} - {""} or keys)
    ]
    if names:
        shown = ", ".join(names[:_MOST_NAMED]) + (" …" if len(names) > _MOST_NAMED else "")
        yield GradebookWarning(f"There is no due date for the extension of {shown}.", "Write `due` in the rules.")


def _attempts_warnings(students: Sequence[StudentMarks], rules: Rules) -> Iterator[GradebookWarning]:
    """Warn of students whose submissions have none of the first attempts, which alone may count."""
    names = []
    for mark in (mark for marks in students for mark in marks.marks):
        limit = rules.max_attempts_for(mark.exercise)
        if limit is not None and mark.counted is not None and mark.counted.submission.attempt > limit:
            names.append(f"{mark.student} {mark.exercise}")
    if names:
        shown = ", ".join(names[:_MOST_NAMED]) + (" …" if len(names) > _MOST_NAMED else "")
        title = f"Only later attempts than max_attempts allows were submitted: {shown}."
        yield GradebookWarning(title, "Add the earlier attempts, or set a mark with `gpututor classroom mark`.")


def _by_hand_warnings(
    entries: Iterable[HistoryEntry], students: Container[str], exercises: Mapping[str, ExerciseSummary]
) -> Iterator[GradebookWarning]:
    """Warn of marks by hand that cannot count, and of those above what the exercise is worth by the rules now."""
    for entry in entries:
        what = f"The mark by hand of {entry.student} for {entry.exercise}, {number(entry.points)},"
        exercise = exercises.get(entry.exercise)
        if entry.student not in students or exercise is None:
            who = "exercise" if exercise is None else "student"
            title = f"{what} does not count: the class has no such {who} now."
            yield GradebookWarning(title, "It counts again as soon as the class has both.")
        elif exercise.most is not None and (entry.points or 0.0) > exercise.most:
            title = f"{what} is more than the exercise is worth now: {number(exercise.most)}."
            yield GradebookWarning(
                title, "Change it with `gpututor classroom mark`, or change the points in the rules."
            )


def _exercise_warnings(
    submitted: Iterable[str], summaries: Sequence[ExerciseSummary], rules: Rules
) -> Iterator[GradebookWarning]:
    if others := set(submitted) - {exercise.exercise for exercise in summaries}:
        title = f"Submitted but not assigned: {', '.join(sorted(others))}."
        yield GradebookWarning(title, "To count them, add them to `assigned` in the rules.")
    for exercise in summaries:
        if not exercise.handed_in:
            title = f"{exercise.exercise} is assigned, but there is no submission."
            yield GradebookWarning(title, "Every student has 0 points for it.")
        if exercise.known_of is None and rules.scale is not None and not exercise.is_dropped:
            title = f"No total is final: the points of {exercise.exercise} are unknown, and `scale` needs them."
            yield GradebookWarning(title, "Name the course with --course, or add the exercise to `drop` in the rules.")
