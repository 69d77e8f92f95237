"""Start an exercise over: its starter replaces your file. A dated backup is saved."""

from __future__ import annotations

import argparse
import sys

from gpututor.cli.options import add_exercise_argument, chosen_exercise, chosen_workspace
from gpututor.errors import UsageError
from gpututor.text import escape_control_chars


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_exercise_argument(parser)
    parser.add_argument("--yes", action="store_true", help="do it without asking")


def main(arguments: argparse.Namespace) -> int:
    """Return 1 if the learner says no."""
    course, exercise = chosen_exercise(arguments)
    workspace = chosen_workspace(arguments, course)
    path = workspace.path_of(exercise)
    if not path.exists():
        print(f"made {escape_control_chars(str(workspace.ensure(exercise)))}; there was no file to back up")
        return 0
    question = f"Put the starter in {escape_control_chars(str(path))}? A backup is saved. [y/N] "
    if not arguments.yes and not _confirm(question):
        print("Nothing was changed.", file=sys.stderr)
        return 1
    backup = workspace.reset(exercise)
    print(f"{escape_control_chars(str(path))} is the starter again")
    print(f"your text is saved in {escape_control_chars(str(backup))}")
    return 0


def _confirm(question: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("`reset` needs a terminal to ask you.", "`--yes` resets without asking.")
    print(question, end="", file=sys.stderr, flush=True)  # stdout may go to a file
    return sys.stdin.readline().strip().lower() in ("y", "yes")
