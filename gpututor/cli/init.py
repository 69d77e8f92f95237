"""Create your workspace: a solution file for each exercise, in a folder for each lesson.

In an existing folder only the missing files are created; nothing is overwritten.
From then on the app and the verbs use this folder, until `init` names another.
Without DIR: the folder of --workspace, else the workspace found from here, else ~/gpututor. Courses other than the
built-in course use ~/gpututor-ID, with the ID of their course.toml.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gpututor import paths
from gpututor.cli.options import chosen_course, print_error
from gpututor.course.workspace import check_not_missing, find_workspace, make_workspace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="the folder to create")


def main(arguments: argparse.Namespace) -> int:
    course = chosen_course(arguments)
    before = find_workspace(course=course)
    folder = arguments.folder or arguments.workspace or (before.folder if before else None)
    if folder is None:
        check_not_missing(course)
        folder = paths.default_workspace(course.place)
    workspace, new = make_workspace(folder, course)
    for path in new:
        print(f"made {path.relative_to(workspace.folder)}")
    if new:
        print(f"{len(new)} new file{'s' * (len(new) != 1)} in {workspace.folder}")
    else:
        print(f"Nothing was missing from {workspace.folder}")
    if before is not None and before.folder != workspace.folder:
        print(f"From now on this is your folder. It was {before.folder}; `gpututor init {before.folder}` goes back.")
    for exercise in course.exercises:
        if workspace.newer_starter(exercise):
            print(f"{exercise.label} {exercise.slug} has a newer starter; `gpututor reset {exercise.slug}` takes it.")
    for problem in course.problems:
        print_error(problem)
    return 0
