"""Run your file on the device as a script, without grading it.

  gpututor run 11.1 -- --seed 2 --steps 10

The words after `--` are arguments of the file.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from gpututor.cli.device_options import add_device_arguments, print_settings, settle_device
from gpututor.cli.options import add_exercise_argument, check_own_file, chosen_course, chosen_workspace
from gpututor.course.model import Course, Exercise
from gpututor.course.workspace import read_submission
from gpututor.errors import UsageError
from gpututor.processes import python_module


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_exercise_argument(parser)
    parser.add_argument("--file", type=Path, metavar="F", help="run this file instead of your own")
    add_device_arguments(parser)
    parser.add_argument("--memory", metavar="SIZE", help="the memory of each virtual GPU, such as 512MiB")


def main(arguments: argparse.Namespace) -> int:
    """Return the script's exit code."""
    print_settings(settle_device(arguments, by_settings=True))
    course = chosen_course(arguments)
    exercise = _find(course, arguments.exercise)
    path = arguments.file or chosen_workspace(arguments, course).ensure(exercise)
    if arguments.file is None:
        check_own_file(arguments.exercise, exercise, path, "run")
    read_submission(path, follow_links=True)  # rejects files, such as pipes, that the process would wait for
    options = ["--device", arguments.device]
    for option in ("gpu", "gpus", "memory"):
        if (given := getattr(arguments, option)) is not None:
            options += [f"--{option}", str(given)]
    script = [*python_module("gpututor.devices.run_program"), "run", *options, "--", str(path), *arguments.words]
    return subprocess.run(script, check=False).returncode


def _find(course: Course, words: str) -> Exercise:
    """Return the exercise; for a file of none, `UsageError` says how to run it."""
    try:
        return course.find(words)
    except UsageError:
        if not Path(words).is_file():
            raise
    raise UsageError(
        f"{words} belongs to no exercise.", f"`python -m gpututor.devices.virtual {words}` runs any script."
    )
