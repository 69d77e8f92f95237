"""Compare your file with the solution, as a unified diff: after you have passed, or with --yes.

Lines with - are yours, lines with + are the solution's.
"""

from __future__ import annotations

import argparse
import difflib

from gpututor.cli.options import add_exercise_argument, chosen_exercise, chosen_workspace
from gpututor.cli.solution import require_pass
from gpututor.text import escape_control_chars


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_exercise_argument(parser)
    parser.add_argument("--yes", action="store_true", help="show it before you have passed")


def main(arguments: argparse.Namespace) -> int:
    course, exercise = chosen_exercise(arguments)
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
