"""Check this installation: versions, devices, folders, course.

Each line starts with `ok`, `note` (it works, but you may want to know) or `WRONG`, and says what to do.
The exit code is 1 if a line says WRONG.
"""

from __future__ import annotations

import argparse

from gpututor.doctor import WRONG, findings
from gpututor.text import escape_control_chars


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: there are no options."""


def main(arguments: argparse.Namespace) -> int:
    """Return 1 if something is wrong."""
    wrong = 0
    for finding in findings(arguments.course, arguments.workspace):
        print(f"{finding.state:<5}  {finding.about:<12}  {escape_control_chars(finding.words)}", flush=True)
        if finding.advice:
            print(f"{'':<21}{escape_control_chars(finding.advice)}", flush=True)
        wrong += finding.state == WRONG
    print(f"\n{wrong} thing{'s' * (wrong != 1)} to fix" if wrong else "\nNothing is wrong.")
    return 1 if wrong else 0
