"""The folder that a class is graded into: layout, lock and stale parts."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from gpututor.classroom.submissions import Class
from gpututor.course.model import MAX_SUBMISSION_BYTES
from gpututor.errors import UsageError
from gpututor.files import ordinary, sweep_parts, write_atomically
from gpututor.json_dataclasses import read
from gpututor.processes import is_alive

_PLAIN = re.compile(r"(?![0-9a-f]{12}\Z)[A-Za-z0-9_][A-Za-z0-9_.@ +-]{0,79}(?<![. ])(?<!-[0-9a-f]{12})", re.IGNORECASE)
"""Ids of students that are used as file names unchanged. Other ids get a digest at their end."""
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_@+-]+")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
"""Names that Windows refuses for files."""
_SUBMISSIONS_KEY = "handed_in"
"""Key of `Class.submissions` in `class.json`."""

Built = TypeVar("Built")


class ClassFolder:
    """The files of a class."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.class_file = folder / "class.json"
        """The class as it was read: students and submissions."""
        self.journal = folder / "journal"
        """The reports; see `gpututor.grading.journal`. With `class_file` they make the gradebook at any time."""
        self.secret_file = folder / "class.secret"
        """The class secret, from which seeds are derived."""
        self.rules_file = folder / "classroom.toml"
        """The instructor's rules, if there are any."""
        self.roster_file = folder / "roster.csv"
        """The instructor's roster, if there is one."""
        self.options_file = folder / "options.json"
        """The options of the last run. Reports derive the journal's keys from them."""
        self.failures_file = folder / "troubles.json"
        """The gradings that failed in the last run."""
        self.submissions = folder / "submissions"
        self.salt_file = folder / "pseudonyms.salt"
        """The salt of made-up pseudonyms."""
        self.exports = folder / "report"
        self.feedback = folder / "feedback"
        self.recordings = folder / "recordings"
        """Recordings of gradings that the instructor looked at, a folder for each key."""
        self.replaced = folder / "replaced"
        """Dated copies of replaced journal entries and rules."""
        self.variants = folder / "variants"
        """Exercises with the values of students' variants."""
        self.history = folder / "history"
        """Marks by hand and accepted regrades; see `gpututor.classroom.history`."""
        self.pseudonymous = folder / "pseudonymous"
        """Reports and feedback without names, which must not mix with those that have names."""
        self.made = (
            *(self.journal, self.submissions, self.exports, self.feedback, self.recordings, self.replaced),
            *(self.history, self.pseudonymous, self.variants),
        )
        """The folders that only gpututor writes to."""
        self.irreplaceable = (
            *(self.class_file, self.secret_file, self.rules_file, self.roster_file, self.options_file),
            *(self.failures_file, self.salt_file, self.journal, self.submissions, self.recordings, self.replaced),
            *(self.variants, self.history),
        )
        """The files and folders that no report may replace."""

    def check_output(self, path: Path) -> None:
        """Raise `UsageError` if a report at `path` would replace a file of the class."""
        target = path.resolve()
        if any(target.is_relative_to(place.resolve()) for place in self.irreplaceable):
            raise UsageError(f"{path} belongs to the class: a report must not replace it.", "Name another place.")

    def without_names(self) -> ClassFolder:
        """Return the folder with other places for reports and feedback."""
        folder = ClassFolder(self.folder)
        folder.exports = self.pseudonymous / self.exports.name
        folder.feedback = self.pseudonymous / self.feedback.name
        return folder

    def make(self) -> None:
        """Create the folder for its owner only, because of marks and texts. Raises `OSError`."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def clear_parts(self) -> None:
        """Remove parts that killed graders left."""
        for folder in (self.folder, self.journal, self.submissions, self.history):
            sweep_parts(folder, is_alive)

    def submission(self, sha256: str) -> Path:
        """Return the path of a submitted text, which is stored once for all students."""
        return self.submissions / sha256[:2] / f"{sha256}.py"

    def read_submission(self, sha256: str) -> str | None:
        """Return a submitted text; None if it is lost. What is not UTF-8 is replaced."""
        try:
            with open(self.submission(sha256), "rb", opener=ordinary) as stream:
                return stream.read(MAX_SUBMISSION_BYTES).decode(errors="replace")
        except OSError:
            return None

    def write_class(self, class_: Class) -> None:
        data = asdict(class_)
        data[_SUBMISSIONS_KEY] = data.pop("submissions")
        write_json(self.class_file, data)

    def read_class(self) -> Class:
        """Raise `UsageError` if there is no class, or it cannot be read."""
        advice = "Move the file away, then grade the class again with --resume, and with --course if you used it."
        return self.require_graded(read_json(self.class_file, _class_of, advice))

    def require_graded(self, content: Built | None) -> Built:
        """Return the content of a file; raise `UsageError` if it is None, because no class was graded."""
        if content is None:
            advice = "Run `gpututor classroom grade` first."
            raise UsageError(f"{self.folder} has no graded class.", advice)
        return content


def _class_of(data: Any) -> Class:
    """Read a class. Students of old versions have no `upload`, and submissions no `left_out`."""
    if isinstance(data, dict) and _SUBMISSIONS_KEY in data:
        data["submissions"] = data.pop(_SUBMISSIONS_KEY)
    for name, key, default in (("students", "upload", ""), ("submissions", "left_out", ())):
        entries = data.get(name) if isinstance(data, dict) else None
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                entry.setdefault(key, default)
    return read(Class, data, "")


def write_json(path: Path, data: object) -> None:
    write_atomically(path, json.dumps(data, indent=1) + "\n")


def read_json(path: Path, build: Callable[[Any], Built], advice: str) -> Built | None:
    """Build a value of a JSON file; None if there is no file. Raises `UsageError` if `build` raises `ValueError`."""
    try:
        with open(path, encoding="utf-8", opener=ordinary) as stream:
            return build(json.load(stream))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: {error}", advice) from error


def folder_name(student: str) -> str:
    """Return a name that any file system accepts. It is unique, because the ids of a class differ without case."""
    if _PLAIN.fullmatch(student) and not _RESERVED.fullmatch(student):
        return student
    digest = hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return "-".join(filter(None, (_NOT_PLAIN.sub("-", student).strip("-")[:60], digest)))


@contextlib.contextmanager
def locked(folder: ClassFolder) -> Iterator[None]:
    """Hold the class's lock, which ends with the process. Raises `UsageError` that names another holder.

    On a file system without locks, as some clusters have, two graders would only do the same work twice.
    """
    try:
        folder.make()
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(folder.folder / ".lock", flags, 0o644)
    except OSError as error:
        advice = "Choose another folder with --out, or give yourself write permission."
        raise UsageError(f"{folder.folder} cannot be written to ({error.strerror}).", advice) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.read(descriptor, 20).decode("ascii", "replace").strip()
            title = f"{folder.folder} is being graded by {f'process {pid}' if pid.isdigit() else 'another process'}."
            raise UsageError(title, "Wait for it, or stop it with Ctrl-C.") from None
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
                raise
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
