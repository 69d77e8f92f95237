"""The folder that a class is graded into: layout, lock and stale parts."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import hashlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gpututor.classroom.submissions import Class
from gpututor.errors import UsageError
from gpututor.files import ordinary, write_atomically


@dataclass(frozen=True)
class ClassFolder:
    """All that is kept of a class."""

    folder: Path

    @property
    def class_file(self) -> Path:
        """What was handed in, and by whom."""
        return self.folder / "class.json"

    @property
    def journal(self) -> Path:
        """See `gpututor.grading.journal`. The gradebook can be made of it and `class_file` at any time."""
        return self.folder / "journal"

    @property
    def secret_file(self) -> Path:
        """The class secret that seeds are made of."""
        return self.folder / "class.secret"

    @property
    def rules_file(self) -> Path:
        """The instructor's rules, if there are any."""
        return self.folder / "classroom.toml"

    @property
    def options_file(self) -> Path:
        """How the class was graded last: device, GPU, isolation. Who reports finds the keys of the journal by it."""
        return self.folder / "options.json"

    @property
    def lock_file(self) -> Path:
        """Held by who grades; see `gpututor.classroom.folder`."""
        return self.folder / ".lock"

    @property
    def troubles_file(self) -> Path:
        """What could not be graded at the last try, and why; see `gpututor.classroom.jobs`."""
        return self.folder / "troubles.json"

    @property
    def exports(self) -> Path:
        return self.folder / "report"

    @property
    def feedback(self) -> Path:
        return self.folder / "feedback"

    @property
    def recordings(self) -> Path:
        """What devices did in gradings that somebody looked at, a folder for each key."""
        return self.folder / "recordings"

    @property
    def replaced(self) -> Path:
        """Entries of the journal and rules that gave way to others, with their dates."""
        return self.folder / "replaced"

    @property
    def submissions(self) -> Path:
        return self.folder / "submissions"

    @property
    def made(self) -> tuple[Path, ...]:
        """Its folders: nothing in them is anybody's but gpututor's."""
        return (self.journal, self.submissions, self.exports, self.feedback, self.recordings, self.replaced)

    def make(self) -> None:
        """For its owner only, where it is not there yet: marks and texts are nobody else's. Raises `OSError`."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def clear_parts(self) -> None:
        """Remove what graders left that were killed while they wrote. Only for who holds the lock. Raises `OSError`."""
        own = (self.class_file, self.secret_file, self.rules_file, self.options_file, self.troubles_file)
        parts = [part for file in own for part in self.folder.glob(f".{file.name}.*.part")]
        parts += [part for made in (self.journal, self.submissions) for part in made.glob("**/.*.part")]
        for part in parts:
            part.unlink(missing_ok=True)

    def submission(self, sha256: str) -> Path:
        """The bytes that were handed in, under their digest: the same text of many students is kept once."""
        return self.submissions / sha256[:2] / f"{sha256}.py"

    def write_class(self, found: Class) -> None:
        write_atomically(self.class_file, json.dumps(found.to_json(), indent=1) + "\n")

    def read_class(self) -> Class:
        """Raises `UsageError` where there is none, or it cannot be read."""
        try:
            with open(self.class_file, encoding="utf-8", opener=ordinary) as stream:
                return Class.from_json(json.load(stream))
        except FileNotFoundError:
            raise UsageError(
                f"{self.folder} holds no class that was graded.", "Grade one with `gpututor classroom grade`."
            ) from None
        except (OSError, ValueError, RecursionError) as error:
            advice = "Move the file away, then grade the class again with --resume, and --course where that is needed."
            raise UsageError(f"{self.class_file}: {error}", advice) from error


_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@ +-]{0,79}(?<![. ])")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_@+-]+")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
"""What no file may be called on Windows."""


def folder_names(ids: Iterable[str]) -> dict[str, str]:
    """For each of the ids a name that any file system takes, and none twice, also where case makes no difference.

    A plain id is its own name; another one gets the beginning of its digest behind.
    """
    every = list(dict.fromkeys(ids))
    counts = Counter(id.casefold() for id in every)
    own = {id for id in every if counts[id.casefold()] == 1 and _is_plain(id)}
    while True:
        taken = {_with_digest(id).casefold() for id in every if id not in own}
        alike = {id for id in own if id.casefold() in taken}  # called as if a digest were behind
        if not alike:
            return {id: id if id in own else _with_digest(id) for id in every}
        own -= alike


def _is_plain(id: str) -> bool:
    return _PLAIN.fullmatch(id) is not None and _RESERVED.fullmatch(id) is None


def _with_digest(id: str) -> str:
    digest = hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return "-".join(filter(None, (_NOT_PLAIN.sub("-", id).strip("-")[:60], digest)))


OLD_S = 600
"""No file takes so long to write: what is younger may be another report's."""


def clear_parts(folder: Path, name: str = "") -> None:
    """Remove old parts of the file called `name`; without one, all of them in the folder and below.

    What cannot be removed stays.
    """
    pattern = f".{glob.escape(name)}.*.part" if name else "**/.*.part"
    for part in list(folder.glob(pattern)):
        with contextlib.suppress(OSError):
            if time.time() - part.lstat().st_mtime >= OLD_S:
                part.unlink()


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
