"""Reading a solution file, which may be anything: it is the learner's, or was handed in."""

from __future__ import annotations

import errno
from pathlib import Path

from gpututor.course.exercise import MAX_SUBMISSION_BYTES
from gpututor.errors import WorkspaceError
from gpututor.files import ordinary, ordinary_and_no_link


def read_submission(path: Path, *, follow_links: bool) -> str:
    """The text of a solution file, newlines as they are, without a byte order mark.

    Raises `WorkspaceError` for what is no ordinary file, is over `MAX_SUBMISSION_BYTES`, is not UTF-8, cannot be read,
    or, unless `follow_links`, is a symbolic link.
    """
    try:
        with open(path, "rb", opener=ordinary if follow_links else ordinary_and_no_link) as stream:
            content = stream.read(MAX_SUBMISSION_BYTES + 1)
    except FileNotFoundError as error:
        raise WorkspaceError(f"{path} is not there.", "It may have been moved, or have another name.") from error
    except PermissionError as error:
        raise WorkspaceError(
            f"{path} cannot be read: {error.strerror}.", "Give yourself the right to read it."
        ) from error
    except OSError as error:
        if error.errno == errno.ELOOP and not follow_links and path.is_symlink():
            raise WorkspaceError(f"{path} is a link.", "Name the file that it leads to.") from error
        reason = "Not an ordinary file" if isinstance(error, IsADirectoryError) else error.strerror
        raise WorkspaceError(
            f"{path} cannot be read: {reason}.", "A solution is a Python file; move this away."
        ) from error
    if len(content) > MAX_SUBMISSION_BYTES:
        advice = "A solution is a short Python file."
        raise WorkspaceError(f"{path} is larger than {MAX_SUBMISSION_BYTES >> 20} MiB.", advice)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise WorkspaceError(f"{path} is not UTF-8 text (line {line}).", "Save it as UTF-8 in your editor.") from error
