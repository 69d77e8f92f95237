"""What the deeds that make files of a class have in common: notices, and files that cannot be written."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from gpututor.classroom.gradebook.model import Notice
from gpututor.errors import UsageError
from gpututor.files import write_atomically
from gpututor.grading.words import count
from gpututor.plain_text import visible

MOST_NOTICES = 20


def write(path: Path, text: str) -> Path:
    """Raises `UsageError` where it cannot be written."""
    try:
        write_atomically(path, text)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})", "Name another place.") from error
    return path


def tell(notices: Sequence[Notice]) -> None:
    """On stderr."""
    for notice in notices[:MOST_NOTICES]:
        print(f"gpututor: {visible(notice.title)}", file=sys.stderr)
        if notice.advice:
            print(f"  {visible(notice.advice)}", file=sys.stderr)
    if len(notices) > MOST_NOTICES:
        print(f"gpututor: {count(len(notices) - MOST_NOTICES, 'notice')} more.", file=sys.stderr)
