"""Make a copy of the course for students: without checks, solutions, wrong solutions and baselines.

Students use it to read, edit, run, get hints, and submit with `gpututor pack`. It does not grade, but for exercises
with a file public_checks.py: these are graded with the checks in it. The copy keeps the `id` of your course, so that
you can grade their submissions with the whole course.

If exercises have variants, --roster makes a zip for each student, with the student's own values. Without it, all
students get the first values.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from gpututor.authoring.lint import UNWRITTEN
from gpututor.classroom.gradebook.build import rules_of_course
from gpututor.classroom.packing import left_to_instructor, write_student_course
from gpututor.classroom.roster import read_roster
from gpututor.classroom.rules import Rules
from gpututor.classroom.variants import TABLE, write_student_courses
from gpututor.cli.classroom.report import print_notices
from gpututor.cli.options import chosen_course
from gpututor.course.model import PUBLIC_CHECKS, Course
from gpututor.grading.report_text import count
from gpututor.text import escape_control_chars


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for_help = "who gets it: students"
    parser.add_argument("--for", dest="whom", choices=("students",), required=True, help=for_help)
    out_help = "the folder to make, or a zip if its name ends in .zip"
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER_OR_ZIP", help=out_help)
    notebooks_help = "add a notebook of each exercise, next to its starter"
    parser.add_argument("--notebooks", action="store_true", help=notebooks_help)
    roster_help = "the class's roster: make a zip for each student, with their variants of exercises"
    parser.add_argument("--roster", metavar="CSV", type=Path, help=roster_help)
    rules_help = "the class's rules: students' copies do not name the checks that they hide"
    parser.add_argument("--rules", metavar="FILE", type=Path, help=rules_help)


def main(arguments: argparse.Namespace) -> int:
    course = chosen_course(arguments)
    if arguments.roster is not None:
        return _for_each_student(course, arguments)
    left = left_to_instructor(course, _rules(course, arguments))
    files = write_student_course(course, arguments.out, notebooks=arguments.notebooks, left=left)
    lessons, exercises = count(len(course.lessons), "lesson"), count(len(course.exercises), "exercise")
    print(f"Made {escape_control_chars(str(arguments.out))}: {lessons}, {exercises}, {count(len(files), 'file')}.")
    print("Left out: checks, solutions, right variants, wrong solutions, baselines and generators of inputs.")
    for exercise in course.exercises:
        if exercise.has_public_checks:
            print(f"{exercise.label} {exercise.slug} has the checks of its {PUBLIC_CHECKS}, and its given.py.")
    if unwritten := [path for path, content in files.items() if UNWRITTEN.encode() in content]:
        print(f"! Not written yet: {escape_control_chars(', '.join(unwritten))}.")
    if varying := [exercise.label for exercise in course.exercises if exercise.variants]:
        print(f"! All students get the first variant of {', '.join(varying)}: --roster makes a copy for each student.")
    is_zip = arguments.out.suffix.lower() == ".zip"
    folder = escape_control_chars(shlex.quote(arguments.out.stem if is_zip else arguments.out.name))
    print(f"Students {'unpack it, ' if is_zip else ''}use it with `gpututor --course {folder}`,")
    print(f"and submit with `gpututor pack --course {folder}`.")
    return 0


def _rules(course: Course, arguments: argparse.Namespace) -> Rules | None:
    """Read the rules; raise `UsageError` if they name a check that does not exist, which could then not be hidden."""
    if arguments.rules is None:
        return None
    rules, warnings = rules_of_course(arguments.rules, course)
    print_notices(warnings)
    return rules


def _for_each_student(course: Course, arguments: argparse.Namespace) -> int:
    roster = read_roster(arguments.roster)
    rules = _rules(course, arguments)
    write_student_courses(course, roster, arguments.out, notebooks=arguments.notebooks, rules=rules)
    out = escape_control_chars(str(arguments.out))
    print(f"Made {out}: {count(len(roster.students), 'zip')}, one for each student, with their variants.")
    print(f"{TABLE} in that folder lists all values, for you only. Grade with the same roster.")
    return 0
