"""Make the autograder zip that you upload to Gradescope: it grades each submission there.

The zip has setup.sh, run_autograder, gpututor with a copy of these exercises and their checks, your rules, and a class
secret. So keep it private. docs/classroom/gradescope.md explains dates, attempts, visibility and isolation there.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gpututor.classroom.gradebook.build import rules_of_course
from gpututor.classroom.gradescope_image import write_image
from gpututor.cli.classroom.report import print_notices
from gpututor.cli.options import chosen_course
from gpututor.errors import UsageError
from gpututor.grading.report_text import count
from gpututor.text import escape_control_chars


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("exercises", nargs="+", metavar="EXERCISE", help="2.1, born_on_the_device, or a path")
    out_help = "the zip to make (autograder.zip)"
    parser.add_argument("-o", "--out", type=Path, default=Path("autograder.zip"), metavar="FILE", help=out_help)
    parser.add_argument("--rules", type=Path, metavar="FILE", help="rules for marks, as in classroom.toml")
    secret_help = "the class secret of a graded class, for the same inputs as there (default: a new one)"
    parser.add_argument("--secret", type=Path, metavar="FILE", help=secret_help)
    roster_help = "the class's roster, for exercises with variants: their values follow from its ids"
    parser.add_argument("--roster", type=Path, metavar="CSV", help=roster_help)


def main(arguments: argparse.Namespace) -> int:
    course = chosen_course(arguments)
    course.check_has_checks()
    if arguments.secret is not None and not arguments.secret.exists():
        raise UsageError(f"{arguments.secret}: there is no such file.", "Without --secret, the zip gets a new secret.")
    chosen = [course.find(words) for words in arguments.exercises]
    exercises = [exercise for exercise in course.exercises if exercise in chosen]
    rules, warnings = rules_of_course(arguments.rules, course) if arguments.rules is not None else (None, [])
    files = write_image(arguments.out, course, exercises, rules, arguments.secret, arguments.roster)
    size = sum(map(len, files.values())) / 2**20
    made = escape_control_chars(str(arguments.out))
    print(f"Made {made}: {count(len(exercises), 'exercise')}, {count(len(files), 'file')}, {size:.1f} MiB.")
    for exercise in exercises:
        print(f"  {exercise.label:>5} {exercise.slug}.py")
    people = "" if arguments.roster is None else ", and the ids, names and addresses of your students"
    print(f"It contains solutions, checks and the class secret{people}: give it to Gradescope only.")
    print_notices(warnings)
    return 0
