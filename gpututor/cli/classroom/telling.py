"""Notices for the instructor, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gpututor.classroom.gradebook.model import Notice
from gpututor.grading.report_text import count
from gpututor.text import visible

MOST_NOTICES = 20


def tell(notices: Sequence[Notice]) -> None:
    """Print the notices."""
    for notice in notices[:MOST_NOTICES]:
        print(f"gpututor: {visible(notice.title)}", file=sys.stderr)
        if notice.advice:
            print(f"  {visible(notice.advice)}", file=sys.stderr)
    if len(notices) > MOST_NOTICES:
        print(f"gpututor: {count(len(notices) - MOST_NOTICES, 'notice')} more.", file=sys.stderr)
