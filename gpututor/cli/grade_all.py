"""`gpututor grade --all`: every changed file of the workspace, for continuous integration."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator

from gpututor.classroom.gradebook.build import gradebook_of
from gpututor.classroom.gradebook.exports import write_text
from gpututor.classroom.gradebook.exports.junit import junit
from gpututor.classroom.gradebook.marking import GradedAttempt
from gpututor.classroom.rules import Rules
from gpututor.classroom.submissions import Class, Student, Submission
from gpututor.cli.annotations import GradedFile, annotations_of, append_job_summary
from gpututor.cli.grading import isolation_for, rejection, request_for, save_attempt
from gpututor.cli.options import attempt_writer, chosen_workspace
from gpututor.cli.terminal import ProgressLine, fitting
from gpututor.course.model import Course, Exercise
from gpututor.course.workspace import Workspace
from gpututor.errors import WorkspaceError
from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradingFinished
from gpututor.grading.report import Outcome, Report
from gpututor.grading.report_text import count, line_after_pass, mark, outcome_line, remarks
from gpututor.progress.attempt_writer import FinishedRun
from gpututor.text import escape_control_chars


def grade_all(arguments: argparse.Namespace, course: Course) -> int:
    """Grade all files that differ from their starters; return the exit code."""
    workspace = chosen_workspace(arguments, course)
    waiting, unchanged, missing, without_checks = _files(course, workspace)
    graded: list[GradedFile] = []
    writer = attempt_writer(course)
    client = GradingClient(isolation_for(arguments, course))
    try:
        for exercise, text in waiting.items():
            path = workspace.path_of(exercise)
            if isinstance(text, WorkspaceError):
                report = rejection(exercise, text)
            else:
                report = _graded(client, arguments, exercise, text, path.name)
                save_attempt(writer, FinishedRun(report, text), lambda: None)
            graded.append(GradedFile(exercise, path, report))
            print("\n".join(map(fitting, _lines(graded[-1]))), flush=True)
            if arguments.annotate:
                print(
                    "".join(f"{line}\n" for line in annotations_of(graded[-1], arguments.annotate)), end="", flush=True
                )
    finally:
        client.close()
    outcomes = Counter(file.report.outcome for file in graded)
    words = ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in Outcome if outcomes[outcome]) or "nothing changed"
    left = [count(unchanged, "unchanged starter")] if unchanged else []
    left += [count(missing, "missing file")] if missing else []
    left += [f"{count(without_checks, 'file')} without checks here"] if without_checks else []
    not_graded = f" Not graded: {', '.join(left)}." if left else ""
    summary = f"{count(len(graded), 'file')} graded: {words}.{not_graded}"
    print(fitting(summary), flush=True)
    append_job_summary(graded, summary, arguments.annotate)
    if arguments.junit is not None:
        write_text(arguments.junit, _junit(course, workspace, graded))
    codes = {file.report.outcome.exit_code for file in graded}
    return 1 if codes & {1, 2} else max(codes, default=0)


def _files(course: Course, workspace: Workspace) -> tuple[dict[Exercise, str | WorkspaceError], int, int, int]:
    """Read all files; return those to grade, and the numbers of unchanged, missing and ungradable ones."""
    files: dict[Exercise, str | WorkspaceError] = {}
    unchanged = missing = without_checks = 0
    for exercise in course.exercises:
        try:
            text = workspace.read(exercise)
        except WorkspaceError as error:
            if os.path.lexists(workspace.path_of(exercise)):
                files[exercise] = error
            else:
                missing += 1
            continue
        if workspace.is_starter(exercise, text):
            unchanged += 1
        elif course.for_students and not exercise.has_checks:
            without_checks += 1
        else:
            files[exercise] = text
    return files, unchanged, missing, without_checks


def _graded(client: GradingClient, arguments: argparse.Namespace, exercise: Exercise, text: str, name: str) -> Report:
    with ProgressLine() as progress:
        for event in progress.follow(client.grade(request_for(arguments, exercise, text, name))):
            if isinstance(event, GradingFinished):
                return event.report
    raise KeyboardInterrupt  # only Ctrl-C cancels a grading here


def _lines(file: GradedFile) -> Iterator[str]:
    exercise, report = file.exercise, file.report
    yield f"{exercise.label:>5} {exercise.slug}  {escape_control_chars(outcome_line(report))}"
    for verdict in report.verdicts:
        if verdict.status.is_failure:
            where = f", line {verdict.line}" if verdict.line is not None else ""
            yield f"        {mark(verdict.status)}: {escape_control_chars(verdict.sentence)}{where}"
    words = remarks(report) if report.outcome is not Outcome.PASSED else []
    if exercise.left_to_instructor:
        words = [*words, line_after_pass(report, exercise.timeline, exercise.left_to_instructor)]
    yield from (f"        {escape_control_chars(text)}" for text in words if text)


def _junit(course: Course, workspace: Workspace, graded: list[GradedFile]) -> str:
    """Return the XML of a class with one student, named after the folder."""
    student = workspace.folder.resolve().name
    attempts = {
        Submission(
            student=student,
            exercise=file.exercise.key,
            source=file.path.name,
            sha256=file.report.submission_sha256,
            refusal=file.report.reason if file.report.outcome is Outcome.REJECTED else "",
        ): GradedAttempt(None, file.report)
        for file in graded
    }
    class_ = Class(str(course.folder), "folders", (Student(student),), tuple(attempts), ())
    return junit(gradebook_of(class_, attempts, Rules(), {exercise.key: exercise for exercise in course.exercises}))
