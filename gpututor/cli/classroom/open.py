"""Open a class in the terminal: students, exercises, checks, and each submission with its report and trace.

OUT is the folder that `classroom grade` made. You can open it during grading; F5 reads it again. Nothing changes unless
you set a mark by hand, or grade a submission again and accept its new result. `?` explains the keys.
"""

from __future__ import annotations

import argparse

from gpututor.classroom.folder import ClassFolder
from gpututor.cli.classroom import add_class_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_class_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    from gpututor.app.classroom.app import run  # Textual: 100 ms

    return run(ClassFolder(arguments.out.absolute()), arguments.rules, arguments.course)
