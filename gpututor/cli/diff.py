"""Compare your file with the solution, as a unified diff: after you have passed, or with --yes.

Lines with - are yours, lines with + are the solution's.
"""

from __future__ import annotations

import argparse
import difflib

from gpututor.cli.options import chosen_course, chosen_workspace
from gpututor.cli.solution import require_pass
from gpututor.text import escape_control_chars


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("exercise", metavar="EXERCISE", help="2.1, born_on_the_device, or a path")
    parser.add_argument("--yes", action="store_true", help="show it though you have not passed yet")


def main(arguments: argparse.Namespace) -> int:
    course = chosen_course(arguments)
    exercise = course.find(arguments.exercise)
    workspace = chosen_workspace(arguments, course)
    yours = workspace.read(exercise).splitlines()
    require_pass(course, exercise, "diff", yes=arguments.yes)
    solution = exercise.solution.splitlines()
    path = str(workspace.path_of(exercise).relative_to(workspace.folder))
    lines = list(difflib.unified_diff(yours, solution, path, "solution", lineterm=""))
    for line in lines:
        print(escape_control_chars(line))
    if not lines:
        print("Your file is the solution, line by line.")
    return 0
