"""Make a copy of the course for students: without checks, solutions, wrong solutions and baselines.

Students use it to read, edit, run, get hints, and submit with `gpututor pack`; it does not grade. It keeps the `id` of
your course, so that you can grade their submissions with the whole course.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from gpututor.authoring.lint import UNWRITTEN
from gpututor.classroom.packing import write_student_course
from gpututor.cli.options import chosen_course
from gpututor.grading.report_text import count
from gpututor.text import escape_control_chars


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for_help = "who gets it: students"
    parser.add_argument("--for", dest="whom", choices=("students",), required=True, help=for_help)
    out_help = "the folder to make, or a zip if its name ends in .zip"
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER_OR_ZIP", help=out_help)
    notebooks_help = "add a notebook of each exercise, next to its starter"
    parser.add_argument("--notebooks", action="store_true", help=notebooks_help)


def main(arguments: argparse.Namespace) -> int:
    course = chosen_course(arguments)
    files = write_student_course(course, arguments.out, notebooks=arguments.notebooks)
    lessons, exercises = count(len(course.lessons), "lesson"), count(len(course.exercises), "exercise")
    print(f"Made {escape_control_chars(str(arguments.out))}: {lessons}, {exercises}, {count(len(files), 'file')}.")
    print("Left out: checks, solutions, right variants, wrong solutions, baselines and generators of inputs.")
    if unwritten := [path for path, content in files.items() if UNWRITTEN.encode() in content]:
        print(f"! Not written yet: {escape_control_chars(', '.join(unwritten))}.")
    is_zip = arguments.out.suffix.lower() == ".zip"
    folder = escape_control_chars(shlex.quote(arguments.out.stem if is_zip else arguments.out.name))
    print(f"Students {'unpack it, ' if is_zip else ''}use it with `gpututor --course {folder}`,")
    print(f"and submit with `gpututor pack --course {folder}`.")
    return 0
