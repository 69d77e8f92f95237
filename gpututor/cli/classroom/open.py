"""Open a class in the terminal: students, exercises, checks, and each submission with its report and trace.

OUT is the folder that `classroom grade` made. You can open it during grading; F5 reads it again. Nothing changes unless
you set a mark by hand, or grade a submission again and accept its new result. `?` explains the keys.

--pseudonyms shows the class without names, such as in a lecture. Marks by hand and new results still go to the student.
"""

from __future__ import annotations

import argparse

from gpututor.classroom.folder import ClassFolder
from gpututor.cli.classroom import add_class_arguments, add_pseudonyms_argument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_class_arguments(parser)
    add_pseudonyms_argument(parser)


def main(arguments: argparse.Namespace) -> int:
    from gpututor.app.classroom.app import run  # Textual: 100 ms

    folder = ClassFolder(arguments.out.absolute())
    return run(folder, arguments.rules, arguments.course, with_names=not arguments.pseudonyms)
