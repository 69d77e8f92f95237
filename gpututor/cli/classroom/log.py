"""Print the history of a class or of one student: gradings, regrades, and marks by hand, the oldest first.

OUT is the folder that `classroom grade` made. Each line has the date, the student, the exercise, and the result. Marks
by hand and regrades also have their authors and reasons. Results are by the author's points, before rules and lateness.

--json prints one object:
  schema_version  1
  entries         [{at, event, student, exercise, by, why, points, before, after, submission, source}]
                  event is "graded", "regraded", "marked" or "cleared"; at is ISO 8601 in UTC
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.build import make_gradebook
from gpututor.classroom.gradebook.model import Gradebook
from gpututor.classroom.history import HistoryEntry, HistoryEvent, read_history, with_class_ids
from gpututor.classroom.jobs import Options
from gpututor.classroom.regrade import result_words
from gpututor.classroom.rules import rules_for
from gpututor.classroom.submissions import Submission
from gpututor.classroom.tables import number
from gpututor.cli.classroom import add_class_arguments, add_pseudonyms_argument, student_named
from gpututor.errors import GradingError
from gpututor.grading.journal import GradingKey, entries
from gpututor.text import escape_control_chars

SCHEMA_VERSION = 1
GRADED = "graded"
_KEYS = ("student", "exercise", "by", "why", "points", "before", "after", "submission")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_class_arguments(parser)
    add_pseudonyms_argument(parser)
    parser.add_argument("student", metavar="STUDENT", nargs="?", help="only this student (default: all)")
    parser.add_argument("--json", action="store_true", help="print one JSON object, described above")


def main(arguments: argparse.Namespace) -> int:
    folder = ClassFolder(arguments.out.absolute())
    rules = rules_for(folder, arguments.rules)
    gradebook = make_gradebook(folder, rules, arguments.course, with_names=not arguments.pseudonyms)
    decisions = with_class_ids(read_history(folder), gradebook.class_ids)
    if not gradebook.has_names and gradebook.pseudonyms is not None:
        decisions = tuple(map(gradebook.pseudonyms.entry, decisions))
    rows = [*_gradings(folder, gradebook), *map(_decision, _of_everyone(decisions, folder, gradebook))]
    if arguments.student is not None:
        student = student_named(arguments.student, gradebook).student.id
        rows = [row for row in rows if row["student"] == student]
    rows.sort(key=lambda row: str(row["at"]))
    if arguments.json:
        print(json.dumps({"schema_version": SCHEMA_VERSION, "entries": rows}, indent=2))
        return 0
    for row in rows:
        print(escape_control_chars(_line(row, gradebook)))
    if not rows:
        print("Nothing has been graded or decided yet.")
    return 0


def _gradings(folder: ClassFolder, gradebook: Gradebook) -> Iterator[dict[str, Any]]:
    """Yield a row for each grading in the journal and each student who submitted its text.

    If students have variants of the exercise, the grading must be with the student's own values.
    """
    options = Options.read(folder)
    files = _files(gradebook)
    for entry in entries(folder.journal):
        if isinstance(entry, GradingError):
            print(f"gpututor: {escape_control_chars(entry.title)}", file=sys.stderr)
            continue
        for submission in files[entry.key.submission, entry.key.exercise]:
            key = _key_of(submission, options, gradebook)
            versions = () if key is None else (key.exercise_version,)
            if options.has_variants(submission.exercise) and entry.key.exercise_version not in versions:
                continue
            result = result_words(entry.report)
            row: dict[str, Any] = dict.fromkeys(_KEYS, "")
            row |= {"student": submission.student, "exercise": submission.exercise}
            row |= {"after": result, "submission": submission.sha256, "points": None}
            yield {"at": entry.report.started_at, "event": GRADED, **row, "source": submission.source}


def _of_everyone(entries: Iterable[HistoryEntry], folder: ClassFolder, gradebook: Gradebook) -> Iterator[HistoryEntry]:
    """Yield the entries, and each regrade for all students with the same text, because their results changed too."""
    options, files = Options.read(folder), _files(gradebook)
    for entry in entries:
        yield entry
        if entry.event is not HistoryEvent.REGRADED:
            continue
        same = {file.student: _key_of(file, options, gradebook) for file in files[entry.submission, entry.exercise]}
        for student, key in same.items():
            if student != entry.student and key is not None and key == same.get(entry.student):
                yield replace(entry, student=student)


def _files(gradebook: Gradebook) -> Mapping[tuple[str, str], Sequence[Submission]]:
    """Return submissions by their texts and exercises."""
    files: dict[tuple[str, str], list[Submission]] = defaultdict(list)
    for submission in gradebook.class_.submissions:
        files[submission.sha256, submission.exercise].append(submission)
    return files


def _key_of(submission: Submission, options: Options, gradebook: Gradebook) -> GradingKey | None:
    return options.key_of(replace(submission, student=gradebook.real_id(submission.student)))


def _decision(entry: HistoryEntry) -> dict[str, Any]:
    return {"at": entry.at, "event": entry.event.value, **{key: getattr(entry, key) for key in _KEYS}, "source": ""}


def _line(row: dict[str, Any], gradebook: Gradebook) -> str:
    """Return `2026-03-01 10:00  kim  5.3  marked 3 by hand (before: 2), by ada: reason`, in local time."""
    at = datetime.fromisoformat(row["at"]).astimezone()
    labels = {exercise.exercise: exercise.label for exercise in gradebook.exercises}
    why = f": {row['why']}" if row["why"] else ""
    match row["event"]:
        case HistoryEvent.MARKED:
            what = f"marked {number(row['points'])} by hand (before: {row['before']}), by {row['by']}{why}"
        case HistoryEvent.CLEARED:
            what = f"mark by hand removed (before: {row['before']}), by {row['by']}{why}"
        case HistoryEvent.REGRADED:
            before = row["before"] or "no result"
            what = f"graded again: {row['after']} (before: {before}), by {row['by']}{why}"
        case _:
            what = f"graded: {row['after']}  {row['source']}"
    return f"{at:%Y-%m-%d %H:%M}  {row['student']}  {labels.get(row['exercise']) or row['exercise']}  {what}"
