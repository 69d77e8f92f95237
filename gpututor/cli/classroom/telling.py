"""Notices for the instructor, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gpututor.classroom.gradebook.model import GradebookWarning
from gpututor.grading.report_text import count
from gpututor.text import escape_control_chars

MOST_NOTICES = 20


def print_notices(notices: Sequence[GradebookWarning]) -> None:
    """Print the notices."""
    for notice in notices[:MOST_NOTICES]:
        print(f"gpututor: {escape_control_chars(notice.title)}", file=sys.stderr)
        if notice.advice:
            print(f"  {escape_control_chars(notice.advice)}", file=sys.stderr)
    if len(notices) > MOST_NOTICES:
        print(f"gpututor: {count(len(notices) - MOST_NOTICES, 'notice')} more.", file=sys.stderr)
