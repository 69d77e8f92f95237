"""Grade the submission in the folders of a Gradescope autograder, as its run_autograder does.

FOLDER, which is /autograder on Gradescope, contains source (the unpacked zip of `classroom gradescope-image`),
submission, and submission_metadata.json. The result is FOLDER/results/results.json. There is none if the mark is not
final: an instructor has to look at the submission, or run the autograder again.

Exit codes: 0 graded; 2 wrong usage, or a malformed file; 3 the image lacks something; 4 no final mark.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gpututor.classroom.gradescope_grading import grade_submission
from gpututor.text import escape_control_chars


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the autograder's folder: /autograder")


def main(arguments: argparse.Namespace) -> int:
    path = grade_submission(arguments.folder.absolute(), lambda line: print(escape_control_chars(line), flush=True))
    print(f"Written: {escape_control_chars(str(path))}")
    return 0
