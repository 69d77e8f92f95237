"""Make the course as students get it: without checks, solutions, wrong solutions and baselines.

Students read, edit and run with it, get hints, and hand in with `gpututor pack`; it does not grade. It is called the
same as your course (its `id`), so that what they hand in is known for it. You grade with your own, whole course.
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
    out_help = "the folder to make, or the zip where it is called .zip"
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER_OR_ZIP", help=out_help)


def main(arguments: argparse.Namespace) -> int:
    course = chosen_course(arguments)
    files = write_student_course(course, arguments.out)
    lessons, exercises = count(len(course.lessons), "lesson"), count(len(course.exercises), "exercise")
    print(f"Made {escape_control_chars(str(arguments.out))}: {lessons}, {exercises}, {count(len(files), 'file')}.")
    print("Not in it: checks, solutions, wrong solutions, baselines, and what inputs are made of.")
    if unwritten := [path for path, content in files.items() if UNWRITTEN.encode() in content]:
        print(f"! Not written yet: {escape_control_chars(', '.join(unwritten))}.")
    is_zip = arguments.out.suffix.lower() == ".zip"
    folder = escape_control_chars(shlex.quote(arguments.out.stem if is_zip else arguments.out.name))
    print(f"Students {'unpack it, ' if is_zip else ''}use it with `gpututor --course {folder}`,")
    print(f"and hand in with `gpututor pack --course {folder}`.")
    return 0
