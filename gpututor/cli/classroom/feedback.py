"""A report for each student, in OUT/feedback: Markdown, or an HTML page as well.

OUT is the folder that `classroom grade` made. A report has the student's total and, for each exercise, the attempt that
counts. Each attempt has its checks with expected and actual values, lines, reasons and advice. The report also has late
penalties, and as many hints as the rules allow (`hints` in OUT/classroom.toml).

--language de writes the sentences of the checks and of the report in German. Texts of the course and sentences
without a translation stay as they are.

Reports never mention hidden checks, or details that an instructor has to look at. Each run rewrites all reports.
Reports of former students stay, and a warning names them.

If a student has a place on a leaderboard, their report gives it, and their pseudonym there.

--pseudonyms writes reports without names to OUT/pseudonymous/feedback, for people outside of the course.

--moodle and --canvas also write the reports as one zip, which the platform distributes to the students. The class must
be graded from the platform's own download, because the zip needs the file names in it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from gpututor.classroom.feedback import SubmittedLines, feedback
from gpututor.classroom.feedback_files import PLATFORMS, Feedback, write_reports
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.build import make_gradebook
from gpututor.classroom.gradebook.leaderboard import leaderboards
from gpututor.classroom.gradebook.model import Gradebook, GradebookWarning
from gpututor.classroom.rules import course_of, rules_for
from gpututor.cli.classroom import add_class_arguments, add_pseudonyms_argument, student_named
from gpututor.cli.classroom.report import print_notices
from gpututor.cli.options import whole_number
from gpututor.errors import CourseError, UsageError
from gpututor.files import sweep_parts
from gpututor.grading.report_text import count
from gpututor.processes import is_alive
from gpututor.text import escape_control_chars
from gpututor.translation import catalog, languages

MOST_HINTS = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_class_arguments(parser)
    add_pseudonyms_argument(parser)
    hints_help = "number of hints to give for each exercise, instead of the number in the rules"
    parser.add_argument("--hints", metavar="N", type=whole_number(0, MOST_HINTS), help=hints_help)
    format_help = "markdown (default), or html: also write each report as a page for a browser"
    parser.add_argument("--format", choices=("markdown", "html"), default="markdown", help=format_help)
    language_help = f"language of the reports: {', '.join(languages())} (default: as in the rules)"
    parser.add_argument("--language", choices=languages(), help=language_help)
    for platform in PLATFORMS:
        parser.add_argument(f"--{platform.layout}", metavar="ZIP", type=Path, help=platform.help)
    student_help = "only for these students (default: for all)"
    parser.add_argument("--student", metavar="ID", nargs="+", action="extend", help=student_help)


def main(arguments: argparse.Namespace) -> int:
    folder = ClassFolder(arguments.out.absolute())
    zips = [(platform, path) for platform in PLATFORMS if (path := getattr(arguments, platform.layout)) is not None]
    if arguments.pseudonyms and zips:
        title = f"--{zips[0][0].layout} needs the students' real names, which --pseudonyms replaces."
        raise UsageError(title, "Run the command twice, once with each option.")
    rules = rules_for(folder, arguments.rules)
    gradebook = make_gradebook(folder, rules, arguments.course, with_names=not arguments.pseudonyms)
    folder = folder if gradebook.has_names else folder.without_names()
    notices = list(gradebook.notices)
    for platform, path in zips:
        platform.check(folder, gradebook, path)
    chosen = _chosen(arguments.student, gradebook)
    hints = _hints_of(gradebook, arguments.hints, notices)
    lines = SubmittedLines(folder, gradebook.without_names)
    boards = leaderboards(gradebook)
    say = catalog(arguments.language or gradebook.rules.language, Path(gradebook.class_.course))
    reports = [
        Feedback(marks.student, feedback(gradebook, marks, lines, hints, boards, say), say.language)
        for marks in gradebook.students
        if marks.student.id in chosen
    ]
    is_html = arguments.format == "html"
    sweep_parts(folder.feedback, is_alive)
    notices += write_reports(folder, gradebook, reports, html=is_html)
    print(f"Written: {count(len(reports), 'report')} to {escape_control_chars(str(folder.feedback))}")
    for platform, path in zips:
        notices += platform.write(path, gradebook, reports, html=is_html)
        print(f"Written: a zip for {platform.name} to {escape_control_chars(str(path.absolute()))}")
    print_notices(notices)
    return 0


def _chosen(ids: Sequence[str] | None, gradebook: Gradebook) -> set[str]:
    if ids is None:
        return {marks.student.id for marks in gradebook.students}
    return {student_named(id, gradebook).student.id for id in ids}


def _hints_of(gradebook: Gradebook, most: int | None, notices: list[GradebookWarning]) -> dict[str, tuple[str, ...]]:
    """Return the hints by exercise, at most `most` or as the rules allow; add a notice for an unreadable file."""
    keys = [exercise.exercise for exercise in gradebook.exercises]
    allowed = {key: gradebook.rules.hints_for(key) if most is None else most for key in keys}
    course = course_of(gradebook.class_) if any(allowed.values()) else None
    hints = {}
    for exercise in course.exercises if course is not None else ():
        if number := allowed.get(exercise.key):
            try:
                hints[exercise.key] = exercise.hints[:number]
            except CourseError as error:
                notices.append(GradebookWarning(f"No hints are given: {error.title}", error.advice))
    return hints
