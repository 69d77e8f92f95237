"""Grade one submission again, with the same seed, device and isolation.

OUT is the folder that `classroom grade` made. The attempt that counts is graded, unless --attempt names another one.
Usually the result is the same. If it differs, the new result replaces the old one only if you say yes, or with
--accept. It then counts for every student who submitted this text. The old result moves to OUT/replaced, and the
history gets an entry; `classroom log` prints it. A mark by hand stays.

Exit codes: 0 the result is the same, or the new one is in the journal; 1 the result differs, and the old one still
counts; 2 wrong usage, or something changed since the grading; 3 this machine lacks something; 4 the submission could
not be graded.
"""

from __future__ import annotations

import argparse
import sys

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.build import make_gradebook
from gpututor.classroom.gradebook.model import Mark, ScoredAttempt
from gpututor.classroom.history import author, reason
from gpututor.classroom.jobs import Options
from gpututor.classroom.regrade import (
    accept_regrade,
    is_acceptable,
    regrade_job,
    regrade_request,
    report_before,
    result_words,
    same_result,
)
from gpututor.classroom.rules import rules_for
from gpututor.cli.classroom import add_author_arguments, add_class_arguments, exercise_named, student_named
from gpututor.cli.options import whole_number
from gpututor.errors import UsageError
from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest, GradingFinished, WaitingForDevice
from gpututor.grading.report import Report
from gpututor.text import escape_control_chars

KEPT = 1
"""Exit code if the result differs, and the old one still counts."""
NOT_GRADED = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_class_arguments(parser)
    parser.add_argument("student", metavar="STUDENT", help="the student's id, address, name or pseudonym")
    parser.add_argument("exercise", metavar="EXERCISE", help="5.3, hidden_syncs, or lesson/exercise")
    attempt_help = "the attempt's number (default: the attempt that counts)"
    parser.add_argument("--attempt", metavar="N", type=whole_number(1, 10_000), help=attempt_help)
    parser.add_argument("--accept", action="store_true", help="use the new result if it differs, without a question")
    add_author_arguments(parser, needs_reason=False)


def main(arguments: argparse.Namespace) -> int:
    folder = ClassFolder(arguments.out.absolute())
    why = reason(arguments.why) if arguments.why else ""
    by = author(arguments.by)
    gradebook = make_gradebook(folder, rules_for(folder, arguments.rules), arguments.course)
    student = student_named(arguments.student, gradebook)
    exercise = exercise_named(arguments.exercise, gradebook)
    attempt = _attempt(student.mark_of(exercise.exercise), arguments.attempt)
    job = regrade_job(folder, attempt.submission, arguments.course)
    before = report_before(folder, job.key)
    print(escape_control_chars(f"{student.student.called}, {exercise.numbered_title}: {attempt.submission.source}"))
    print(f"  before  {result_words(before) if before is not None else 'no result'}", flush=True)
    report = _grade(regrade_request(job, None), Options.read(folder).isolation)
    print(f"  now     {result_words(report)}", flush=True)
    if not is_acceptable(report):
        print(escape_control_chars(f"It could not be graded, and the journal is unchanged: {report.reason}"))
        return NOT_GRADED
    if before is not None and same_result(before, report):
        print("The same result again. The journal is unchanged.")
        return 0
    if not (arguments.accept or _is_wanted()):
        print("The old result still counts. --accept uses the new one.")
        return KEPT
    old = accept_regrade(folder, attempt.submission, job.key, report, by, why)
    print("The new result counts." + (f" The old one: replaced/{old.name}" if old is not None else ""))
    return 0


def _attempt(mark: Mark, number: int | None) -> ScoredAttempt:
    """Return the attempt to grade. Raises `UsageError`."""
    numbers = [attempt.submission.attempt for attempt in mark.attempts]
    if not numbers:
        advice = "`gpututor classroom report` shows who submitted what."
        raise UsageError("There is nothing to grade: no file was submitted for it.", advice)
    if number is None:
        return mark.counted or mark.attempts[-1]
    if number not in numbers:
        raise UsageError(f"There is no attempt {number}.", f"The attempts are {', '.join(map(str, numbers))}.")
    return mark.attempts[numbers.index(number)]


def _grade(request: GradeRequest, isolation: str) -> Report:
    client = GradingClient("process" if isolation == "process" else "bubblewrap", once=True)
    try:
        for event in client.grade(request):
            if isinstance(event, WaitingForDevice):
                print(f"  waiting: another grading is using {event.device}", file=sys.stderr)
            elif isinstance(event, GradingFinished):
                return event.report
    finally:
        client.close()
    raise KeyboardInterrupt  # only Ctrl-C cancels a grading here


def _is_wanted() -> bool:
    """Ask at a terminal; return True if the new result is to be used."""
    if not sys.stdin.isatty():
        return False
    print("The result differs. Use the new one for every student who submitted this text? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().casefold() in ("y", "yes")
