"""Show the solution of an exercise: after you have passed it, or with --yes."""

from __future__ import annotations

import argparse

from gpututor.cli.options import add_exercise_argument, chosen_exercise, open_progress
from gpututor.course.model import Course, Exercise
from gpututor.errors import TutorError
from gpututor.text import escape_control_chars


class NotPassedYet(TutorError):
    """The solution is not shown before the learner has passed or says --yes."""

    exit_code = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_exercise_argument(parser)
    parser.add_argument("--yes", action="store_true", help="show it before you have passed")


def main(arguments: argparse.Namespace) -> int:
    course, exercise = chosen_exercise(arguments)
    require_pass(course, exercise, "solution", yes=arguments.yes)
    print(escape_control_chars(exercise.solution), end="")
    return 0


def require_pass(course: Course, exercise: Exercise, verb: str, *, yes: bool) -> None:
    """Raise `NotPassedYet` without a pass or `yes`, and `UsageError` for a course without solutions."""
    course.check_has_checks()
    if yes:
        return
    with open_progress(course) as progress:
        summary = progress.summary().get(exercise.key)
    if summary is None or not summary.passed:
        raise NotPassedYet(
            f"You have not passed {exercise.label} {exercise.title} yet.",
            f"`gpututor hint {exercise.slug}` gives the next hint; "
            f"`gpututor {verb} {exercise.slug} --yes` shows the solution now.",
        )
