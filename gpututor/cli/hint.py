"""Show the next hint of an exercise, and count it. The steps go from a nudge to nearly the answer."""

from __future__ import annotations

import argparse

from gpututor.cli.options import add_exercise_argument, chosen_exercise, open_progress
from gpututor.course.model import Course, Exercise


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_exercise_argument(parser)
    parser.add_argument("--all", action="store_true", help="show all hints; all of them count as opened")


def main(arguments: argparse.Namespace) -> int:
    course, exercise = chosen_exercise(arguments)
    show_hints(course, exercise, all_of_them=arguments.all)
    return 0


def show_hints(course: Course, exercise: Exercise, *, all_of_them: bool = False) -> None:
    """Print the next hint, or all of them, and count what was printed."""
    hints = exercise.hints
    with open_progress(course) as progress:
        used = min(progress.hints_used(exercise.key), len(hints))
        first, last = (0, len(hints)) if all_of_them else (used, min(used + 1, len(hints)))
        if last > used:
            progress.open_hints(exercise.key, last)
    for number in range(first, last):
        print(f"Hint {number + 1} of {len(hints)}\n\n{hints[number].removeprefix('## ')}\n")
    if first == last:
        print(f"You have seen all {len(hints)} hints; `gpututor hint {exercise.slug} --all` shows them again.")
    elif last < len(hints):
        print(f"{len(hints) - last} more to come.")
    else:
        print("That was the last one.")
