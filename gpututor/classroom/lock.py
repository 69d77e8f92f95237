"""One grader at a time in a class's folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator

from gpututor.classroom.folder import ClassFolder
from gpututor.errors import UsageError


@contextlib.contextmanager
def locked(folder: ClassFolder) -> Iterator[None]:
    """Raises `UsageError` that says who is at it. The lock goes with the process that holds it, however that ends.

    A file system that knows no locks (some that clusters share) does without: two graders do the same twice, no harm.
    """
    try:
        folder.make()
        descriptor = os.open(folder.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        advice = "Name another folder with --out, or give yourself the right to write there."
        raise UsageError(f"{folder.folder} cannot be written to ({error.strerror}).", advice) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.read(descriptor, 20).decode("ascii", "replace").strip()
            who = f"process {pid}" if pid.isdigit() else "another process"
            raise UsageError(
                f"{folder.folder} is being graded by {who}.", "Wait until it is done, or end it with Ctrl-C first."
            ) from None
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
                raise
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
