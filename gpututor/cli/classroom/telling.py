"""What the deeds that make files of a class have in common: notices, files that cannot be written, and old ones."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from gpututor.classroom.gradebook.model import Notice
from gpututor.errors import UsageError
from gpututor.files import write_atomically
from gpututor.grading.words import count
from gpututor.plain_text import visible

MOST_NOTICES = 20
MOST_NAMED = 10


def write(path: Path, text: str) -> Path:
    """Raises `UsageError` where it cannot be written."""
    try:
        write_atomically(path, text)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})", "Name another place.") from error
    return path


def remove(path: Path) -> None:
    """Where it is there. Raises `UsageError` where it cannot be removed."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{path}: cannot be removed ({error.strerror})", "Name another place.") from error


def left_over(folder: Path, found: Iterable[str], known: Collection[str], what: str, use: str) -> Iterator[Notice]:
    """Of what is `found` in a folder: what an earlier deed wrote there for students who are not in the class any more,
    or are called otherwise now. It stays, as it may be all that is left of them.

    `what` they are: `results.json`; `use`: what the instructor does with the folder.
    """
    if left := sorted(set(found) - set(known)):
        names = ", ".join(left[:MOST_NAMED]) + (" …" if len(left) > MOST_NAMED else "")
        title = f"{folder} has {what} of {count(len(left), 'student')} not in the class: {names}."
        yield Notice(title, f"Remove them before you {use}.")


def tell(notices: Sequence[Notice]) -> None:
    """On stderr."""
    for notice in notices[:MOST_NOTICES]:
        print(f"gpututor: {visible(notice.title)}", file=sys.stderr)
        if notice.advice:
            print(f"  {visible(notice.advice)}", file=sys.stderr)
    if len(notices) > MOST_NOTICES:
        print(f"gpututor: {count(len(notices) - MOST_NOTICES, 'notice')} more.", file=sys.stderr)
